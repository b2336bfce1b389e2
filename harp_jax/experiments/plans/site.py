"""Your own pages with links to a re-ranker that is tested without labels: the plan behind `harp site`.

Anchor texts of held-out pages are queries, the pages they lead to the relevant documents. `steps=0` prepares everything but
the training; `harp site` measures the time of a step in between and sets the steps. The recipe is in configs/data/site.py,
configs/site.py and configs/finetune_site.py.
"""

from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import Collection, cross_validation, fitted_sum, trained_ranker, tuned_first_stage

DATA, PRETRAIN, FINETUNE = "configs/data/site.py", "configs/site.py", "configs/finetune_site.py"
MEASURE = "RR@10"
FIELDS = ("title", "body")
HELD_OUT = Collection("{survey}/docs.jsonl", "{survey}/queries.tsv", "{survey}/qrels.txt", FIELDS)
SOURCES = "--exclude={survey}/sources.tsv"  # a query has the words of its own source
LABELLED = Collection("{survey}/docs.jsonl", "{labels}/queries.tsv", "{labels}/qrels.txt", FIELDS)
ROW, LABELLED_ROW = "ranker", "ranker, fine-tuned on labels"  # of the table
MAX_LENGTH = 128  # of configs/site.py


def get_plan(
    pages: tuple[str, ...] = (),
    format: str = "",
    base_url: str = "",
    redirects: tuple[str, ...] = (),
    start: str = "",
    layers: int = 0,
    labels: str = "",
    steps: int = 0,
    tasks: tuple[str, ...] = (),
    max_queries: int = 400,
    context_words: int = 3,
    depth: int = 20,
    seed: int = 0,
    data: tuple[str, ...] = (),
    train: tuple[str, ...] = (),
) -> list[Command]:
    """Options:

    pages: folder of HTML, WARC, MediaWiki dump or linked JSONL; several of one format
    format: of the pages, where their content misleads
    base_url: where a folder of HTML is served
    redirects: files of alias<TAB>address
    start: Hugging Face BERT to start from; empty: a small encoder from scratch
    layers: of the start that are kept, its first ones; 0: all
    labels: file of query<TAB>docid<TAB>level to fine-tune on
    steps: of pre-training; 0: prepare, measure, and stop before it
    tasks: of pre-training, where the pages make no pairs of some of configs/site.py; empty: those
    max_queries: anchors of held-out pages that are tested, at most
    context_words: of an anchor's sentence that are added to its query
    depth: candidates of BM25 that are re-ranked for each query
    seed: of pairs and training
    data: further fields of configs/data/site.py, as in adp_depth=20
    train: further fields of configs/site.py, as in learning_rate=1e-4
    """
    if not pages:
        raise InputError("no pages; set pages to a folder of HTML, a WARC, a dump or linked JSONL")
    if layers < 0 or (layers and not start):
        raise InputError(f"layers={layers}: give a positive number, and with it a start whose first layers are kept")
    source = [f"--config={DATA}", f"--config.source.format={format}", f"--config.source.paths={pages!r}"]
    source += [f"--config.source.base_url={base_url}"] if base_url else []
    source += [f"--config.source.redirects={redirects!r}"] if redirects else []
    source += [f"--config.{field}" for field in data]
    shortened = []
    if layers:
        shortened = [Command("start", "export", [f"--encoder={start}", f"--layers={layers}", "--output={out}"])]
        start = "{start}"
    tokenizer = start or "{vocabulary}"
    training = [f"--config={PRETRAIN}", f"--config.init={start}", "--config.data=('{pairs}',)", f"--config.seed={seed}"]
    training += [] if start else ["--config.tokenizer={vocabulary}", "--config.learning_rate=1e-3"]
    training += [f"--config.tasks={tasks!r}"] if tasks else []
    training += [f"--config.{field}" for field in train]
    survey = [*source, f"--max_queries={max_queries}", f"--context_words={context_words}", "--output={out}"]
    pairs = [*source, f"--config.tokenizer={tokenizer}", f"--config.seed={seed}", "--output={out}"]
    commands = [
        Command("survey", "survey", survey),
        *shortened,
        *([] if start else [Command("vocabulary", "vocabulary", [*source, "--output={out}"])]),
        Command("pairs", "generate", pairs),
        Command("rate", "rate", [*training, "--output={out}"], suffix=".json"),
    ]
    if steps:
        commands += [
            Command("harp", "train", [*training, f"--config.steps={steps}", "--workdir={out}"]),
            Command("ranker", "export", ["--workdir={harp}", "--ranker", "--output={out}"]),
            *bm25(depth),
            *(with_labels(labels, depth, seed) if labels else []),
            *tested(start, bool(labels)),
            published(bool(labels), depth),
        ]
    return commands


