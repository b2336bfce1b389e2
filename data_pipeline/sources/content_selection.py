"""Which part of a page is its main content: a root element, and the elements below it that are left out.

1. Boilerplate is left out by tag, role and name, unless it holds most of the page's prose: a <form> or <noscript> around a whole
   page, or a class that means something else on this site.
2. The smallest element with most of the remaining prose is the core. The root is the enclosing article, or the element with the
   core and the page's title, if that adds little prose.
3. Below the root, elements with little or no prose before the title or after the core are left out, and so are blocks that
   consist of links, and headings with nothing below them.

A page with little prose (a list of links, a short note) is read whole, or only its <main> or single <article>.

Prose is text outside links in blocks of at least `MIN_BLOCK` characters: menus, dates and bylines have next to none. The text of
inline elements counts for the block that contains them.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from data_pipeline.sources import urls

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

# Not displayed as text, or displayed again by a script.
OPAQUE = frozenset(
    """script style template svg math iframe object embed canvas audio video map select textarea datalist
    input img rp rt head title -comment""".split()  # noqa: SIM905
)
INLINE = frozenset(
    """a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q ruby rb s samp
    small span strike strong sub sup time tt u var wbr meter progress picture button""".split()  # noqa: SIM905
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


def elements_of(body: "LexborNode") -> Elements:
    """One pass over the nodes, without recursion."""
    nodes: list[LexborNode] = []
    tags: list[str] = []
    attributes: list[dict[str, str | None]] = []
    parents: list[int] = []
    own: list[int] = []
    own_linked: list[int] = []
    waiting: list[tuple[LexborNode, int, bool]] = [(body, -1, False)]
    while waiting:
        node, parent, inside = waiting.pop()
        number, tag, length = len(nodes), node.tag or "", 0
        # In XHTML, browsers read <a id="x"/> as an <a> that ends with its block.
        inside = inside or (tag == "a" and "href" in node.attributes)
        children: list[tuple[LexborNode, int, bool]] = []
        child = node.first_child
        while child is not None:
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
    titles = [int(tag == "h1") for tag in tags]
    sizes, text, linked, prose, titles = (
        _totals(parents, values) for values in ([1] * len(nodes), own, own_linked, own_prose, titles)
    )
    return Elements(nodes, tags, attributes, parents, sizes, own, text, linked, own_prose, prose, titles)


def _totals(parents: list[int], values: list[int]) -> list[int]:
    """Sums over subtrees of the elements' own values."""
    totals = [*values]
    for number in range(len(totals) - 1, 0, -1):
        totals[parents[number]] += totals[number]
    return totals


def _prose(tags: list[str], parents: list[int], own: list[int], own_linked: list[int]) -> list[int]:
    """Characters of prose in the blocks themselves; 0 for inline elements, whose text belongs to their block."""
    text, linked = [*own], [*own_linked]
    for number in range(len(tags) - 1, 0, -1):
        if tags[number] in INLINE:
            text[parents[number]] += text[number]
            linked[parents[number]] += linked[number]
            text[number] = linked[number] = 0
    return [length - links if length - links >= MIN_BLOCK else 0 for length, links in zip(text, linked)]


