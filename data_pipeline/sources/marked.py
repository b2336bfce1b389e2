"""Text with marks to plain text with offsets: the last step of every reader of markup.

Links and ends of sections are control characters in the text (`\\x02number\\x05anchor\\x03`, `\\x04`), so that the steps that
clean it need no offsets; the functions here remove them. The text must contain no other control characters than line
ends. Paragraphs are separated by blank lines; a single line end is a space.
"""

import re
from typing import NamedTuple

SPACES = re.compile("  +")
_EARLY_STOP = re.compile(r" ([.,;](?=[\s\x03]|$))", re.MULTILINE)
_SPACE_INSIDE = re.compile("((?:\x02\\d+\x05)+) ")
_EMPTY_LINK = re.compile("\x02\\d+\x05\x03")
_SOFT_LINE_END = re.compile("\n(?!\n)(?<!\n\n)")
_LINE_ENDS = re.compile("\n\n+")
_LEAD_MARKS = re.compile("\x04[\n\x04]*")
CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]")  # must be removed before marks are set
ODD_SPACE = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff]")
_MARK = re.compile("[\x02-\x04](?:(?<=\x02)(\\d+)\x05)?")


class Plain(NamedTuple):
    """Paragraphs separated by line feeds; links (start, end, address); end of the lead; (reason, example) of dropped links."""

    text: str
    links: list[tuple[int, int, str]]
    lead_end: int
    dropped: list[tuple[str, str]]


def tidy(text: str) -> str:
    """Trims links and lines; one line per paragraph. Linear."""
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
    plain, numbered, lead_end = offsets(text)
    kept = {number for _, _, number in numbered}
    dropped += [("link-empty", address) for number, address in enumerate(addresses) if number not in kept]
    return Plain(plain, [(start, end, addresses[number]) for start, end, number in numbered], lead_end, dropped)


def offsets(text: str) -> tuple[str, list[tuple[int, int, int]], int]:
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
