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
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from data_pipeline.sources import urls

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

# Not displayed as text, displayed again by a script, or commands.
OPAQUE = frozenset(
    """script style template svg math iframe object embed canvas audio video map select textarea datalist
    input button img rp rt head title -comment""".split()  # noqa: SIM905
)
INLINE = frozenset(
    """a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr output q ruby rb s samp
    small span strike strong sub sup time tt u var wbr meter progress picture""".split()  # noqa: SIM905
)
HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
MIN_BLOCK = 60


class Page:
    """The elements of a page as lists with one entry each, parents first; the entries of a subtree are [i, i + sizes[i])."""

    def __init__(self, body: "LexborNode") -> None:
        """One pass over the nodes, without recursion."""
        self.nodes: list[LexborNode] = []
        self.tags: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.parents: list[int] = []  # -1: the body
        self.own: list[int] = []  # characters of the element's own text
        numbers: dict[int, int] = {}  # mem_id → entry
        in_link: list[bool] = []
        for node in body.traverse(include_text=True):
            tag, above = node.tag or "", node.parent
            parent = numbers.get(above.mem_id, -1) if above is not None else -1
            if parent < 0 and self.nodes:  # in an opaque element
                continue
            if tag == "-text":
                self.own[parent] += len((node.text_content or "").strip())
            elif tag not in OPAQUE:
                numbers[node.mem_id] = len(self.nodes)
                self.nodes.append(node)
                self.tags.append(tag)
                self.attributes.append(node.attributes)
                self.parents.append(parent)
                self.own.append(0)
                # In XHTML, browsers read <a id="x"/> as an <a> that ends with its block.
                in_link.append((parent >= 0 and in_link[parent]) or (tag == "a" and "href" in self.attributes[-1]))
        own_linked = [length if inside else 0 for length, inside in zip(self.own, in_link)]
        # Text outside links in the blocks themselves; none in inline elements, whose text belongs to their block.
        outside = [length - linked for length, linked in zip(self.own, own_linked)]
        for i in range(len(self.tags) - 1, 0, -1):
            if self.tags[i] in INLINE:
                outside[self.parents[i]] += outside[i]
                outside[i] = 0
        self.own_prose = [length if length >= MIN_BLOCK else 0 for length in outside]
        # Of subtrees: elements, characters, those inside links, those of prose, <h1> elements.
        self.sizes = self.totals([1] * len(self.tags))
        self.text, self.linked, self.prose = map(self.totals, (self.own, own_linked, self.own_prose))
        self.titles = self.totals([int(tag == "h1") for tag in self.tags])
        self.out = [False] * len(self.tags)  # left out, with all elements below them
        self.content = self.prose  # prose of subtrees that is not left out

    def totals(self, values: list[int]) -> list[int]:
        """Sums over subtrees of the elements' own values."""
        totals = [*values]
        for i in range(len(totals) - 1, 0, -1):
            totals[self.parents[i]] += totals[i]
        return totals

    def below(self, i: int) -> range:
        return range(i, i + self.sizes[i])

    def children(self, i: int) -> Iterator[int]:
        child = i + 1
        while child < i + self.sizes[i]:
            yield child
            child += self.sizes[child]

    def leave(self, i: int) -> None:
        self.out[i : i + self.sizes[i]] = [True] * self.sizes[i]


# Boilerplate by tag, role, visibility, or class and id names. Site builders use the same names in every language: `sidebar`,
# `related-posts`, `share-buttons`. Ids count only for plain containers: in documentation the ids of sections and terms are words of
# their headings (`<section id="comments">`).
_TAGS = frozenset("nav footer aside menu dialog form listing xmp figcaption noscript".split())  # noqa: SIM905
_ROLES = frozenset("navigation banner contentinfo complementary search menu menubar dialog toolbar".split())  # noqa: SIM905
_DOCUTILS = frozenset("topic footnote footnote-list admonition".split())  # noqa: SIM905 - classes of <aside> in the text
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


def _named(words: str, parts: str = "") -> re.Pattern[str]:
    """Finds whole words of a name, and parts anywhere in it."""
    whole = rf"(?<![a-z])(?:{'|'.join(words.split())})(?![a-z])"
    return re.compile("|".join([*parts.split(), whole]), re.IGNORECASE)