# Boilerplate by tag, role, visibility, or class and id names. Site builders use the same names in every language: `sidebar`,
# `related-posts`, `share-buttons`. Ids count only for plain containers: in documentation the ids of sections and terms are words of
# their headings (`<section id="comments">`).
_TAGS = frozenset("nav footer aside menu dialog form listing xmp figcaption noscript".split())  # noqa: SIM905
_ROLES = frozenset("navigation banner contentinfo complementary search menu menubar dialog toolbar".split())  # noqa: SIM905
_DOCUTILS = frozenset("topic footnote footnote-list admonition".split())  # noqa: SIM905 - classes of <aside> in the text
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
# Anywhere in a name:
_PARTS = """sidebar(?!-title) newsletter breadcrumb navigation navbar navbox megamenu offcanvas off-canvas cookie
    advert adsense sponsor affiliate outbrain taboola criteo zergnet plista
    comment(?!ary) kommentar comentario disqus trackback pingback akismet
    related relacionad verwandt recommend popular trending mostread most-read most_read meistgelesen yarpp alsolike also-like
    sharing shariff addthis sharedaddy sociable social facebook twitter whatsapp
    subscri abonn paywall signup register donat spenden footer copyright disclaimer imprint impressum
    author byline masthead caption paginat readmore read-more read_more morelink nextstory nextpost bookmark syndicat
    (?<!elementor-)widget noprint no-print d-print-none sr-only screen-reader visually-hidden visuallyhidden editsection
    backtotop back-to-top teaserlist crosslink querverweis"""
# As a whole word of a name:
_WORDS = r"""share shares nav menu menus submenu gdpr consent banner promo promotion ad ads adv anzeige anzeigen werbung respond
    reply bio meta metadata postmeta tag tags keywords stichworte schlagworte categories credit credits credito crédito print
    printer pager pagenav toc legend contact kontakt modal popup overlay dialog skip skiplink sitemap legal rating ratings vote
    votes poll quiz survey feedback more mehr weiterlesen next previous prev login logout account tools toolbar toolbox topbar
    dateline date timestamp flyout tooltip callout(?!-|\s+callout-) ticker calendar carousel lang language languages follow like
    likes reactions cta btn button buttons suggest suggestion suggestions recirc recirculation"""
_BOILERPLATE = re.compile(
    rf"(?:{'|'.join(_PARTS.split())})|(?<![a-z])(?:{'|'.join(_WORDS.split())})(?![a-z])", re.IGNORECASE
)
# Never content, whatever it contains.
_SITE = re.compile(
    r"footer|copyright|cookie|breadcrumb|navbar|(?<![a-z])(?:gdpr|consent|nav|menu)(?![a-z])", re.IGNORECASE
)
# A teaser for another page if it has links; otherwise the lead of this page.
_TEASER = re.compile(r"teaser|(?<![a-z])cards?(?![a-z])", re.IGNORECASE)
_TEASER_LINKS = 0.2
# The article as a whole: its other classes name its categories and tags (WordPress).
_WHOLE_ARTICLE = re.compile(r"(?<![a-z-])(?:hentry|h-entry|type-post)(?![a-z-])")
_ARTICLE = re.compile(
    r"(?<![a-z])(?:article|artikel|articulo|story|post|entry|beitrag|noticia|news|detail)(?![a-z])", re.IGNORECASE
)
# No inline elements: they are words of their line, whatever their class says (<span class="menu">File</span>).
_NAMED = frozenset("div ul ol li dl table tr td th p section header form center".split())  # noqa: SIM905
_NAMED_BY_ID = frozenset("div ul ol td table p form".split())  # noqa: SIM905
# Sphinx and pandoc, DocBook, Texinfo.
_SECTION = re.compile(
    r"(?<![\w-])(?:(?:sub)*section|chapter|appendix|preface|unnumbered|sect\d|refsect\d|refentry|level\d|[a-z]+-level-extent)(?![\w-])"
)
# DocBook's blocks with a title, whose ids are words of it.
_TITLED = frozenset("table informaltable example figure equation note tip warning caution important".split())  # noqa: SIM905
_PROPERTIES = frozenset("author datePublished dateModified keywords publisher".split())  # noqa: SIM905
_CAMEL = re.compile("(?<=[a-z])(?=[A-Z])")
_MAX_NAME = 300
Attributes = dict[str, str | None]


def is_section(tag: str, attributes: Attributes) -> bool:
    """Whether the element is a section with its heading."""
    return tag == "section" or (tag == "div" and bool(_SECTION.search(attributes.get("class") or "")))


