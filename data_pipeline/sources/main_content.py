"""The main content of an HTML tree as blocks of text with marks (document.py): one walk over the selected nodes, no recursion.

content_selection.py decides which part of the page is content. The first <h1> is the title and not part of the text; other
headings are separate blocks. Code listings are paragraphs, and so are the rows of a data table (with <th> or <caption>);
other tables are layout. Menus built from plain <div>s in short pages cannot be recognised here: links/web_sites.py finds them
by frequency.

A block belongs to a section. Sections begin at headings and at defined terms (<dt>) that a fragment of a URL can point to:
`<h2 id="x">`, `<section id="x"><h2>`, `<a name="x"></a><h2>`, `<dt id="x">`. The text after a <dl> or <section> belongs to the
section around it.
"""

import re
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from data_pipeline.sources.content_selection import HEADINGS, INLINE, OPAQUE, is_section, select
from data_pipeline.sources.document import Section

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Character references such as &#2; can produce the control characters used as marks.
_WHITE = re.compile("[\x00-\x1f\ud800-\udfff]")
# A heading's link to itself: its text is a symbol, or empty.
_PERMALINK = re.compile(r"\W*")
# Numbers that the markup tells apart: <span class="section-number"> (Sphinx, pandoc), headings with the class of their level
# (Texinfo); and Sphinx's links to the source code.
_APART = re.compile(r"(?<![a-z])(?:section-?number|secno|secnum|viewcode-link)(?![a-z])")
_LEVEL = re.compile(r"(?:chapter|appendix|(?:sub)*section)(?:-heading)?")
_NUMBER_OF_LEVEL = re.compile(r"(?:Appendix |Chapter )?(?:\d+|[A-Z])(?:\.\d+)*\.?\s+(?=\S)")
_TITLE_NODES = 1000  # nodes read per heading; a <dt> may contain a whole page
_NO_SECTION = Section("", "", 0, ())


class Block(NamedTuple):
    """Text with marks in a section; `begins`: the heading or term that the section begins with; `heading`: any heading."""

    text: str
    section: int
    begins: bool = False
    heading: bool = False


