"""Elements that are boilerplate by what they are: their tag, role, visibility, or the names that authors gave them.

Site builders name these parts alike whatever the language of the text: `sidebar`, `related-posts`, `share-buttons`. Ids count for
plain containers only: those of sections and terms in documentation are words of their headings (`<section id="comments">`).
"""

import re
from functools import lru_cache

from data_pipeline.sources.web.page_elements import HEADINGS

_TAGS = frozenset("nav footer aside menu dialog form listing xmp figcaption noscript".split())  # noqa: SIM905
_ROLES = frozenset("navigation banner contentinfo complementary search menu menubar dialog toolbar".split())  # noqa: SIM905
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
# Anywhere in a name:
_PARTS = """sidebar newsletter breadcrumb navigation navbar navbox megamenu offcanvas off-canvas cookie
    advert adsense sponsor affiliate outbrain taboola criteo zergnet plista
    comment(?!ary) kommentar comentario disqus trackback pingback akismet
    related relacionad verwandt recommend popular trending mostread most-read most_read meistgelesen yarpp alsolike also-like
    sharing shariff addthis sharedaddy sociable social facebook twitter whatsapp
    subscri abonn paywall signup register donat spenden footer copyright disclaimer imprint impressum
    author byline masthead caption paginat readmore read-more read_more morelink nextstory nextpost bookmark syndicat
    (?<!elementor-)widget noprint no-print d-print-none sr-only screen-reader visually-hidden visuallyhidden editsection
    backtotop back-to-top teaserlist crosslink querverweis"""
# As a whole word of a name:
_WORDS = """share shares nav menu menus submenu gdpr consent banner promo promotion ad ads adv anzeige anzeigen werbung respond
    reply bio meta metadata postmeta tag tags keywords stichworte schlagworte categories credit credits credito crédito print
    printer pager pagenav toc legend contact kontakt modal popup overlay dialog skip skiplink sitemap legal rating ratings vote
    votes poll quiz survey feedback more mehr weiterlesen next previous prev login logout account tools toolbar toolbox topbar
    dateline date timestamp flyout tooltip callout ticker calendar carousel lang language languages follow like likes reactions
    cta btn button buttons suggest suggestion suggestions recirc recirculation"""
_BOILERPLATE = re.compile(
    rf"(?:{'|'.join(_PARTS.split())})|(?<![a-z])(?:{'|'.join(_WORDS.split())})(?![a-z])", re.IGNORECASE
)
# Never the content, whatever else it holds.
_SITE = re.compile(
    r"footer|copyright|cookie|breadcrumb|navbar|(?<![a-z])(?:gdpr|consent|nav|menu)(?![a-z])", re.IGNORECASE
)
# Leads to another page if it has links; without, it is the lead of this one.
_TEASER = re.compile(r"teaser|(?<![a-z])cards?(?![a-z])", re.IGNORECASE)
_TEASER_LINKS = 0.2
# The article as a whole: its other classes name its categories and tags (WordPress).
_WHOLE_ARTICLE = re.compile(r"(?<![a-z-])(?:hentry|h-entry|type-post)(?![a-z-])")
_ARTICLE = re.compile(
    r"(?<![a-z])(?:article|artikel|articulo|story|post|entry|beitrag|noticia|news|detail)(?![a-z])", re.IGNORECASE
)
_NAMED = frozenset("div ul ol li dl table tr td th p span section header form center a b i em small time".split())  # noqa: SIM905
_NAMED_BY_ID = frozenset("div ul ol td table span p form".split())  # noqa: SIM905
_PROPERTIES = frozenset("author datePublished dateModified keywords publisher".split())  # noqa: SIM905
_RELATIONS = frozenset("tag author category prev next".split())  # noqa: SIM905
_CAMEL = re.compile("(?<=[a-z])(?=[A-Z])")
_MAX_NAME = 300

Attributes = dict[str, str | None]


def names_of(tag: str, attributes: Attributes) -> str:
    """The class, and the id where it is a name; words in camel case are separated."""
    names = attributes.get("class") or ""
    if tag in _NAMED_BY_ID and (given := attributes.get("id")):
        names += " " + given
    return _words(names[:_MAX_NAME]) if len(names) > 1 else ""


# Elements of a site share few names.
@lru_cache(maxsize=1 << 14)
def _words(names: str) -> str:
    return _CAMEL.sub(" ", names)


@lru_cache(maxsize=1 << 14)
def _says(names: str) -> tuple[bool, bool, bool]:
    """Do names say: a whole article, boilerplate, a teaser?"""
    return bool(_WHOLE_ARTICLE.search(names)), bool(_BOILERPLATE.search(names)), bool(_TEASER.search(names))


def is_article(tag: str, names: str) -> bool:
    """Does the element call itself an article, a story, a post?"""
    return tag in ("article", "main") or bool(_ARTICLE.search(names))


def is_whole_article(tag: str, names: str) -> bool:
    """Is the element one article with its header and meta data?"""
    return tag in ("article", "main") or (bool(names) and _says(names)[0])


def is_apart(tag: str, attributes: Attributes) -> bool:
    """Is the element hidden, or about the site and not the page, by its tag, role or style?"""
    if tag in _TAGS:
        return True
    return bool(attributes) and (
        attributes.get("role") in _ROLES
        or "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or bool(_HIDDEN_STYLE.search(attributes.get("style") or ""))
    )


def is_about_the_site(tag: str, names: str) -> bool:
    """Do the element's names say that it is about the site: its menus, its footer?"""
    return bool(names) and tag in _NAMED and bool(_SITE.search(names))


def is_named_boilerplate(tag: str, attributes: Attributes, names: str, text: int, linked: int) -> bool:
    """Do the element's names say that it is no content? `text` and `linked` are characters of its text and of its links."""
    if not attributes or tag in HEADINGS or tag not in _NAMED:
        return False
    if names:
        article, boilerplate, teaser = _says(names)
        if article or boilerplate or (teaser and linked > _TEASER_LINKS * text):
            return not article
    if attributes.get("itemprop") in _PROPERTIES:
        return True
    return tag == "a" and not _RELATIONS.isdisjoint((attributes.get("rel") or "").lower().split())
