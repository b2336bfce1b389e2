"""`harp rerank`: re-rank the candidates of a run with a trained ranker."""

import argparse
import os

from harp_jax.base.cli import Parser, keep_compiled, positive
from harp_jax.corpus.documents import FIELDS


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp rerank",
        description="Re-rank the candidates of a run. A killed command, repeated, resumes.",
        example="harp rerank --model=ranker --docs=docs.tsv --queries=test.tsv --run=bm25.trec --output=ranker.trec",
    )
    parser.add_input("--model", model=True, required=True, help="export (Hugging Face directory), or training workdir")
    parser.add_input("--docs", required=True, help="documents: MS MARCO docs.tsv, JSONL, a folder of either")
    parser.add_input("--queries", required=True, help="queries: qid<TAB>text, or JSONL; others are left out")
    parser.add_input("--run", required=True, help="candidates: a TREC run, or MS MARCO's three columns")
    parser.add_output("--output", required=True, help="the TREC run to write")
    parser.add_argument("--k", type=positive, help="re-rank and keep the best k candidates of each query (all)")
    parser.add_input("--only", default="", help="a file whose lines begin with the query ids to re-rank (all)")
    parser.add_input("--folds", default="", help="qid<TAB>fold, with --fold: the fold whose queries are re-ranked")
    parser.add_argument("--fold", default="", help="a fold of --folds")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    parser.add_argument("--max_length", type=positive, help="tokens of query and document together (as in training)")
    parser.add_argument(
        "--windows", type=positive, help="MaxP: score at most so many windows of a document, keep the best"
    )
    parser.add_argument("--blank_query", action="store_true", help="score documents without their query, as a prior")
    parser.add_argument(
        "--cosine",
        action="store_true",
        help="score by the cosine of mean-pooled vectors: what an encoder ranks untrained",
    )
    parser.add_argument("--batch_tokens", type=positive, help="slots of a batch (4096 on CPU, 65536 on accelerators)")
    parser.add_argument(
        "--dtype",
        default="float32",
        choices=("float32", "bfloat16", "int8"),
        help="of the computation (float32); int8 where the export has it (harp export --int8)",
    )
    parser.add_argument(
        "--backend",
        default="jax",
        choices=("jax", "openvino", "onnx", "auto"),
        help="what computes a cross-encoder on CPU (jax); auto: the fastest that is installed",
    )
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.base.allocator import keep_pages
    from harp_jax.ranking.rerank import rerank_files
    from harp_jax.ranking.scorers import Windows

    keep_pages()
    keep_compiled()
    queries = rerank_files(
        model=arguments.model,
        docs=arguments.docs,
        queries=arguments.queries,
        run=arguments.run,
        output=arguments.output,
        fields=tuple(arguments.fields.split(",")),
        k=arguments.k,
        only=arguments.only,
        folds=arguments.folds,
        fold=arguments.fold,
        windows=Windows(arguments.windows) if arguments.windows else None,
        blank_query=arguments.blank_query,
        max_length=arguments.max_length,
        batch_tokens=arguments.batch_tokens,
        dtype=arguments.dtype,
        cosine=arguments.cosine,
        backend=arguments.backend,
    )
    print(f"{arguments.output}: {queries} queries re-ranked by {os.path.normpath(arguments.model)}")
