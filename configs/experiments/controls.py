"""HARP beside its transformer controls under one budget: MLM alone (BERT), ICT, WLP and PROP, then the same fine-tuning.

HARP_DATA=../shared/data python -m harp_jax.experiments.plan --plan=configs/experiments/controls.py --output=controls --jobs=2

BERT-tiny on the linked documents of HARP_DATA/wiki, every system from the same random weights: configs/baselines/*.py with the
same flags, so the same real tokens a batch, updates and schedule; only the data path and the tasks' weights differ. Two regimes:
"linked", where all systems see the documents that HARP sees, and "all", where those that need no links (MLM, ICT, PROP) see the
whole collection. Fine-tuning is cross-validated over the given folds, which no relevant document crosses.

HARP_REGIMES ("linked", or "linked all"), HARP_STEPS (600), HARP_SEEDS ("0") and HARP_FOLDS ("0 1 2 3 4") say how much is done.
HARP_ENCODER is the Hugging Face BERT whose attention weighs HARP's terms (its vocabulary is used too). HARP_EXCLUDE is a file
of document ids that no pair of HARP may lead to: give the judged ones, or link popularity explains part of what is found.
HARP_PAIRS is a finished output of the generation job with all tasks, HARP_RUN a run to re-rank instead of a tuned BM25's.
HARP_SET and HARP_RERANK hold fields for every fine-tuning and options for every re-ranking ("epochs=1.0", "max_length=256").

Hardware: 2 CPU cores; 600 steps of 7,800 tokens take about ten minutes, two at a time. That is a check of the road and of
the equal budget. It is far too little to rank the systems.
"""

import os

from harp_jax.experiments.plan import Command

DATA = os.environ.get("HARP_DATA", os.path.join("..", "shared", "data"))
WIKI = os.path.join(DATA, "wiki")
CACHE = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
ENCODER = os.environ.get("HARP_ENCODER", os.path.join(CACHE, "harp_jax", "minilm"))
EXCLUDE, PAIRS, RUN = (os.environ.get(name, "") for name in ("HARP_EXCLUDE", "HARP_PAIRS", "HARP_RUN"))
REGIMES = os.environ.get("HARP_REGIMES", "linked").split()
STEPS = int(os.environ.get("HARP_STEPS", "600"))
SEEDS = os.environ.get("HARP_SEEDS", "0").split()
FOLDS = os.environ.get("HARP_FOLDS", "0 1 2 3 4").split()
SETTINGS = os.environ.get("HARP_SET", "epochs=1.0").split()
RERANK = os.environ.get("HARP_RERANK", "max_length=256").split()

SYSTEMS = {"linked": ("harp", "bert", "ict", "wlp", "prop"), "all": ("bert", "ict", "prop")}
DOCS, QUERIES = f"{WIKI}/collection.jsonl.xz", f"{WIKI}/wikipassageqa.queries.tsv"
QRELS, GIVEN_FOLDS = f"{WIKI}/wikipassageqa.qrels", f"{WIKI}/wikipassageqa.folds.tsv"
GENERATE, TUNE = "configs/data/linked_jsonl.py", "configs/finetune_demo.py"
# The same for every system: BERT-tiny, about 16 rows of 512 slots, ten times BERT-base's rate as so small a model wants.
SMALL = {
    "init": "", "model.layers": 2, "model.hidden": 128, "model.heads": 2, "model.max_positions": 512, "row_length": 512,
    "batch_tokens": 7800, "lanes": 2, "mesh.data": -1, "dtype": "float32", "prng": "threefry", "learning_rate": 1e-3,
    "log_every": 20, "eval_every": 200, "eval_batches": 8, "checkpoint_every": 200,
}  # fmt: skip


def generation(name: str, tasks: tuple[str, ...], pages: str, validation: float = 0.05) -> Command:
    """The pairs of some tasks; `pages` says what ICT, PROP and MLM are made of."""
    source = f"--config.source.paths=('{DOCS}','{WIKI}/linked_pages.jsonl.xz')"
    options = [f"--config={GENERATE}", source, f"--config.source.redirects=('{WIKI}/redirects.tsv',)", "--output={out}"]
    options += [f"--config.tokenizer={ENCODER}", f"--config.encoder={ENCODER}", f"--config.tasks={tasks!r}"]
    options += [f"--config.text_pages={pages}", "--config.max_doc_tokens=160"]
    options += [f"--config.stopwords={DATA}/vocab/inquery_stopwords.txt", f"--config.validation_fraction={validation}"]
    if EXCLUDE:
        options.append(f"--config.exclude_destinations={EXCLUDE}")
    return Command(name, "data_pipeline.main", options, [GENERATE, *([EXCLUDE] if EXCLUDE else [])])


