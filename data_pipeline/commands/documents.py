"""The documents of pages as a collection to rank: `harp documents`.

They have the ids, titles and texts of the generation job: main content without menus, sections where pages are split, one document
for all addresses of a page. `linked_pages` is shared by the commands that read pages.
"""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ml_collections import ConfigDict

from data_pipeline.config import generation, plain
from data_pipeline.engine.job import Engine, Job
from data_pipeline.engine.local import SMALL, LocalEngine, SerialEngine
from data_pipeline.engine.store import bucket_parts, claim, release
from data_pipeline.links import link_graph
from data_pipeline.links.parsing import documents_of, parse_documents
from data_pipeline.sources import formats
from data_pipeline.sources.document import CHUNK_BYTES
from harp_jax.base import files
from harp_jax.base.cli import Parser
from harp_jax.base.errors import InputError
from harp_jax.base.progress import STAGES, progress, stage

BUCKETS = 64  # maximum, estimated from the size on disk: the anchor table of one bucket is sorted in memory


@contextmanager
def linked_pages(config: ConfigDict, output: str, written: Sequence[str], stages: int) -> Iterator[Engine]:
    """An engine whose job has parsed `config.source`; tasks and encoder of the config are not used.

    The tables are in OUTPUT.work, which is removed at the end. `written`: the files that the command writes. `stages`: number
    of stages of the command, the first being "documents". Raises InputError for bad input, and for a written file that is an input.
    """
    given = config.copy_and_resolve_references()
    with given.unlocked():
        given.encoder, given.tasks = "uniform", ("rqp",)
    c = plain(given)
    for path in filter(os.path.exists, written):
        files.output_path(path, formats.files_of(c["source"]))
    paths = files.expand(tuple(c["source"]["paths"]))
    size = sum(
        os.path.getsize(file) for path in paths for file in (files.walk(path) if os.path.isdir(path) else [path])
    )
    work = os.path.abspath(output) + ".work"
    job: Job = {"config": c, "work": work, "output": work, "per_bucket": max(1, size // (CHUNK_BYTES * BUCKETS))}
    make = LocalEngine if size > SMALL else SerialEngine
    with claim(work, output), progress(total=stages, unit=STAGES):
        running = make(job, c["workers"], c["memory_limit"])
        try:
            stage("documents")
            parse_documents(running)
            yield running
        finally:
            running.close()
            release(work)


def resolved_links(engine: Engine) -> None:
    """From `documents` to `resolved`: every link with its destination."""
    stage("links")
    engine.map("links", link_graph.extract_links, bucket_parts(engine.job, "documents"))
    link_graph.resolve(engine)


def write_rows(job: Job, output: str) -> tuple[int, int]:
    """Writes the documents as JSON lines, in input order; returns the numbers of documents and of sections among them."""
    documents = sections = 0
    with files.replacing(output) as file:
        for row in documents_of(job):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            documents += 1
            sections += "#" in row["id"] and formats.FORMATS[job["config"]["source"]["format"]].has_boilerplate
        if not documents:
            raise InputError("the pages have no text; check their path, or name their format")
    return documents, sections


class Summary(NamedTuple):
    """Counts of documents written, of sections among them, and of what was dropped, by reason, the largest first."""

    format: str
    documents: int
    sections: int
    dropped: dict[str, int]


def write_documents(pages: str, output: str, format_: str = "", base_url: str = "") -> Summary:
    """Writes the documents of `pages` to `output`, one {"id", "title", "text"} per line, in the order of the input.

    `pages` is a folder of HTML, a WARC, a MediaWiki dump, or JSON lines, detected unless `format_` names its format. `base_url`:
    where a folder of HTML is served; without it ids are `file:///` and the path. Works out of core. Raises InputError for bad
    input.
    """
    config = generation()
    config.source.update(format=format_, paths=(pages,), base_url=base_url)
    config.min_article_words, config.memory_limit = 0, "2GB"
    config.workers = max(1, min(os.cpu_count() or 1, 8))
    with linked_pages(config, output, [output], stages=2) as engine:
        stage("written")
        link_graph.index(engine)
        written = write_rows(engine.job, output)
        dropped = link_graph.dropped_counts(engine, with_links=False)
        return Summary(engine.job["config"]["source"]["format"], *written, dropped)


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp documents",
        description="Write the documents of a folder of HTML, a WARC file, a MediaWiki dump or linked JSONL as JSON lines: "
        "id, title and text, as the other commands read collections.",
        example="harp documents site/ --base_url=https://docs.example.org/ --output=docs.jsonl",
    )
    parser.add_input("pages", help="folder or file; its format is detected")
    parser.add_output("--output", required=True, help="the JSONL file to write")
    parser.add_argument("--format", default="", choices=("", *formats.FORMATS), help="page format, if detection fails")
    parser.add_argument(
        "--base_url", default="", help="URL where the folder is served; without it, ids are file:///PATH"
    )
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    found = write_documents(a.pages, a.output, a.format, a.base_url)
    parts = f", {found.sections} of them sections of pages" if found.sections else ""
    print(f"{a.output}: {found.documents} documents{parts}, from {a.pages} ({found.format})")
    if found.dropped:
        print("left out: " + ", ".join(f"{reason} {n}" for reason, n in found.dropped.items()))
