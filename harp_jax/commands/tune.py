"""`harp tune`: the weights of a site's sum, from judged queries."""

import argparse

from harp_jax.base.cli import Parser
from harp_jax.commands.options import QUERIES


def arguments_parser() -> Parser:
    parser = Parser(
        description="Choose the weights of a site's search by judged queries, without training, and measure the gain by\n"
        "cross-fitting. Writes them into search.json if the gain holds.",
        example="harp tune x --labels=x/labels.tsv\n  harp tune x --labels=qrels.txt --queries=queries.tsv --dry_run",
    )
    parser.add_argument("site", metavar="DIR", help="output of harp site")
    what = "query<TAB>document<TAB>level lines (harp look), or with --queries judgments: qid 0 document level. A page's judgment "
    parser.add_input("--labels", required=True, help=f"{what}counts for its sections")
    parser.add_input("--queries", default="", help=f"the queries of --labels by id: {QUERIES.partition(': ')[2]}")
    parser.add_argument("--measure", default="RR@10", help="measure to tune for, as named by ir-measures (RR@10)")
    parser.add_argument("--dry_run", action="store_true", help="measure only; leave search.json unchanged")
    return parser


def main(a: argparse.Namespace) -> None:
    from harp_jax.base.cli import keep_compiled
    from harp_jax.site.tune import tune

    keep_compiled()
    tuned = tune(a.site, a.labels, a.queries, a.measure, a.dry_run)
    print(f"{tuned.words()}. {a.site}/search.json is {'changed' if tuned.holds and not a.dry_run else 'unchanged'}.")
    if tuned.absent:
        print(f"note: {tuned.absent} judged documents are not in the site")
