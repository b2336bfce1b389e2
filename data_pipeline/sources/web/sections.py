"""Pages as they are, or split into their sections; what decides is how the other pages of the site link to them.

On a documentation site most links lead to a section (`os.html#os.path.join`): there every section is a document of its own, titled
by its path of headings, and a link leads to the section that its fragment names. On other sites pages stay whole and fragments
are dropped.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from data_pipeline.sources.document import Dropped, Link, LinkedDocument, Outline, Section, Source
from data_pipeline.sources.web import urls

TITLE_SEPARATOR = ": "


class LinkCounts(NamedTuple):
    """Links between the pages of a site: all, and those with a fragment, or to a section of the own page."""

    links: int
    to_sections: int


def link_counts(document: LinkedDocument) -> LinkCounts:
    """The counts of one page. Links within it count if they lead to another section: footnotes are no sections."""
    site, own = urls.site(document.address), document.address
    links = to_sections = 0
    outline = document.outline
    begins = {section.fragment for section in outline.sections} if outline else set()
    for link in document.links:
        page, _, fragment = link.target.partition("#")
        if urls.site(page) == site and (page != own or fragment in begins):
            links += 1
            to_sections += bool(fragment)
    return LinkCounts(links, to_sections)


def is_split(source: Source, links: int, to_sections: int) -> bool:
    """Are the pages of a site with these counts split into sections?"""
    choice = source.get("split", "pages")
    return choice == "sections" or (choice == "auto" and 2 * to_sections > links)


def fragment_places(document: LinkedDocument) -> Iterator[tuple[str, str]]:
    """(fragment, address of the section that it points into) of every anchor of the page."""
    if document.outline is None:
        return
    addresses = _addresses(document, document.outline)
    for fragment, number in document.outline.fragments.items():
        yield fragment, addresses[number]


def finished(
    document: LinkedDocument, split: bool, place_of: Callable[[str], str], dropped: list[Dropped]
) -> list[LinkedDocument]:
    """The documents of a page: its sections, or the page with links to whole pages.

    `place_of(target)`: the address of the section that a target with a fragment leads to, or of its page.
    """
    if document.outline is None:
        return [document]
    if not split:
        links = [link._replace(target=link.target.partition("#")[0]) for link in document.links]
        kept = [link for link, given in zip(links, document.links) if link.target != document.address or link == given]
        if len(kept) < len(links):
            dropped.append(Dropped(document.address, "link-self", "", len(links) - len(kept)))
        return [replace(document, links=tuple(kept), outline=None)]
    links = [link._replace(target=place_of(link.target)) if "#" in link.target else link for link in document.links]
    return _sections(replace(document, links=tuple(links)), document.outline, dropped)


def _addresses(document: LinkedDocument, outline: Outline) -> list[str]:
    """Of every section: its own, or that of the section that stands for it, because it has no text."""
    sections = outline.sections
    filled = [any(end > start for start, end in section.spans) for section in sections]
    stands = list(range(len(sections)))
    for number in range(len(sections) - 1, -1, -1):  # the first section below one without text stands for it
        parent = sections[number].parent
        if number and filled[stands[number]] and not filled[parent]:
            stands[parent] = stands[number]
    for number, section in enumerate(sections):  # else the section around it
        if not filled[stands[number]] and number:
            stands[number] = stands[section.parent]
    own = document.address
    return [f"{own}#{sections[n].fragment}" if n and sections[n].fragment else own for n in stands]


def _sections(document: LinkedDocument, outline: Outline, dropped: list[Dropped]) -> list[LinkedDocument]:
    addresses = _addresses(document, outline)
    starts = [link.start for link in document.links]
    found: list[LinkedDocument] = []
    kept = 0
    for number, section in enumerate(outline.sections):
        own = f"{document.address}#{section.fragment}" if number else document.address
        if addresses[number] != own:
            if section.fragment or not number:
                found.append(LinkedDocument(own, own, "", "", (), 0, redirect=addresses[number]))
            continue
        if number and not section.fragment:
            continue
        text, links = _joined(document, section, starts)
        kept += len(links)
        if not text:
            continue
        title = TITLE_SEPARATOR.join(_path(outline, number, document.title))[:500]
        found.append(LinkedDocument(own, own, title, text, tuple(links), len(text), is_section=True))
    if kept < len(document.links):
        dropped.append(Dropped(document.address, "link-in-heading", document.title, len(document.links) - kept))
    return found if any(each.redirect is None for each in found) else [replace(document, outline=None)]


def _joined(document: LinkedDocument, section: Section, starts: list[int]) -> tuple[str, list[Link]]:
    """The text of a section and its links, offsets counted in that text."""
    pieces: list[str] = []
    links: list[Link] = []
    length = 0
    for start, end in section.spans:
        pieces.append(document.text[start:end])
        for link in document.links[bisect_left(starts, start) : bisect_left(starts, end)]:
            links.append(Link(link.start - start + length, link.end - start + length, link.target))
        length += end - start + 1
    return "\n".join(pieces), links


def _path(outline: Outline, number: int, page: str) -> list[str]:
    """Titles from the page's to the section's."""
    titles: list[str] = []
    while number:
        title = outline.sections[number].title
        if title:
            titles.append(title)
        number = outline.sections[number].parent
    return [*([page] if page else []), *reversed(titles)]
