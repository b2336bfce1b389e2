"""The first stage of every job over linked pages (documents, addresses, redirects, exclusions), and its documents."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from data_pipeline.engine import tables
from data_pipeline.engine.job import Engine, Job
from data_pipeline.engine.store import bucket_parts, buckets, read, write
from data_pipeline.links import link_graph, web_sites
from data_pipeline.sources import formats
from harp_jax.base.files import lines
from harp_jax.base.progress import say

# Rows per table file of source.redirects; English Wikipedia has ten million redirects.
REDIRECTS_PER_FILE = 1 << 17


def parse_documents(engine: Engine) -> None:
    """Parses the sources; reads redirects and excluded destinations. Prints the language."""
    job, source = engine.job, engine.job.config["source"]
    say("language: {language} ({language_from})".format(**job.config))

    chunks = enumerate(formats.chunks(source))
    if formats.FORMATS[source["format"]].has_boilerplate:
        engine.map("crawled", web_sites.parse_chunk, chunks, per_bucket=job.per_bucket)
        web_sites.find(engine)
        engine.map("documents", web_sites.drop, bucket_parts(job, tables.CRAWLED))
    else:
        engine.map("documents", link_graph.parse_chunk, chunks, per_bucket=job.per_bucket)
    address_of = formats.addresser(source)
    extra = (
        dict(address=address_of(address), target=address_of(target), priority=(1 << 62) + i)
        for i, (address, target) in enumerate(formats.redirects(source))
    )
    part = 0
    while rows := list(islice(extra, REDIRECTS_PER_FILE)):
        write(job, tables.REDIRECTS, 0, "files", part, rows)
        part += 1
    if path := job.config["exclude_destinations"]:
        excluded = sorted({line.strip() for _, line in lines(path) if line.strip()})
        rows = [dict(address=address_of(line), line=line) for line in excluded]
        write(job, tables.EXCLUDED, 0, "file", 0, rows)


def documents_of(job: Job) -> Iterator[dict[str, Any]]:
    """{"id", "title", "text"} of the documents in input order, without copies of a page."""
    for bucket in buckets(job, tables.DOCUMENTS):
        first = set(read(job, tables.PAGES, bucket, ["doc"]).column("doc").to_pylist())
        found = read(job, tables.DOCUMENTS, bucket, ["doc", "id", "title", "text"])
        for row in sorted(found.to_pylist(), key=lambda row: row["doc"]):
            if row.pop("doc") in first:
                yield row
