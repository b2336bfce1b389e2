"""The first stage of every job: sources to documents. Web sites as a whole: links that recur on most pages, pages split into
sections, addresses on other hosts.

A link is boilerplate if more than `BOILERPLATE_SHARE` of the site's pages contain it, with the same anchor text and the
same target. A paragraph of only such links and punctuation (a menu) is removed, so that it does not begin the text of a
destination. Sites with few pages are not changed, since frequencies say nothing there.

The links between the pages of a site decide whether pages are split. On a documentation site most links lead to a
section (`os.html#os.path.join`): there every section is a separate document, titled by its path of headings, and a link leads to
the section that its fragment names. On other sites pages stay whole and fragments are dropped; so are fragments that no page has.

A page whose canonical link names another host gets that address if pages of that host are in the input.
"""

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import count, islice

from data_pipeline.engine import tables
from data_pipeline.engine.job import Engine, Job, Outputs
from data_pipeline.engine.store import bucket_parts, read, rows, write
from data_pipeline.engine.tables import DOCS_PER_CHUNK, Row
from data_pipeline.links import link_graph
from data_pipeline.sources import formats, urls
from data_pipeline.sources.document import Chunk, Dropped, Link, LinkedDocument, Outline, Section, redirect
from harp_jax.base.files import lines
from harp_jax.base.progress import say

MIN_PAGES = 8
BOILERPLATE_SHARE = 0.5  # links that occur on more than this share of the pages of a site are dropped
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
# The sites of each bucket: their links, and how many of them lead to sections.
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
TITLE_SEPARATOR = ": "
REDIRECTS_PER_FILE = 1 << 17  # rows per table file of source.redirects; English Wikipedia has ten million redirects


def parse_documents(engine: Engine) -> None:
    """Parses the sources into `documents`, `addresses`, `redirects`; reads further redirects and excluded destinations."""
    job, source = engine.job, engine.job.config["source"]
    say("language: {language} ({language_from})".format(**job.config))
    chunks = enumerate(formats.chunks(source))
    if formats.FORMATS[source["format"]].has_boilerplate:
        engine.map("crawled", parse_chunk, chunks, per_bucket=job.per_bucket)
        engine.join(tables.BOILERPLATE, BOILERPLATE_SQL.format(MIN_PAGES, round(1000 * BOILERPLATE_SHARE)))
        engine.join(tables.SITES, SITES_SQL)
        engine.join(tables.CRAWLED_SITES, CRAWLED_SITES_SQL)
        engine.join(tables.SECTION_TARGETS, SECTION_TARGETS_SQL)
        engine.map("documents", drop, bucket_parts(job, tables.CRAWLED))
    else:
        engine.map("documents", link_graph.parse_chunk, chunks, per_bucket=job.per_bucket)
    address_of = formats.addresser(source)
    extra = (
        dict(address=address_of(address), target=address_of(target), priority=(1 << 62) + i)
        for i, (address, target) in enumerate(formats.redirects(source))
    )
    for part in count():
        if not (redirects := list(islice(extra, REDIRECTS_PER_FILE))):
            break
        write(job, tables.REDIRECTS, 0, "files", part, redirects)
    if path := job.config["exclude_destinations"]:
        excluded = sorted({line.strip() for _, line in lines(path) if line.strip()})
        write(job, tables.EXCLUDED, 0, "file", 0, [dict(address=address_of(line), line=line) for line in excluded])


