"""`harp serve`: a site's search as a server; `harp look`: a local page that compares its parts and stores labels."""

import argparse

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.errors import InputError
from harp_jax.commands.options import BACKENDS, MODEL, QUERIES, names
from harp_jax.corpus.documents import FIELDS


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
    from harp_jax.serving.session import of_site

    server.serve(server.Service(of_site(a.site, backend=a.backend), a.host, a.port), a.workers)


def look_parser() -> Parser:
    parser = Parser(
        description="Serve a local page: type queries, compare BM25, the re-ranker and both, see what moved and why, and label "
        "results with a click.\nIt also answers what harp serve answers. Labels are lines of query<TAB>docid<TAB>level "
        "(1 relevant, 0 not), as `harp site --labels` reads them.",
        example="harp look site\n  harp look --model=ranker --docs=docs.jsonl --anchors=anchors.tsv",
    )
    what = "output of harp site, which supplies everything below"
    parser.add_argument("site", nargs="?", default="", metavar="DIR", help=what)
    parser.add_input("--model", model=True, default="", help=MODEL)
    parser.add_input("--docs", default="", help="documents: MS MARCO docs.tsv, JSONL, a folder of either, or pages")
    parser.add_argument("--fields", type=names, help="document fields to read (title,url,body)")
    parser.add_input("--anchors", default="", help="docid<TAB>anchor text<TAB>count: what other pages call a document")
    parser.add_input("--queries", default="", help=f"{QUERIES}, to suggest")
    parser.add_argument("--labels", default="", help="file to write the labels to (labels.tsv; DIR/labels.tsv)")
    what = "weight of the re-ranker in its sum with BM25, scores scaled to 0…1 (1)"
    parser.add_argument("--weight", type=float, help=what)
    parser.add_input("--parameters", default="", help="BM25 parameters of harp tune-first-stage (k1=0.9, b=0.4)")
    parser.add_argument("--depth", type=positive, help="BM25 candidates to re-rank (20)")
    parser.add_argument("--language", default="", help="language for stemming and stopwords, such as de (en)")
    add_server(parser)
    return parser


def add_server(parser: Parser) -> None:
    """--port and --backend."""
    parser.add_argument("--port", type=count, default=8808, help="port to listen on; 0: any free port (8808)")
    what = "runtime that computes a ranker's scores (jax); auto: the fastest one installed"
    parser.add_argument("--backend", default="jax", choices=BACKENDS, help=what)


def look(a: argparse.Namespace) -> None:
    from harp_jax.serving.server import Service, serve
    from harp_jax.serving.session import LABELS, Sources, of_site
    from harp_jax.text.languages import ENGLISH

    if a.site:
        own = ("model", "docs", "fields", "anchors", "parameters", "weight", "depth", "language")
        if recorded := next((name for name in own if getattr(a, name)), ""):
            raise InputError(f"--{recorded} is recorded in {a.site}; leave it out, or give --model and --docs")
        sources = of_site(a.site, a.labels, a.queries, a.backend)
    else:
        paths = {name: getattr(a, name) for name in ("model", "docs", "anchors", "queries", "parameters", "backend")}
        sources = Sources(
            **paths,
            fields=a.fields or FIELDS,
            labels=a.labels or LABELS,
            weight=1.0 if a.weight is None else a.weight,
            depth=a.depth or 20,
            language=a.language or ENGLISH,
        )
    serve(Service(sources, port=a.port, page=True))
