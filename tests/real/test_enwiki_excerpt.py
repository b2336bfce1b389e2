"""The real dump excerpt: counts, and links against mwparserfromhell, an independent wikitext parser."""

import bz2
import html
import os
import re
import urllib.parse
from collections import Counter
from xml.etree import ElementTree

import pytest

from data_pipeline.sources import formats
from data_pipeline.sources.wikitext import Site, plain_text
from tests.support.malformed import check_offsets
from tests.support.shared_data import SHARED

DUMP = os.path.join(SHARED, "dumps", "enwiki-excerpt.xml.bz2")
SOURCE = {"format": "mediawiki", "paths": (DUMP,), "redirects": (), "max_page_bytes": 2 << 20}
EXPORT = "{http://www.mediawiki.org/xml/export-0.10/}"

pytestmark = [pytest.mark.real, pytest.mark.skipif(not os.path.exists(DUMP), reason="../shared/data/dumps is absent")]


@pytest.fixture(scope="module")
def parsed():
    return [formats.parse(chunk, SOURCE) for chunk in formats.chunks(SOURCE)]


@pytest.fixture(scope="module")
def articles(parsed):
    return {document.title: document for documents, _ in parsed for document in documents if not document.redirect}


@pytest.fixture(scope="module")
def wikitexts(articles):
    with bz2.open(DUMP) as file:
        root = ElementTree.parse(file).getroot()
    texts = {page.findtext(EXPORT + "title"): page.findtext(f"{EXPORT}revision/{EXPORT}text") for page in root}
    return {title: texts[title] for title in articles}


def test_every_page_is_accounted_for(parsed):
    documents = [document for some, _ in parsed for document in some]
    dropped = [each.reason for _, some in parsed for each in some if each.reason.startswith("page-")]
    assert Counter(document.redirect is None for document in documents) == {True: 106, False: 99}
    assert dropped == ["page-namespace"]
    disambiguation = {document.title for document in documents if document.is_disambiguation}
    assert {"Alien", "Ada", "Aa River", "Austin (disambiguation)"} <= disambiguation
    assert not disambiguation & {"Anarchism", "Albedo", "Alabama", "Achilles"}


def test_offsets_are_the_anchors_and_the_text_is_clean(articles):
    for document in articles.values():
        check_offsets(document)
        assert document.lead_end > 0
        assert not re.search(r"[\x00-\x08]|\{\{|\[\[|'''|<ref|<!--|__[A-Z]+__|&nbsp;|  |\n\n", document.text)


# Tags whose content is not prose: the scanner keeps no links there.
NOT_SHOWN = frozenset("ref references table gallery timeline imagemap math nowiki pre code source".split())  # noqa: SIM905
NAMESPACES = frozenset(
    "talk user wikipedia file image mediawiki template help category portal book special media".split()  # noqa: SIM905
)
# Templates that display an unnamed argument, the first or the last, and templates that link to one that is no language code.
DISPLAYED = dict.fromkeys("nowrap small smaller quote blockquote cquote convert nihongo abbr".split(), 0)  # noqa: SIM905
DISPLAYED |= {"lang": -1, "transl": -1}
LINKED = ("flag", "ill", "interlanguage link")


def wikilinks(code, place="prose"):
    """(place, link, text node after it) of every wikilink that mwparserfromhell finds, and (place, link, None) of those that
    templates make."""
    from mwparserfromhell.nodes import Argument, Heading, Tag, Template, Text, Wikilink

    for node, after in zip(code.nodes, [*code.nodes[1:], None]):
        inside = place
        parts = list(node.__children__())
        if isinstance(node, Wikilink):
            yield place, node, str(after) if isinstance(after, Text) else ""
            inside = "caption" if re.match(r"\s*(?:file|image)\s*:", str(node.title), re.I) else "anchor"
        elif isinstance(node, Tag):
            name, parts = str(node.tag).strip().lower(), [node.contents]
            inside = ("table" if name == "table" else "reference or other tag") if name in NOT_SHOWN else place
        elif isinstance(node, Template):
            name, inside = str(node.name).strip().lower(), "template"
            unnamed = [each.value for each in node.params if not each.showkey]
            if name in LINKED:
                yield place, Wikilink(next(each for each in unnamed if len(each) > 3)), None
            elif name in DISPLAYED and unnamed:
                displayed = unnamed[DISPLAYED[name]]
                parts = [each for each in parts if each is not displayed]
                yield from wikilinks(displayed, place)
        elif isinstance(node, (Argument, Heading)):
            inside = "heading" if isinstance(node, Heading) else "template"
        for part in filter(None, parts):
            # The outermost of nested places counts, except that prose and anchors take the inner place.
            yield from wikilinks(part, inside if place in ("prose", "anchor") else place)


def meaning(title):
    """(class, address) of a link target by MediaWiki's rules, implemented independently."""
    title = re.sub(r"[\s_]+", " ", urllib.parse.unquote(html.unescape(title))).strip()
    name = title.partition("#")[0].strip().removeprefix(":").strip()
    prefix, colon, _ = name.partition(":")
    if colon and prefix.strip().lower().removesuffix(" talk") in NAMESPACES:
        return "other namespace", None
    if colon and re.fullmatch("[a-z-]+|Wikt|Wiktionary", prefix):
        return "other wiki", None
    if not name:
        return "same page", None
    return "article", (name[0].upper() if name[0] != "ß" else "ß") + name[1:]


def shown(link, after):
    """A link's visible anchor text: mwparserfromhell's strip_code, without comments, with the link trail; None if a template is
    part of it."""
    import mwparserfromhell

    text = str(link.title if link.text is None else link.text)
    text = re.sub("''+", "", text) + re.match("[a-z]*", after or "")[0]
    code = mwparserfromhell.parse(text)
    return None if code.filter_templates() else " ".join(code.strip_code().replace("_", " ").split())


def test_links_agree_with_mwparserfromhell(wikitexts):
    """All wikilinks of the 106 articles, by class; in prose, also that of displayed templates, (anchor text, address) are equal."""
    import mwparserfromhell

    classes, equal, total = Counter(), 0, 0
    differences = []
    for title, wikitext in wikitexts.items():
        # With style tags, unbalanced quotes make it put whole sections into a table cell or a reference.
        code = mwparserfromhell.parse(wikitext, skip_style_tags=True)
        total += len(code.filter_wikilinks())
        theirs, templated = Counter(), Counter()  # the latter by address: anchors such as {{nowrap|29° N}}
        for place, link, after in wikilinks(code):
            total += after is None
            kind, address = meaning(str(link.title))
            classes[kind if kind != "article" else f"article, in {place}"] += 1
            if kind == "article" and place == "prose":
                anchor = shown(link, after)
                theirs[anchor, address] += anchor is not None
                templated[address] += anchor is None
        plain = plain_text(wikitext, Site({}))
        ours = Counter((plain.text[start:end], target) for start, end, target in plain.links)
        equal += (ours & theirs).total()
        more = Counter(target for _, target in (ours - theirs).elements())
        differences += [(title, "ours", target) for target in more - templated]
        differences += [(title, "theirs", *link) for link in [*(theirs - ours), *zip(templated - more)]]
    print(f"\n{equal} links equal; of {total} in all: {dict(classes)}")
    assert not differences
    assert classes.total() == total > 30_000 and equal > 20_000
    # Links outside prose are not kept, and inside anchors the inner link counts.
    places = ("prose", "template", "table", "reference or other tag", "heading", "caption")
    assert set(classes) <= {*(f"article, in {place}" for place in places), "other namespace", "other wiki", "same page"}
