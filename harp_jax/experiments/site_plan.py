"""The plan of `harp site`: survey, pairs, training, and tests with anchors of held-out pages as queries.

The recipe is in configs/data/site.py, configs/site.py and configs/finetune_site.py; `experiments/site.py` runs the plan.
"""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import Collection, cross_validation, trained_ranker
from harp_jax.ranking.fuse import ANCHORS, BM25, INLINKS, VECTORS
from harp_jax.text.languages import ENGLISH, function_words
from harp_jax.text.tokenizer import load_tokenizer

DATA, PRETRAIN, FINETUNE = "configs/data/site.py", "configs/site.py", "configs/finetune_site.py"
MEASURE = "RR@10"
FIELDS = ("title", "body")
HELD_OUT = Collection("{survey}/docs.jsonl", "{survey}/queries.tsv", "{survey}/qrels.txt", FIELDS)
SOURCES = "--exclude={survey}/sources.tsv"  # a query's source page contains its words
LABELLED = Collection("{survey}/docs.jsonl", "{labels}/queries.tsv", "{labels}/qrels.txt", FIELDS)
TEXTS = ["--anchors={survey}/anchors.tsv"]  # of training pages
# Rows of the table.
ROW, LABELLED_ROW, EVERYTHING = "ranker", "ranker, fine-tuned on labels", "everything"
RECOMMENDED = "recommended"  # the sum of the verdict, as in `harp search`
# The best for users' queries on five manuals. On another manual, they beat parameters fitted to its held-out anchors
# (docs/experiments/site.md, "Fixed parameters").
PARAMETERS = {"bm25": {"k1": 4.0, "b": 0.4}, "bm25f": {"k1": 4.0, "b": 0.4, "anchor_weight": 10.0}}
# Minimum share of a language's function words in the vocabulary of an encoder that knows it: all-MiniLM-L6-v2 has .84 of
# English's, .45 of Danish's, .17 of German's, .06 of Chinese's; a multilingual vocabulary of 130,000 has .75 of German's.
KNOWN = 0.5
SPACE = "▁"  # SentencePiece's token
MAX_LENGTH, QUERY_LENGTH = 128, 32  # as in configs/site.py and configs/data/site.py


class Candidates(NamedTuple):
    """`depth` candidates per first stage; the language of BM25's `stems`; the `encoder` of vectors (may be empty); the maximum
    `windows` of a long page that the ranker reads, of `max_length` tokens each."""

    depth: int
    stems: str
    encoder: str
    windows: int
    max_length: int


