"""`harp rerank`, `harp fuse`: rankings by a trained model, and sums of rankings."""

import argparse
import os
import sys

from harp_jax.base.cli import Parser, positive
from harp_jax.commands.options import MODEL, RUN, WRITTEN_RUN, add_collection, add_computation, numbers
from harp_jax.ranking.fuse import METHODS, NORMALISE, fuse_files
from harp_jax.ranking.options import Reranking


def arguments_parser() -> Parser:
    parser = Parser(
        description="Re-rank the candidates of a run. If interrupted, repeat the command to resume.",
        example="harp rerank --model=ranker --docs=docs.tsv --queries=test.tsv --run=bm25.trec --output=ranker.trec",
    )
    parser.add_input("--model", model=True, required=True, help=MODEL)
    add_collection(parser)
    parser.add_input("--run", required=True, help=RUN)
    parser.add_recorded_output(WRITTEN_RUN)
    parser.add_argument("--k", type=positive, help="re-rank and keep the best k candidates of each query (all)")
    parser.add_input("--only", help="a file whose lines begin with the query ids to re-rank (all)")
    parser.add_input("--folds", help="file of qid<TAB>fold lines, from which --fold selects queries")
    parser.add_argument("--fold", help="fold to re-rank")
    parser.add_argument("--blank_query", action="store_true", help="score documents without the query, as a prior")
    what = "score by the cosine of the encoder's vectors, as sentence encoders do: an untrained baseline"
    parser.add_argument("--cosine", action="store_true", help=what)
    what = "tokens per batch, with padding (4096 on CPU, 65536 on accelerators)"
    parser.add_argument("--batch_tokens", type=positive, help=what)
    add_computation(parser)
    return parser


def main(a: argparse.Namespace) -> None:
    from harp_jax.ranking.rerank import is_neural, rerank_files

    options = Reranking(
        a.fields, a.k, a.only, a.folds, a.fold, a.windows, a.blank_query, a.max_length, a.batch_tokens, a.dtype, a.cosine, a.backend
    )  # fmt: skip
    rerank = rerank_files
    if is_neural(a.model):
        from harp_jax.baselines.neural_ir.scorer import rerank_files as rerank
    queries = rerank(a.model, a.docs, a.queries, a.run, a.output, options).queries
    print(f"{a.output}: {queries} queries re-ranked by {os.path.normpath(a.model)}")


def fuse_parser() -> Parser:
    parser = Parser(
        description="Combine runs by mean score, reciprocal rank or weights, or join runs of different queries.",
        example="harp fuse bm25.trec harp.trec --method=rrf --output=both.trec\n"
        "  harp fuse bm25.trec harp.trec --method=weights --weights=1,0.5 --output=both.trec",
    )
    parser.add_input("runs", nargs="+", help="TREC runs, or runs in MS MARCO's three-column format")
    parser.add_argument("--method", required=True, choices=METHODS, help="how to combine them")
    what = "how to normalise the scores of a query before adding them"
    parser.add_parameter(fuse_files, "normalise", what, choices=NORMALISE)
    what = "weights: one number per run, as in search.json; or use --verdict, or --qrels and --folds"
    parser.add_argument("--weights", type=numbers, default=(), help=what)
    parser.add_input("--verdict", help="weights: use those of the site's verdict.json on these runs, in its order")
    parser.add_input("--qrels", help="weights: judgments")
    parser.add_input("--folds", help="weights: qid<TAB>fold file for cross-fitting")
    parser.add_parameter(fuse_files, "measure", "weights: measure to fit for")
    parser.add_recorded_output(WRITTEN_RUN)
    return parser


def fuse(a: argparse.Namespace) -> None:
    fused = fuse_files(
        tuple(a.runs), a.output, a.method, normalise=a.normalise, qrels=a.qrels, folds=a.folds, measure=a.measure,
        weights=a.weights, verdict=a.verdict,
    )  # fmt: skip
    for fold, weights in fused.weights.items() if a.folds else ():
        print(f"fold {fold}: weights {', '.join(f'{weight:g}' for weight in weights)}", file=sys.stderr)
    print(f"{a.output}: {len(a.runs)} runs, {a.method}")