def bm25(depth: int) -> list[Command]:
    """BM25's candidates of the held-out anchors, k1 and b of each half tuned on the other; and those of all, for other queries.

    With the defaults Python's documentation had .605 RR@10; fitted on the other half it has .639.
    """
    halves = [f"--queries={HELD_OUT.queries}", f"--qrels={HELD_OUT.qrels}", "--count=2", "--output={out}"]
    options = [SOURCES, f"--k={depth}"]
    judged = [f"--qrels={HELD_OUT.qrels}", f"--measure={MEASURE}", "--output={out}"]
    return [
        Command("folds", "queries", ["folds", *halves], suffix=".tsv"),
        *tuned_first_stage("bm25", HELD_OUT, folds="{folds}", measure=MEASURE, options=options),
        Command("parameters", "tune-first-stage", [*HELD_OUT.options, *options, *judged], suffix=".json"),
    ]


def published(labelled: bool, depth: int) -> Command:
    """The export that is handed over: with the figures of the table on its card."""
    workdir, row = ("train_labelled", LABELLED_ROW) if labelled else ("harp", ROW)
    where = f"--evaluated_on=anchors of held-out pages, BM25's best {depth} re-ranked"
    figures = ["--results={table}", f"--system={row}", where]
    return Command("model", "export", ["--workdir={" + workdir + "}", "--ranker", *figures, "--output={out}"])


def with_labels(labels: str, depth: int, seed: int) -> list[Command]:
    """The ranker fine-tuned on all labels, and the verdict on rankers that were fine-tuned on one half and tested on the other."""
    judged = f"--qrels={LABELLED.qrels}"
    folds = [f"--queries={LABELLED.queries}", judged, "--count=2", "--output={out}"]
    candidates = [*LABELLED.options, "--parameters={parameters}", f"--k={depth}", "--output={out}"]
    training: dict[str, Any] = {
        "config": FINETUNE,
        "candidates": "{bm25_labels}",
        "settings": ["init={harp}", f"seed={seed}"],
    }
    rerank = [f"max_length={MAX_LENGTH}"]
    verdict = [judged, "--folds={folds_labels}", "--first={bm25_labels}", "--ranker={joined_labels}"]
    return [
        Command("labels", "queries", ["labels", f"--labels={labels}", "--output={out}"]),
        Command("bm25_labels", "first-stage", candidates, suffix=".trec"),
        Command("folds_labels", "queries", ["folds", *folds], suffix=".tsv"),
        *cross_validation(
            "labels", LABELLED, folds="{folds_labels}", fold_names=("0", "1"), rerank=rerank, export=False, **training
        ),
        Command("verdict_labels", "verdict", [*verdict, f"--measure={MEASURE}", "--output={out}"], suffix=".json"),
        *trained_ranker(
            "labelled", LABELLED, test=HELD_OUT, test_candidates="{bm25}", rerank=rerank, **training
        ),
    ]  # fmt: skip


