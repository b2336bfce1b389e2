"""The main content of an HTML tree as text with marks (marked.py): one walk over the selected nodes, no recursion.

content_selection.py decides which part of the page is content. The first <h1> is the title and not part of the text; other
headings are paragraphs that end the section before them. Code listings are paragraphs, and so are the rows of a data table (with
<th> or <caption>); other tables are layout. Menus built from plain <div>s in short pages cannot be recognised here:
graph/boilerplate.py finds them by frequency.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

from data_pipeline.sources.web.content_selection import select
from data_pipeline.sources.web.page_elements import HEADINGS, INLINE, OPAQUE

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Character references such as &#2; can produce the control characters used as marks.
_WHITE = re.compile("[\x00-\x1f\ud800-\udfff]")
# The link of a heading to itself: its anchor is a sign, or nothing.
_PERMALINK = re.compile(r"[\s\W¶§]*")


class Content(NamedTuple):
    """Text with marks, the hrefs of its links by number, the first <h1>, and the number of links outside the content."""

    text: str
    hrefs: list[str]
    heading: str
    outside: int
    nodes: int  # visited: the measure of work


def main_content(tree: "LexborHTMLParser") -> Content:
    """Reads a parsed page (selectolax.lexbor.LexborHTMLParser). Linear in its nodes; never raises."""
    body = tree.body
    if body is None:
        return Content("", [], "", 0, 0)
    root, left_out, nodes = select(body)
    outside = len(body.css("a[href]"))
    of_data = _tables_of_data(body)
    pieces: list[str] = []
    hrefs: list[str] = []
    heading, titled = "", False
    inside = False  # a link
    stack: list[tuple[LexborNode, str]] = []
    node = root.first_child
    while node is not None:
        nodes += 1
        child, closing, tag = None, "", node.tag or ""
        if tag == "-text":
            pieces.append(_WHITE.sub(" ", node.text_content or ""))
        elif tag == "br":
            pieces.append(" ")
        elif tag in OPAQUE:
            pass
        elif node.mem_id in left_out:
            closing = "" if tag == "noscript" else " " if inside or tag in INLINE else "\n\n"
        elif tag == "h1" and not titled:
            # The page begins here: menus and bylines above it are not a section.
            heading, titled = _text_of(node), True
            pieces = ["".join(pieces).replace("\x04", ""), " " if inside else "\n\n"]
        else:
            child = node.first_child
            if tag == "a":
                href = node.attributes.get("href")
                if href is not None and href.startswith("#") and _PERMALINK.fullmatch(node.text() or ""):
                    child = None
                elif href is not None and not inside and child is not None:
                    pieces.append(f"\x02{len(hrefs)}\x05")
                    hrefs.append(href)
                    inside, closing = True, "\x03"
            elif tag not in INLINE:
                # A block inside a link (<a><div>) does not end the paragraph: the link would end with it.
                closing = " " if inside or (tag in ("td", "th") and _table_of(node) in of_data) else "\n\n"
                pieces.append("\n\n\x04\n\n" if tag in HEADINGS and not inside else closing)
        if child is not None:
            stack.append((node, closing))
            node = child
            continue
        pieces.append(closing)
        while node is not None and (following := node.next) is None:
            if not stack:
                return Content("".join(pieces), hrefs, heading, outside - len(hrefs), nodes)
            node, closing = stack.pop()
            pieces.append(closing)
            inside = inside and closing != "\x03"
        node = following
    return Content("".join(pieces), hrefs, heading, outside - len(hrefs), nodes)


def _text_of(heading: "LexborNode") -> str:
    """The text of a heading in one line, without its permalink."""
    pieces = []
    for node in heading.traverse(include_text=True):
        if node.tag == "-text":
            parent = node.parent
            link = parent is not None and parent.tag == "a" and (parent.attributes.get("href") or "").startswith("#")
            text = node.text_content or ""
            if not (link and _PERMALINK.fullmatch(text)):
                pieces.append(text)
    return " ".join("".join(pieces).split())


def _tables_of_data(body: "LexborNode") -> set[int]:
    return {_table_of(cell) for cell in body.css("th")} | {
        caption.parent.mem_id for caption in body.css("caption") if caption.parent is not None
    }


def _table_of(cell: "LexborNode") -> int:
    """The `mem_id` of the table of a <td> or <th>; at most <tr> and <tbody> stand between. 0 outside tables."""
    table = cell.parent
    for _ in range(2):
        if table is not None and table.tag != "table":
            table = table.parent
    return table.mem_id if table is not None and table.tag == "table" else 0
