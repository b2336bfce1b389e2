"""The real dump excerpt: counts, and links against mwparserfromhell, an independent wikitext parser."""

import bz2
import html
import re
import urllib.parse
from collections import Counter
from xml.etree import ElementTree

import pytest

from data_pipeline.sources import formats
from data_pipeline.sources.wikitext import Site, plain_text
from tests.support.malformed import check_offsets
from tests.support.shared_data import shared

EXPORT = "{http://www.mediawiki.org/xml/export-0.10/}"
pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def dump():
    return shared("dumps", "enwiki-excerpt.xml.bz2")


def test_pages_are_accounted_for_offsets_are_the_anchors_and_the_text_is_clean(dump):
    source = {"format": "mediawiki", "paths": (dump,), "redirects": (), "max_page_bytes": 2 << 20}
    parsed = [formats.parse(chunk, source) for chunk in formats.chunks(source)]
    documents, dropped = ([each for part in parts for each in part] for parts in zip(*parsed))
    assert [each.reason for each in dropped if each.reason.startswith("page-")] == ["page-namespace"]
    assert len(documents) == 205
    articles = [document for document in documents if not document.redirect]
    disambiguation = {document.title for document in articles if document.is_disambiguation}
    assert {"Alien", "Ada", "Aa River", "Austin (disambiguation)"} <= disambiguation
    assert not disambiguation & {"Anarchism", "Albedo", "Alabama", "Achilles"}
    for document in articles:
        check_offsets(document)
        assert document.lead_end > 0
        assert not re.search(r"[\x00-\x08]|\{\{|\[\[|'''|<ref|<!--|__[A-Z]+__|&nbsp;|  |\n\n", document.text)


# Tags whose content is not prose: the scanner keeps no links there.
NOT_SHOWN = "ref|references|table|gallery|timeline|imagemap|math|nowiki|pre|code|source"
NAMESPACES = "talk|user|wikipedia|file|image|mediawiki|template|help|category|portal|book|special|media"
# Templates that display an unnamed argument, the first or the last, and templates that link to one that is no language code.
DISPLAYED = dict.fromkeys("nowrap small smaller quote blockquote cquote convert nihongo abbr".split(), 0)  # noqa: SIM905
DISPLAYED |= {"lang": -1, "transl": -1}
LINKED = ("flag", "ill", "interlanguage link")


def prose_links(code):
    """(link, text after it) of every wikilink in prose by mwparserfromhell; the text is None if a template makes the link."""
    from mwparserfromhell.nodes import ExternalLink, Tag, Template, Text, Wikilink

    for node, after in zip(code.nodes, [*code.nodes[1:], None]):
        if isinstance(node, Wikilink):
            yield node, str(after) if isinstance(after, Text) else ""
        elif isinstance(node, Tag) and node.contents and not re.fullmatch(NOT_SHOWN, str(node.tag).strip().lower()):
            yield from prose_links(node.contents)
        elif isinstance(node, ExternalLink) and node.title:
            yield from prose_links(node.title)
        elif isinstance(node, Template):
            name, unnamed = str(node.name).strip().lower(), [each.value for each in node.params if not each.showkey]
            if name in LINKED:
                yield Wikilink(next(each for each in unnamed if len(each) > 3)), None
            elif name in DISPLAYED and unnamed:
                yield from prose_links(unnamed[DISPLAYED[name]])


def address_of(title):
    """The article that a link target names by MediaWiki's rules, implemented independently; None if it names something else."""
    title = re.sub(r"[\s_]+", " ", urllib.parse.unquote(html.unescape(title))).strip()
    name = title.partition("#")[0].strip().removeprefix(":").strip()
    prefix, colon, _ = name.partition(":")
    other_namespace = re.fullmatch(NAMESPACES, prefix.strip().lower().removesuffix(" talk"))
    if not name or (colon and (other_namespace or re.fullmatch("[a-z-]+|Wikt|Wiktionary", prefix))):
        return None
    return (name[0].upper() if name[0] != "ß" else "ß") + name[1:]


def anchor_of(link, after):
    """A link's visible text by strip_code, without comments, with the link trail; None if a template is part of it."""
    import mwparserfromhell

    text = str(link.title if link.text is None else link.text)
    text = re.sub("''+", "", text) + re.match("[a-z]*", after or "")[0]
    code = mwparserfromhell.parse(text)
    return None if code.filter_templates() else " ".join(code.strip_code().replace("_", " ").split())


def test_links_agree_with_mwparserfromhell(dump):
    """In the prose of 106 articles, also that of displayed templates, (anchor text, address) are equal."""
    import mwparserfromhell

    with bz2.open(dump) as file:
        pages = ElementTree.parse(file).getroot().findall(EXPORT + "page")
    articles = [page for page in pages if page.find(EXPORT + "redirect") is None]
    equal, differences = 0, []
    for page in articles:
        title, text = page.findtext(EXPORT + "title"), page.findtext(f"{EXPORT}revision/{EXPORT}text")
        # With style tags, unbalanced quotes make it put whole sections into a table cell or a reference.
        code = mwparserfromhell.parse(text, skip_style_tags=True)
        theirs, templated = Counter(), Counter()  # the latter by address: anchors such as {{nowrap|29° N}}
        for link, after in prose_links(code):
            if address := address_of(str(link.title)):
                anchor = anchor_of(link, after)
                theirs[anchor, address] += anchor is not None
                templated[address] += anchor is None
        plain = plain_text(text, Site({}))
        ours = Counter((plain.text[start:end], target) for start, end, target in plain.links)
        equal += (ours & theirs).total()
        more = Counter(target for _, target in (ours - theirs).elements())
        differences += [(title, "ours", target) for target in more - templated]
        differences += [(title, "theirs", *link) for link in [*(theirs - ours), *zip(templated - more)]]
    assert not differences and equal > 20_000