class MainContent:
    """The content of a parsed page. Linear in its nodes; never raises.
    blocks: in reading order. sections: the first is the page, its title the first <h1>; without spans. fragments: every anchor of
    the page and the section that it is in. hrefs: of the links by number. outside: hrefs outside the content. unread: blocks of
    prose outside it, the longest first."""

    def __init__(self, tree: "LexborHTMLParser") -> None:
        self.blocks: list[Block] = []
        self.sections = [_NO_SECTION]
        self.fragments: dict[str, int] = {}
        self.hrefs: list[str] = []
        self.outside: list[str] = []
        self.unread: list[LexborNode] = []
        # The state of the walk: the open block and section.
        self._pieces: list[str] = []
        self._begins = self._heading = self._titled = False
        self._body = False  # has the section text below its heading?
        self._section = 0
        self._first = 1  # section below the title
        self._levels: list[tuple[str, int]] = []  # open headings: tag and section
        self._waiting: list[str] = []  # anchors since the last text
        self._begun: set[str] = set()  # anchors that begin a section
        self._terms: list[tuple[int, int]] = []  # of each open <dl>: the section around it, its term without definition
        if (body := tree.body) is not None:
            root, self._left_out, self._anchors, self.unread = select(body)
            self._of_data = {_table_of(cell) for cell in body.css("th")}
            self._of_data |= {each.parent.mem_id for each in body.css("caption") if each.parent is not None}
            self.fragments = dict.fromkeys(self._anchors.values(), 0)
            self._read(root)
            links = Counter(link.attributes.get("href") or "" for link in body.css("a[href]"))
            self.outside = list((links - Counter(self.hrefs)).elements())

    def _read(self, root: "LexborNode") -> None:
        inside = False  # inside a link
        # Nodes to read, the next one last; ends of elements: what follows them, the section after them or -1, the tag.
        todo: list[LexborNode | tuple[str, int, str]] = [*reversed(list(root.iter(include_text=True)))]
        while todo:
            node = todo.pop()
            if isinstance(node, tuple):
                closing, after, tag = node
                self._pieces.append(closing)
                inside = inside and closing != "\x03"
                if after >= 0:
                    if tag == "dl":
                        self._terms.pop()
                    # A <section> that contains only a heading: what follows is its text.
                    if self._body or tag not in ("section", "div"):
                        self._switch(after)
                continue
            tag = node.tag or ""
            if tag == "-text":
                text = _WHITE.sub(" ", node.text_content or "")
                self._pieces.append(text)
                if text.strip():
                    self._waiting = []
                    self._body = self._body or not (self._begins or self._heading)
            elif tag == "br":
                self._pieces.append(" ")
            elif tag in OPAQUE:
                pass
            elif node.mem_id in self._left_out:
                self._pieces.append("" if tag == "noscript" else " " if inside or tag in INLINE else "\n\n")
            elif tag == "h1" and not self._titled:
                self._title(node, inside)
            else:
                children, closing, after = list(node.iter(include_text=True)), "", -1
                if (anchor := self._anchors.get(node.mem_id)) is not None:
                    self._waiting.append(anchor)
                    self.fragments[anchor] = self._section
                if tag == "a":
                    href = node.attributes.get("href")
                    if href is not None and "#" in href and _PERMALINK.fullmatch(node.text() or ""):
                        children = []
                    elif href is not None and not inside and children:
                        self._pieces.append(f"\x02{len(self.hrefs)}\x05")
                        self.hrefs.append(href)
                        inside, closing = True, "\x03"
                elif tag not in INLINE:
                    # A block inside a link (<a><div>) does not end the paragraph: the link would end with it.
                    closing = " " if inside or (tag in ("td", "th") and _table_of(node) in self._of_data) else "\n\n"
                    self._pieces.append(closing)
                    if children and not inside:
                        after = self._open(node, tag)
                todo.append((closing, after, tag))
                todo += reversed(children)
        self._end_block()

    def _end_block(self) -> None:
        if self._pieces:
            self.blocks.append(Block("".join(self._pieces), self._section, self._begins, self._heading))
            self._pieces = []

    def _switch(self, section: int, begins: bool = False, heading: bool = False) -> None:
        self._end_block()
        self._section, self._begins, self._heading = section if section >= self._first else 0, begins, heading

    def _title(self, node: "LexborNode", inside: bool) -> None:
        """The page begins here: menus and bylines above it are not a section."""
        self._titled = True
        self._begun.update(self._anchors_of(node))
        self._pieces.append(" " if inside else "\n\n")
        if not inside:
            self._switch(0)
            # Headings above the title are text.
            self.blocks = [Block(block.text, 0) for block in self.blocks]
            self.sections = [_NO_SECTION] * len(self.sections)
            self._first, self._levels, self.fragments = len(self.sections), [], dict.fromkeys(self.fragments, 0)
        self.sections[0] = Section("", text_of(node), 0, ())

    def _open(self, node: "LexborNode", tag: str) -> int:
        """Begins a section or a heading; returns the section that follows the element, or -1 if the element does not matter."""
        if tag in HEADINGS:
            if anchors := [] if self._terms else self._anchors_of(node):
                while self._levels and self._levels[-1][0] >= tag:
                    self._levels.pop()
                self._begin(anchors, text_of(node), self._levels[-1][1] if self._levels else 0, heading=True)
                self._levels.append((tag, self._section))
            else:
                self._switch(self._section, heading=True)
        elif tag == "dl":
            self._terms.append((self._section, 0))
        elif tag == "dd" and self._terms:
            self._terms[-1] = (self._terms[-1][0], 0)
            return -1
        elif tag == "dt" and self._terms:
            around, term = self._terms[-1]
            anchors = self._anchors_of(node) if node.mem_id in self._anchors or node.css_first("a[id], a[name]") else []
            if term >= self._first:  # another term with the same definition
                known = self.sections[term]
                self.sections[term] = known._replace(title=f"{known.title}, {text_of(node)}"[:500])
                self.fragments |= dict.fromkeys(anchors, term)
                self._switch(term, begins=True)
                return self._section
            self._switch(around)
            if not anchors:
                return -1
            self._begin(anchors, text_of(node), self._section)
            self._terms[-1] = (around, self._section)
        elif not is_section(tag, node.attributes):
            return -1
        return self._section

    def _begin(self, anchors: list[str], title: str, parent: int, heading: bool = False) -> None:
        self._switch(len(self.sections), begins=True, heading=heading)
        self.fragments |= dict.fromkeys(anchors, self._section)
        self._begun.update(anchors)
        self._body = False
        self.sections.append(Section(anchors[0], title, parent, ()))

    def _anchors_of(self, node: "LexborNode") -> list[str]:
        """The anchors of a heading: its own or that of the <section> it begins, those since the last text, those inside it."""
        own = self._anchors.get(node.mem_id)
        if own is None and (parent := node.parent) is not None:
            around = self._anchors.get(parent.mem_id, "")
            if around in self._waiting or (parent.tag == "section" and around not in self._begun):
                own = around or None
        inner = [self._anchors[each.mem_id] for each in node.css("[id], a[name]") if each.mem_id in self._anchors]
        anchors = dict.fromkeys([*([own] if own else []), *reversed(self._waiting), *inner])
        self._waiting = []
        return list(anchors)


def text_of(heading: "LexborNode") -> str:
    """The text of a heading in one line, without its permalink and, if the markup tells it apart, its number."""
    pieces = []
    for node in islice(heading.traverse(include_text=True), _TITLE_NODES):
        if node.tag == "-text" and (parent := node.parent) is not None:
            text = _WHITE.sub(" ", node.text_content or "")
            link = parent.tag == "a" and "#" in (parent.attributes.get("href") or "")
            hidden = parent.tag in OPAQUE and parent.tag != "title"
            classes = " ".join(each.attributes.get("class") or "" for each in (parent, parent.parent) if each)
            number = parent.tag == "span" and _APART.search(classes)
            if not hidden and not number and not (link and _PERMALINK.fullmatch(text)):
                pieces.append(text)
    text = " ".join("".join(pieces).split())
    numbered = heading.tag in HEADINGS and _LEVEL.fullmatch(heading.attributes.get("class") or "")
    return text[number.end() :] if numbered and (number := _NUMBER_OF_LEVEL.match(text)) else text


def _table_of(cell: "LexborNode") -> int:
    """The `mem_id` of the table of a <td> or <th>; at most <tr> and <tbody> stand between. 0 outside tables."""
    table = cell.parent
    for _ in range(2):
        if table is not None and table.tag != "table":
            table = table.parent
    return table.mem_id if table is not None and table.tag == "table" else 0
