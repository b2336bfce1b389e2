"""HARP compared with its transformer controls under one budget: MLM alone (BERT), ICT, WLP and PROP, then the same fine-tuning.

harp plan controls --output=controls --jobs=2 --set data=../shared/data

BERT-tiny on the linked documents of DATA/wiki, every system from the same random weights: configs/baselines/*.py with the
same flags, so the same real tokens a batch, updates and schedule; only the data path and the tasks' weights differ. Two regimes:
"linked", where all systems train on the documents that HARP trains on, and "all", where those that need no links (MLM, ICT,
PROP) train on the whole collection. Fine-tuning is cross-validated over the given folds, which share no relevant document.

Hardware: 2 CPU cores; 600 steps of 7,800 tokens take about ten minutes, two at a time. That checks the pipeline and the
equal budget. It is far too little to rank the systems.
"""

import os

from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import (
    TINY,
    Collection,
    comparison,
    cross_validation,
    fitted_sum,
    output_of,
    tuned_first_stage,
)

SYSTEMS = {"linked": ("harp", "bert", "ict", "wlp", "prop"), "all": ("bert", "ict", "prop")}
TASKS = {"linked": ("rqp", "qdm", "rdp", "acm", "ict", "wlp", "prop"), "all": ("ict", "prop", "mlm")}
VALIDATION = {"linked": 0.05, "all": 0.01}  # of "all", 170,000 pages, a hundredth is enough to evaluate on
FOLDS = ("0", "1", "2", "3", "4")
GENERATE, TUNE = "configs/data/linked_jsonl.py", "configs/finetune_bert_tiny.py"


def get_plan(
    data: str = os.path.join("..", "shared", "data"),
    encoder: str = os.path.join("~", ".cache", "harp_jax", "minilm"),
    regimes: tuple[str, ...] = ("linked",),
    steps: int = 600,
    seeds: tuple[int, ...] = (0,),
    folds: tuple[str, ...] = FOLDS,
    settings: tuple[str, ...] = ("epochs=1.0",),
    rerank: tuple[str, ...] = ("max_length=256",),
    exclude: str = "",
    pairs: str = "",
    run: str = "",
) -> list[Command]:
    """Options:

    data: folder that holds wiki/ and vocab/
    encoder: Hugging Face BERT whose attention weighs HARP's terms and whose vocabulary is used
    regimes: what the systems train on: linked, all
    steps: of every pre-training
    seeds: of pre-training and fine-tuning
    folds: those that are tested; each model is fine-tuned on all others of the five
    settings: config fields of every fine-tuning
    rerank: options of every re-ranking
    exclude: ids that no pair may lead to (file); give the judged ones, or link popularity explains part of the result
    pairs: finished output of the generation job with all tasks, instead of generating the linked regime's
    run: run to re-rank, instead of a tuned BM25's
    """
    wiki = os.path.join(data, "wiki")
    collection = Collection(
        f"{wiki}/collection.jsonl.xz",
        f"{wiki}/wikipassageqa.queries.tsv",
        f"{wiki}/wikipassageqa.qrels",
        ("title", "body"),
    )
    fold_file = f"{wiki}/wikipassageqa.folds.tsv"
    encoder = os.path.expanduser(encoder)
    commands = [generation(r, data, encoder, exclude) for r in regimes if not (r == "linked" and pairs)]
    if not run:
        commands += tuned_first_stage("bm25", collection, folds=fold_file, measure="RR@10", options=["--k=50"])
    candidates = run or "{bm25}"
    starts = [(f"{s}_{r}_s{seed}", s, r, seed) for r in regimes for s in SYSTEMS[r] for seed in seeds]
    for start, system, regime, seed in starts:
        source = pairs if regime == "linked" and pairs else "{pairs_" + regime + "}"
        commands.append(pretraining(start, system, regime, source, encoder, steps, seed))
    rows: dict[str, list[str]] = {"BM25": [candidates]}
    for start, system, regime, seed in starts:
        commands += cross_validation(
            start, collection, folds=fold_file, fold_names=FOLDS, only=folds, config=TUNE, candidates=candidates,
            settings=["init={" + start + "}", f"seed={seed}", "init_head=fresh", *settings], rerank=rerank,
        )  # fmt: skip
        joined = output_of(f"joined_{start}")
        rows.setdefault(f"{system}_{regime}", []).extend(joined)
        if len(folds) > 1:
            both = [candidates, *joined]
            commands.append(fitted_sum(f"bm25_{start}", both, qrels=collection.qrels, folds=fold_file, measure="RR@10"))
            rows.setdefault(f"{system}_{regime}+BM25", []).extend(output_of(f"bm25_{start}"))
    options = ["--confirm=RR@10"]
    if len(folds) < len(FOLDS):
        # The queries of these folds, as a joined run lists them.
        options += [f"--queries={output_of(f'joined_{starts[0][0]}')[0]}"]
    measures = "RR@10 nDCG@10 oracle(RR@10)"
    table = comparison(
        "table", rows, qrels=collection.qrels, measures=measures, baseline="BM25", chance="BM25", options=options
    )
    return [*commands, table]


def generation(regime: str, data: str, encoder: str, exclude: str) -> Command:
    """The pairs of a regime; `text_pages` says which pages ICT, PROP and MLM are made of."""
    wiki = os.path.join(data, "wiki")
    source = f"--config.source.paths=('{wiki}/collection.jsonl.xz','{wiki}/linked_pages.jsonl.xz')"
    options = [f"--config={GENERATE}", source, f"--config.source.redirects=('{wiki}/redirects.tsv',)", "--output={out}"]
    options += [f"--config.tokenizer={encoder}", f"--config.encoder={encoder}", f"--config.tasks={TASKS[regime]!r}"]
    options += [f"--config.text_pages={regime}", "--config.max_doc_tokens=160"]
    options += [f"--config.stopwords={data}/vocab/inquery_stopwords.txt"]
    options += [f"--config.validation_fraction={VALIDATION[regime]}"]
    options += [f"--config.exclude_destinations={exclude}"] if exclude else []
    return Command(f"pairs_{regime}", "generate", options)


def pretraining(name: str, system: str, regime: str, pairs: str, encoder: str, steps: int, seed: int) -> Command:
    """A system's own config; in the regime of all documents BERT reads running text, the others pairs of all pages."""
    flags = [f"--config.{field}={value}" for field, value in TINY.items()]
    flags += [f"--config.data=('{pairs}',)", f"--config.tokenizer={encoder}", f"--config.steps={steps}"]
    flags.append(f"--config.seed={seed}")
    if regime == "all" and system == "bert":
        flags.append("--config.tasks=('mlm',)")
    return Command(name, "train", [f"--config=configs/baselines/{system}.py", "--workdir={out}", *flags])