def parse_chunk(job: Job, number: int, chunk: Chunk) -> Outputs:
    """Map over chunks: the unchanged pages, redirects, anchors, and per site the number of pages, links, and each link."""
    documents, dropped = formats.parse(chunk, job.config["source"])
    crawled: list[tables.CrawledRow] = []
    redirects: list[Row] = []
    fragments: list[Row] = []
    pages: dict[str, Row] = {}
    links: Counter[tuple[str, str, str, str, str]] = Counter()
    hosts: set[str] = set()
    for doc, document in enumerate(documents, number * DOCS_PER_CHUNK):
        own, outline = document.address, document.outline
        if document.redirect is not None:
            redirects.append(dict(address=own, target=document.redirect, priority=doc))
            continue
        host = urls.site(own)
        site = pages.setdefault(host, dict(site=host, n=0, links=0, to_sections=0))
        site["n"] += 1
        # Links within the page count if they lead to a section.
        begins = {section.fragment for section in outline.sections} if outline else set()
        for link in document.links:
            page, _, fragment = link.target.partition("#")
            links[host, link.target, document.text[link.start : link.end], page, fragment] += 1
            if urls.site(page) == host and (page != own or fragment in begins):
                site["links"] += 1
                site["to_sections"] += bool(fragment)
        if outline:
            addresses = _addresses(own, outline)
            fragments += (dict(page=own, fragment=name, section=addresses[n]) for name, n in outline.fragments.items())
        hosts |= {urls.site(document.canonical)} if document.canonical else set()
        crawled.append(tables.CrawledRow(
            doc=doc, address=own, title=document.title, text=document.text, lead_end=document.lead_end,
            links=link_graph.spans_of(document.links), outline=json.dumps(outline, ensure_ascii=False),
            canonical=document.canonical,
        ))  # fmt: skip
    columns = ("site", "target", "anchor", "page", "fragment", "n")
    return {
        tables.CRAWLED: crawled, tables.REDIRECTS: redirects, tables.FRAGMENTS: fragments,
        tables.SITE_PAGES: list(pages.values()), tables.CANONICAL_SITES: [dict(site=site) for site in sorted(hosts)],
        tables.SITE_LINKS: [dict(zip(columns, (*link, n))) for link, n in links.items()],
        tables.LOSSES: link_graph.losses_of(dropped),
    }  # fmt: skip


def drop(job: Job, number: int, payload: None) -> Outputs:
    """Map over `crawled`: pages or their sections, without boilerplate; counts what was removed."""
    sites, choice = read(job, tables.SITES, number).to_pylist(), job.config["source"].get("split", "pages")
    auto = {row["site"]: choice == "auto" and 2 * row["to_sections"] > row["links"] for row in sites}
    split = {site: choice == "sections" or to_sections for site, to_sections in auto.items()}
    places = {row["target"]: row["section"] for row in read(job, tables.SECTION_TARGETS, number).to_pylist()}
    hosts = {row["site"] for row in read(job, tables.CRAWLED_SITES, number).to_pylist()}

    def place_of(target: str, site: str) -> str:
        page = target.partition("#")[0]
        return places.get(target, page) if split[site] else page

    boilerplate: dict[str, set[tuple[str, str]]] = {}  # site → (target, anchor text)
    for row in read(job, tables.BOILERPLATE, number).to_pylist():
        boilerplate.setdefault(row["site"], set()).add((place_of(row["target"], row["site"]), row["anchor"]))
    dropped: list[Dropped] = []
    documents: list[tuple[int, LinkedDocument]] = []
    last = -1
    for row in rows(job, tables.CRAWLED, number):
        address = row["address"]
        site, outline = urls.site(address), json.loads(row["outline"])
        if outline:
            outline = Outline(tuple(Section(*section) for section in outline[0]), outline[1])
        links = tuple(Link(**link) for link in row["links"])
        page = LinkedDocument(address, address, row["title"], row["text"], links, row["lead_end"], outline=outline)
        parts = finished(page, split[site], partial(place_of, site=site), dropped)
        if (canonical := row["canonical"]) and urls.site(canonical) in hosts:
            # Under that address, and redirects from their own.
            moved: list[LinkedDocument] = []
            for part in parts:
                new = canonical + part.address[len(address) :]
                end = part.redirect and canonical + part.redirect[len(address) :]
                moved += [replace(part, address=new, id=new, redirect=end), redirect(part.address, new)]
            parts = moved
        first = max(last + 1, row["doc"])  # sections are numbered after their page
        last = first + len(parts) - 1
        for doc, part in enumerate(parts, first):
            keys = boilerplate.get(site) if part.redirect is None else None
            documents.append((doc, _without(part, keys, dropped) if keys else part))
    return link_graph.tabulate(job.config, number, documents, dropped)


