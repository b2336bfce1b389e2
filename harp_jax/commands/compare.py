"""`harp compare`: BM25 and re-rankers on any judged collection, with intervals (`ranking/comparison.py`)."""

import argparse
import os
from dataclasses import replace

from harp_jax.base.cli import Parser, positive
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import as_stored, check_outside
from harp_jax.base.made import replace_outputs
from harp_jax.checkpoints.export import fetched
from harp_jax.commands.options import add_backend, add_language, named, names
from harp_jax.corpus.documents import FIELDS
from harp_jax.corpus.paths import is_irds


def arguments_parser() -> Parser:
    parser = Parser(
        description="Compare re-rankers with BM25 on a judged collection: table, intervals, Holm's p, wins and losses with "
        "texts, as a report.\nIf interrupted, repeat the command to resume.",
        example="harp compare scifact --model=ranker --k=100 --tune --fuse --output=out\n"
        "  harp compare irds:vaswani --model=ours=ranker --model=theirs=cross-encoder/ms-marco-MiniLM-L6-v2 --output=out",
    )
    what = "BEIR folder, folder with docs, queries and qrels, or irds:ID"
    parser.add_argument("collection", metavar="COLLECTION", nargs="?", default="", help=what)
    what = "cross-encoder: export, Hugging Face directory, training workdir, or USER/NAME on the Hub; repeatable"
    parser.add_argument("--model", action="append", required=True, metavar="[NAME=]DIR", help=what)
    parser.add_output("--output", required=True, help="directory for all output")
    parser.add_input("--docs", default="", help="documents to use instead of those of COLLECTION")
    parser.add_input("--queries", default="", help="queries to use instead of those of COLLECTION")
    parser.add_input("--qrels", default="", help="judgments to use instead of those of COLLECTION")
    parser.add_input("--run", default="", help="candidates to re-rank (BM25's best)")
    parser.add_argument("--fields", type=names, default=FIELDS, help="document fields to read (title,url,body)")
    parser.add_argument("--k", type=positive, default=100, help="candidates per query (100)")
    add_backend(parser)
    add_language(parser)
    parser.add_argument("--tune", action="store_true", help="fit BM25's k1 and b to the judged queries, cross-fitted")
    parser.add_argument("--fuse", action="store_true", help="also rank by BM25 plus each model, weights cross-fitted")
    what = 'measures, as named by ir-measures; the first decides ("nDCG@10 RR@10 AP R@100")'
    parser.add_argument("--measures", default="", help=what)
    parser.add_argument("--force", action="store_true", help="replace what other options or inputs made in --output")
    return parser


def main(a: argparse.Namespace) -> None:
    from harp_jax.ranking.comparison import MEASURES, Compared, compare  # loads JAX
    from harp_jax.ranking.rerank import Reranking

    paths = parts(a.collection, a.docs, a.queries, a.qrels)
    models = named(a.model, "--model", lambda path: os.path.basename(os.path.normpath(path)))
    check_outside(a.output, [*paths.values(), *models.values()])
    dtype, backend = a.dtype or "float32", a.backend or "jax"
    reranking = Reranking(windows=a.windows, max_length=a.max_length, dtype=dtype, backend=backend)
    compared = Compared(
        **paths, models=models, run=a.run, fields=a.fields, k=a.k, language=a.language, tune=a.tune, fuse=a.fuse,
        measures=a.measures or MEASURES, reranking=reranking, title=f"Re-ranking of {a.collection or paths['docs']}",
    )  # fmt: skip
    compared.check()
    local = {name: fetched(path) for name, path in models.items()}
    read = dict.fromkeys((*paths.values(), *filter(None, [a.run]), *local.values()))
    if missing := [path for path in read if not (is_irds(path) or os.path.exists(as_stored(path)))]:
        hint = next((how_to_fetch(path) for path in missing if path in local.values()), "")
        raise InputError(f"{', '.join(missing)}: no such file or folder; check the paths{hint}")
    if a.force:
        replace_outputs()
    print(compare(replace(compared, models=local), a.output))
    print(f"report: {os.path.join(a.output, 'report.html')}")


def parts(collection: str, docs: str, queries: str, qrels: str) -> dict[str, str]:
    """The paths of documents, queries and judgments: those given, else the collection's. InputError if one is missing."""
    paths = {"docs": docs or collection, "queries": queries or collection, "qrels": qrels or collection}
    if absent := [f"--{name}" for name, path in paths.items() if not path]:
        raise InputError(f"no {', '.join(absent)}; name a COLLECTION, or give all three")
    test = os.path.join(collection, "qrels", "test.tsv")
    return paths | ({"qrels": test} if not qrels and os.path.exists(test) else {})
