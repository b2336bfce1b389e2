"""`harp site`: from your own pages to a tested re-ranker; `harp search` and `harp look`: use it; `harp rate`: the seconds per
training step, from which `harp site` plans."""

import argparse
import json
import logging
import os
import sys
from collections.abc import Set

from harp_jax.base.cli import TERMINATED, ConfigParser, Parser, count, keep_compiled, positive
from harp_jax.base.errors import InputError
from harp_jax.base.files import output_path, replacing
from harp_jax.base.progress import progress
from harp_jax.commands.options import QUERIES, names
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.experiments.site import SiteRun
from harp_jax.experiments.site_plan import RECOMMENDED


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp site",
        description="Train a re-ranker from the links of your own pages and test it without labels: anchor texts of held-out "
        "pages are queries, the pages they link to are relevant. If interrupted, repeat the command to resume.",
        example="harp site build/html --base_url=https://docs.example.org/ --start=all-MiniLM-L6-v2 --layers=3 --output=x",
    )
    parser.add_input(
        "pages",
        nargs="+",
        help="folder of HTML, WARC file, MediaWiki dump or linked JSONL; one or more of the same kind",
    )
    parser.add_output("--output", required=True, help="directory for all output")
    parser.add_argument("--format", default="", help="format of the pages, if it is not detected correctly")
    parser.add_argument("--base_url", default="", help="URL at which a folder of HTML is served")
    parser.add_argument(
        "--language",
        default="",
        help="language of the pages, such as de (from <html lang> or the dump, else detected from the words; JSON: en)",
    )
    parser.add_input("--redirects", action="append", default=[], help="file of alias<TAB>address lines; repeatable")
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        help="pages to skip, by address, such as '*/news/*'; repeatable",
    )
    parser.add_argument(
        "--split",
        default="auto",
        choices=("auto", "pages", "sections"),
        help="whether HTML pages or their sections are the documents; auto: sections if most links lead to one (auto)",
    )
    parser.add_input(
        "--start", model=True, default="", help="Hugging Face encoder to start from (a small encoder from scratch)"
    )
    parser.add_argument(
        "--vocabulary",
        default="auto",
        choices=("auto", "wordpiece", "unigram"),
        help="vocabulary to train without --start (auto: unigram for languages without spaces between words, else wordpiece)",
    )
    parser.add_argument("--layers", type=count, default=0, help="keep only the first LAYERS layers of --start (all)")
    parser.add_input(
        "--vectors",
        model=True,
        default="",
        help="sentence encoder to test and to teach with (--start); set it if --start is a re-ranker",
    )
    parser.add_input(
        "--labels",
        default="",
        help="file of query<TAB>docid<TAB>level lines to fine-tune and decide on, for at least 20 queries",
    )
    parser.add_argument(
        "--minutes", type=float, default=30.0, help="maximum minutes of training; the other steps take extra time (30)"
    )
    parser.add_argument(
        "--max_queries",
        type=positive,
        default=400,
        help="maximum number of test queries, which are anchors of held-out pages (400)",
    )
    parser.add_argument("--context_words", type=count, default=3, help="words of its sentence to add to an anchor (3)")
    parser.add_argument("--depth", type=positive, default=20, help="candidates per query from each first stage (20)")
    parser.add_argument(
        "--windows",
        type=positive,
        default=4,
        help="maximum windows of --max_length tokens to read per page; the best one counts (4)",
    )
    parser.add_argument(
        "--max_length",
        type=positive,
        default=128,
        help="maximum tokens of query and document together that the ranker reads (128)",
    )
    parser.add_argument("--seed", type=count, default=0, help="random seed for pairs and training (0)")
    parser.add_argument("--dry_run", action="store_true", help="print the commands and their cost; run nothing")
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in vars(a).items()}
    for name in ("output", "minutes", "dry_run"):  # the other options go to the plan
        del options[name]
    run = SiteRun(options, a.output, a.minutes)
    if a.dry_run:
        print(run.dry_run())
        return
    print(
        f"Reads the links of {', '.join(a.pages)}, trains a re-ranker for at most {a.minutes:g} minutes, and tests it and methods "
        "that need no training. The time of the other steps depends on the pages; embedding, often the longest, is estimated "
        "once they are read. If interrupted, repeat the command to resume.",
        flush=True,
    )
    found = run.run()
    untested = "untested" in found
    where = f" (labels of {a.labels})" if a.labels and not untested else " (anchors of held-out pages)"
    print(f"\n{found['words'].replace(' queries,', f' queries{where},', 1)}")
    if a.labels and not untested:
        print(f"the verdict on anchors of held-out pages: {os.path.join(a.output, 'anchors_verdict.json')}")
    report = "" if untested else f"report: {os.path.join(a.output, 'report.html')}  "
    print(f"{report}see it: harp look {a.output}")
    print(f"your own queries: harp search {a.output} --queries=queries.tsv --output=runs")


