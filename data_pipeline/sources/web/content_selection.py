"""Which part of a page is its main content: a root element, and the elements below it that are left out.

1. Boilerplate is left out by tag, role and name (boilerplate_elements.py), unless it holds most of the page's prose: a <form> or
   <noscript> around a whole page, or a class that means something else on this site.
2. The smallest element with most of the remaining prose is the core. The root is the enclosing article, or the element with the
   core and the page's title, if that adds little prose.
3. Below the root, what stands before the title or after the core without prose of its own is left out, and so are blocks that
   consist of links, and headings with nothing below them.

A page with little prose (a list of links, a short note) is read as a whole, or by its <main> or only <article>.
"""

from typing import TYPE_CHECKING, NamedTuple

from data_pipeline.sources.web import boilerplate_elements as boilerplate
from data_pipeline.sources.web.page_elements import HEADINGS, INLINE, Elements, elements_of

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

MIN_PROSE = 250  # characters; below, the amounts of prose say nothing
_MOST = 0.6  # of the page's prose: what holds more is not boilerplate
_CORE = 0.8  # of the remaining prose
_ARTICLE = 1.2  # of the core's prose, at most, in the article around it
_AFTER = 0.05  # of the core's prose: what stands after it with less is left out
_LINKS = 0.6  # of a block's text
_FEW = 0.25  # of the page's prose: names that leave less, and less than MIN_PROSE, mean something else on this site


_LINES = frozenset(("p", "li", "dt", "dd")) | HEADINGS
_WRAPPERS = ("form", "noscript")  # around whole pages of some sites, however short


class Selection(NamedTuple):
    """What to read of a page, elements as `mem_id`s.

    anchors: what fragments of URLs point to, by element: its id, or the name of an <a>. visited: nodes, the measure of work.
    """

    root: "LexborNode"
    left_out: set[int]
    anchors: dict[int, str]
    visited: int


def select(body: "LexborNode") -> Selection:
    """Linear in the nodes of the body."""
    page = elements_of(body)
    out = _boilerplate(page, by_name=True)
    kept = _kept(page, out)
    if kept[0] < min(_FEW * page.prose[0], MIN_PROSE):
        out = _boilerplate(page, by_name=False)
        kept = _kept(page, out)
    if kept[0] < MIN_PROSE:
        root = _landmark(page, out)
    else:
        core = _core(page, out, kept)
        root = _root(page, out, kept, core)
        _leave_before_title(page, out, kept, root)
        _leave_after_core(page, out, kept, root, core)
        _leave_blocks_of_links(page, out, root)
        _leave_empty_headings(page, out, root)
    left_out = {page.nodes[number].mem_id for number in range(len(out)) if out[number]}
    return Selection(page.nodes[root], left_out, _anchors(page), page.visited)


def _anchors(page: Elements) -> dict[int, str]:
    found: dict[int, str] = {}
    for tag, node, attributes in zip(page.tags, page.nodes, page.attributes):
        if attributes and (anchor := attributes.get("id") or (tag == "a" and attributes.get("name"))):
            found[node.mem_id] = anchor
    return found


def _boilerplate(page: Elements, by_name: bool) -> list[bool]:
    """Which elements are left out, those below them included."""
    count = len(page.tags)
    out, article, code = [False] * count, [False] * count, [False] * count
    most, little_prose = _MOST * page.prose[0], page.prose[0] < 4 * MIN_PROSE
    for i in range(1, count):
        tag, attributes, parent = page.tags[i], page.attributes[i], page.parents[i]
        if out[parent]:
            out[i] = True
            continue
        names = boilerplate.names_of(tag, attributes) if attributes else ""
        article[i] = article[parent] or boilerplate.is_whole_article(tag, names)
        # Highlighted code: its classes are the parts of speech of a program.
        code[i] = code[parent] or tag in ("pre", "code")
        if code[i]:
            continue
        found = boilerplate.is_apart(tag, attributes)
        # The header of an article is content, that of the page is not.
        found = found or (tag == "header" and not article[i] and not page.titles[i])
        found = found or (
            by_name and boilerplate.is_named_boilerplate(tag, attributes, names, page.text[i], page.linked[i])
        )
        out[i] = found and page.prose[i] <= most and not (tag in _WRAPPERS and _is_most_text(page, i))
        # On a page without other prose, that of its footer is the most.
        if little_prose and not out[i] and page.text[i] <= _MOST * page.text[0]:
            out[i] = boilerplate.is_about_the_site(tag, names)
    return out


def _is_most_text(page: Elements, i: int) -> bool:
    return page.text[i] - page.linked[i] > _MOST * (page.text[0] - page.linked[0])


def _kept(page: Elements, out: list[bool]) -> list[int]:
    """The prose of each subtree that is not left out."""
    kept = [0 if gone else prose for gone, prose in zip(out, page.own_prose)]
    for i in range(len(out) - 1, 0, -1):
        kept[page.parents[i]] += kept[i]
    return kept