def names_of(tag: str, attributes: Attributes) -> str:
    """The class, and the id if it counts as a name; camel case is split into words."""
    names = attributes.get("class") or ""
    if "admonition" in names.split():  # its other classes are the words of its title
        return ""
    if tag in _NAMED_BY_ID and (given := attributes.get("id")) and not is_section(tag, attributes):
        names += "" if _TITLED & set(names.split()) else " " + given
    return _words(names[:_MAX_NAME]) if len(names) > 1 else ""


@lru_cache(maxsize=1 << 14)  # elements of a site share few names
def _words(names: str) -> str:
    return _CAMEL.sub(" ", names)


@lru_cache(maxsize=1 << 14)
def _says(names: str) -> tuple[bool, bool, bool]:
    """Whether names mean a whole article, boilerplate, a teaser."""
    return bool(_WHOLE_ARTICLE.search(names)), bool(_BOILERPLATE.search(names)), bool(_TEASER.search(names))


def is_article(tag: str, names: str) -> bool:
    """Whether the element is marked as an article, a story or a post."""
    return tag in ("article", "main") or bool(_ARTICLE.search(names))


def is_whole_article(tag: str, names: str) -> bool:
    """Whether the element is one article with its header and metadata."""
    return tag in ("article", "main") or (bool(names) and _says(names)[0])


def is_apart(tag: str, attributes: Attributes) -> bool:
    """Whether the element is hidden, or about the site and not the page, by its tag, role or style."""
    if tag in _TAGS:
        return tag != "aside" or (attributes.get("class") or "").split(" ")[0] not in _DOCUTILS
    if not attributes or attributes.get("role") == "tabpanel":  # a tab that is not shown at first
        return False
    return (
        attributes.get("role") in _ROLES
        or ("hidden" in attributes and attributes["hidden"] != "until-found")  # then opened by a search in the page
        or attributes.get("aria-hidden") == "true"
        or bool(_HIDDEN_STYLE.search(attributes.get("style") or ""))
    )


def is_about_the_site(tag: str, names: str) -> bool:
    """Whether the element's names say that it is about the site: its menus, its footer."""
    return bool(names) and tag in _NAMED and bool(_SITE.search(names))


def is_named_boilerplate(tag: str, attributes: Attributes, names: str, text: int, linked: int) -> bool:
    """Whether the element's names say that it is not content. `text`, `linked`: characters of its text and of its links."""
    if not attributes or tag in HEADINGS or tag not in _NAMED:
        return False
    if names:
        article, boilerplate, teaser = _says(names)
        if article or boilerplate or (teaser and linked > _TEASER_LINKS * text):
            return not article
    return attributes.get("itemprop") in _PROPERTIES


# Which part is the content.
MIN_PROSE = 250  # characters; on pages with less, the amounts of prose say nothing
_MOST = 0.6  # of the page's prose: what holds more is not boilerplate
_CORE = 0.8  # of the remaining prose
_AROUND = 1.2  # maximum prose of the article around the core, relative to the core's
_SECTION_AROUND = 2.0  # the same of the section around it
_AFTER = 0.05  # of the core's prose: elements after it with less are left out
_LINKS = 0.6  # of a block's text
_FEW = 0.25  # of the page's prose: names that leave less, and less than MIN_PROSE, mean something else on this site
_LINES = frozenset(("p", "li", "dt", "dd")) | HEADINGS
_SENTENCES = _LINES | {"td", "th"}
_PAGER = 160  # maximum characters outside the links of a pager: titles of the pages that it links to
_LEADS = frozenset("prev previous next up home first last start begin top contents toc index".split())  # noqa: SIM905
_LEAD_TEXTS = frozenset(
    """prev, previous, previous page, previous chapter, previous section, next, next page, next chapter, next section, up,
    home, top, contents, index, zurück, weiter, vorherige, vorherige seite, nächste, nächste seite, nach oben, zum anfang,
    inhalt, précédent, page précédente, suivant, page suivante, niveau supérieur, sommaire, anterior, página anterior,
    siguiente, página siguiente, subir, inicio, próximo, próxima página, página seguinte, indietro, pagina precedente,
    avanti, pagina successiva, risali, vorige, vorige pagina, volgende, volgende pagina, omhoog, poprzednia strona,
    następna strona, назад, вперёд, вверх, 前へ, 次へ, 上へ, 上に戻る, ホーム, 目次, 前のページ, 次のページ,
    上一页, 下一页, 上一级, 起始页, 目录""".replace("\n   ", "").split(", ")
)
_WRAPPERS = ("form", "noscript")  # on some sites they wrap the whole page, however short