def _without(document: LinkedDocument, boilerplate: set[tuple[str, str]], dropped: list[Dropped]) -> LinkedDocument:
    """The document without links of these targets and anchor texts, and without paragraphs of only such links and punctuation."""
    text, lead_end = document.text, document.lead_end
    links: list[Link] = []
    spans: list[tuple[int, int]] = []
    start = at = 0
    for paragraph in text.split("\n"):
        end = start + len(paragraph)
        rest, position, known = "", start, len(links)
        while at < len(document.links) and document.links[at].start < end:
            link = document.links[at]
            at += 1
            anchor = text[link.start : link.end]
            if (link.target, anchor) in boilerplate:
                dropped.append(Dropped(document.address, "link-boilerplate", f"{anchor} -> {link.target}"))
                rest += text[position : link.start]
                position = link.end
            else:
                links.append(link)
        rest += text[position:end]
        if len(rest) < len(paragraph) and len(links) == known and not _WORD.search(rest):
            dropped.append(Dropped(document.address, "paragraph-boilerplate", paragraph))
        else:
            spans.append((start, end))
        start = end + 1
    of_lead = [min(end, lead_end) - start for start, end in spans if start < lead_end]
    lead_end = max(0, sum(of_lead) + len(of_lead) - 1)
    text, moved = _excerpt(text, links, spans)
    # If the first section was only a menu, the end of the next section is unknown.
    return replace(document, text=text, links=moved, lead_end=lead_end if text[:lead_end].strip() else len(text))


def _excerpt(text: str, links: list[Link], spans: Iterable[tuple[int, int]]) -> tuple[str, tuple[Link, ...]]:
    """Parts of a text, each a paragraph, and the links that begin in them, with offsets in the new text."""
    pieces: list[str] = []
    moved: list[Link] = []
    length = 0
    for start, end in spans:
        pieces.append(text[start:end])
        first, last = (bisect_left(links, offset, key=lambda link: link.start) for offset in (start, end))
        moved += (Link(a - start + length, b - start + length, target) for a, b, target in links[first:last])
        length += end - start + 1
    return "\n".join(pieces), tuple(moved)


def finished(
    document: LinkedDocument, split: bool, place_of: Callable[[str], str], dropped: list[Dropped]
) -> list[LinkedDocument]:
    """The documents of a page: its sections, or the page with links to whole pages. `place_of(target)`: the address of the
    section that a target with a fragment leads to, or of its page."""
    if document.outline is None:
        return [document]
    if not split:
        links = [link._replace(target=link.target.partition("#")[0]) for link in document.links]
        others = [link for link, own in zip(links, document.links) if link.target != document.address or link == own]
        if len(others) < len(links):
            dropped.append(Dropped(document.address, "link-self", "", len(links) - len(others)))
        return [replace(document, links=tuple(others), outline=None)]
    outline, addresses = document.outline, _addresses(document.address, document.outline)
    links = [link._replace(target=place_of(link.target)) if "#" in link.target else link for link in document.links]
    parts: list[LinkedDocument] = []
    inside = 0
    for number, section in enumerate(outline.sections):
        own = f"{document.address}#{section.fragment}" if number else document.address
        if addresses[number] != own:
            if section.fragment or not number:
                parts.append(redirect(own, addresses[number]))
            continue
        text, own_links = _excerpt(document.text, links, section.spans)
        if not text:
            continue
        inside += len(own_links)
        # Its title: those from the page's to its own.
        titles: list[str] = []
        while number:
            titles.insert(0, outline.sections[number].title)
            number = outline.sections[number].parent
        title = TITLE_SEPARATOR.join(filter(None, [document.title, *titles]))[:500]
        parts.append(LinkedDocument(own, own, title, text, own_links, len(text), is_section=True))
    if inside < len(links):
        dropped.append(Dropped(document.address, "link-in-heading", document.title, len(links) - inside))
    whole = replace(document, links=tuple(links), outline=None)
    return parts if any(each.redirect is None for each in parts) else [whole]


def _addresses(page: str, outline: Outline) -> list[str]:
    """The address of every section; a section without text has the address of another one that replaces it."""
    sections = outline.sections
    filled = [any(end > start for start, end in section.spans) for section in sections]
    stands = list(range(len(sections)))
    for number in range(len(sections) - 1, -1, -1):  # a section without text is replaced by the first one below it
        parent = sections[number].parent
        if number and filled[stands[number]] and not filled[parent]:
            stands[parent] = stands[number]
    for number, section in enumerate(sections):  # else the section around it
        if not filled[stands[number]] and number:
            stands[number] = stands[section.parent]
    return [f"{page}#{sections[n].fragment}" if n and sections[n].fragment else page for n in stands]