def tested(start: str, labelled: bool) -> list[Command]:
    """BM25's candidates of the held-out anchors (step bm25), re-ranked, fused, and the verdict on them."""
    judged = f"--qrels={HELD_OUT.qrels}"
    candidates = [*HELD_OUT.options, "--run={bm25}", f"--max_length={MAX_LENGTH}", "--output={out}"]
    inlinks = ["--run={bm25}", "--feature=inlinks", "--anchors={survey}/anchors.tsv", "--output={out}"]
    anchors = [*HELD_OUT.options, "--run={bm25}", "--model=bm25f", "--anchors={survey}/anchors.tsv", "--output={out}"]
    anchors += ["--folds={folds}"]
    tuning = [*anchors, judged, f"--measure={MEASURE}"]
    rows = {
        "BM25": "bm25",
        "BM25 + in-links": "bm25_inlinks",
        "BM25F with anchor texts": "bm25f",
        "BM25F + in-links": "bm25f_inlinks",
        **({"start's vectors": "run_start", "BM25 + start's vectors": "bm25_start"} if start else {}),
        ROW: "run_ranker",
        "BM25 + ranker": "bm25_ranker",
        "BM25F + in-links + ranker": "bm25f_ranker",
        **({LABELLED_ROW: "run_labelled"} if labelled else {}),
    }
    runs = [f"{row}={{{step}}}" for row, step in rows.items()]
    verdict = [judged, "--folds={folds}", "--first={bm25}", "--ranker={run_ranker}", f"--measure={MEASURE}"]
    verdict += ["--links={bm25f_inlinks}", *(["--before={run_start}"] if start else [])]
    table = [*runs, judged, f"--measures={MEASURE} nDCG@10", f"--confirm={MEASURE}", "--baseline=BM25", "--chance=BM25"]
    page = [
        judged,
        f"--measures={MEASURE} nDCG@10",
        *(f"--run={run}" for run in runs),
        "--chance=BM25",
        "--baseline=BM25",
    ]
    page += ["--focus=BM25 + ranker", f"--docs={HELD_OUT.docs}", f"--fields={','.join(FIELDS)}"]
    page += [f"--query_texts={HELD_OUT.queries}", "--curves=training={harp}", "--pairs=the site={pairs}"]
    return [
        Command("inlinks", "priors", inlinks, suffix=".trec"),
        in_sum("bm25_inlinks", "inlinks", ["--normalise=none"]),
        Command("tuned_bm25f", "tune-first-stage", tuning, suffix=".json"),
        Command("bm25f", "first-stage", [*anchors, "--parameters={tuned_bm25f}"], suffix=".trec"),
        in_sum("bm25f_inlinks", "inlinks", ["--normalise=none"], first="bm25f"),
        *(
            [
                Command("run_start", "rerank", [f"--model={start}", "--cosine", *candidates], suffix=".trec"),
                in_sum("bm25_start", "run_start"),
            ]
            if start
            else []
        ),
        Command("run_ranker", "rerank", ["--model={ranker}", *candidates], suffix=".trec"),
        in_sum("bm25_ranker", "run_ranker"),
        in_sum("bm25f_ranker", "run_ranker", first="bm25f_inlinks"),
        Command("verdict", "verdict", [*verdict, "--output={out}"], suffix=".json"),
        Command("table", "evaluate", [*table, "--per_query={out}"], suffix=".tsv"),
        Command(
            "report", "report",
            [*page, "--title=A re-ranker from the links of a site", "--output={out}"],
            suffix=".html",
        ),
    ]  # fmt: skip


def in_sum(name: str, other: str, options: tuple[str, ...] | list[str] = (), first: str = "bm25") -> Command:
    """The sum of BM25 (or another run) and a run; the weight of each half of the queries is fitted on the other."""
    runs = ["{" + first + "}", "{" + other + "}"]
    return fitted_sum(name, runs, qrels=HELD_OUT.qrels, folds="{folds}", measure=MEASURE, options=options)