class Selection(NamedTuple):
    """What to read of a page, elements as `mem_id`s.

    anchors: what fragments of URLs point to, by element: its id, or the name of an <a>.
    unread: blocks of prose that are left out or outside the root, the longest first.
    """

    root: "LexborNode"
    left_out: set[int]
    anchors: dict[int, str]
    unread: "list[LexborNode]"


def select(body: "LexborNode") -> Selection:
    """Linear in the nodes of the body."""
    page = elements_of(body)
    out = _boilerplate(page, by_name=True)
    kept = _kept(page, out)
    if kept[0] < min(_FEW * page.prose[0], MIN_PROSE):
        out = _boilerplate(page, by_name=False)
        kept = _kept(page, out)
    _leave_name_of_site(page, out)
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
    read = range(root, root + page.sizes[root])
    unread = [number for number, prose in enumerate(page.own_prose) if prose and (out[number] or number not in read)]
    unread.sort(key=lambda number: -page.own_prose[number])
    return Selection(page.nodes[root], left_out, _anchors(page), [page.nodes[number] for number in unread])


def _anchors(page: Elements) -> dict[int, str]:
    found: dict[int, str] = {}
    for tag, node, attributes in zip(page.tags, page.nodes, page.attributes):
        name = attributes and (attributes.get("id") or (tag == "a" and attributes.get("name")))
        if name and (anchor := urls.anchor(name)):
            found[node.mem_id] = anchor
    return found


def _boilerplate(page: Elements, by_name: bool) -> list[bool]:
    """Which elements are left out, including those below them."""
    count = len(page.tags)
    out, article, code = [False] * count, [False] * count, [False] * count
    links = _totals(
        page.parents, [int(tag == "a" and "href" in given) for tag, given in zip(page.tags, page.attributes)]
    )
    leading = _totals(page.parents, _leading(page))
    most, little_prose = _MOST * page.prose[0], page.prose[0] < 4 * MIN_PROSE
    for i in range(1, count):
        tag, attributes, parent = page.tags[i], page.attributes[i], page.parents[i]
        if out[parent]:
            out[i] = True
            continue
        # An element without text may be a link target: <span id="comments"></span>.
        names = names_of(tag, attributes) if attributes and page.text[i] else ""
        article[i] = article[parent] or is_whole_article(tag, names)
        # In highlighted code, classes name syntax.
        code[i] = code[parent] or tag in ("pre", "code")
        if tag == "button":
            out[i] = code[i] or not _in_sentence(page, i) or is_apart(tag, attributes)
        if code[i] or tag == "button":
            continue
        if "sidebar" in names and _is_box(page, i):
            continue
        found = is_apart(tag, attributes)
        # The header of an article is content, that of the page is not.
        found = found or (tag == "header" and not article[i] and not page.titles[i])
        # The contents of a chapter whose sections are separate pages: all that its page says.
        contents = not page.prose[0] and "toc" in (attributes.get("class") or "").split()
        found = found or (
            by_name and not contents and is_named_boilerplate(tag, attributes, names, page.text[i], page.linked[i])
        )
        found = found or is_pager(page, i, links, leading)
        out[i] = found and page.prose[i] <= most and not (tag in _WRAPPERS and _is_most_text(page, i))
        # On a page with little prose, the footer may hold most of it.
        if little_prose and not out[i] and page.text[i] <= _MOST * page.text[0]:
            out[i] = is_about_the_site(tag, names)
    return out


