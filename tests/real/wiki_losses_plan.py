"""Cross-validation on real questions: each ranking loss, from random weights and from a trained encoder, beside the priors.

HARP_PRETRAINED=runs/harp python -m harp_jax.experiments.plan --plan=tests/real/wiki_losses_plan.py --output=losses

WikiPassageQA over the given folds (grouped by relevant document): a query is ranked only by what was trained, tuned or fitted
on the other folds. Rows: BM25 and query likelihood (tuned), BM25 + in-links, BM25 + length, every model, every pre-trained
model with its query blanked, and each of these with BM25's score added in weights fitted on the other folds. HARP_PRETRAINED
is a training workdir or a Hugging Face directory (MiniLM in the user's cache by default), HARP_LOSSES and HARP_SEEDS say which,
HARP_SET and HARP_RERANK hold fields for every training and options for every re-ranking ("epochs=1.0 negatives=3",
"max_length=128 k=20"). Four losses from both starts with one seed and the config's three epochs take about three hours on two
cores with BERT-tiny.

With HARP_SET="epochs=1.0 negatives=3 row_length=128" and HARP_RERANK="max_length=128 k=20" half an hour a seed (--jobs=2). RR@10,
mean of seeds 0 and 1, bce / hinge / logistic / lce: from scratch .291 / .296 / .292 / .292, after 600 steps of HARP .265 / .281 /
.271 / .266, its query blanked .273 / .277 / .274 / .266; BM25 .311, BM25 + length .337, + in-links .505. With BM25's score added:
.387 / .400 / .395 / .394, .367 / .391 / .383 / .373, blanked .375 / .387 / .385 / .373. So what these small models have learnt is
mostly which documents are asked about.
"""

import os
from argparse import Namespace

from harp_jax.experiments.plan import Command
from harp_jax.experiments.protocols import training
from tests.support.shared_data import MINILM, SHARED

WIKI = os.path.join(SHARED, "wiki")
PRETRAINED = os.environ.get("HARP_PRETRAINED", MINILM)
LOSSES = os.environ.get("HARP_LOSSES", "bce,hinge,logistic,lce").split(",")
SEEDS = [int(seed) for seed in os.environ.get("HARP_SEEDS", "0").split(",")]
RERANK = os.environ.get("HARP_RERANK", "max_length=256").split()
SETTINGS = os.environ.get("HARP_SET", "").split()
FOLDS = ("0", "1", "2", "3", "4")
FILES = {
    "docs": f"{WIKI}/collection.jsonl.xz",
    "queries": f"{WIKI}/wikipassageqa.queries.tsv",
    "qrels": f"{WIKI}/wikipassageqa.qrels",
}
GIVEN_FOLDS = f"{WIKI}/wikipassageqa.folds.tsv"
TUNE = "configs/finetune_demo.py"
STARTS = {
    "scratch": ["init=", f"tokenizer={SHARED}/vocab/bert-base-uncased-vocab.txt"],
    "pretrained": [f"init={PRETRAINED}", "init_head=fresh"],
}


FITTED = ["--method=weights", f"--qrels={FILES['qrels']}", f"--folds={GIVEN_FOLDS}", "--measure=RR@10"]


def first_stage() -> list[Command]:
    """BM25 and query likelihood, each tuned without the fold that it ranks, and the priors."""
    common = [f"--docs={FILES['docs']}", f"--queries={FILES['queries']}", "--fields=title,body", "--k=50"]
    tuned = [*common, f"--qrels={FILES['qrels']}", f"--folds={GIVEN_FOLDS}", "--measure=RR@10", "--output={out}"]
    chosen = [*common, f"--folds={GIVEN_FOLDS}", "--output={out}"]
    links = [f"--links={WIKI}/linked_pages.jsonl.xz", f"--redirects={WIKI}/redirects.tsv"]
    length = [f"--docs={FILES['docs']}", "--fields=body"]
    commands = [
        Command("tune_bm25", "tune-first-stage", tuned, suffix=".json"),
        Command("bm25", "first-stage", [*chosen, "--parameters={tune_bm25}"], suffix=".trec"),
        Command("tune_ql", "tune-first-stage", [*tuned, "--model=ql", "--run={bm25}"], suffix=".json"),
        Command(
            "ql",
            "first-stage",
            [*chosen, "--model=ql", "--run={bm25}", "--parameters={tune_ql}"],
            suffix=".trec",
        ),
    ]
    for feature, options in (("inlinks", links), ("length", length)):
        prior = ["--run={bm25}", f"--feature={feature}", *options, "--output={out}"]
        both = ["{bm25}", "{" + feature + "}", *FITTED, "--normalise=none", "--output={out}"]
        commands.append(Command(feature, "priors", prior, suffix=".trec"))
        commands.append(Command(f"bm25_{feature}", "fuse", both, suffix=".trec"))
    return commands


def system(loss: str, start: str, seed: int) -> tuple[list[Command], list[str]]:
    """Commands of a cross-validation, and the names of its joined runs: as it is, and with blank queries (pre-trained)."""
    arguments = Namespace(config=TUNE, run="{bm25}", rerank=[*RERANK, "fields=title,body"], **FILES)
    arguments.set = [*STARTS[start], f"rank_loss={loss}", "fields=('title','body')", *SETTINGS]
    name = f"{start}_{loss}_s{seed}"
    commands: list[Command] = []
    plain, blank = [], []
    for fold in FOLDS:
        others = tuple(other for other in FOLDS if other != fold)
        extra = [f"--config.folds={GIVEN_FOLDS}", f"--config.train_folds={others!r}"]
        one = training(f"{name}_f{fold}", arguments, seed, extra, [f"--folds={GIVEN_FOLDS}", f"--fold={fold}"])
        commands += one
        plain.append("{" + one[-1].name + "}")
        if start == "pretrained":
            ranked = one[-1]
            commands.append(
                Command(f"blank_{name}_f{fold}", ranked.module, [*ranked.arguments, "--blank_query"], suffix=".trec")
            )
            blank.append("{" + f"blank_{name}_f{fold}" + "}")
    made = []
    for kind, runs in (("cv", plain), ("blank", blank)):
        if runs:
            joined = Command(f"{kind}_{name}", "fuse", ["--method=join", *runs, "--output={out}"], suffix=".trec")
            weighed = ["{bm25}", "{" + joined.name + "}", *FITTED, "--output={out}"]
            commands += [joined, Command(f"bm25_{joined.name}", joined.module, weighed, suffix=".trec")]
            made += [joined.name, f"bm25_{joined.name}"]
    return commands, made


def get_plan() -> list[Command]:
    commands = first_stage()
    rows = {name: [name] for name in ("bm25", "ql", "bm25_inlinks", "bm25_length")}
    for start in STARTS:
        for loss in LOSSES:
            for seed in SEEDS:
                made, runs = system(loss, start, seed)
                commands += made
                for run in runs:
                    rows.setdefault(run.rsplit("_s", 1)[0], []).append(run)
    shown = [f"{name}=" + ",".join("{" + run + "}" for run in runs) for name, runs in rows.items()]
    judged = [
        f"--qrels={FILES['qrels']}",
        "--measures=RR@10 nDCG@10 oracle(RR@10)",
        "--confirm=RR@10",
        "--baseline=bm25",
    ]
    return [
        *commands,
        Command("table", "evaluate", [*shown, *judged, "--per_query={out}"], suffix=".tsv"),
    ]
