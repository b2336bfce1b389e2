"""`harp site`: from your own pages to a tested search; then `harp search` (your own queries), `harp tune` (weights by judged
queries), `harp pack` (for another search engine), `harp serve` (a server), `harp look` (a local page to compare and label)."""

import argparse
import os
import re
from dataclasses import fields, replace
from typing import Any

from harp_jax.base.cli import Parser, count, keep_compiled, number, positive
from harp_jax.base.errors import InputError
from harp_jax.base.progress import progress
from harp_jax.commands.options import MODEL, QUERIES, add_backend
from harp_jax.site.options import SiteOptions, Source, Training
from harp_jax.text.languages import ENGLISH

CHOICES = {"split": ("auto", "pages", "sections"), "vocabulary": ("auto", "wordpiece", "unigram")}
FROM_ZERO = ("context_words", "layers", "seed")  # numbers that may be 0
FILES = ("redirects", "labels", "queries")
ENGINES = ("opensearch", "elasticsearch", "typesense", "jsonl", "lancedb")


def arguments_parser() -> Parser:
    parser = Parser(
        description="Make a search of your own pages: BM25 with anchor texts, and vectors of a sentence encoder. Test it without\n"
        "labels: anchor texts of held-out pages are queries, the pages they link to are relevant. --train adapts the\n"
        "encoder to the links, or trains a re-ranker on them. If interrupted, or if pages have changed, repeat the command.",
        example="harp site build/html --base_url=https://docs.example.org/ --encoder=all-MiniLM-L6-v2 --output=x",
    )
    what = "folder of HTML, WARC file, MediaWiki dump or linked JSONL; one or more of the same kind"
    parser.add_input("pages", nargs="+", help=what)
    parser.add_output("--output", required=True, help="folder for everything that the search needs")
    for kind in (Source, SiteOptions):
        add_options(parser, kind)
    parser.add_argument("--force", action="store_true", help="make everything again, with these options")
    parser.add_argument("--dry_run", action="store_true", help="check the options and say how much there is to read")
    what = "also train on the links: the encoder's vectors, for your vector database, or a re-ranker; options:"
    parser.add_argument("--train", choices=("vectors", "ranker"), help=what)
    add_options(parser, Training)
    return parser


def add_options(parser: Parser, kind: type) -> None:
    """An option for each field of a dataclass of options, with the meaning that its docstring gives."""
    meanings = dict(re.findall(r"^ *(\w+): (.+)$", kind.__doc__ or "", re.MULTILINE))
    for field in fields(kind):
        name, default = field.name, field.default
        if name in ("pages", "source", "training", "model"):
            continue
        keywords: dict[str, Any] = {"help": meanings[name].replace("%", "%%"), "default": default}
        if isinstance(default, tuple):
            keywords |= {"action": "append", "default": [], "help": f"{keywords['help']}; repeatable"}
        elif isinstance(default, int | float):
            kind_of = count if name in FROM_ZERO else positive
            keywords["type"] = number if isinstance(default, float) else kind_of
            keywords["help"] += f" ({default:g})"
        (parser.add_input if name in FILES else parser.add_argument)(f"--{name}", choices=CHOICES.get(name), **keywords)


