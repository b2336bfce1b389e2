"""Malformed pages from a seed: markup that never closes, nests thousands deep, or is not text."""

import random
from xml.sax.saxutils import escape

from data_pipeline.sources.document import LinkedDocument

WORDS = "bak kori muta selo fine du the of near and in is a . , ( ) 1999".split()  # noqa: SIM905
TOKENS = [
    "[[", "]]", "[[a|b ", "[[File:", "[[Category:", "[[#", "[[:", "{{", "}}", "{{lang|", "{{{a", "}}}", "{{{", "|", "<ref", "<ref>",
    "</ref>", "<ref name=x/>", "<nowiki>", "<!--", "-->", "<math>", "<table>", "</table>", "<div", "\n{|", "\n|}", "\n|-", "\n!",
    "'''s ''", "''", "[http://a ", "[//", "((", "( ", "__TOC__", "__A", "&amp", "&#0;", "&#xD800;", "&nbsp;", "\n==", "\n== h ==\n",
    "\n* ", "\n:", "\n\n", "\n----", "[[a]]", "{{a}}", "<br>", "<", ">", "\x00", "\x02\x03", "\x04", "\x05", "\ud800", "\udfff",
    "\ufffe", "\u2028", "\u200b", "\r", "é", "日本。", "🙂",
]  # fmt: skip
BYTES = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\x00", b"\xe2\x80", b"\xef\xbf\xbf"]


def wikitext(draw: random.Random) -> str:
    """Up to about 200 KB: random tokens, one token many times, or random characters."""
    kind = draw.random()
    if kind < 0.6:
        parts = draw.choices([*TOKENS, *WORDS, " ", " ", " "], k=draw.choice([10, 100, 1000]))
        return draw.choice(["", " "]).join(parts)
    if kind < 0.8:
        return draw.choice(TOKENS) * draw.choice([1, 50, 2000, 20_000]) + " ".join(draw.choices(WORDS, k=30))
    return "".join(chr(draw.choice([draw.randrange(0x110000), draw.randrange(256)])) for _ in range(3000))


def wiki_page(number: int) -> bytes:
    """The XML of a page: an intact paragraph with two links, then a malformed part, sometimes with invalid UTF-8."""
    draw = random.Random(f"page {number}")
    text = f"The page {number} is near [[Page {number + 1}|bak kori]] and [[Page 7|muta]] .\n\n{wikitext(draw)}"
    data = escape(text).encode("utf-8", "surrogatepass")
    if draw.random() < 0.3:
        data += b"".join(draw.choices([*BYTES, b" kori "], k=draw.choice([1, 20])))
    title = f"Page {number}" if number % 50 else f"Talk:Page {number}"
    return (
        f"<page><title>{title}</title><id>{number}</id><revision><text>".encode()
        + data
        + b"</text></revision></page>\n"
    )


def check_offsets(document: LinkedDocument) -> None:
    """Anchors are in order, each within one line of the text, and the text can be encoded."""
    document.text.encode()
    position = 0
    for start, end, target in document.links:
        anchor = document.text[start:end]
        assert position <= start < end and anchor == anchor.strip() and "\n" not in anchor and target
        position = end
    assert 0 <= document.lead_end <= len(document.text)
