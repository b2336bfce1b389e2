"""`harp look`: a local page with BM25, the re-ranker and both, next to each other."""

import argparse

from harp_jax.base.cli import Parser, count, keep_compiled, positive
from harp_jax.commands.options import names
from harp_jax.corpus.documents import FIELDS


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp look",
        description="Serve a local page on which you type queries and see BM25, the re-ranker and both, with what moved and why; "
        "label results with a click;\nand POST /v1/rerank in the shape of Cohere, Jina and vLLM. Labels are lines of "
        "query<TAB>docid<TAB>level (1 relevant, 0 not), as `harp site --labels` reads them.",
        example="harp look site\n  harp look --model=ranker --docs=docs.jsonl --anchors=anchors.tsv",
    )
    parser.add_argument(
        "site", nargs="?", default="", metavar="DIR", help="output of harp site: all that follows is found in it"
    )
    parser.add_input("--model", model=True, default="", help="export (Hugging Face directory), or training workdir")
    parser.add_input("--docs", default="", help="documents: MS MARCO docs.tsv, JSONL, a folder of either, pages")
    parser.add_argument("--fields", type=names, help="document fields that are read (title,url,body; DIR: title,body)")
    parser.add_input("--anchors", default="", help="docid<TAB>anchor text<TAB>count: what other pages call a document")
    parser.add_input("--queries", default="", help="queries to propose: qid<TAB>text, or JSONL")
    parser.add_argument("--labels", default="", help="file that receives the labels (labels.tsv; DIR/labels.tsv)")
    parser.add_argument(
        "--weight", type=float, help="of the re-ranker in the sum, scores scaled to 0…1 (1; DIR's verdict)"
    )
    parser.add_input("--parameters", default="", help="of BM25, from harp tune-first-stage (k1=0.9, b=0.4; DIR's)")
    parser.add_argument("--depth", type=positive, default=20, help="candidates of BM25 that are re-ranked (20)")
    parser.add_argument(
        "--backend",
        default="jax",
        choices=("jax", "openvino", "onnx", "auto"),
        help="that computes the scores (jax); auto: the fastest that is installed",
    )
    parser.add_argument("--stemmer", default="english", help="Snowball stemmer, '' for none (english)")
    parser.add_argument("--port", type=count, default=8808, help="on 127.0.0.1; 0: any free one (8808)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from dataclasses import replace

    from harp_jax.corpus.labels import LabelFile
    from harp_jax.look.server import listen, make_app, serve
    from harp_jax.look.shelf import LABELS, SITE_FIELDS, Shelf, Sources, of_site

    given = {name: getattr(arguments, name) for name in ("model", "docs", "anchors", "queries", "parameters")}
    fields = arguments.fields or (SITE_FIELDS if arguments.site else FIELDS)
    sources = Sources(**given, fields=fields, labels=arguments.labels or LABELS)
    if arguments.site:
        sources = of_site(arguments.site, sources)
    if arguments.weight is not None:
        sources = replace(sources, weight=arguments.weight)
    sources.check()
    labels = LabelFile(sources.labels)
    listening = listen(arguments.port)
    keep_compiled()
    shelf = Shelf(sources, arguments.stemmer, arguments.depth, arguments.backend)
    app = make_app(shelf, labels)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}  (Ctrl-C ends it; labels go to {labels.path})", flush=True)
    serve(app, listening)