_BOILERPLATE = _named(
    r"""share shares nav menu menus submenu gdpr consent banner promo promotion ad ads adv anzeige anzeigen werbung respond
    reply bio meta metadata postmeta tag tags keywords stichworte schlagworte categories credit credits credito crédito print
    printer pager pagenav toc legend contact kontakt modal popup overlay dialog skip skiplink sitemap legal rating ratings vote
    votes poll quiz survey feedback more mehr weiterlesen next previous prev login logout account tools toolbar toolbox topbar
    dateline date timestamp flyout tooltip callout(?!-|\s+callout-) ticker calendar carousel lang language languages follow like
    likes reactions cta btn button buttons suggest suggestion suggestions recirc recirculation""",
    """sidebar(?!-title) newsletter breadcrumb navigation navbar navbox navheader megamenu offcanvas off-canvas cookie
    advert adsense sponsor affiliate outbrain taboola criteo zergnet plista
    comment(?!ary) kommentar comentario disqus trackback pingback akismet
    related relacionad verwandt recommend popular trending mostread most-read most_read meistgelesen yarpp alsolike also-like
    sharing shariff addthis sharedaddy sociable social facebook twitter whatsapp
    subscri abonn paywall signup register donat spenden footer copyright disclaimer imprint impressum
    author byline masthead caption paginat readmore read-more read_more morelink nextstory nextpost bookmark syndicat
    (?<!elementor-)widget noprint no-print d-print-none sr-only screen-reader visually-hidden visuallyhidden editsection
    backtotop back-to-top teaserlist crosslink querverweis""",
)
_SITE = _named(
    "gdpr consent nav menu", "footer copyright cookie breadcrumb navbar"
)  # never content, whatever it contains
_TEASER = _named("card cards", "teaser")  # for another page if it has links; otherwise the lead of this page
_TEASER_LINKS = 0.2
_ARTICLE = _named("article artikel articulo story post entry beitrag noticia news detail")
# No inline elements: they are words of their line, whatever their class says (<span class="menu">File</span>).
_NAMED = frozenset("div ul ol li dl table tr td th p section header form center".split())  # noqa: SIM905
_NAMED_BY_ID = frozenset("div ul ol td table p form".split())  # noqa: SIM905
# Sphinx and pandoc, DocBook, Texinfo.
_SECTION = re.compile(
    r"(?<![\w-])(?:(?:sub)*section|chapter|appendix|preface|unnumbered|sect\d|refsect\d|refentry|level\d|[a-z]+-level-extent)(?![\w-])"
)
_MAX_NAME = 300


class _Names(NamedTuple):
    """What the class and the id of an element say that it is."""

    article: bool
    boilerplate: bool
    site: bool  # its menus, its footer
    teaser: bool


@lru_cache(maxsize=1 << 14)  # elements of a site share few names
def _names(classes: str, id_: str) -> _Names:
    # The other classes of an admonition are the words of its title.
    names = "" if "admonition" in classes.split() else f"{classes} {id_}"[:_MAX_NAME]
    return _Names(*(bool(each.search(names)) for each in (_ARTICLE, _BOILERPLATE, _SITE, _TEASER)))


def is_section(tag: str, attributes: Mapping[str, str | None]) -> bool:
    """Whether the element is a section with its heading."""
    return tag == "section" or (tag == "div" and bool(_SECTION.search(attributes.get("class") or "")))


def _names_of(tag: str, attributes: Mapping[str, str | None]) -> _Names:
    by_id = tag in _NAMED_BY_ID and not is_section(tag, attributes)
    return _names(attributes.get("class") or "", (by_id and attributes.get("id")) or "")


def _is_apart(tag: str, attributes: Mapping[str, str | None]) -> bool:
    """Whether the element is hidden, or about the site and not the page, by its tag, role or style."""
    if tag in _TAGS:
        return tag != "aside" or (attributes.get("class") or "").split(" ")[0] not in _DOCUTILS
    return bool(attributes) and (
        attributes.get("role") in _ROLES
        or ("hidden" in attributes and attributes["hidden"] != "until-found")  # then opened by a search in the page
        or attributes.get("aria-hidden") == "true"
        or bool(_HIDDEN_STYLE.search(attributes.get("style") or ""))
    )


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
_PAGER = 160  # maximum characters outside the links of a pager: titles of the pages that it links to
_LEADS = frozenset("prev previous next up home first last start begin top contents toc index".split())  # noqa: SIM905
_WRAPPERS = ("form", "noscript")  # on some sites they wrap the whole page, however short


