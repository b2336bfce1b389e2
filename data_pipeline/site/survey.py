"""What the links of a site are good for: `harp survey`.

Writes to a folder

    docs.jsonl    the documents, {"id", "title", "text"}
    anchors.tsv   anchor texts of the pages that are not held out: docid<TAB>anchor text<TAB>count
    queries.tsv   anchor texts of held-out pages, and qrels.txt their destinations (held_out.py)
    sources.tsv   qid<TAB>docid: the pages with these links, which are no candidates
    survey.json   the counts; written last

from one reading of the pages, with the fields of a generation config, so that `harp generate` keeps the same links.
"""

import json
import os
import shutil
from typing import Any

from ml_collections import ConfigDict

from data_pipeline.config import plain
from data_pipeline.engine import dropped
from data_pipeline.engine.job import Engine, Job
from data_pipeline.engine.local import SMALL, LocalEngine, SerialEngine, mebibytes
from data_pipeline.engine.store import bucket_parts, claim
from data_pipeline.links import graph_report, link_graph
from data_pipeline.links.anchors import counted_texts
from data_pipeline.links.parsing import documents_of, parse_documents
from data_pipeline.site import held_out
from data_pipeline.sources import formats
from data_pipeline.sources.document import CHUNK_BYTES
from harp_jax.base import files
from harp_jax.base.errors import InputError

BUCKETS = 64  # at most, estimated from the size on disk
SURVEY = "survey.json"
WRITTEN = ("docs.jsonl", "anchors.tsv", "queries.tsv", "qrels.txt", "sources.tsv", SURVEY)
ANCHORS_SQL = """
    SELECT p.id AS id, p.bucket AS bucket, r.anchor AS anchor, COUNT(*) AS n
    FROM resolved r JOIN pages p ON r.destination = p.doc JOIN source_pages s ON r.doc = s.doc
    WHERE r.problem = '' AND s.held = 0 GROUP BY p.id, p.bucket, r.anchor
"""
PAGES_SQL = """
    SELECT COUNT(*), CAST(COALESCE(SUM(s.held), 0) AS BIGINT)
    FROM (SELECT DISTINCT doc FROM resolved WHERE problem = '') r JOIN source_pages s ON r.doc = s.doc
"""


