"""Anchor texts of every page, from the link graph: `harp anchors`.

They are what a lexical ranker can know of links without any training (`harp first-stage --anchors`), so the baseline of every
claim about pre-training from links. Which links count is decided by the fields of a generation config.
"""

import argparse
import os
import tempfile
from typing import NamedTuple

from ml_collections import ConfigDict

from data_pipeline.config import plain
from data_pipeline.engine.job import Engine, EngineFactory, Job
from data_pipeline.engine.local import LocalEngine, mebibytes
from data_pipeline.engine.store import bucket_parts, write
from data_pipeline.engine.tables import table
from data_pipeline.links import link_graph
from data_pipeline.links.anchors import counted_texts
from data_pipeline.links.graph_report import dropped_counts
from data_pipeline.links.parsing import parse_documents
from data_pipeline.sources import formats
from data_pipeline.sources.document import CHUNK_BYTES
from harp_jax.base.cli import ConfigParser
from harp_jax.base.errors import InputError
from harp_jax.base.files import expand, lines, output_path, replacing

BUCKETS = 64  # at most, estimated from the size on disk: an anchor table of one bucket is sorted in memory

# Leaving out a redirect leaves out its target page.
LEFT_OUT_SQL = """
    SELECT DISTINCT COALESCE(p.doc, q.doc) AS doc FROM left_out x
    LEFT JOIN pages p ON x.address = p.address
    LEFT JOIN aliases a ON x.address = a.address LEFT JOIN pages q ON a.target = q.address
"""
ANCHOR_TEXTS_SQL = f"""
    SELECT p.id AS id, p.bucket AS bucket, r.anchor AS anchor, COUNT(*) AS n
    FROM resolved r JOIN pages p ON r.destination = p.doc LEFT JOIN ({LEFT_OUT_SQL}) o ON r.doc = o.doc
    WHERE r.problem = '' AND o.doc IS NULL
    GROUP BY p.id, p.bucket, r.anchor
"""


class Summary(NamedTuple):
    """What was written: documents with anchors, lines, the links behind them, and what was dropped by reason, largest first."""

    documents: int
    lines: int
    links: int
    dropped: dict[str, int]


def write_anchors(config: ConfigDict, output: str, leave_out: str = "", engine: EngineFactory = LocalEngine) -> Summary:
    """Writes "docid<TAB>anchor text<TAB>count" lines, by document and falling count.

    `leave_out` is a file of source pages, titles or ids a line, whose links are not counted: those that are judged, for
    example. Anchor texts are normalised as in pre-training (lower case, single spaces). Works out of core, in a
    temporary directory next to the output. Raises InputError for bad input.
    """
    given = config.copy_and_resolve_references()
    with given.unlocked():
        # Neither is used: no terms are weighed, and a task stands for the links between sentences and pages.
        given.encoder, given.tasks = "uniform", ("rqp",)
    c = plain(given)
    mebibytes(c["memory_limit"])
    size = sum(os.path.getsize(path) for path in expand(tuple(c["source"]["paths"])) if os.path.isfile(path))
    per_bucket = max(1, size // (CHUNK_BYTES * BUCKETS))
    read_files = formats.files_of(c["source"]) if os.path.exists(output) else ()
    folder, name = os.path.split(output_path(output, read_files))
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder) as work:
        job: Job = {"config": c, "work": work, "output": work, "per_bucket": per_bucket}
        running = engine(job, c["workers"], c["memory_limit"], c["temp_directory"])
        try:
            _tabulate(running, leave_out)
            return Summary(*_write(job, output), dropped_counts(running, with_links=True))
        finally:
            running.close()


def _tabulate(engine: Engine, leave_out: str) -> None:
    job = engine.job
    parse_documents(engine)
    engine.map("links", link_graph.extract_links, bucket_parts(job, "documents"))
    link_graph.resolve(engine)
    if leave_out:
        address_of = formats.addresser(job["config"]["source"])
        names = sorted({line.strip() for _, line in lines(leave_out) if line.strip()})
        write(job, "left_out", 0, "file", 0, table("left_out", [{"address": address_of(name)} for name in names]))
        (found,) = engine.query(f"SELECT COUNT(doc) FROM ({LEFT_OUT_SQL})", ["left_out", "pages", "aliases"])[0]
        if not found:
            raise InputError(
                f"{leave_out}: none of its {len(names)} lines names a page of the sources; write titles or ids"
            )
    inputs = ["resolved", "pages", "left_out", "aliases"]
    engine.join("anchor_texts", ANCHOR_TEXTS_SQL, inputs, partitioned=True)


def _write(job: Job, output: str) -> tuple[int, int, int]:
    """(documents, lines, links)"""
    documents = written = links = 0
    with replacing(output) as file:
        previous = None
        for docid, anchor, n in counted_texts(job):
            file.write(f"{docid}\t{anchor}\t{n}\n")
            documents += docid != previous
            previous, written, links = docid, written + 1, links + n
        if not written:
            raise InputError("the sources have no link between their pages; check config.source")
    return documents, written, links


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp anchors",
        description="Write the anchor texts of every page with their counts, for harp first-stage --anchors.",
        example="harp anchors --config=data/linked_jsonl --config.source.paths=\"('pages.jsonl',)\" "
        "--config.min_article_words=0 --output=anchors.tsv",
    )
    parser.add_input("--leave_out", default="", help="titles or ids of pages, one a line, whose links do not count")
    parser.add_output("--output", help="the file to write: docid<TAB>anchor text<TAB>count")
    return parser


def main(arguments: argparse.Namespace) -> None:
    if arguments.config is None or not arguments.output:
        raise InputError("--config=FILE.py and --output=FILE are both needed; see configs/data/")
    found = write_anchors(arguments.config, arguments.output, arguments.leave_out)
    print(f"{arguments.output}: {found.lines} anchor texts of {found.documents} documents, from {found.links} links")
    if found.dropped:
        print("left out: " + ", ".join(f"{reason} {n}" for reason, n in found.dropped.items()))
