"""What takes all pages of a web site to know: links that recur on most of them, and whether links lead to sections.

A link is boilerplate if more than `source.boilerplate_share` of the site's pages contain it, with the same anchor text and the
same target. A paragraph of only such links and punctuation (a menu) is removed, so that it does not begin the text of a
destination. Sites with few pages are not changed, since frequencies say nothing there.

Pages of sites whose links lead to sections are split (sources/web/sections.py); a fragment that no page has is dropped. A page
whose canonical link names another host has that address if pages of that host are in the input.
"""

import json
import re
from collections import Counter
from dataclasses import replace
from functools import partial

import pyarrow as pa

from data_pipeline.engine.dropped import DropCounts
from data_pipeline.engine.job import Engine, Job
from data_pipeline.engine.store import read
from data_pipeline.engine.tables import DOCS_PER_CHUNK, Row, table
from data_pipeline.links import link_graph
from data_pipeline.sources import formats
from data_pipeline.sources.document import Chunk, Dropped, Link, LinkedDocument, Outline, Section
from data_pipeline.sources.web import sections, urls

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
# The sites of each bucket, and how many of their links lead to sections.
SITES_SQL = """
    SELECT DISTINCT p.site, t.links, t.to_sections, p.bucket
    FROM site_pages p
    JOIN (SELECT site, CAST(SUM(links) AS BIGINT) AS links, CAST(SUM(to_sections) AS BIGINT) AS to_sections
          FROM site_pages GROUP BY site) t ON p.site = t.site
"""
# The hosts of canonical links that have pages.
CRAWLED_SITES_SQL = """
    SELECT DISTINCT c.site, c.bucket FROM canonical_sites c JOIN (SELECT DISTINCT site FROM site_pages) s ON c.site = s.site
"""
# Where a target with a fragment leads to: a section of the page or of the page that it redirects to, else the page.
SECTION_TARGETS_SQL = """
    SELECT l.target, MIN(COALESCE(f.section, g.section, l.page)) AS section, l.bucket
    FROM (SELECT DISTINCT target, page, fragment, bucket FROM site_links WHERE fragment <> '') l
    LEFT JOIN fragments f ON l.page = f.page AND l.fragment = f.fragment
    LEFT JOIN redirects r ON l.page = r.address
    LEFT JOIN fragments g ON r.target = g.page AND l.fragment = g.fragment
    GROUP BY l.target, l.bucket
"""

Key = tuple[str, str]  # target, anchor text


def parse_chunk(job: Job, number: int, chunk: Chunk) -> dict[str, pa.Table]:
    """Map over chunks: the unchanged pages, redirects, anchors, and per site the number of pages, links, and each link."""
    documents, dropped = formats.parse(chunk, job["config"]["source"])
    counts = _counted(dropped)
    rows: list[Row] = []
    redirects: list[Row] = []
    fragments: list[Row] = []
    pages: dict[str, list[int]] = {}
    links: Counter[tuple[str, str, str]] = Counter()
    hosts: set[str] = set()
    for doc, document in enumerate(documents, number * DOCS_PER_CHUNK):
        if document.redirect is not None:
            redirects.append(dict(address=document.address, target=document.redirect, priority=doc))
            continue
        site = urls.site(document.address)
        found = sections.link_counts(document)
        pages[site] = [a + b for a, b in zip(pages.get(site, (0, 0, 0)), (1, *found))]
        links.update({(site, *_key(document.text, link)) for link in document.links})
        fragments += [
            dict(page=document.address, fragment=fragment, section=place)
            for fragment, place in sections.fragment_places(document)
        ]
        hosts |= {urls.site(document.canonical)} if document.canonical else set()
        rows.append(
            dict(
                doc=doc, address=document.address, title=document.title, text=document.text, lead_end=document.lead_end,
                links=[link._asdict() for link in document.links], outline=json.dumps(document.outline, ensure_ascii=False),
                canonical=document.canonical,
            )
        )  # fmt: skip
    return {
        "crawled": table("crawled", rows),
        "redirects": table("redirects", redirects),
        "fragments": table("fragments", fragments),
        "canonical_sites": table("canonical_sites", [dict(site=site) for site in sorted(hosts)]),
        "site_pages": table(
            "site_pages",
            [dict(site=site, n=n, links=all_, to_sections=some) for site, (n, all_, some) in pages.items()],
        ),
        "site_links": table("site_links", [_link_row(*key, n) for key, n in links.items()]),
        "losses": counts.table(),
    }