def options_of(a: argparse.Namespace) -> SiteOptions:
    """The options of `harp site`. Raises InputError for options of training without --train."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in vars(a).items()
    }
    source = Source(**{f.name: values[f.name] for f in fields(Source)})
    training = Training(**{f.name: values[f.name] for f in fields(Training) if f.name != "model"})
    allowed = {"": {"start"}, "vectors": {"start", "seed"}}.get(a.train)
    changed = [f.name for f in fields(Training) if getattr(training, f.name) != f.default]
    if allowed and (wrong := [name for name in changed if name not in allowed]):
        raise InputError(f"--{wrong[0]} is only for training; add --train=ranker, or leave it out")
    own = {f.name: values[f.name] for f in fields(SiteOptions) if f.name in values}
    own |= {"encoder": a.encoder or a.start}
    return SiteOptions(source=source, training=replace(training, model=a.train) if a.train else None, **own)


def main(a: argparse.Namespace) -> None:
    from harp_jax.site.build import build, check, opening

    options = options_of(a)
    if a.dry_run:
        check(options, a.output)
        print(opening(options))
        return
    result = build(options, a.output, a.force)
    print(f"\n{result.verdict.words()}")
    if result.adapted:
        print(f"\n{result.adapted}")
    if result.verdict.rows:
        what = f"labels of {a.labels}" if a.labels else "anchor texts of held-out pages"
        print(f"\n{result.verdict.queries} queries ({what}):\n{result.verdict.table()}")
        print(f"report: {os.path.join(a.output, 'report.html')}")
    print(f"look at it: harp look {a.output}; serve it: harp serve {a.output}")
    print(f"your own queries: harp search {a.output} --queries=queries.tsv --output=runs")


def search_parser() -> Parser:
    parser = Parser(
        description="Rank a site's documents for your own queries with everything that harp site tested, each part alone and the "
        "recommended sum. Writes a TREC run for each, of the same candidates, and prints a table if there are judgments.",
        example="harp search x --queries=queries.tsv --qrels=qrels.txt --output=runs",
    )
    parser.add_argument("site", metavar="DIR", help="output of harp site")
    parser.add_input("--queries", required=True, help=QUERIES)
    parser.add_input("--qrels", help="judgments: qid 0 docid level; a page's judgment counts for its sections")
    parser.add_argument("--measures", default="RR@10 nDCG@10", help="measures of the table (RR@10 nDCG@10)")
    parser.add_output("--output", required=True, help="directory for the runs")
    return parser


def search(a: argparse.Namespace) -> None:
    from harp_jax.corpus.trec import Qrels, read_queries, read_run, write_run
    from harp_jax.evaluation.evaluate import evaluate
    from harp_jax.evaluation.measures import is_tested, parse_measures
    from harp_jax.ranking.fuse import BM25, sum_in_words
    from harp_jax.site.search import CombinedSearch, Settings, documents
    from harp_jax.site.tune import read_judged
    from harp_jax.site.verdict import RECOMMENDED

    # The queries, and their judgments, if there are any, of documents that the site has.
    queries, settings = read_queries(a.queries), Settings.load(a.site)
    judged, confirm = Qrels(), ""
    if a.qrels:
        confirm = next((str(m) for m in parse_measures(a.measures) if is_tested(m)), "")
        _, judged = read_judged(a.qrels, a.queries, {*documents(a.site).ids()})
    keep_compiled()
    combined = CombinedSearch(a.site, settings.everything)
    results = {qid: combined.scores(query) for qid, query in progress(queries.items(), unit="queries", desc="search")}
    if not any(scores.docids for scores in results.values()):
        near = ", and no vector is near one" if settings.encoder else ""
        raise InputError(f"no query of {a.queries} has a word of {a.site}{near}; check both")
    for scores in results.values():
        scores.parts[RECOMMENDED] = scores.total(settings.weights)
    os.makedirs(a.output, exist_ok=True)
    runs = {}
    for part in (*combined.names, RECOMMENDED):
        name = re.sub("[^a-z0-9]+", "_", part.lower()).strip("_")
        path = os.path.join(a.output, f"{name}.trec")
        write_run(path, ((qid, scores.docids, scores.parts[part]) for qid, scores in results.items()), tag=name)
        runs[part] = read_run(path)
    print(f"{a.output}: {len(queries)} queries by {', '.join(runs)}; recommended: {sum_in_words(settings.weights)}")
    if judged:
        print(evaluate(judged, runs, a.measures, baseline=BM25, confirm=confirm))


def tune_parser() -> Parser:
    parser = Parser(
        description="Choose the weights of a site's search by judged queries, without training, and measure the gain by\n"
        "cross-fitting. Writes them into search.json if the gain holds.",
        example="harp tune x --labels=x/labels.tsv\n  harp tune x --labels=qrels.txt --queries=queries.tsv --dry_run",
    )
    parser.add_argument("site", metavar="DIR", help="output of harp site")
    what = "query<TAB>document<TAB>level lines (harp look), or with --queries judgments: qid 0 document level. A page's judgment "
    parser.add_input("--labels", required=True, help=f"{what}counts for its sections")
    parser.add_input("--queries", help=f"the queries of --labels by id: {QUERIES.partition(': ')[2]}")
    parser.add_argument("--measure", default="RR@10", help="measure to tune for, as named by ir-measures (RR@10)")
    parser.add_argument("--dry_run", action="store_true", help="measure only; leave search.json unchanged")
    return parser


def tune(a: argparse.Namespace) -> None:
    from harp_jax.site.tune import tune

    keep_compiled()
    tuned = tune(a.site, a.labels, a.queries, a.measure, a.dry_run)
    print(f"{tuned.words()}. {a.site}/search.json is {'changed' if tuned.holds and not a.dry_run else 'unchanged'}.")


def pack_parser() -> Parser:
    parser = Parser(
        description="Write a site's documents with anchor texts, in-links and vectors for another search engine: what it loads,\n"
        "its fields and analysis, the query with the weights of the sum, and a README.txt with the commands.",
        example="harp pack x --for=opensearch --output=packed",
    )
    parser.add_argument("site", metavar="DIR", help="output of harp site")
    parser.add_argument("--for", dest="engine", required=True, choices=ENGINES, help="the engine; jsonl: any other")
    parser.add_output("--output", required=True, help="folder to write")
    return parser


def pack(a: argparse.Namespace) -> None:
    from harp_jax.site.pack import pack

    packed = pack(a.site, a.engine, a.output)
    count = f"{packed.documents:,} documents with {packed.passages:,} vectors"
    print(f"{a.output}: {count}; README.txt says how to load them")
    if packed.left_out:
        print(f"left out of the query: {', '.join(packed.left_out)}")


def serve_parser() -> Parser:
    parser = Parser(
        description="Serve a site's recommended search as JSON: GET /search?q=…&k=10, POST /v1/rerank in the format of Cohere,\n"
        "Jina and vLLM, GET /healthz. No passwords and no TLS: to serve other machines, put a proxy before it.",
        example="harp serve x --workers=2",
    )
    parser.add_argument("site", metavar="DIR", help="output of harp site")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all (127.0.0.1)")
    what = "processes, each with an index in memory; the vectors are shared (1)"
    parser.add_argument("--workers", type=positive, default=1, help=what)
    add_server(parser)
    return parser


def serve(a: argparse.Namespace) -> None:
    from harp_jax.serving import server
    from harp_jax.serving.session import Sources

    server.serve(Sources(a.site, backend=a.backend), a.host, a.port, workers=a.workers)


def look_parser() -> Parser:
    parser = Parser(
        description="Serve a local page: type queries, compare BM25, the re-ranker and both, see what moved and why, and label "
        "results with a click.\nIt also answers what harp serve answers. Labels are lines of query<TAB>docid<TAB>level "
        "(1 relevant, 0 not), as `harp site --labels` reads them.",
        example="harp look site\n  harp look --model=ranker --docs=docs.jsonl",
    )
    what = "output of harp site, which supplies everything below"
    parser.add_argument("site", nargs="?", default="", metavar="DIR", help=what)
    parser.add_input("--model", model=True, help=MODEL)
    parser.add_input("--docs", help="documents: MS MARCO docs.tsv, JSONL, a folder of either, or pages")
    parser.add_input("--queries", help=f"{QUERIES}, to suggest")
    parser.add_argument("--labels", help="file to write the labels to (labels.tsv; DIR/labels.tsv)")
    parser.add_argument("--language", help="language for stemming and stopwords, such as de (en)")
    add_server(parser)
    return parser


def add_server(parser: Parser) -> None:
    parser.add_argument("--port", type=count, default=8808, help="port to listen on; 0: any free port (8808)")
    add_backend(parser, "runtime that computes a ranker's scores")


def look(a: argparse.Namespace) -> None:
    from harp_jax.serving.server import serve
    from harp_jax.serving.session import Sources

    own = [f"--{name}" for name in ("model", "docs", "language") if getattr(a, name)]
    if a.site and own:
        raise InputError(f"{own[0]} is recorded in {a.site}; leave it out, or give --model and --docs")
    if not a.site and not (a.model and a.docs):
        raise InputError("name the output directory of `harp site`, or --model and --docs")
    sources = Sources(a.site, a.model, a.docs, a.language or ENGLISH, a.queries, a.labels, a.backend)
    serve(sources, port=a.port, page=True)