def pretraining(system: str, regime: str, seed: str) -> Command:
    """A control's own config; in the regime of all documents BERT reads running text, the others pairs of all pages."""
    config = f"configs/baselines/{system}.py"
    data = (PAIRS or "{pairs_linked}") if regime == "linked" else "{pairs_all}"
    flags = [f"--config.{field}={value}" for field, value in SMALL.items()]
    flags += [f"--config.data=('{data}',)", f"--config.tokenizer={ENCODER}", f"--config.steps={STEPS}"]
    flags.append(f"--config.seed={seed}")
    if regime == "all" and system == "bert":
        flags.append("--config.tasks=('mlm',)")
    name = f"{system}_{regime}_s{seed}"
    return Command(name, "harp_jax.main", [f"--config={config}", "--workdir={out}", *flags], [config])


def first_stage() -> list[Command]:
    common = [f"--docs={DOCS}", f"--queries={QUERIES}", "--fields=title,body", "--k=50", f"--folds={GIVEN_FOLDS}"]
    tuning = [*common, f"--qrels={QRELS}", "--measure=RR@10", "--output={out}"]
    return [
        Command("tuned_bm25", "tune-first-stage", tuning, suffix=".json"),
        Command(
            "bm25",
            "first-stage",
            [*common, "--parameters={tuned_bm25}", "--output={out}"],
            suffix=".trec",
        ),
    ]


def cross_validated(start: str, seed: str, run: str) -> list[Command]:
    """Fine-tuning from what command `start` pre-trained, for each fold on the others; the last commands join the runs (cv_)
    and add BM25's score in weights fitted on the other folds (bm25_)."""
    commands, runs = [], []
    for fold in FOLDS:
        others = tuple(str(other) for other in range(5) if str(other) != fold)
        tuned, exported, ranked = (f"{kind}_{start}_f{fold}" for kind in ("tuned", "model", "run"))
        settings = [f"--config={TUNE}", "--workdir={out}", "--config.init={" + start + "}", f"--config.docs={DOCS}"]
        settings += [f"--config.queries={QUERIES}", f"--config.qrels={QRELS}", f"--config.candidates={run}"]
        settings += [f"--config.folds={GIVEN_FOLDS}", f"--config.train_folds={others!r}", f"--config.seed={seed}"]
        settings += ["--config.fields=('title','body')", "--config.init_head=fresh"]
        settings += [f"--config.{setting}" for setting in SETTINGS]
        test = [f"--docs={DOCS}", f"--queries={QUERIES}", f"--run={run}", f"--folds={GIVEN_FOLDS}", f"--fold={fold}"]
        test += ["--model={" + exported + "}", "--fields=title,body", *(f"--{option}" for option in RERANK)]
        test.append("--output={out}")
        commands += [
            Command(tuned, "harp_jax.main", settings, [TUNE]),
            Command(exported, "harp_jax.export", ["--workdir={" + tuned + "}", "--output={out}"]),
            Command(ranked, "rerank", test, suffix=".trec"),
        ]
        runs.append("{" + ranked + "}")
    joined = ["--method=join", *runs, "--output={out}"]
    weighed = [run, "{" + f"cv_{start}" + "}", "--method=weights", f"--qrels={QRELS}", f"--folds={GIVEN_FOLDS}"]
    weighed += ["--measure=RR@10", "--output={out}"]
    commands.append(Command(f"cv_{start}", "fuse", joined, suffix=".trec"))
    if len(FOLDS) > 1:
        commands.append(Command(f"bm25_{start}", "fuse", weighed, suffix=".trec"))
    return commands


def get_plan() -> list[Command]:
    commands = []
    if "linked" in REGIMES and not PAIRS:
        commands.append(generation("pairs_linked", ("rqp", "qdm", "rdp", "acm", "ict", "wlp", "prop"), "linked"))
    if "all" in REGIMES:
        # 170,000 pages: a hundredth is enough to evaluate on.
        commands.append(generation("pairs_all", ("ict", "prop", "mlm"), "all", validation=0.01))
    if not RUN:
        commands += first_stage()
    run = RUN or "{bm25}"
    starts = [(f"{s}_{r}_s{seed}", s, r, seed) for r in REGIMES for s in SYSTEMS[r] for seed in SEEDS]
    commands += [pretraining(system, regime, seed) for _, system, regime, seed in starts]
    rows: dict[str, list[str]] = {}
    for start, system, regime, seed in starts:
        commands += cross_validated(start, seed, run)
        rows.setdefault(f"{system}_{regime}", []).append("{" + f"cv_{start}" + "}")
        if len(FOLDS) > 1:
            rows.setdefault(f"{system}_{regime}+BM25", []).append("{" + f"bm25_{start}" + "}")
    table = [f"BM25={run}", *(f"{name}={','.join(made)}" for name, made in rows.items()), f"--qrels={QRELS}"]
    table += ["--measures=RR@10 nDCG@10 oracle(RR@10)", "--confirm=RR@10", "--baseline=BM25", "--per_query={out}"]
    if len(FOLDS) < 5:
        table.append(
            f"--queries={next(iter(rows.values()))[0]}"
        )  # the queries of these folds, as the joined run names them
    return [*commands, Command("table", "evaluate", table, suffix=".tsv")]
