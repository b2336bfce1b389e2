"""The boilerplate of web sites, found by frequency: links that recur on most pages of a site.

A link is boilerplate if more than `source.boilerplate_share` of the site's pages contain it, with the same anchor text and the
same target. A paragraph of only such links and punctuation (a menu) is removed, so that it does not begin the text of a
destination. Sites with few pages are not changed, since frequencies say nothing there.
"""

import re
from collections import Counter

import pyarrow as pa

from data_pipeline.engine.dropped import DropCounts
from data_pipeline.engine.job import Engine, Job
from data_pipeline.engine.store import read
from data_pipeline.engine.tables import DOCS_PER_CHUNK, Row, table
from data_pipeline.graph import link_graph
from data_pipeline.sources import formats
from data_pipeline.sources.document import Chunk, Link, LinkedDocument
from data_pipeline.sources.web import urls

MIN_PAGES = 8
_WORD = re.compile(r"\w")

# The boilerplate links of each bucket; arguments: minimum pages of a site, share in thousandths.
BOILERPLATE_SQL = """
    SELECT DISTINCT l.site, l.target, l.anchor, l.bucket
    FROM site_links l
    JOIN (SELECT site, target, anchor, CAST(SUM(n) AS BIGINT) AS n FROM site_links GROUP BY site, target, anchor) f
        ON l.site = f.site AND l.target = f.target AND l.anchor = f.anchor
    JOIN (SELECT site, CAST(SUM(n) AS BIGINT) AS n FROM site_pages GROUP BY site) s ON l.site = s.site
    WHERE s.n >= {} AND f.n * 1000 > s.n * {}
"""

Key = tuple[str, str]  # target, anchor text


def parse_chunk(job: Job, number: int, chunk: Chunk) -> dict[str, pa.Table]:
    """Map over chunks: the unchanged pages, redirects, and per site the number of pages and of pages with each link."""
    documents, dropped = formats.parse(chunk, job["config"]["source"])
    counts = DropCounts()
    for item in dropped:
        counts.add(item.reason, item.where, item.example, item.times)
    rows: list[Row] = []
    redirects: list[Row] = []
    pages: Counter[str] = Counter()
    links: Counter[tuple[str, str, str]] = Counter()
    for doc, document in enumerate(documents, number * DOCS_PER_CHUNK):
        if document.redirect is not None:
            redirects.append(dict(address=document.address, target=document.redirect, priority=doc))
            continue
        site = urls.site(document.address)
        pages[site] += 1
        links.update({(site, *_key(document.text, link)) for link in document.links})
        rows.append(
            dict(
                doc=doc, address=document.address, title=document.title, text=document.text, lead_end=document.lead_end,
                links=[link._asdict() for link in document.links],
            )
        )  # fmt: skip
    return {
        "crawled": table("crawled", rows),
        "redirects": table("redirects", redirects),
        "site_pages": table("site_pages", [dict(site=site, n=n) for site, n in pages.items()]),
        "site_links": table(
            "site_links",
            [dict(site=site, target=target, anchor=anchor, n=n) for (site, target, anchor), n in links.items()],
        ),
        "losses": counts.table(),
    }


def find(engine: Engine) -> None:
    """Joins the counts into the table `boilerplate`."""
    share = round(1000 * engine.job["config"]["source"]["boilerplate_share"])
    engine.join("boilerplate", BOILERPLATE_SQL.format(MIN_PAGES, share), ["site_links", "site_pages"], partitioned=True)


def drop(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over `crawled`: the documents without boilerplate; counts what was removed."""
    found: dict[str, set[Key]] = {}
    for row in read(job, "boilerplate", number).to_pylist():
        found.setdefault(row["site"], set()).add((row["target"], row["anchor"]))
    counts = DropCounts()
    documents: list[tuple[int, LinkedDocument]] = []
    for batch in read(job, "crawled", number).to_batches(max_chunksize=256):
        for row in batch.to_pylist():
            links = tuple(Link(**link) for link in row["links"])
            document = LinkedDocument(row["address"], row["address"], row["title"], row["text"], links, row["lead_end"])
            known = found.get(urls.site(document.address))
            documents.append((row["doc"], _without(document, known, counts) if known else document))
    return link_graph.tabulate(job["config"], number, documents, counts)


def _key(text: str, link: Link) -> Key:
    return link.target, text[link.start : link.end]


def _without(document: LinkedDocument, known: set[Key], counts: DropCounts) -> LinkedDocument:
    text, lead_end = document.text, document.lead_end
    pieces: list[str] = []
    kept: list[Link] = []
    length = start = at = 0
    new_lead_end = 0
    for paragraph in text.split("\n"):
        end = start + len(paragraph)
        rest, position, links = "", start, []
        while at < len(document.links) and document.links[at].start < end:
            link = document.links[at]
            at += 1
            if _key(text, link) in known:
                counts.add("link-boilerplate", document.address, f"{text[link.start : link.end]} -> {link.target}")
                rest += text[position : link.start]
                position = link.end
            else:
                links.append(link)
        rest += text[position:end]
        if len(rest) < len(paragraph) and not links and not _WORD.search(rest):
            counts.add("paragraph-boilerplate", document.address, paragraph)
        else:
            kept += [Link(link.start - start + length, link.end - start + length, link.target) for link in links]
            pieces.append(paragraph)
            length += len(paragraph) + 1
            if start < lead_end:
                new_lead_end = length - 1 - max(0, end - lead_end)
        start = end + 1
    text = "\n".join(pieces)
    # If the first section was only a menu, the end of the next section is unknown.
    lead_end = new_lead_end if text[:new_lead_end].strip() else len(text)
    return LinkedDocument(document.address, document.id, document.title, text, tuple(kept), lead_end)
