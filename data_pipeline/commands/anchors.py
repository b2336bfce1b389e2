"""Anchor texts of every page, from the link graph: `harp anchors`.

A lexical ranker can use them without training (`harp first-stage --anchors`), which makes them the baseline for every claim about
pre-training on links. The fields of a generation config decide which links count.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

from ml_collections import ConfigDict

from data_pipeline.commands.documents import linked_pages, resolved_links
from data_pipeline.engine.job import Job
from data_pipeline.engine.store import buckets, read
from data_pipeline.links import link_graph
from harp_jax.base.cli import ConfigParser
from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.base.progress import stage

# Arguments: a join and a condition that choose the links.
ANCHOR_TEXTS_SQL = """
    SELECT p.id AS id, p.bucket AS bucket, r.anchor AS anchor, COUNT(*) AS n
    FROM resolved r JOIN pages p ON r.destination = p.doc {}
    WHERE r.problem = '' {}
    GROUP BY p.id, p.bucket, r.anchor
"""


class Summary(NamedTuple):
    """Counts of documents with anchors, lines written, links behind them, and of what was dropped, by reason, largest first."""

    documents: int
    lines: int
    links: int
    dropped: dict[str, int]


def write_anchors(config: ConfigDict, output: str) -> Summary:
    """Writes "docid<TAB>anchor text<TAB>count" lines, by document and falling count.

    Anchor texts are normalised as in pre-training (lower case, single spaces). Works out of core. Raises InputError for bad input.
    """
    with linked_pages(config, output, [output], stages=3) as running:
        resolved_links(running)
        stage("anchor texts")
        running.join("anchor_texts", ANCHOR_TEXTS_SQL.format("", ""), ["resolved", "pages"], partitioned=True)
        documents = written = links = 0
        with replacing(output) as file:
            previous = None
            for docid, anchor, n in counted_texts(running.job):
                file.write(f"{docid}\t{anchor}\t{n}\n")
                documents += docid != previous
                previous, written, links = docid, written + 1, links + n
            if not written:
                raise InputError("the sources have no links between their pages; check config.source")
        return Summary(documents, written, links, link_graph.dropped_counts(running, with_links=True))


def counted_texts(job: Job) -> Iterator[tuple[str, str, int]]:
    """(docid, anchor text, count) from the table `anchor_texts`, by document and falling count."""
    for bucket in buckets(job, "anchor_texts"):
        found = read(job, "anchor_texts", bucket)
        rows = zip(*(found.column(name).to_pylist() for name in ("id", "anchor", "n")))
        yield from sorted(rows, key=lambda row: (row[0], -row[2], row[1]))


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="harp anchors",
        description="Write the anchor texts of every page with their counts, for harp first-stage --anchors.",
        example="harp anchors --config=data/linked_jsonl --config.source.paths=\"('pages.jsonl',)\" "
        "--config.min_article_words=0 --output=anchors.tsv",
    )
    parser.add_output("--output", required=True, help="the file to write: docid<TAB>anchor text<TAB>count")
    return parser


def main(arguments: argparse.Namespace) -> None:
    found = write_anchors(arguments.config, arguments.output)
    print(f"{arguments.output}: {found.lines} anchor texts of {found.documents} documents, from {found.links} links")
    if found.dropped:
        print("left out: " + ", ".join(f"{reason} {n}" for reason, n in found.dropped.items()))