def _is_box(page: Elements, i: int) -> bool:
    """Whether a `sidebar` is a box with a title in the text, as DocBook and docutils write it, and not that of the site."""
    inside = "sidebar" in (page.attributes[i].get("class") or "").split()
    return inside and page.nodes[i].css_first("p.title, .sidebar-title") is not None


def _in_sentence(page: Elements, button: int) -> bool:
    """Whether a <button> is part of a sentence ("Press <button>OK</button>."): in a paragraph, item or cell, or between texts."""
    inner = block = button
    while page.tags[block] in INLINE:
        inner, block = block, page.parents[block]
    if page.tags[block] in _SENTENCES:
        return page.own[block] > 0 and page.tags[block] not in HEADINGS
    around = (page.nodes[inner].prev, page.nodes[inner].next)
    return all(node is not None and node.tag == "-text" and (node.text_content or "").strip() for node in around)


def _leading(page: Elements) -> list[int]:
    """1 for each link to the previous or next page, or up: by the page's <link rel>, its own rel, or its text."""
    head = page.nodes[0].parent
    given = [link.attributes for link in head.css("link[rel][href]")] if head is not None else []
    targets = {link["href"] for link in given if not _LEADS.isdisjoint((link["rel"] or "").lower().split())}
    found = []
    for tag, node, attributes in zip(page.tags, page.nodes, page.attributes):
        href = attributes.get("href") if tag == "a" else None
        leads = href is not None and (
            href in targets
            or not _LEADS.isdisjoint((attributes.get("rel") or "").lower().split())
            # "Next: Saws" names the page, too.
            or " ".join(re.split("[:：]", (node.text() or "").lower())[0].split()).strip("<>«»‹›←→↑[]|() ")
            in _LEAD_TEXTS
        )
        found.append(int(leads))
    return found


def is_pager(page: Elements, i: int, links: list[int], leading: list[int]) -> bool:
    """Whether a block is a pager (Prev, Up, Next, Home): at least two such links, no others, and little other text."""
    unlinked = page.text[i] - page.linked[i]
    if leading[i] < 2 or leading[i] < links[i] or page.prose[i] or page.tags[i] in INLINE:
        return False
    inside = range(i + 1, i + page.sizes[i])
    alone = page.tags[i] not in _LINES and not any(
        page.tags[n] in _LINES and page.text[n] > page.linked[n] for n in inside
    )
    return unlinked < _PAGER and 2 * unlinked <= page.text[0] - page.linked[0] and (alone or unlinked < page.linked[i])


def _is_most_text(page: Elements, i: int) -> bool:
    return page.text[i] - page.linked[i] > _MOST * (page.text[0] - page.linked[0])


def _kept(page: Elements, out: list[bool]) -> list[int]:
    """The prose of each subtree that is not left out."""
    return _totals(page.parents, [0 if gone else prose for gone, prose in zip(out, page.own_prose)])


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
    titles = _totals(page.parents, [int(tag == "h1" and not gone) for tag, gone in zip(page.tags, out)])
    root, i = core, core
    while i > 0:
        if titles[i] or page.tags[i] == "main":
            root = i
            break
        i = page.parents[i]
    else:
        while (around := page.parents[root]) > 0 and _continues(page, out, kept, root, around):
            root = around
    i = root
    while i > 0:
        attributes = page.attributes[i]
        if is_article(page.tags[i], names_of(page.tags[i], attributes)):
            if kept[i] > _AROUND * kept[core]:
                break
            root = i
        i = page.parents[i]
    # A table or list is a part of its section, and a section with a title may be one of several.
    i = root
    while (i := page.parents[i]) >= 0 and kept[i] <= _SECTION_AROUND * kept[core]:
        if is_section(page.tags[i], page.attributes[i]) or _has_further_sections(page, out, kept, root, i):
            root = i
    return root


