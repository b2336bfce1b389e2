"""What every source format yields: documents with links, the chunks they come in, and what was dropped."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

# The config's `source` as plain values: format, paths (files, globs; folders for the formats of many files), redirects (TSV
# files), max_page_bytes, and what some formats read: index, base_url, boilerplate_share, split.
Source = Mapping[str, Any]
CHUNK_BYTES = 4 << 20


class Link(NamedTuple):
    """A link of a text: `text[start:end]`, in code points, is the anchor; `target` is the destination's address."""

    start: int
    end: int
    target: str


class Section(NamedTuple):
    """A part of a page that a URL with a fragment names; the first of a page is what stands outside all others.

    `parent`: number of the section around it; `spans`: [start, end) of its own text in the page's, without its heading.
    """

    fragment: str
    title: str
    parent: int
    spans: tuple[tuple[int, int], ...]


class Outline(NamedTuple):
    """The sections of a page, and the number of the section that every fragment of the page points into."""

    sections: tuple[Section, ...]
    fragments: Mapping[str, int]


@dataclass(frozen=True)
class LinkedDocument:
    """A page: plain text with paragraphs separated by line feeds, and its links, sorted by start, without overlap."""

    address: str  # the target of links: the normalised title (MediaWiki), the URL (HTML, WARC), the id (JSONL)
    id: str
    title: str
    text: str
    links: tuple[Link, ...]
    lead_end: int  # end of the first section in code points; len(text) if sections are unknown
    redirect: str | None = None  # the address that this page redirects to; text and links are then empty
    is_disambiguation: bool = False
    is_section: bool = False  # a part of a page that was split
    outline: Outline | None = None  # of a web page that may be split; its links then lead to `address#fragment`
    canonical: str = ""  # of a web page: its address on another host, by its own account


class Dropped(NamedTuple):
    """A page, link or line that was dropped: where, the reason (a short stable slug), an excerpt, and how many times."""

    where: str
    reason: str
    example: str
    times: int = 1


class Chunk(NamedTuple):
    """A part of the input. Names are unique and sort in input order; payloads can be pickled."""

    name: str
    payload: Any


def chunk_name(file_number: int, path: str, number: int) -> str:
    """`0000-dump.xml.bz2:00012`: the file's number distinguishes equal names of different folders."""
    return f"{file_number:04d}-{path.rsplit('/', 1)[-1]}:{number:05d}"