def _link_row(site: str, target: str, anchor: str, n: int) -> Row:
    page, _, fragment = target.partition("#")
    return dict(site=site, target=target, page=page, fragment=fragment, anchor=anchor, n=n)


def _counted(dropped: list[Dropped]) -> DropCounts:
    counts = DropCounts()
    for item in dropped:
        counts.add(item.reason, item.where, item.example, item.times)
    return counts


def find(engine: Engine) -> None:
    """Joins the counts into the tables `boilerplate`, `sites`, `crawled_sites` and `section_targets`."""
    share = round(1000 * engine.job["config"]["source"]["boilerplate_share"])
    engine.join("boilerplate", BOILERPLATE_SQL.format(MIN_PAGES, share), ["site_links", "site_pages"], partitioned=True)
    engine.join("sites", SITES_SQL, ["site_pages"], partitioned=True)
    engine.join("crawled_sites", CRAWLED_SITES_SQL, ["canonical_sites", "site_pages"], partitioned=True)
    inputs = ["site_links", "fragments", "redirects"]
    engine.join("section_targets", SECTION_TARGETS_SQL, inputs, partitioned=True)


def drop(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over `crawled`: pages or their sections, without boilerplate; counts what was removed."""
    source = job["config"]["source"]
    split = {
        row["site"]: sections.is_split(source, row["links"], row["to_sections"])
        for row in read(job, "sites", number).to_pylist()
    }
    places = {row["target"]: row["section"] for row in read(job, "section_targets", number).to_pylist()}
    hosts = {row["site"] for row in read(job, "crawled_sites", number).to_pylist()}

    def place_of(target: str, sections_too: bool) -> str:
        page = target.partition("#")[0]
        return places.get(target, page) if sections_too else page

    known: dict[str, set[Key]] = {}
    for row in read(job, "boilerplate", number).to_pylist():
        target = place_of(row["target"], split[row["site"]])
        known.setdefault(row["site"], set()).add((target, row["anchor"]))
    dropped: list[Dropped] = []
    counts = DropCounts()
    documents: list[tuple[int, LinkedDocument]] = []
    last = -1
    for batch in read(job, "crawled", number).to_batches(max_chunksize=256):
        for row in batch.to_pylist():
            document = _document(row)
            site = urls.site(document.address)
            found = sections.finished(document, split[site], partial(place_of, sections_too=split[site]), dropped)
            if urls.site(document.canonical or "///") in hosts:
                found = _moved(found, document.address, document.canonical)
            first = max(last + 1, row["doc"])  # sections are numbered after their page
            last = first + len(found) - 1
            for doc, each in enumerate(found, first):
                boilerplate = known.get(site) if each.redirect is None else None
                documents.append((doc, _without(each, boilerplate, counts) if boilerplate else each))
    for item in dropped:
        counts.add(item.reason, item.where, item.example, item.times)
    return link_graph.tabulate(job["config"], number, documents, counts)


def _document(row: Row) -> LinkedDocument:
    links = tuple(Link(**link) for link in row["links"])
    outline = None
    if given := json.loads(row["outline"]):
        listed = (
            Section(fragment, title, parent, tuple((start, end) for start, end in spans))
            for fragment, title, parent, spans in given[0]
        )
        outline = Outline(tuple(listed), given[1])
    return LinkedDocument(
        row["address"], row["address"], row["title"], row["text"], links, row["lead_end"], outline=outline,
        canonical=row["canonical"],
    )  # fmt: skip


def _moved(documents: list[LinkedDocument], old: str, new: str) -> list[LinkedDocument]:
    """The documents of a page under another address, and redirects from their own."""
    found: list[LinkedDocument] = []
    for document in documents:
        address = new + document.address[len(old) :]
        redirect = None if document.redirect is None else new + document.redirect[len(old) :]
        found.append(replace(document, address=address, id=address, redirect=redirect))
        found.append(LinkedDocument(document.address, document.id, "", "", (), 0, redirect=address))
    return found


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
    return replace(document, text=text, links=tuple(kept), lead_end=lead_end)