def _has_further_sections(page: Elements, out: list[bool], kept: list[int], inner: int, around: int) -> bool:
    """Whether the section `inner` has a sibling with prose that is a section, too."""
    i, end = around + 1, around + page.sizes[around]
    while i < end and is_section(page.tags[inner], page.attributes[inner]):
        if i != inner and kept[i] and not out[i] and is_section(page.tags[i], page.attributes[i]):
            return True
        i += page.sizes[i]
    return False


def _continues(page: Elements, out: list[bool], kept: list[int], inner: int, around: int) -> bool:
    """Whether an element goes on around its main part `inner`: with a heading, or with further sections of the same kind."""
    kind = page.tags[inner], page.attributes[inner].get("class")
    i, end = around + 1, around + page.sizes[around]
    while i < end:
        if i != inner and not out[i]:
            same = kept[i] and kind == (page.tags[i], page.attributes[i].get("class"))
            if same or (not page.prose[i] and not HEADINGS.isdisjoint(page.tags[i : i + page.sizes[i]])):
                return True
        i += page.sizes[i]
    return False


def _leave(page: Elements, out: list[bool], i: int) -> None:
    for number in range(i, i + page.sizes[i]):
        out[number] = True


def _leave_name_of_site(page: Elements, out: list[bool]) -> None:
    """Leaves out a first <h1> that is only a link, above another that is not: the site's name, linked to its home page."""
    titles = [i for i, tag in enumerate(page.tags) if tag == "h1" and not out[i]]
    linked = [page.linked[i] == page.text[i] for i in titles]
    if linked[:2] == [True, False]:
        _leave(page, out, titles[0])


def _leave_before_title(page: Elements, out: list[bool], kept: list[int], root: int) -> None:
    """Leaves out kickers, breadcrumbs and dates above the first <h1>, if there is almost no prose above it."""
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
    """Leaves out elements with little prose after the core, except its siblings of the same kind: further sections."""
    inner = core
    while inner != root:
        parent = page.parents[inner]
        i, end = inner + page.sizes[inner], parent + page.sizes[parent]
        kind = page.tags[inner], page.attributes[inner].get("class")
        while i < end and not is_section(page.tags[parent], page.attributes[parent]):
            same = kind == (page.tags[i], page.attributes[i].get("class"))
            if not same and kept[i] <= _AFTER * kept[core]:
                _leave(page, out, i)
            i += page.sizes[i]
        inner = parent


def _leave_blocks_of_links(page: Elements, out: list[bool], root: int) -> None:
    """Leaves out menus and lists of teasers. Paragraphs, list items and headings stay: they contain few links."""
    i, end = root + 1, root + page.sizes[root]
    while i < end:
        links = page.text[i] and page.linked[i] > _LINKS * page.text[i] and not page.prose[i]
        if links and not out[i] and page.tags[i] not in _LINES and page.tags[i] not in INLINE:
            _leave(page, out, i)
        i += page.sizes[i] if out[i] else 1


def _leave_empty_headings(page: Elements, out: list[bool], root: int) -> None:
    """Leaves out headings with no text left before the next heading of their level, or the end."""
    waiting: list[tuple[str, int]] = []
    i, end = root, root + page.sizes[root]
    while i < end:
        tag = page.tags[i]
        if out[i]:
            i += page.sizes[i]
        elif tag in HEADINGS:
            while waiting and waiting[-1][0] >= tag:
                _leave(page, out, waiting.pop()[1])
            if not page.own[page.parents[i]]:  # else its text may be in the parent itself
                waiting.append((tag, i))
            i += page.sizes[i]
        else:
            if page.own[i]:
                waiting = []
            i += 1
    for tag, heading in waiting:
        if tag != "h1":
            _leave(page, out, heading)
