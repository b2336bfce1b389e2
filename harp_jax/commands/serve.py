"""`harp serve`: a site's search as a server; `harp look`: a local page that compares its parts and stores labels."""

import argparse

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.errors import InputError
from harp_jax.commands.options import BACKENDS, MODEL, QUERIES


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
    parser.add_input("--model", model=True, default="", help=MODEL)
    parser.add_input("--docs", default="", help="documents: MS MARCO docs.tsv, JSONL, a folder of either, or pages")
    parser.add_input("--queries", default="", help=f"{QUERIES}, to suggest")
    parser.add_argument("--labels", default="", help="file to write the labels to (labels.tsv; DIR/labels.tsv)")
    parser.add_argument("--language", default="", help="language for stemming and stopwords, such as de (en)")
    add_server(parser)
    return parser


def add_server(parser: Parser) -> None:
    parser.add_argument("--port", type=count, default=8808, help="port to listen on; 0: any free port (8808)")
    what = "runtime that computes a ranker's scores (jax); auto: the fastest one installed"
    parser.add_argument("--backend", default="jax", choices=BACKENDS, help=what)


def look(a: argparse.Namespace) -> None:
    from harp_jax.serving.server import serve
    from harp_jax.serving.session import Sources
    from harp_jax.text.languages import ENGLISH

    own = [f"--{name}" for name in ("model", "docs", "language") if getattr(a, name)]
    if a.site and own:
        raise InputError(f"{own[0]} is recorded in {a.site}; leave it out, or give --model and --docs")
    if not a.site and not (a.model and a.docs):
        raise InputError("name the output directory of `harp site`, or --model and --docs")
    sources = Sources(a.site, a.model, a.docs, a.language or ENGLISH, a.queries, a.labels, a.backend)
    serve(sources, port=a.port, page=True)