def select(body: "LexborNode") -> tuple["LexborNode", set[int], dict[int, str], list["LexborNode"]]:
    """What to read of a page, elements as `mem_id`s: the root; what is left out below it; what fragments of URLs point to, by
    element (its id, or the name of an <a>); blocks of prose that are not read, the longest first. Linear in the nodes."""
    page = Page(body)
    for by_name in (True, False):
        _leave_boilerplate(page, by_name)
        if page.content[0] >= min(_FEW * page.prose[0], MIN_PROSE):
            break
    # A first <h1> that is only a link, above another that is not, is the site's name, linked to its home page.
    titles = [i for i in page.below(0) if page.tags[i] == "h1" and not page.out[i]]
    if [page.linked[i] == page.text[i] for i in titles[:2]] == [True, False]:
        page.leave(titles[0])
    if page.content[0] < MIN_PROSE:
        # The first <main> with text, or the only <article> with text, or the body.
        filled = [i for i in page.below(0)[1:] if not page.out[i] and page.text[i]]
        main = [i for i in filled if page.tags[i] == "main" or page.attributes[i].get("role") == "main"]
        articles = [i for i in filled if page.tags[i] == "article"]
        root = main[0] if main else articles[0] if len(articles) == 1 else 0
    else:
        core = _core(page)
        root = _root(page, core)
        _trim(page, root, core)
    left_out = {node.mem_id for node, out in zip(page.nodes, page.out) if out}
    unread = [i for i, prose in enumerate(page.own_prose) if prose and (page.out[i] or i not in page.below(root))]
    unread.sort(key=lambda i: -page.own_prose[i])
    anchors = {}
    for tag, node, attributes in zip(page.tags, page.nodes, page.attributes):
        name = attributes and (attributes.get("id") or (tag == "a" and attributes.get("name")))
        if name and (anchor := urls.anchor(name)):
            anchors[node.mem_id] = anchor
    return page.nodes[root], left_out, anchors, [page.nodes[i] for i in unread]


def _leave_boilerplate(page: Page, by_name: bool) -> None:
    """Decides which elements are left out, including those below them."""
    count = len(page.tags)
    page.out, article, code = [False] * count, [False] * count, [False] * count
    most, little_prose = _MOST * page.prose[0], page.prose[0] < 4 * MIN_PROSE
    # Links, and those to the previous or next page, or up, as the page's <link rel> names them.
    head = page.nodes[0].parent
    rels = (link.attributes for link in (head.css("link[rel][href]") if head is not None else ()))
    targets = {link["href"] for link in rels if not _LEADS.isdisjoint((link["rel"] or "").lower().split())}
    hrefs = [attributes.get("href") if tag == "a" else None for tag, attributes in zip(page.tags, page.attributes)]
    links = page.totals([int(href is not None) for href in hrefs])
    leading = page.totals([int(href is not None and href in targets) for href in hrefs])
    for i in range(1, count):
        tag, attributes, parent = page.tags[i], page.attributes[i], page.parents[i]
        if page.out[parent]:
            page.out[i] = True
            continue
        # An element without text may be a link target: <span id="comments"></span>.
        names = _names_of(tag, attributes) if attributes and page.text[i] else _names("", "")
        article[i] = article[parent] or tag in ("article", "main")
        # In highlighted code, classes name syntax.
        code[i] = code[parent] or tag in ("pre", "code")
        if code[i]:
            continue
        # A `sidebar` with a title is a box in the text, as DocBook and docutils write it, and not that of the site.
        classes = (attributes.get("class") or "").split()
        if "sidebar" in classes and page.nodes[i].css_first("p.title, .sidebar-title") is not None:
            continue
        # The contents of a chapter whose sections are separate pages: all that its page says.
        named = by_name and tag in _NAMED and (page.prose[0] or "toc" not in classes)
        unlinked, all_unlinked = page.text[i] - page.linked[i], page.text[0] - page.linked[0]
        # A pager has such links, no others, and little other text.
        is_pager = tag not in INLINE and 2 <= leading[i] == links[i] and not page.prose[i]
        teaser = names.teaser and page.linked[i] > _TEASER_LINKS * page.text[i]
        out = (
            _is_apart(tag, attributes)
            # The header of an article is content, that of the page is not.
            or (tag == "header" and not article[i] and not page.titles[i])
            or (named and (names.boilerplate or teaser))
            or (is_pager and unlinked < _PAGER and 2 * unlinked <= all_unlinked)
        )
        wraps = tag in _WRAPPERS and unlinked > _MOST * all_unlinked
        page.out[i] = out and page.prose[i] <= most and not wraps
        # On a page with little prose, the footer may hold most of it.
        if little_prose and not page.out[i] and page.text[i] <= _MOST * page.text[0]:
            page.out[i] = tag in _NAMED and names.site
    page.content = page.totals([0 if out else prose for out, prose in zip(page.out, page.own_prose)])


