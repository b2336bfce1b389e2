"""What every source format yields: documents with links, the chunks they come in, and what was dropped; and the last step of every
markup reader, from text with marks to plain text with offsets.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

# The config's `source` as plain values: format, paths (files, globs; folders), redirects (TSV files), exclude, max_page_bytes, and
# for web pages base_url and split.
Source = Mapping[str, Any]
CHUNK_BYTES = 4 << 20


class Link(NamedTuple):
    """A link of a text: `text[start:end]`, in code points, is the anchor; `target` is the destination's address."""

    start: int
    end: int
    target: str


class Section(NamedTuple):
    """A part of a page that a URL with a fragment names; the first section of a page is the text outside all others. `parent`:
    number of the section around it; `spans`: [start, end) of its own text in the page's text, without its heading."""

    fragment: str
    title: str
    parent: int
    spans: tuple[tuple[int, int], ...]


class Outline(NamedTuple):
    """The sections of a page, and for every fragment of the page the number of the section that it points into."""

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
    outline: Outline | None = None  # for a web page that may be split; its links then lead to `address#fragment`
    canonical: str = ""  # for a web page: its canonical address, if that is on another host


class Dropped(NamedTuple):
    """A page, link or line that was dropped: where, the reason (a short stable slug), an excerpt, and how many times."""

    where: str
    reason: str
    example: str
    times: int = 1


class Chunk(NamedTuple):
    """A part of the input, about 4 MiB of raw bytes. Names are unique and sort in input order; payloads can be pickled."""

    name: str
    payload: Any


def redirect(address: str, target: str) -> LinkedDocument:
    """A page that only redirects to another one."""
    return LinkedDocument(address, address, "", "", (), 0, redirect=target)


# Text with marks. Links and ends of sections are control characters in the text (`\x02number\x05anchor\x03`, `\x04`), so that the
# steps that clean it need no offsets; the functions here remove them. The text must not contain control characters other than line
# ends. Paragraphs are separated by blank lines; a single line end is a space.
SPACES = re.compile("  +")
_EARLY_STOP = re.compile(r" ([.,;](?=[\s\x03]|$))", re.MULTILINE)
_SPACE_INSIDE = re.compile("((?:\x02\\d+\x05)+) ")
_EMPTY_LINK = re.compile("\x02\\d+\x05\x03")
_SOFT_LINE_END = re.compile("\n(?!\n)(?<!\n\n)")
_LINE_ENDS = re.compile("\n\n+")
_LEAD_MARKS = re.compile("\x04[\n\x04]*")
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")  # must be removed before marks are set
ODD_SPACE = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_MARK = re.compile("[\x02-\x04](?:(?<=\x02)(\\d+)\x05)?")


class Plain(NamedTuple):
    """Paragraphs separated by line feeds, with their links; end of the lead; (reason, example) of dropped links."""

    text: str
    links: tuple[Link, ...]
    lead_end: int
    dropped: list[tuple[str, str]]


def tidy(text: str) -> str:
    """Trims links and lines; one line per paragraph, single spaces, no invisible characters. Linear."""
    if not text.isascii():
        text = ODD_SPACE.sub(" ", INVISIBLE.sub("", text))
    text = SPACES.sub(" ", text)
    # Move spaces out of links; remove empty links.
    if "\x05 " in text:
        text = _SPACE_INSIDE.sub(r" \1", text)
    text = _EMPTY_LINK.sub("", text.replace(" \x03", "\x03 "))
    # Single line ends are spaces; blank lines, list items and headings end paragraphs.
    text = SPACES.sub(" ", text).replace(" \n", "\n").replace("\n ", "\n")
    text = _LINE_ENDS.sub("\n", _SOFT_LINE_END.sub(" ", text))
    text = _EARLY_STOP.sub(r"\1", SPACES.sub(" ", text))
    return _LEAD_MARKS.sub("\x04\n", text.replace("\n\x04", "\x04"))


def assemble(text: str, addresses: list[str], dropped: list[tuple[str, str]]) -> Plain:
    """Replaces the marks by offsets; `addresses[number]` is the destination of link `number`. Appends to `dropped`."""
    plain, numbered, lead_end = unmark(text)
    with_text = {number for _, _, number in numbered}
    dropped += [("link-empty", address) for number, address in enumerate(addresses) if number not in with_text]
    return Plain(plain, tuple(Link(start, end, addresses[n]) for start, end, n in numbered), lead_end, dropped)


def unmark(text: str) -> tuple[str, list[tuple[int, int, int]], int]:
    """Text without marks, its links as (start, end, number), and the end of its lead."""
    text = text.lstrip("\n\x04 ").rstrip("\n\x04 ")
    pieces: list[str] = []
    links: list[tuple[int, int, int]] = []
    length = position = 0
    lead_end = -1
    opened: tuple[int, int] | None = None
    for match in _MARK.finditer(text):
        pieces.append(text[position : match.start()])
        length += match.start() - position
        position = match.end()
        if match[1]:
            opened = (length, int(match[1]))
        elif match[0] == "\x04":
            lead_end = length if lead_end < 0 else lead_end
        elif opened:
            if opened[0] < length:
                links.append((opened[0], length, opened[1]))
            opened = None
    pieces.append(text[position:])
    plain = "".join(pieces)
    return plain, links, len(plain) if lead_end < 0 else lead_end
