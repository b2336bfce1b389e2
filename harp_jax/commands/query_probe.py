"""`harp query-probe`: which words a model expects in the queries of documents."""

import argparse

from harp_jax.base.cli import Parser, positive
from harp_jax.corpus.documents import FIELDS


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp query-probe",
        description="Let a model's MLM head predict the queries of documents, and count what it predicts.",
        example="harp query-probe --model=runs/coarse --docs=docs.tsv --clicks=orcas.tsv --output=probe.jsonl",
    )
    parser.add_input(
        "--model", model=True, required=True, help="training workdir, or Hugging Face directory with an MLM head"
    )
    parser.add_input("--docs", required=True, help="documents: MS MARCO docs.tsv, JSONL, a folder of either")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    parser.add_argument("--documents", type=positive, default=1000, help="how many, sampled by hash (1000)")
    parser.add_argument("--masks", type=positive, default=3, help="[MASK] tokens in the place of the query (3)")
    parser.add_argument("--max_length", type=positive, default=256, help="tokens of the whole sequence (256)")
    parser.add_input("--clicks", default="", help="click log (ORCAS); its documents are probed, its queries known")
    parser.add_output("--output", required=True, help="JSONL to write: a line a document")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.ranking.query_probe import probe_files

    summary = probe_files(
        model=arguments.model,
        docs=arguments.docs,
        output=arguments.output,
        clicks=arguments.clicks,
        documents=arguments.documents,
        masks=arguments.masks,
        max_length=arguments.max_length,
        fields=tuple(arguments.fields.split(",")),
    )
    for name, number in summary.items():
        of = summary["with known queries" if "known query" in name else "documents"]
        print(f"{name}: {number}" + (f" ({number / of:.1%})" if name != "documents" else ""))