def _core(page: Page) -> int:
    """The smallest element reached from the body by steps into the child with most of the remaining prose."""
    core = 0
    while True:
        children = (i for i in page.children(core) if not page.out[i] and page.tags[i] != "p")
        blocks = [i for i in children if page.content[i] and page.tags[i] not in INLINE]
        largest = max(blocks, key=page.content.__getitem__, default=0)
        if not largest or page.content[largest] < _CORE * page.content[core]:
            return core
        core = largest


def _root(page: Page, core: int) -> int:
    """The core, or an element around it: the page's <main>, the element with its title, the article."""
    titles = page.totals([int(tag == "h1" and not out) for tag, out in zip(page.tags, page.out)])
    root, i = core, core
    while i > 0 and not titles[i] and page.tags[i] != "main":
        i = page.parents[i]
    if i > 0:
        root = i
    else:
        while (around := page.parents[root]) > 0 and _continues(page, root, around):
            root = around
    i = root
    while i > 0:
        if page.tags[i] in ("article", "main") or _names_of(page.tags[i], page.attributes[i]).article:
            if page.content[i] > _AROUND * page.content[core]:
                break
            root = i
        i = page.parents[i]
    # A table or list is a part of its section, and a section with a title may be one of several.
    i = root
    while (i := page.parents[i]) >= 0 and page.content[i] <= _SECTION_AROUND * page.content[core]:
        further = is_section(page.tags[root], page.attributes[root]) and any(
            n != root and page.content[n] and not page.out[n] and is_section(page.tags[n], page.attributes[n])
            for n in page.children(i)
        )
        if further or is_section(page.tags[i], page.attributes[i]):
            root = i
    return root


def _kind(page: Page, i: int) -> tuple[str, str | None]:
    return page.tags[i], page.attributes[i].get("class")


def _continues(page: Page, inner: int, around: int) -> bool:
    """Whether an element has content besides its main part `inner`: a heading, or further sections of the same kind."""
    return any(
        (page.content[i] and _kind(page, i) == _kind(page, inner))
        or (not page.prose[i] and not HEADINGS.isdisjoint(page.tags[n] for n in page.below(i)))
        for i in page.children(around)
        if i != inner and not page.out[i]
    )


def _trim(page: Page, root: int, core: int) -> None:
    """Leaves out what is not content below the root."""
    tags, below = page.tags, page.below(root)
    # Kickers, breadcrumbs and dates above the first <h1>, if there is almost no prose above it.
    title = next((i for i in below if tags[i] == "h1" and not page.out[i]), root)
    if sum(page.own_prose[root:title]) < 0.1 * page.content[root]:
        for i in range(root + 1, title):
            if not page.out[i] and title not in page.below(i) and not page.prose[i] and tags[i] not in INLINE:
                page.leave(i)
    # Elements with little prose after the core, except its siblings of the same kind: further sections.
    inner = core
    while inner != root:
        parent = page.parents[inner]
        for i in page.children(parent) if not is_section(tags[parent], page.attributes[parent]) else ():
            if i > inner and _kind(page, i) != _kind(page, inner) and page.content[i] <= _AFTER * page.content[core]:
                page.leave(i)
        inner = parent
    # Menus and lists of teasers. Paragraphs, list items and headings stay: they contain few links.
    for i in below[1:]:
        links = page.text[i] and page.linked[i] > _LINKS * page.text[i] and not page.prose[i]
        if links and not page.out[i] and tags[i] not in _LINES and tags[i] not in INLINE:
            page.leave(i)
    # Headings with no text left before the next heading of their level, or the end.
    waiting: list[tuple[str, int]] = []
    i = root
    while i < below.stop:
        if tags[i] in HEADINGS and not page.out[i]:
            while waiting and waiting[-1][0] >= tags[i]:
                page.leave(waiting.pop()[1])
            if not page.own[page.parents[i]]:  # else its text may be in the parent itself
                waiting.append((tags[i], i))
        elif page.own[i] and not page.out[i]:
            waiting = []
        i += page.sizes[i] if page.out[i] or tags[i] in HEADINGS else 1
    for tag, heading in waiting:
        if tag != "h1":
            page.leave(heading)
