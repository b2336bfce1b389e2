"""The elements of a page's body in document order, with the amounts of text that tell content from boilerplate.

Prose is text outside links in blocks of at least `MIN_BLOCK` characters: menus, dates and bylines have next to none. The text of
inline elements counts for the block that contains them.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

# Never displayed as text, or repeated by a script's own display.
OPAQUE = frozenset(
    """script style template svg math iframe object embed canvas audio video map select textarea button datalist
    input img rp rt head title -comment""".split()  # noqa: SIM905
)
INLINE = frozenset(
    """a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q ruby rb s samp
    small span strike strong sub sup time tt u var wbr meter progress picture""".split()  # noqa: SIM905
)
HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
MIN_BLOCK = 60


class Elements(NamedTuple):
    """Lists with one entry per element, parents first; the entries of a subtree are [i, i + size[i])."""

    nodes: "list[LexborNode]"
    tags: list[str]
    attributes: list[dict[str, str | None]]
    parents: list[int]  # -1: the body
    sizes: list[int]  # elements of the subtree
    own: list[int]  # characters of the element's own text
    text: list[int]  # characters of the subtree
    linked: list[int]  # those inside links
    own_prose: list[int]
    prose: list[int]  # of the subtree
    titles: list[int]  # <h1> elements of the subtree
    visited: int  # nodes, text included: the measure of work


def elements_of(body: "LexborNode") -> Elements:
    """One pass over the nodes, without recursion."""
    nodes: list[LexborNode] = []
    tags: list[str] = []
    attributes: list[dict[str, str | None]] = []
    parents: list[int] = []
    own: list[int] = []
    own_linked: list[int] = []
    visited = 0
    waiting: list[tuple[LexborNode, int, bool]] = [(body, -1, False)]
    while waiting:
        node, parent, inside = waiting.pop()
        number, tag, length = len(nodes), node.tag or "", 0
        inside = inside or tag == "a"
        children: list[tuple[LexborNode, int, bool]] = []
        child = node.first_child
        while child is not None:
            visited += 1
            kind = child.tag or ""
            if kind == "-text":
                length += len((child.text_content or "").strip())
            elif kind not in OPAQUE:
                children.append((child, number, inside))
            child = child.next
        nodes.append(node)
        tags.append(tag)
        attributes.append(node.attributes)
        parents.append(parent)
        own.append(length)
        own_linked.append(length if inside else 0)
        waiting += reversed(children)
    own_prose = _prose(tags, parents, own, own_linked)
    sizes = [1] * len(nodes)
    text, linked, prose = [*own], [*own_linked], [*own_prose]
    titles = [int(tag == "h1") for tag in tags]
    for number in range(len(nodes) - 1, 0, -1):
        parent = parents[number]
        for totals in (sizes, text, linked, prose, titles):
            totals[parent] += totals[number]
    return Elements(nodes, tags, attributes, parents, sizes, own, text, linked, own_prose, prose, titles, visited)


def _prose(tags: list[str], parents: list[int], own: list[int], own_linked: list[int]) -> list[int]:
    """Characters of prose in the blocks themselves; 0 for inline elements, whose text belongs to their block."""
    text, linked = [*own], [*own_linked]
    for number in range(len(tags) - 1, 0, -1):
        if tags[number] in INLINE:
            text[parents[number]] += text[number]
            linked[parents[number]] += linked[number]
            text[number] = linked[number] = 0
    return [length - links if length - links >= MIN_BLOCK else 0 for length, links in zip(text, linked)]
