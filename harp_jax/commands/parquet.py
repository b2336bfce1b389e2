"""`harp parquet`: pairs and ranking groups as Parquet files of texts, for sentence-transformers and others."""

import argparse
import sys

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.errors import InputError
from harp_jax.commands.options import QUERIES, add_documents


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp parquet",
        description="Write pairs from links (--data), or judged queries with negatives from a run, as Parquet files of texts.",
        example="harp parquet --data=pairs --output=pairs_parquet",
    )
    parser.add_argument("--data", default="", help="output directory of harp generate")
    parser.add_argument("--tasks", default="", help="tasks of --data, separated by commas (all)")
    parser.add_argument(
        "--layout",
        default="triplet",
        choices=("triplet", "labelled"),
        help="of --data: query, positive, negative (triplet); or two rows a pair, query, document, label",
    )
    parser.add_argument("--tokenizer", default="", help="of --data, where it is no longer at its path")
    add_documents(parser, required=False)
    parser.add_input("--queries", default="", help=QUERIES)
    parser.add_input("--qrels", default="", help="judgments: qid 0 docid level")
    parser.add_argument("--candidates", default="", help="the run from which negatives are drawn")
    parser.add_argument("--negatives", type=positive, default=7, help="of each relevant document of --qrels (7)")
    parser.add_argument("--seed", type=count, default=0, help="of the draw of negatives (0)")
    parser.add_output("--output", required=True, help="folder to write")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.input.parquet import pairs_to_parquet

    judged = [name for name in ("docs", "queries", "qrels", "candidates") if getattr(arguments, name)]
    if len(judged) != (0 if arguments.data else 4):
        raise InputError("name either --data, or all of --docs, --queries, --qrels and --candidates")
    if arguments.data:
        tasks = [task for task in arguments.tasks.split(",") if task]
        rows = pairs_to_parquet(arguments.data, arguments.output, tasks, arguments.layout, arguments.tokenizer)
        print(f"{arguments.output}: " + ", ".join(f"{split} {count:,} rows" for split, count in rows.items()))
        return
    write_groups(arguments)


def write_groups(arguments: argparse.Namespace) -> None:
    """The groups of judged queries."""
    from harp_jax.corpus.documents import Documents
    from harp_jax.corpus.trec import read_qrels, read_queries, read_run
    from harp_jax.input.parquet import groups_to_parquet
    from harp_jax.input.ranking_groups import Judged, RankingData

    qrels = read_qrels(arguments.qrels)
    docs = Documents.open(arguments.docs, arguments.fields)
    data = RankingData(
        Judged(docs, read_queries(arguments.queries), qrels, read_run(arguments.candidates, queries=qrels)),
        tokenizer=None,
        negatives=arguments.negatives,
        seed=arguments.seed,
    )
    rows, left_out = groups_to_parquet(data, arguments.output)
    if left_out:
        print(f"note: {left_out} groups with fewer than {arguments.negatives} negatives are left out", file=sys.stderr)
    print(f"{arguments.output}: {rows:,} rows")
