"""Cross-validation on real questions: each ranking loss, from random weights and from a trained encoder, compared with the priors.

harp plan tests/real/wiki_losses_plan.py --output=losses --set pretrained=runs/harp

WikiPassageQA over the given folds (grouped by relevant document): a query is ranked only by what was trained, tuned or fitted
on the other folds. Rows: BM25 and query likelihood (tuned), BM25 + in-links, BM25 + length, every model, every pre-trained
model with its query blanked, and each of these with BM25's score added in weights fitted on the other folds. Four losses from
both starts with one seed and the config's three epochs take about three hours on two cores with BERT-tiny.

With --set settings=epochs=1.0,negatives=3,row_length=128 --set rerank=max_length=128,k=20 half an hour a seed (--jobs=2). RR@10,
mean of seeds 0 and 1, bce / hinge / logistic / lce: from scratch .291 / .296 / .292 / .292, after 600 steps of HARP .265 / .281 /
.271 / .266, its query blanked .273 / .277 / .274 / .266; BM25 .311, BM25 + length .337, + in-links .505. With BM25's score added:
.387 / .400 / .395 / .394, .367 / .391 / .383 / .373, blanked .375 / .387 / .385 / .373. So these small models have mostly learnt
which documents are relevant to any query. The figures are from when relevant documents that BM25 had missed were positives too:
BM25 ranked the positive above a negative in .489 of those training pairs, against .812 without them.
"""

import os

from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import (
    Collection,
    comparison,
    cross_validation,
    fitted_sum,
    output_of,
    tuned_first_stage,
)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.path.normpath(os.path.join(ROOT, "..", "shared", "data"))
WIKI = os.path.join(SHARED, "wiki")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "harp_jax", "minilm")
MINILM = os.environ.get("HARP_MINILM", CACHE)
FOLDS = ("0", "1", "2", "3", "4")
FILES = Collection(
    f"{WIKI}/collection.jsonl.xz", f"{WIKI}/wikipassageqa.queries.tsv", f"{WIKI}/wikipassageqa.qrels", ("title", "body")
)
FOLD_FILE = f"{WIKI}/wikipassageqa.folds.tsv"
TUNE = "configs/finetune_bert_tiny.py"


def with_bm25(name: str, run: str, *options: str) -> Command:
    both = ["{bm25}", "{" + run + "}"]
    return fitted_sum(name, both, qrels=FILES.qrels, folds=FOLD_FILE, measure="RR@10", options=options)


def priors() -> list[Command]:
    """BM25 plus a prior of its documents."""
    links = [f"--links={WIKI}/linked_pages.jsonl.xz", f"--redirects={WIKI}/redirects.tsv"]
    length = [f"--docs={FILES.docs}", "--fields=body"]
    commands = []
    for feature, options in (("inlinks", links), ("length", length)):
        prior = ["--run={bm25}", f"--feature={feature}", *options, "--output={out}"]
        commands.append(Command(feature, "priors", prior, suffix=".trec"))
        commands.append(with_bm25(f"bm25_{feature}", feature, "--normalise=none"))
    return commands


def get_plan(
    pretrained: str = MINILM,
    losses: tuple[str, ...] = ("bce", "hinge", "logistic", "lce"),
    seeds: tuple[int, ...] = (0,),
    settings: tuple[str, ...] = (),
    rerank: tuple[str, ...] = ("max_length=256",),
) -> list[Command]:
    """Options:

    pretrained: training workdir or Hugging Face directory
    losses: values of rank_loss
    seeds: of every training
    settings: config fields of every training
    rerank: options of every re-ranking
    """
    starts = {
        "scratch": ["init=", f"tokenizer={SHARED}/vocab/bert-base-uncased-vocab.txt"],
        "pretrained": [f"init={pretrained}", "init_head=fresh"],
    }
    tuning = {"folds": FOLD_FILE, "measure": "RR@10"}
    commands = tuned_first_stage("bm25", FILES, **tuning, options=["--k=50"])
    commands += tuned_first_stage("ql", FILES, **tuning, options=["--k=50", "--run={bm25}"])
    commands += priors()
    rows = {name: output_of(name) for name in ("bm25", "ql", "bm25_inlinks", "bm25_length")}
    for start, given in starts.items():
        variants = {"blank": ["blank_query"]} if start == "pretrained" else {}
        for loss in losses:
            for seed in seeds:
                name = f"{start}_{loss}_s{seed}"
                commands += cross_validation(
                    name, FILES, folds=FOLD_FILE, fold_names=FOLDS, config=TUNE, candidates="{bm25}",
                    settings=[f"seed={seed}", *given, f"rank_loss={loss}", *settings], rerank=rerank, variants=variants,
                )  # fmt: skip
                for kind, label in (("joined", "cv"), *((variant, variant) for variant in variants)):
                    run, row = f"{kind}_{name}", f"{label}_{start}_{loss}"
                    commands.append(with_bm25(f"bm25_{run}", run))
                    rows.setdefault(row, []).extend(output_of(run))
                    rows.setdefault(f"bm25_{row}", []).extend(output_of(f"bm25_{run}"))
    measures = "RR@10 nDCG@10 oracle(RR@10)"
    options = ["--confirm=RR@10"]
    return [
        *commands,
        comparison("table", rows, qrels=FILES.qrels, measures=measures, baseline="bm25", options=options),
    ]