def site_plan(
    pages: tuple[str, ...],
    format: str = "",
    base_url: str = "",
    redirects: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
    split: str = "auto",
    start: str = "",
    layers: int = 0,
    vectors: str = "",
    labels: str = "",
    max_queries: int = 400,
    context_words: int = 3,
    depth: int = 20,
    windows: int = 4,
    max_length: int = MAX_LENGTH,
    seed: int = 0,
    language: str = "",
    vocabulary: str = "auto",
    steps: int = 0,
    tasks: tuple[str, ...] = (),
    stems: str = ENGLISH,
) -> list[Command]:
    """The steps up to measuring the training rate; with `steps` of pre-training, everything after it too.

    pages: folder of HTML, WARC, MediaWiki dump or linked JSONL; one or more of the same format
    format: format of the pages; empty: detected
    base_url: URL at which a folder of HTML is served
    redirects: files of alias<TAB>address lines
    exclude: patterns of addresses of pages to skip
    split: whether documents are pages or sections; auto: sections if most links lead to one
    start: Hugging Face encoder to start from; empty: a small encoder from scratch
    layers: keep only this many first layers of the start; 0: all
    vectors: Hugging Face encoder whose vectors are tested and teach; empty: the start
    labels: file of query<TAB>docid<TAB>level lines to fine-tune and decide on
    max_queries: maximum number of test queries, which are anchors of held-out pages
    context_words: words of an anchor's sentence to add to its query
    depth: candidates per query from each first stage (BM25, BM25F, vectors)
    windows: maximum windows of a long page that the ranker and the encoder read
    max_length: tokens of query and document together, in training and in each window
    seed: random seed for pairs and training
    language: language of sentences, stopwords and stems; empty: that of the pages
    vocabulary: kind for an encoder from scratch: wordpiece, unigram, or auto: unigram for languages without spaces
    tasks: pre-training tasks, if the pages lack pairs for some of configs/site.py; empty: those
    stems: language of BM25, from the survey
    """
    source = [f"--config={DATA}", f"--config.source.format={format}", f"--config.source.paths={pages!r}"]
    source += [f"--config.source.base_url={base_url}"] if base_url else []
    source += [f"--config.source.redirects={redirects!r}"] if redirects else []
    source += [f"--config.source.exclude={exclude!r}"] if exclude else []
    source += [f"--config.source.split={split}"] if split != "auto" else []
    source += [f"--config.language={language}"] if language else []
    shortened, encoder = [], vectors or start  # with all layers
    teacher = is_embedder(encoder) and bool(start)
    if layers:
        shortened = [Command("start", "export", [f"--encoder={start}", f"--layers={layers}", "--output={out}"])]
        start = "{start}"
    tokenizer = start or "{vocabulary}"
    # Besides the link, the vectors' order of a pair's documents teaches (docs/experiments/recipe.md).
    data, recipe = ("{taught}", f"{PRETRAIN}:taught") if teacher else ("{pairs}", PRETRAIN)
    training = [f"--config={recipe}", f"--config.init={start}", f"--config.data=('{data}',)", f"--config.seed={seed}"]
    training += [] if start else ["--config.tokenizer={vocabulary}", "--config.learning_rate=1e-3"]
    # At the learning rate for a few layers, a whole encoder forgets what it knows.
    training += ["--config.learning_rate=1e-4"] if start and not layers else []
    training += [f"--config.tasks={tasks!r}"] if tasks else []
    longer = max_length != MAX_LENGTH
    training += [f"--config.row_length={max_length}"] if longer else []
    training += [f"--config.model.max_positions={max_length}"] if longer and not start else []
    survey = [*source, f"--max_queries={max_queries}", f"--context_words={context_words}", "--output={out}"]
    pairs = [*source, f"--config.tokenizer={tokenizer}", f"--config.seed={seed}", "--output={out}"]
    pairs += [f"--config.max_doc_tokens={max_length - QUERY_LENGTH}"] if longer else []
    commands = [Command("survey", "survey", survey), *shortened]
    if not start:
        commands.append(Command("vocabulary", "vocabulary", [*source, f"--kind={vocabulary}", "--output={out}"]))
    commands.append(Command("pairs", "generate", pairs))
    if teacher:
        commands.append(Command("taught", "teach", ["{pairs}", f"--model={encoder}", "--cosine", "--output={out}"]))
    commands.append(Command("rate", "rate", [*training, "--output={out}"], suffix=".json"))
    if not steps:
        return commands
    candidates = Candidates(depth, stems, encoder, windows, max_length)
    return [*commands, *trained([*training, f"--config.steps={steps}"], candidates, labels, seed)]


def trained(training: list[str], candidates: Candidates, labels: str, seed: int) -> list[Command]:
    """Pre-training with these options, and everything after it: verdict, tables, and models with their figures."""
    made, parts, rows = tested(candidates)
    halves = [f"--queries={HELD_OUT.queries}", f"--qrels={HELD_OUT.qrels}", "--count=2", "--output={out}"]
    commands = [
        Command("harp", "train", [*training, "--workdir={out}"]),
        Command("ranker", "export", ["--workdir={harp}", "--ranker", "--output={out}"]),
        Command("folds", "queries", ["folds", *halves], suffix=".tsv"),
        *made,
    ]
    verdict = "{verdict}"
    if labels:
        commands += with_labels(labels, seed, candidates)
        rows[LABELLED_ROW] = parts[LABELLED_ROW] = "{run_labelled}"
        verdict = "{verdict_labels}"
    weights = ["--method=weights", f"--verdict={verdict}", "--output={out}"]
    commands.append(Command(RECOMMENDED, "fuse", [*parts.values(), *weights], suffix=".trec"))
    rows[RECOMMENDED] = "{recommended}"
    commands += [*tables(rows), published("model", "harp", ROW)]
    commands += [published("labelled", "train_labelled", LABELLED_ROW)] if labels else []
    return commands


def is_embedder(start: str) -> bool:
    """Whether an encoder was trained to embed texts: sentence-transformers stores how it pools."""
    return bool(start) and os.path.isdir(os.path.join(start, "1_Pooling"))


