"""`harp site`: from your own pages to a tested re-ranker; `harp rate`: the seconds of a training step, by which it plans."""

import argparse
import json
import logging
import os
import sys

from harp_jax.base.cli import TERMINATED, ConfigParser, Parser, count, positive
from harp_jax.base.files import output_path, replacing
from harp_jax.experiments.site import SiteRun


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp site",
        description="Train a re-ranker from the links of your own pages and test it without labels: anchor texts of held-out "
        "pages are queries, the pages they lead to are relevant. A killed command, repeated, resumes.",
        example="harp site build/html --base_url=https://docs.example.org/ --start=all-MiniLM-L6-v2 --layers=3 --output=x",
    )
    parser.add_input(
        "pages", nargs="+", help="folder of HTML, WARC, MediaWiki dump or linked JSONL; several of one kind"
    )
    parser.add_output("--output", required=True, help="directory that receives everything")
    parser.add_argument("--format", default="", help="of the pages, if their content is misleading")
    parser.add_argument("--base_url", default="", help="where a folder of HTML is served")
    parser.add_input("--redirects", action="append", default=[], help="a file of alias<TAB>address; several times")
    parser.add_input(
        "--start", model=True, default="", help="Hugging Face BERT to start from (a small encoder from scratch)"
    )
    parser.add_argument("--layers", type=count, default=0, help="of the start to keep, its first ones (all)")
    parser.add_input("--labels", default="", help="query<TAB>docid<TAB>level lines to fine-tune and decide on")
    parser.add_argument("--minutes", type=float, default=30.0, help="of training; the rest takes about as long (30)")
    parser.add_argument(
        "--max_queries", type=positive, default=400, help="anchors of held-out pages to test with, at most (400)"
    )
    parser.add_argument(
        "--context_words", type=count, default=3, help="of an anchor's sentence, added to its query (3)"
    )
    parser.add_argument("--depth", type=positive, default=20, help="candidates of BM25 to re-rank for each query (20)")
    parser.add_argument("--seed", type=count, default=0, help="of pairs and training (0)")
    parser.add_argument("--dry_run", action="store_true", help="print the commands and what they cost; run nothing")
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    names = ("format", "base_url", "start", "layers", "labels", "max_queries", "context_words", "depth", "seed")
    options = {name: getattr(a, name) for name in names}
    run = SiteRun({**options, "pages": tuple(a.pages), "redirects": tuple(a.redirects)}, a.output, a.minutes)
    if a.dry_run:
        print(run.dry_run())
        return
    found = run.run()
    where = f" (labels of {a.labels})" if a.labels else " (anchors of held-out pages)"
    print(f"\n{found['words'].replace(' queries:', f' queries{where}:', 1)}")
    print(f"ranker: {os.path.join(a.output, 'ranker')}  report: {os.path.join(a.output, 'report.html')}")
    print(f"see it: harp look {a.output}")


def rate_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp rate",
        description="Measure the seconds of a training step on this machine, from a few steps of the training itself.",
        example="harp rate --config=site --config.init=MiniLM-L6-v2/ --config.data=\"('pairs',)\" --output=rate.json",
    )
    parser.add_output("--output", required=True, help='the JSON file to write: {"seconds_per_step"}')
    return parser


def rate(arguments: argparse.Namespace) -> None:
    from harp_jax.base.allocator import keep_pages
    from harp_jax.training.dry_run import seconds_per_step

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    keep_pages()
    folder = os.path.dirname(output_path(arguments.output))
    measured = seconds_per_step(arguments.config, folder)
    if measured is None:
        sys.exit(TERMINATED)
    seconds = float(f"{measured:.4g}")
    with replacing(arguments.output) as file:
        json.dump({"seconds_per_step": seconds}, file)
    print(f"{arguments.output}: {seconds:g} s a step, {3600 / seconds:,.0f} steps an hour")
