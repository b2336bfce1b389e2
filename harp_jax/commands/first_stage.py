"""`harp first-stage`, `harp tune-first-stage`, `harp priors`: rankings without a neural model."""

import argparse
from typing import Any

from harp_jax.base.cli import Parser, count, number, positive
from harp_jax.base.errors import InputError
from harp_jax.commands.options import RUN, WRITTEN_RUN, add_documents, add_lexical, numbers
from harp_jax.ranking.first_stage import FEATURES, Candidates, estimate, first_stage_files, prior_files
from harp_jax.ranking.lexical import MODELS
from harp_jax.ranking.options import PASSAGES
from harp_jax.ranking.tune_first_stage import GRIDS, SAMPLE, grid_of, tune_files

VECTORS = "vectors"
# Tuning options, and the model whose default values their help shows.
AXES = {"k1": "bm25", "b": "bm25", "anchor_weight": "bm25f", "mu": "ql"}


def arguments_parser() -> Parser:
    parser = Parser(
        description="Retrieve candidates with BM25, BM25F, query likelihood or an encoder's vectors, or re-rank a run lexically.",
        example="harp first-stage --docs=docs.tsv --queries=queries.tsv --k=100 --output=bm25.trec\n"
        "  harp first-stage --model=bm25f --anchors=anchors.tsv --docs=docs.tsv --queries=queries.tsv --output=bm25f.trec\n"
        "  harp first-stage --model=vectors --encoder=all-MiniLM-L6-v2 --docs=docs.tsv --queries=queries.tsv --output=v.trec",
    )
    add_model(parser, VECTORS)
    parser.add_input("--encoder", model=True, help="vectors: a Hugging Face encoder, or a training workdir")
    what = f"vectors: maximum passages per document ({PASSAGES})"
    parser.add_argument("--passages", type=positive, default=PASSAGES, help=what)
    parser.add_argument("--max_length", type=positive, help="vectors: maximum tokens per passage (the encoder's limit)")
    parser.add_recorded_output(WRITTEN_RUN)
    parser.add_argument("--k1", type=number, help="bm25, bm25f: saturation of term frequency (0.9)")
    parser.add_argument("--b", type=number, help="bm25, bm25f: length normalisation (0.4)")
    parser.add_argument("--anchor_weight", type=number, help="bm25f: times a word of an anchor text counts (1)")
    parser.add_argument("--mu", type=number, help="ql: Dirichlet's prior, in words (1000)")
    parser.add_input("--parameters", help="parameters written by harp tune-first-stage")
    parser.add_input("--folds", help="file of qid<TAB>fold lines, if the parameters were tuned per fold")
    return parser


def add_model(parser: Parser, *more: str) -> None:
    """The options shared by retrieval and tuning; `more`: models besides the lexical ones."""
    what = "; vectors: embeddings by --encoder" if more else ""
    what = f"bm25; bm25f: text and anchor texts; ql: query likelihood{what} (bm25)"
    parser.add_argument("--model", default="bm25", choices=(*sorted(MODELS), *more), help=what)
    add_lexical(parser)
    parser.add_input("--run", help="candidates to re-rank instead of retrieving: a TREC run, such as Anserini's")
    parser.add_argument("--k", type=positive, help="candidates per query (100; with --run all)")
    what = "docid<TAB>anchor text<TAB>count (harp anchors): a field for bm25f, otherwise added to the documents"
    parser.add_input("--anchors", help=what)
    what = "print about how long it takes and its memory, from a sample; rank nothing"
    parser.add_argument("--dry_run", action="store_true", help=what)


def checked(a: argparse.Namespace) -> tuple[Candidates, dict[str, Any]]:
    """The collection, and the given parameters of the model. InputError for parameters of another model."""
    if a.model == "bm25f" and not a.anchors:
        raise InputError("--model=bm25f ranks by text and anchor texts; set --anchors to their file (`harp anchors`)")
    parameters = {field: value for field in AXES if (value := getattr(a, field)) is not None}
    if other := next((field for field in parameters if field not in MODELS.get(a.model, ())), ""):
        advice = f"leave it out, or use --model={AXES[other]}"
        raise InputError(f"--{other} is not a parameter of --model={a.model}; {advice}")
    return Candidates(a.docs, a.fields, a.language, a.exclude, a.k, a.anchors), parameters