@lru_cache
def known_words(encoder: str, language: str) -> float:
    """The share of a language's function words that are single tokens of an encoder; 0 for a language without a list."""
    words, tokenizer = sorted(function_words(language)), load_tokenizer(encoder)
    # SentencePiece keeps the space apart from a script that is written without spaces.
    space = tokenizer.vocab.get(SPACE)
    found = [[i for i in ids if i != space] for ids in tokenizer.encode_prefixes([f" {word}" for word in words], 3)]
    return sum(len(ids) == 1 and ids[0] != tokenizer.unk for ids in found) / max(len(words), 1)


def lexical(stems: str, own: Sequence[str] = ()) -> dict[str, list[str]]:
    """The options of BM25 and BM25F; `own`: options that exclude the queries' own sources."""
    given = {model: [f"--{name}={value:g}" for name, value in found.items()] for model, found in PARAMETERS.items()}
    return {
        model: [*own, f"--language={stems}", *(TEXTS if model == "bm25f" else []), *options]
        for model, options in given.items()
    }


def first_stages(where: Collection, suffix: str, options: Mapping[str, list[str]], depth: int) -> list[Command]:
    return [
        Command(
            f"{model}{suffix}",
            "first-stage",
            [f"--model={model}", *where.options, *given, f"--k={depth}", "--output={out}"],
            suffix=".trec",
        )
        for model, given in options.items()
    ]


def scored(
    where: Collection, suffix: str, options: Mapping[str, list[str]], candidates: Candidates, own: Sequence[str] = ()
) -> tuple[list[Command], dict[str, str]]:
    """Pools the best candidates of BM25, BM25F and the vectors, and scores the pool with each part; also returns part → run.

    `options` are those of BM25 and BM25F (`lexical`), whose first stages are the steps bm25SUFFIX and bm25fSUFFIX; `own`:
    options that exclude the queries' own sources.
    """
    depth, _, encoder, windows, max_length = candidates
    vectors = ["--model=vectors", f"--encoder={encoder}", f"--passages={windows}"]
    first = ["{bm25" + suffix + "}", "{bm25f" + suffix + "}"]
    commands = []
    if encoder:
        near = [*vectors, *where.options, *own, f"--k={depth}", "--output={out}"]
        commands.append(Command(f"near{suffix}", "first-stage", near, suffix=".trec"))
        first.append("{near" + suffix + "}")
    pool = "{pool" + suffix + "}"
    commands.append(Command(f"pool{suffix}", "fuse", [*first, "--method=rrf", "--output={out}"], suffix=".trec"))
    among = [*where.options, f"--run={pool}", "--output={out}"]
    for model, given in options.items():
        commands.append(
            Command(f"{model}_pool{suffix}", "first-stage", [f"--model={model}", *among, *given], suffix=".trec")
        )
    inlinks = [f"--run={pool}", "--feature=inlinks", *TEXTS, "--output={out}"]
    commands.append(Command(f"inlinks{suffix}", "priors", inlinks, suffix=".trec"))
    parts = {
        BM25: "{bm25_pool" + suffix + "}",
        ANCHORS: "{bm25f_pool" + suffix + "}",
        INLINKS: "{inlinks" + suffix + "}",
    }
    if encoder:
        commands.append(Command(f"vectors{suffix}", "first-stage", [*vectors, *among], suffix=".trec"))
        parts[VECTORS] = "{vectors" + suffix + "}"
    ranker = ["--model={ranker}", f"--max_length={max_length}", f"--windows={windows}", *among]
    commands.append(Command(f"run_ranker{suffix}", "rerank", ranker, suffix=".trec"))
    return commands, parts | {ROW: "{run_ranker" + suffix + "}"}


def decided(name: str, parts: Mapping[str, str], qrels: str, folds: str, candidates: Candidates) -> Command:
    """The verdict on the parts, in their order; `harp site` prints it last.

    If vectors of a sentence encoder that knows the language are trusted, anchors do not decide on in-links and the ranker.
    """
    given = [f"--part={part}={run}" for part, run in parts.items()]
    encoder, language = candidates.encoder, candidates.stems
    if is_embedder(encoder) and known_words(encoder, language) >= KNOWN:
        given.append(f"--double={VECTORS}")
        given += [f"--reported={part}" for part in (INLINKS, ROW)] if qrels == HELD_OUT.qrels else []
    options = [f"--instead={ANCHORS}", f"--qrels={qrels}", f"--folds={folds}", f"--measure={MEASURE}", "--output={out}"]
    return Command(name, "verdict", [*given, *options], suffix=".json", logged=True)