def write_survey(config: ConfigDict, output: str, queries: int = 300, words: int = 0) -> dict[str, Any]:
    """Writes the folder `output` and returns the content of its survey.json.

    config: a generation config; its tasks and encoder are not used. `queries`: at most so many; `words`: of the anchor's sentence
    added to each. Works out of core in OUTPUT.work, which is removed in the end. Raises InputError for bad input.
    """
    given = config.copy_and_resolve_references()
    with given.unlocked():
        given.encoder, given.tasks = "uniform", ("rqp",)
    c = plain(given)
    mebibytes(c["memory_limit"])
    for name in WRITTEN:
        files.output_path(os.path.join(output, name), formats.files_of(c["source"]))
    size = sum(map(_size, files.expand(tuple(c["source"]["paths"]))))
    work = os.path.abspath(output) + ".work"
    lock = claim(work, output)
    job: Job = {"config": c, "work": work, "output": work, "per_bucket": max(1, size // (CHUNK_BYTES * BUCKETS))}
    engine = (LocalEngine if size > SMALL else SerialEngine)(job, c["workers"], c["memory_limit"], c["temp_directory"])
    try:
        parse_documents(engine)
        engine.map("links", link_graph.extract_links, bucket_parts(job, "documents"))
        link_graph.resolve(engine)
        held_out.tabulate(engine)
        engine.join("anchor_texts", ANCHORS_SQL, ["resolved", "pages", "source_pages"], partitioned=True)
        found = held_out.choose(job, queries, words)
        os.makedirs(output, exist_ok=True)
        summary = _summary(engine, found) | {"documents": _write_documents(job, output), "words": words}
        summary["text"] = as_text(summary)
        _write_anchors(job, output)
        _write_queries(found, output)
        with files.replacing(os.path.join(output, SURVEY)) as file:
            json.dump(summary, file, indent=1, ensure_ascii=False)
        return summary
    finally:
        engine.close()
        shutil.rmtree(work, ignore_errors=True)
        lock.close()


def _size(path: str) -> int:
    return sum(map(os.path.getsize, files.walk(path))) if os.path.isdir(path) else os.path.getsize(path)


def _summary(engine: Engine, found: held_out.HeldOut) -> dict[str, Any]:
    source = engine.job["config"]["source"]
    (pages, links, kept, texts) = engine.query(
        "SELECT COUNT(DISTINCT doc), COUNT(*), COUNT(CASE WHEN problem = '' THEN 1 END), "
        "COUNT(DISTINCT CASE WHEN problem = '' THEN anchor END) FROM resolved",
        ["resolved"],
    )[0]
    sources, held = engine.query(PAGES_SQL, ["resolved", "source_pages"])[0]
    losses = engine.query("SELECT reason, n, location, example FROM losses", ["losses"])
    return {
        "format": source["format"],
        "links": links,
        "links_kept": kept,
        "anchor_texts": texts,
        "pages_with_links": sources,
        "pages_held_out": held,
        "held_out_links": found.links,
        "held_out_trained": found.trained,
        "held_out_titles": found.titles,
        "held_out_texts": found.texts,
        "held_out_in_title": found.in_title,
        "queries": len(found.queries),
        "fraction": engine.job["config"]["validation_fraction"],
        "losses": dropped.summary(losses + graph_report.dropped(engine, with_links=True)),
    }


def _write_documents(job: Job, output: str) -> int:
    """Writes docs.jsonl; returns the number of documents."""
    documents = 0
    with files.replacing(os.path.join(output, "docs.jsonl")) as file:
        for row in documents_of(job):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            documents += 1
    if not documents:
        raise InputError("the pages have no text; check the path, or choose a format with config.source.format")
    return documents


def _write_anchors(job: Job, output: str) -> None:
    with files.replacing(os.path.join(output, "anchors.tsv")) as file:
        file.writelines(f"{docid}\t{anchor}\t{n}\n" for docid, anchor, n in counted_texts(job))


def _write_queries(found: held_out.HeldOut, output: str) -> None:
    numbered = [(f"a{number}", query) for number, query in enumerate(found.queries, 1)]
    with files.replacing(os.path.join(output, "queries.tsv")) as file:
        file.writelines(f"{qid}\t{query.text}\n" for qid, query in numbered)
    with files.replacing(os.path.join(output, "qrels.txt")) as file:
        file.writelines(f"{qid} 0 {docid} 1\n" for qid, query in numbered for docid in query.relevant)
    with files.replacing(os.path.join(output, "sources.tsv")) as file:
        # A page that another one links to by the same text may be an answer.
        sources = ((qid, docid) for qid, query in numbered for docid in query.sources if docid not in query.relevant)
        file.writelines(f"{qid}\t{docid}\n" for qid, docid in sources)


def as_text(summary: dict[str, Any]) -> str:
    """The survey as lines: what was found, what was dropped and why, what can be tested."""
    s = summary
    lines = [
        f"{s['documents']:,} documents ({s['format']}), {s['links']:,} links, {s['links_kept']:,} of them kept, with "
        f"{s['anchor_texts']:,} anchor texts on {s['pages_with_links']:,} documents",
        "dropped: " + ", ".join(f"{reason} {entry['count']:,}" for reason, entry in _largest(s["losses"])),
        f"held out: {s['pages_held_out']:,} documents with {s['held_out_links']:,} links; {s['held_out_trained']:,} have a "
        f"text that other pages use, {s['held_out_titles']:,} the title of their destination",
        f"{s['held_out_texts']:,} texts are left, {_share(s['held_out_in_title'], s['held_out_texts'])} of them made of words "
        f"of the title; {s['queries']:,} are queries",
    ]
    return "\n".join(lines)


def _largest(losses: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(losses.items(), key=lambda item: (-item[1]["count"], item[0]))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "none"
