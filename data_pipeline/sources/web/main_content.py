"""The main content of an HTML tree as text with marks (marked.py): one walk over its nodes, no recursion.

Content is the text of <main>, of a single <article>, or else of <body>, without navigation, headers, footers, sidebars, forms,
code listings, figures, data tables (with <th> or <caption>; other tables are layout) and hidden parts. Headings are left out;
they end sections, except the first <h1>, which is the title. Menus built from plain <div>s cannot be recognised here:
graph/boilerplate.py finds them by frequency.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Never displayed as prose, or about the site rather than the page. <noscript> repeats what a script displays.
_OPAQUE = frozenset(
    """script style noscript template svg math iframe object embed canvas audio video map select textarea button datalist
    input img rp rt head title -comment""".split()  # noqa: SIM905
)
_OPAQUE_BLOCKS = frozenset(["nav", "footer", "aside", "menu", "dialog", "form", "pre", "listing", "xmp", "figure"])
_NAVIGATION_ROLES = frozenset(
    """navigation banner contentinfo complementary search menu menubar dialog toolbar""".split()  # noqa: SIM905
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_INLINE = frozenset(
    """a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q ruby rb s samp
    small span strike strong sub sup time tt u var wbr meter progress picture""".split()  # noqa: SIM905
)
# Character references such as &#2; can produce the control characters used as marks.
_WHITE = re.compile("[\x00-\x1f\ud800-\udfff]")
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


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
    root = _root(tree) or body
    outside = len(body.css("a[href]"))
    of_data = _tables_of_data(body)
    pieces: list[str] = []
    hrefs: list[str] = []
    heading, titled, nodes = "", False, 0
    inside = False  # a link
    stack: list[tuple[LexborNode, str]] = []
    node = root.first_child
    while node is not None:
        nodes += 1
        child, closing, tag = None, "", node.tag or ""
        if tag == "-text":
            pieces.append(_WHITE.sub(" ", node.text_content or ""))
        elif tag in _HEADINGS:
            if tag == "h1" and not titled:
                # The page begins here: menus and bylines above it are not a section.
                heading, titled = " ".join((node.text() or "").split()), True
                pieces = ["".join(pieces).replace("\x04", ""), " " if inside else "\n\n"]
            else:
                pieces.append(" " if inside else "\n\n\x04\n\n")
        elif tag == "br":
            pieces.append(" ")
        elif tag in _OPAQUE:
            pass
        elif _is_hidden(node, tag, root.tag == "body") or (tag == "table" and node.mem_id in of_data):
            closing = " " if inside or tag in _INLINE else "\n\n"
        else:
            child = node.first_child
            if tag == "a" and not inside and child is not None and (href := node.attributes.get("href")) is not None:
                pieces.append(f"\x02{len(hrefs)}\x05")
                hrefs.append(href)
                inside, closing = True, "\x03"
            elif tag not in _INLINE:
                # A block inside a link (<a><div>) does not end the paragraph: the link would end with it.
                closing = " " if inside else "\n\n"
                pieces.append(closing)
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


def _root(tree: "LexborHTMLParser") -> "LexborNode | None":
    for selector in ("main", "[role=main]"):
        if (found := tree.css_first(selector)) is not None:
            return found
    articles = tree.css("article")
    return articles[0] if len(articles) == 1 else None


def _tables_of_data(body: "LexborNode") -> set[int]:
    found: set[int] = set()
    for cell in body.css("th, caption"):
        table = cell.parent  # at most <tr> and <tbody> stand between
        for _ in range(3):
            if table is not None and table.tag != "table":
                table = table.parent
        if table is not None and table.tag == "table":
            found.add(table.mem_id)
    return found


def _is_hidden(node: "LexborNode", tag: str, whole_body: bool) -> bool:
    # The header of an article is content, that of the page is not.
    if tag in _OPAQUE_BLOCKS or (tag == "header" and whole_body):
        return True
    given = node.attributes
    return bool(given) and (
        given.get("role") in _NAVIGATION_ROLES
        or "hidden" in given
        or given.get("aria-hidden") == "true"
        or bool(_HIDDEN_STYLE.search(given.get("style") or ""))
    )