def search_parser() -> Parser:
    parser = Parser(
        prog="harp search",
        description="Rank a site's documents for your own queries with everything that harp site tested, each part alone and the "
        "recommended sum. Writes a TREC run for each, of the same candidates, and prints a table if there are judgments.",
        example="harp search x --queries=queries.tsv --qrels=qrels.txt --output=runs",
    )
    parser.add_argument("site", metavar="DIR", help="output of harp site")
    parser.add_input("--queries", required=True, help=QUERIES)
    parser.add_input("--qrels", default="", help="judgments: qid 0 docid level")
    parser.add_argument("--measures", default="RR@10 nDCG@10", help="measures of the table (RR@10 nDCG@10)")
    parser.add_output("--output", required=True, help="directory for the runs")
    return parser


def search(a: argparse.Namespace) -> None:
    from harp_jax.corpus.trec import read_qrels, read_queries, read_run, select, write_run
    from harp_jax.evaluation.evaluate import evaluate
    from harp_jax.evaluation.measures import is_tested, parse_measures
    from harp_jax.experiments.steps import identifier
    from harp_jax.ranking.combined import CombinedSearch, Settings
    from harp_jax.ranking.fuse import BM25, sum_in_words

    queries, settings = read_queries(a.queries), Settings.load(a.site)
    judged, confirm = {}, ""
    if a.qrels:
        confirm = next((str(m) for m in parse_measures(a.measures) if is_tested(m)), "")
        if not (judged := select(read_qrels(a.qrels), queries)):
            raise InputError(f"{a.qrels} judges none of the {len(queries)} queries of {a.queries}; check both")
        check_judged(a.qrels, {docid for levels in judged.values() for docid in levels}, settings.documents(a.site))
    keep_compiled()
    combined = CombinedSearch(a.site, settings.everything)
    found = {qid: combined.scores(query) for qid, query in progress(queries.items(), unit="queries", desc="search")}
    os.makedirs(a.output, exist_ok=True)
    runs = {}
    for part in (*combined.names, RECOMMENDED):
        scores = {
            qid: one.total(settings.weights) if part == RECOMMENDED else one.parts[part] for qid, one in found.items()
        }
        path = os.path.join(a.output, f"{identifier(part)}.trec")
        write_run(path, ((qid, found[qid].docids, each) for qid, each in scores.items()), tag=identifier(part))
        runs[part] = read_run(path)
    print(f"{a.output}: {len(queries)} queries by {', '.join(runs)}; recommended: {sum_in_words(settings.weights)}")
    if judged:
        print(evaluate(judged, runs, a.measures, baseline=BM25, confirm=confirm))


def check_judged(qrels: str, judged: Set[str], docs: Documents) -> None:
    """Prints how many judged documents the site lacks; InputError if it lacks all."""
    absent = sorted(docid for docid in judged if docid not in docs)
    if len(absent) == len(judged):
        raise InputError(
            f"{qrels}: none of its {len(judged)} judged documents is in the site, such as {absent[0]}; ids of the site are like "
            f"{next(docs.ids())}"
        )
    if absent:
        print(f"note: {len(absent)} of {len(judged)} judged documents are not in the site, such as {absent[0]}")


