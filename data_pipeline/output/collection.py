"""The documents of pages, and the anchor texts that lead to them, as a collection to rank.

Documents have the ids, titles and texts of the generation job: main content without menus, sections where pages are split, one
document for all addresses of a page. A lexical ranker can use anchor texts without training, which makes them the baseline for
every claim about pre-training on links.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from ml_collections import ConfigDict

from data_pipeline.config import generation, validated_dict
from data_pipeline.engine import tables
from data_pipeline.engine.job import Engine, Job
from data_pipeline.engine.local import SMALL, LocalEngine, SerialEngine
from data_pipeline.engine.store import bucket_parts, buckets, read, rows
from data_pipeline.links import link_graph
from data_pipeline.links.web_sites import parse_documents
from data_pipeline.output.claim import once_for_config
from data_pipeline.sources import formats
from data_pipeline.sources.document import CHUNK_BYTES
from harp_jax.base import files
from harp_jax.base.errors import InputError
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import STAGES, progress, stage

BUCKETS = 64  # maximum, estimated from the size on disk: the anchor table of one bucket is sorted in memory
# Arguments: a join and a condition that choose the links.
ANCHOR_TEXTS_SQL = """
    SELECT p.id AS id, p.bucket AS bucket, r.anchor AS anchor, COUNT(*) AS n
    FROM resolved r JOIN pages p ON r.destination = p.doc {}
    WHERE r.problem = '' {}
    GROUP BY p.id, p.bucket, r.anchor
"""


@dataclass(frozen=True)
class Documents:
    """Counts of documents written, of sections among them, and of what was dropped, by reason, the largest first."""

    format: str
    documents: int
    sections: int
    dropped: dict[str, int]


@dataclass(frozen=True)
class Anchors:
    """Counts of documents with anchors, lines written, links behind them, and of what was dropped, by reason, largest first."""

    documents: int
    lines: int
    links: int
    dropped: dict[str, int]


@once
def write_documents(pages: InputPath, output: str, format_: str = "", base_url: str = "") -> Documents:
    """Writes the documents of `pages` to `output`, one {"id", "title", "text"} per line, in the order of the input. `pages` is a
    folder of HTML, a WARC, a MediaWiki dump, or JSON lines, detected unless `format_` names its format. `base_url`: where a folder
    of HTML is served; without it ids are `file:///` and the path. Works out of core. Raises InputError for bad input."""
    config = generation()
    config.source.update(format=format_, paths=(pages,), base_url=base_url)
    config.min_article_words, config.memory_limit = 0, "2GB"
    config.workers = max(1, min(os.cpu_count() or 1, 8))
    with linked_pages(config, output, stages=2, links=False) as engine:
        stage("written")
        link_graph.index(engine)
        written = write_rows(engine.job, output)
        dropped = link_graph.most_first(link_graph.losses(engine, with_links=False))
        return Documents(engine.job.config["source"]["format"], *written, dropped)


@once_for_config
def write_anchors(config: ConfigDict, output: str) -> Anchors:
    """Writes "docid<TAB>anchor text<TAB>count" lines, by document and falling count. Anchor texts are normalised as in pre-training
    (lower case, single spaces). Works out of core. Raises InputError for bad input."""
    with linked_pages(config, output, stages=3) as engine:
        stage("anchor texts")
        engine.join(tables.ANCHOR_TEXTS, ANCHOR_TEXTS_SQL.format("", ""))
        documents = written = links = 0
        with files.replacing(output) as file:
            previous = None
            for docid, anchor, n in counted_texts(engine.job):
                file.write(f"{docid}\t{anchor}\t{n}\n")
                documents += docid != previous
                previous, written, links = docid, written + 1, links + n
            if not written:
                raise InputError("the sources have no links between their pages; check config.source")
        return Anchors(documents, written, links, link_graph.most_first(link_graph.losses(engine, with_links=True)))


@contextmanager
def linked_pages(config: ConfigDict, output: str, stages: int, links: bool = True) -> Iterator[Engine]:
    """An engine whose job has parsed `config.source` and, if `links`, resolved every link to its destination (table `resolved`).
    Tasks and encoder of the config are not used. The tables are in OUTPUT.work, removed at the end. `output`: a file, or a
    new folder; `stages`: how many stages the command has, these included. Raises InputError for bad input, and for an `output` that
    is an input."""
    config = config.copy_and_resolve_references()
    with config.unlocked():
        config.encoder, config.tasks = "uniform", ("rqp",)
        config.linking_pages = 1.0  # anchor texts count all links; only pairs need fewer
    c = validated_dict(config)
    if os.path.exists(output):
        files.output_path(output, formats.files_of(c["source"]))
    paths = files.expand(tuple(c["source"]["paths"]))
    inner = (file for path in paths for file in (files.walk(path) if os.path.isdir(path) else [path]))
    size = sum(map(os.path.getsize, inner))

    # The work directory is locked, and removed at the end, the lock last: a later call needs it.
    work = os.path.abspath(output) + ".work"
    lock, tables_dir = os.path.join(work, "lock"), os.path.join(work, "tables")
    if os.path.isdir(work) and os.listdir(work) and not os.path.exists(lock):
        raise InputError(f"{work} is needed as a work directory but holds other files; move it or use another --output")
    busy = f"another process is writing to {output}; wait for it, or choose another --output"
    with files.locked(lock, busy), progress(total=stages, unit=STAGES), files.full_disk_refused(output):
        try:
            shutil.rmtree(tables_dir, ignore_errors=True)
            job = Job(c, tables_dir, tables_dir, per_bucket=max(1, size // (CHUNK_BYTES * BUCKETS)))
            kind = LocalEngine if size > SMALL else SerialEngine
            with closing(kind(job, c["workers"], c["memory_limit"])) as engine:
                stage("documents")
                parse_documents(engine)
                if links:
                    stage("links")
                    engine.map("links", link_graph.extract_links, bucket_parts(job, tables.DOCUMENTS))
                    link_graph.resolve(engine)
                yield engine
        finally:
            shutil.rmtree(tables_dir, ignore_errors=True)
            shutil.rmtree(work, ignore_errors=True)


def write_rows(job: Job, output: str) -> tuple[int, int]:
    """Writes the documents as JSON lines, in input order, without copies of a page; returns the numbers of documents and of
    sections among them."""
    documents = sections = 0
    may_be_split = formats.FORMATS[job.config["source"]["format"]].has_boilerplate
    with files.replacing(output) as file:
        for bucket in buckets(job, tables.DOCUMENTS):
            first = set(read(job, tables.PAGES, bucket, ["doc"]).column("doc").to_pylist())
            for row in rows(job, tables.DOCUMENTS, bucket, ["doc", "id", "title", "text"], order=["doc"]):
                if row["doc"] in first:
                    document = {"id": row["id"], "title": row["title"], "text": row["text"]}
                    file.write(json.dumps(document, ensure_ascii=False) + "\n")
                    documents += 1
                    sections += may_be_split and "#" in row["id"]
        if not documents:
            raise InputError("the pages have no text; check their path, or name their format")
    return documents, sections


def counted_texts(job: Job) -> Iterator[tuple[str, str, int]]:
    """(docid, anchor text, count) from the table `anchor_texts`, by document and falling count."""
    for bucket in buckets(job, tables.ANCHOR_TEXTS):
        counted = read(job, tables.ANCHOR_TEXTS, bucket).to_pydict()
        yield from sorted(
            zip(counted["id"], counted["anchor"], counted["n"]), key=lambda line: (line[0], -line[2], line[1])
        )