def main(a: argparse.Namespace) -> None:
    collection, parameters = checked(a)
    if a.model == VECTORS:
        from harp_jax.ranking.vectors import vector_files

        if not a.encoder or a.parameters or a.folds or a.anchors:
            raise InputError(f"--model={VECTORS} needs --encoder, and no lexical options")
        nearest = vector_files(
            collection, model=a.encoder, queries=a.queries, output=a.output, run=a.run, passages=a.passages, max_length=a.max_length
        )  # fmt: skip
        print(f"{a.output}: the nearest of {nearest.documents} documents for {nearest.queries} queries")
    elif a.encoder or a.max_length:
        raise InputError(f"--encoder and --max_length are only for --model={VECTORS}")
    elif a.dry_run:
        print(estimate(collection, a.queries, a.model))
    else:
        written = first_stage_files(
            collection, queries=a.queries, output=a.output, model=a.model, run=a.run, parameters=parameters, tuned=a.parameters,
            folds=a.folds,
        )  # fmt: skip
        print(f"{a.output}: {a.model} for {written.queries} queries over {written.documents} documents")


def tune_parser() -> Parser:
    parser = Parser(
        description="Tune the parameters of BM25, BM25F or query likelihood by grid search on judged queries.",
        example="harp tune-first-stage --docs=docs.tsv --queries=train.tsv --qrels=qrels.txt --output=bm25.json",
    )
    add_model(parser)
    parser.add_input("--qrels", required=True, help="judgments of the training queries")
    parser.add_parameter(tune_files, "measure", "measure to tune for, as named by ir-measures")
    parser.add_input("--folds", help="file of qid<TAB>fold lines: tune for each fold on the others")
    for field, model in AXES.items():
        values = ",".join(f"{value:g}" for value in GRIDS[model][field])
        parser.add_argument(f"--{field}", type=numbers, help=f"values to try ({model}: {values}, and beyond)")
    what = f"judged queries to tune on, drawn by hash; 0: all ({SAMPLE})"
    parser.add_argument("--sample", type=count, default=SAMPLE, help=what)
    parser.add_recorded_output("JSON file to write, for harp first-stage --parameters")
    return parser


def tune(a: argparse.Namespace) -> None:
    collection, axes = checked(a)
    if a.dry_run:
        settings = len(grid_of({**GRIDS[a.model], **axes}))
        print(estimate(collection, a.queries, a.model, settings, a.sample))
        return
    tuned = tune_files(
        collection, queries=a.queries, qrels=a.qrels, output=a.output, model=a.model, measure=a.measure,
        axes=axes, run=a.run, folds=a.folds, sample=a.sample,
    )  # fmt: skip
    queries = f"{tuned.queries} of {tuned.of} queries" if tuned.queries < tuned.of else f"{tuned.queries} queries"
    best = tuned.parameters or tuned.folds
    print(f"{a.output}: best {tuned.measure} over {len(tuned.grid)} settings and {queries}: {best}")


def priors_parser() -> Parser:
    parser = Parser(
        description="Rank the candidates of a run by log(1 + in-links) or log(1 + words), regardless of the query.",
        example="harp priors --run=bm25.trec --feature=inlinks --anchors=anchors.tsv --output=inlinks.trec",
    )
    parser.add_input("--run", required=True, help=RUN)
    parser.add_argument("--feature", required=True, choices=FEATURES, help="rank by in-links or by length")
    parser.add_input("--anchors", help="inlinks: counts written by harp anchors")
    add_documents(parser, required=False, what="length: the documents")
    parser.add_recorded_output(WRITTEN_RUN)
    return parser


def priors(a: argparse.Namespace) -> None:
    prior = prior_files(run=a.run, feature=a.feature, output=a.output, anchors=a.anchors, docs=a.docs, fields=a.fields)
    print(f"{a.output}: log(1 + {a.feature}) of {prior.documents} documents, {prior.known} of them known")