def look_parser() -> Parser:
    parser = Parser(
        prog="harp look",
        description="Serve a local page: type queries, compare BM25, the re-ranker and both, see what moved and why, and label "
        "results with a click.\nIt also answers POST /v1/rerank in the format of Cohere, Jina and vLLM. Labels are lines of "
        "query<TAB>docid<TAB>level (1 relevant, 0 not), as `harp site --labels` reads them.",
        example="harp look site\n  harp look --model=ranker --docs=docs.jsonl --anchors=anchors.tsv",
    )
    parser.add_argument(
        "site", nargs="?", default="", metavar="DIR", help="output of harp site, which supplies everything below"
    )
    parser.add_input(
        "--model", model=True, default="", help="ranker: an export (Hugging Face directory) or training workdir"
    )
    parser.add_input("--docs", default="", help="documents: MS MARCO docs.tsv, JSONL, a folder of either, or pages")
    parser.add_argument("--fields", type=names, help="document fields to read (title,url,body; DIR: title,body)")
    parser.add_input("--anchors", default="", help="docid<TAB>anchor text<TAB>count: what other pages call a document")
    parser.add_input("--queries", default="", help="queries to suggest: qid<TAB>text, or JSONL")
    parser.add_argument("--labels", default="", help="file to write the labels to (labels.tsv; DIR/labels.tsv)")
    parser.add_argument(
        "--weight",
        type=float,
        help="weight of the re-ranker in its sum with BM25, scores scaled to 0…1 (1; DIR: the recommended sum)",
    )
    parser.add_input("--parameters", default="", help="BM25 parameters of harp tune-first-stage (k1=0.9, b=0.4; DIR's)")
    parser.add_argument("--depth", type=positive, help="BM25 candidates to re-rank (20; DIR's)")
    parser.add_argument(
        "--backend",
        default="jax",
        choices=("jax", "openvino", "onnx", "auto"),
        help="runtime that computes the scores (jax); auto: the fastest one installed",
    )
    parser.add_argument("--language", default="", help="language for stemming and stopwords, such as de (en; DIR's)")
    parser.add_argument("--port", type=count, default=8808, help="port on 127.0.0.1; 0: any free port (8808)")
    return parser


def look(arguments: argparse.Namespace) -> None:
    from dataclasses import replace

    from harp_jax.corpus.labels import LabelFile
    from harp_jax.look.server import listen, make_app, serve
    from harp_jax.look.shelf import LABELS, SITE_FIELDS, Shelf, Sources, of_site

    given = {name: getattr(arguments, name) for name in ("model", "docs", "anchors", "queries", "parameters")}
    fields = arguments.fields or (SITE_FIELDS if arguments.site else FIELDS)
    sources = Sources(**given, fields=fields, labels=arguments.labels, language=arguments.language)
    if arguments.site:
        sources = of_site(arguments.site, sources)
    if arguments.weight is not None:
        sources = replace(sources, weight=arguments.weight, site="")
    own = next((name for name in ("depth", "fields", "language") if getattr(arguments, name)), "")
    if own and sources.site:
        raise InputError(f"--{own} is recorded in {arguments.site}; leave it out, or give --model and --docs")
    sources.check()
    labels = LabelFile(sources.labels or LABELS)
    listening = listen(arguments.port)
    keep_compiled()
    shelf = Shelf(sources, arguments.depth or 20, arguments.backend)
    app = make_app(shelf, labels)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}  (Ctrl-C ends it; labels go to {labels.path})", flush=True)
    serve(app, listening)


def rate_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp rate",
        description="Measure the seconds per training step on this machine by running a few steps of the training itself.",
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
    print(f"{arguments.output}: {seconds:g} s per step, {3600 / seconds:,.0f} steps per hour")