def tested(candidates: Candidates) -> tuple[list[Command], dict[str, str], dict[str, str]]:
    """Tests the parts, their sums and the verdict on held-out anchors; also returns part → run, and row of the table → run."""
    options = lexical(candidates.stems, [SOURCES])
    first = first_stages(HELD_OUT, "", options, candidates.depth)
    commands, parts = scored(HELD_OUT, "", options, candidates, [SOURCES])
    sums = {"BM25 + anchor texts + in-links": [*parts.values()][:3]}
    if candidates.encoder:
        sums |= {"all without the ranker": [*parts.values()][:-1], "BM25 + vectors": [parts[BM25], parts[VECTORS]]}
    sums |= {"BM25 + ranker": [parts[BM25], parts[ROW]], EVERYTHING: [*parts.values()]}
    rows = dict(parts)
    for number, (row, runs) in enumerate(sums.items()):
        commands.append(Command(f"sum_{number}", "fuse", [*runs, "--method=mean", "--output={out}"], suffix=".trec"))
        rows[row] = "{" + commands[-1].name + "}"
    return [*first, *commands, decided("verdict", parts, HELD_OUT.qrels, "{folds}", candidates)], parts, rows


def tables(rows: Mapping[str, str]) -> list[Command]:
    """The table and the report of rows on the held-out anchors."""
    runs = [f"{row}={run}" for row, run in rows.items()]
    judged = [f"--qrels={HELD_OUT.qrels}", f"--measures={MEASURE} nDCG@10", "--baseline=BM25", "--chance=BM25"]
    page = [*judged, *(f"--run={run}" for run in runs), f"--focus={RECOMMENDED}", f"--docs={HELD_OUT.docs}"]
    page += [f"--fields={','.join(FIELDS)}", f"--query_texts={HELD_OUT.queries}"]
    page += ["--curves=training={harp}", "--pairs=the site={pairs}", "--title=Search over a site", "--output={out}"]
    return [
        Command("table", "evaluate", [*runs, *judged, f"--confirm={MEASURE}", "--per_query={out}"], suffix=".tsv"),
        Command("report", "report", page, suffix=".html"),
    ]


def published(name: str, workdir: str, row: str) -> Command:
    """An export whose card has the figures of its row of the table and of BM25."""
    where = "--evaluated_on=anchors of held-out pages, candidates of BM25, BM25F and vectors re-ranked"
    figures = ["--results={table}", f"--system={row}", f"--baseline={BM25}", where]
    return Command(name, "export", ["--workdir={" + workdir + "}", "--ranker", *figures, "--output={out}"])


def with_labels(labels: str, seed: int, candidates: Candidates) -> list[Command]:
    """Fine-tunes the ranker on all labels; the verdict by labels uses rankers fine-tuned on one half and tested on the other."""
    options = lexical(candidates.stems)
    first = first_stages(LABELLED, "_labels", options, candidates.depth)
    commands, parts = scored(LABELLED, "_labels", options, candidates)
    halves = [f"--queries={LABELLED.queries}", f"--qrels={LABELLED.qrels}", "--count=2", "--output={out}"]
    settings = ["init={harp}", f"seed={seed}"]
    settings += [f"row_length={candidates.max_length}"] if candidates.max_length != MAX_LENGTH else []
    training: dict[str, Any] = {"config": FINETUNE, "candidates": "{pool_labels}", "settings": settings}
    rerank = [f"max_length={candidates.max_length}", f"windows={candidates.windows}"]
    return [
        Command("labels", "queries", ["labels", f"--labels={labels}", "--output={out}"]),
        *first,
        *commands,
        Command("folds_labels", "queries", ["folds", *halves], suffix=".tsv"),
        *cross_validation(
            "labels", LABELLED, folds="{folds_labels}", fold_names=("0", "1"), rerank=rerank, export=False, **training
        ),
        decided(
            "verdict_labels", parts | {LABELLED_ROW: "{joined_labels}"}, LABELLED.qrels, "{folds_labels}", candidates
        ),
        *trained_ranker("labelled", LABELLED, test=HELD_OUT, test_candidates="{pool}", rerank=rerank, **training),
    ]
