"""The documents of pages as a collection to rank: `harp documents`.

They have the ids, titles and texts that the generation job knows: the main content without menus, sections where pages are split,
one document for all addresses of a page.
"""

import argparse
import json
import os
import shutil
from typing import NamedTuple

from data_pipeline.config import SPLITS, generation, plain
from data_pipeline.engine.job import Job
from data_pipeline.engine.local import SMALL, LocalEngine, SerialEngine
from data_pipeline.engine.store import claim
from data_pipeline.links import link_graph
from data_pipeline.links.graph_report import dropped_counts
from data_pipeline.links.parsing import documents_of, parse_documents
from data_pipeline.sources import formats
from data_pipeline.sources.document import CHUNK_BYTES
from data_pipeline.sources.formats import FORMATS, format_of_content
from harp_jax.base import files
from harp_jax.base.cli import Parser, count
from harp_jax.base.errors import InputError

BUCKETS = 64  # at most, estimated from the size on disk
MEMORY = "2GB"


class Summary(NamedTuple):
    """What was written: documents, those that are sections of pages, and what was left out by reason, the largest first."""

    format: str
    documents: int
    sections: int
    dropped: dict[str, int]


def write_documents(
    pages: str, output: str, format_: str = "", base_url: str = "", split: str = "auto", workers: int = 0
) -> Summary:
    """Writes the documents of `pages` to `output`, one {"id", "title", "text"} per line, in the order of the input.

    `pages` is a folder of HTML, a WARC, a MediaWiki dump, or JSON lines, told by content unless `format_` names one. `base_url`:
    where a folder of HTML is served; without it ids are `file:///` and the path. Works out of core in OUTPUT.work, which is
    removed in the end. Raises InputError for bad input.
    """
    config = generation()
    config.source.format = format_ or format_of_content(pages)
    config.source.paths, config.source.base_url, config.source.split = (pages,), base_url, split
    config.encoder, config.tasks = "uniform", ("rqp",)  # neither is used
    config.min_article_words = 0
    size = sum(map(os.path.getsize, files.walk(pages))) if os.path.isdir(pages) else os.path.getsize(pages)
    config.workers = workers or max(1, min(os.cpu_count() or 1, 8))
    if os.path.exists(output):
        files.output_path(output, formats.files_of(config.source))
    work = os.path.abspath(output) + ".work"
    per_bucket = max(1, size // (CHUNK_BYTES * BUCKETS))
    job: Job = {"config": plain(config), "work": work, "output": work, "per_bucket": per_bucket}
    lock = claim(work, output)
    engine = (LocalEngine if size > SMALL else SerialEngine)(job, config.workers, MEMORY)
    try:
        parse_documents(engine)
        link_graph.index(engine)
        documents = sections = 0
        with files.replacing(output) as file:
            for row in documents_of(job):
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                documents += 1
                sections += "#" in row["id"] and config.source.format in ("html", "warc")
            if not documents:
                raise InputError(f"{pages} has no page with text; check the path, or choose a format with --format")
        return Summary(config.source.format, documents, sections, dropped_counts(engine, with_links=False))
    finally:
        engine.close()
        shutil.rmtree(work, ignore_errors=True)
        lock.close()


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp documents",
        description="Write the documents of a folder of HTML, a WARC file, a MediaWiki dump or linked JSONL as JSON lines: "
        "id, title and text, as the other commands read collections.",
        example="harp documents site/ --base_url=https://docs.example.org/ --output=docs.jsonl",
    )
    parser.add_input("pages", help="folder or file; its format is told by its content")
    parser.add_output("--output", required=True, help="the JSONL file to write")
    parser.add_argument(
        "--format", default="", choices=("", *FORMATS), help="of the pages, if its content is misleading"
    )
    parser.add_argument("--base_url", default="", help="where the folder is served; without it ids are file:///PATH")
    parser.add_argument("--split", default="auto", choices=SPLITS, help="documents are pages or sections (auto)")
    parser.add_argument("--workers", type=count, default=0, help="processes for large input (all cores, 8 at most)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    a = arguments
    found = write_documents(a.pages, a.output, a.format, a.base_url, a.split, a.workers)
    parts = f", {found.sections} of them sections of pages" if found.sections else ""
    print(f"{a.output}: {found.documents} documents{parts}, from {a.pages} ({found.format})")
    if found.dropped:
        print("left out: " + ", ".join(f"{reason} {n}" for reason, n in found.dropped.items()))