def _landmark(page: Elements, out: list[bool]) -> int:
    """The first <main> with text, or the only <article> with text, or the body."""
    filled = [i for i in range(1, len(out)) if not out[i] and page.text[i]]
    for i in filled:
        if page.tags[i] == "main" or page.attributes[i].get("role") == "main":
            return i
    articles = [i for i in filled if page.tags[i] == "article"]
    return articles[0] if len(articles) == 1 else 0


def _core(page: Elements, out: list[bool], kept: list[int]) -> int:
    """The smallest element reached from the body by steps into the child with most of the remaining prose."""
    largest = [0] * len(out)  # the child with the most prose
    most = [0] * len(out)
    for i in range(len(out) - 1, 0, -1):
        if not out[i] and page.tags[i] != "p" and page.tags[i] not in INLINE:
            parent = page.parents[i]
            if kept[i] and kept[i] >= most[parent]:
                largest[parent], most[parent] = i, kept[i]
    core = 0
    while most[core] and most[core] >= _CORE * kept[core]:
        core = largest[core]
    return core


def _root(page: Elements, out: list[bool], kept: list[int], core: int) -> int:
    """The core, or an element around it: the page's <main>, the element with its title, the article."""
    titles = _kept_titles(page, out)
    root, i = core, core
    while i > 0:
        if titles[i] or page.tags[i] == "main":
            root = i
            break
        i = page.parents[i]
    i = root
    while i > 0:
        attributes = page.attributes[i]
        if boilerplate.is_article(page.tags[i], boilerplate.names_of(page.tags[i], attributes)):
            if kept[i] > _ARTICLE * kept[core]:
                break
            root = i
        i = page.parents[i]
    return root


def _kept_titles(page: Elements, out: list[bool]) -> list[int]:
    titles = [int(tag == "h1" and not gone) for tag, gone in zip(page.tags, out)]
    for i in range(len(out) - 1, 0, -1):
        titles[page.parents[i]] += titles[i]
    return titles


def _leave(page: Elements, out: list[bool], i: int) -> None:
    for number in range(i, i + page.sizes[i]):
        out[number] = True


def _leave_before_title(page: Elements, out: list[bool], kept: list[int], root: int) -> None:
    """Kickers, breadcrumbs and dates above the first <h1>, if there is almost no prose above it."""
    end = root + page.sizes[root]
    title = next((i for i in range(root, end) if page.tags[i] == "h1" and not out[i]), None)
    if title is None or sum(page.own_prose[root:title]) >= 0.1 * kept[root]:
        return
    i = root + 1
    while i < title:
        around = i + page.sizes[i] > title
        if not around and not page.prose[i] and page.tags[i] not in INLINE:
            _leave(page, out, i)
        i += 1 if around or not out[i] else page.sizes[i]


def _leave_after_core(page: Elements, out: list[bool], kept: list[int], root: int, core: int) -> None:
    """Elements after the core with little prose; its siblings of the same kind are further sections."""
    inner = core
    while inner != root:
        parent = page.parents[inner]
        i, end = inner + page.sizes[inner], parent + page.sizes[parent]
        kind = page.tags[inner], page.attributes[inner].get("class")
        while i < end:
            same = kind == (page.tags[i], page.attributes[i].get("class"))
            if not same and kept[i] <= _AFTER * kept[core]:
                _leave(page, out, i)
            i += page.sizes[i]
        inner = parent


def _leave_blocks_of_links(page: Elements, out: list[bool], root: int) -> None:
    """Menus and lists of teasers. Paragraphs, list items and headings stay, the links in them are few."""
    i, end = root + 1, root + page.sizes[root]
    while i < end:
        links = page.text[i] and page.linked[i] > _LINKS * page.text[i] and not page.prose[i]
        if links and not out[i] and page.tags[i] not in _LINES and page.tags[i] not in INLINE:
            _leave(page, out, i)
        i += page.sizes[i] if out[i] else 1


def _leave_empty_headings(page: Elements, out: list[bool], root: int) -> None:
    """Headings above which and the next heading of their level, or the end, there is no text left."""
    waiting: list[tuple[str, int]] = []
    i, end = root, root + page.sizes[root]
    while i < end:
        tag = page.tags[i]
        if out[i]:
            i += page.sizes[i]
        elif tag in HEADINGS:
            while waiting and waiting[-1][0] >= tag:
                _leave(page, out, waiting.pop()[1])
            if not page.own[page.parents[i]]:  # else its text may stand in the parent itself
                waiting.append((tag, i))
            i += page.sizes[i]
        else:
            if page.own[i]:
                waiting = []
            i += 1
    for tag, heading in waiting:
        if tag != "h1":
            _leave(page, out, heading)
