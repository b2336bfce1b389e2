"""One `<page>` element of a MediaWiki export to a LinkedDocument: an article or a redirect, or the reason to drop it."""

import re
from functools import lru_cache
from xml.etree import ElementTree

from data_pipeline.sources.document import Dropped, Link, LinkedDocument
from data_pipeline.sources.mediawiki.pages_xml import SiteInfo
from data_pipeline.sources.mediawiki.titles import Site
from data_pipeline.sources.mediawiki.wikitext import plain_text

_REDIRECT = re.compile(
    r"\s*#(?i:redirect|redirection|weiterleitung|redirección|rinvia|doorverwijzing|перенаправление|patrz|przekieruj|"
    r"tam|転送|重定向|omdirigering|redirecionamento)\s*:?\s*\[\[([^\[\]|\n]+)"
)
# Templates that only disambiguation pages have; not {{disambiguation needed}}, which marks a link of an article.
_DISAMBIGUATION = re.compile(
    r"\{\{\s*(?i:disambig\w*|dab|disamb|hndis|geodis|numberdis|schooldis|roaddis|mathdab|hospitaldis|"
    r"(?:[\w-]+ ){0,3}disambig(?:uation)?(?: page)?|begriffsklärung|homonymie|desambiguación|desambiguação|disambigua|"
    r"неоднозначность|ujednoznacznienie|doorverwijspagina)[ _-]*(?i:cleanup\s*)?[|}]|__DISAMBIG__"
)

# Their categories, which templates unknown here may have set, and the words in brackets of their titles.
_DISAMBIGUATION_CATEGORY = re.compile(
    r"\[\[[^\[\]|:]{1,20}:[^\[\]|]{0,40}(?i:disambiguation pages|begriffsklärung|homonymie|desambigua|disambigua\b|"
    r"doorverwijspagina|страницы значений|ujednoznacz|förgreningssid|曖昧さ回避|消歧义)"
)
_DISAMBIGUATION_TITLES = tuple(
    f"({word})"
    for word in """disambiguation begriffsklärung homonymie desambiguación desambiguação disambigua doorverwijspagina
    значения ujednoznacznienie 曖昧さ回避 消歧义""".split()  # noqa: SIM905
)
_NUMBER = re.compile(r"-?[0-9]{1,6}")


@lru_cache(maxsize=8)
def site_of(siteinfo: SiteInfo) -> Site:
    """The naming rules of a dump, cached."""
    return Site(dict(siteinfo.namespaces), siteinfo.first_letter, siteinfo.language, siteinfo.wikimedia)


def read_article(
    page: ElementTree.Element, path: str, site: Site, max_page_bytes: int, dropped: list[Dropped]
) -> LinkedDocument | None:
    """The page's last revision in the main namespace; None, with the reason appended to `dropped`, for other pages."""
    title = page.findtext("title") or ""
    where = f"{path}: {title}"
    number = (page.findtext("ns") or "").strip()
    if int(number) if _NUMBER.fullmatch(number) else site.namespace(title):
        dropped.append(Dropped(where, "page-namespace", title))
        return None
    revision = page.findall("revision")[-1:]
    model = revision[0].findtext("model") if revision else None
    text = revision[0].findtext("text") if revision else None
    identity = (site.address(title), page.findtext("id") or title, title)
    redirect = page.find("redirect")
    match = _REDIRECT.match(text or "")
    target = redirect.get("title") if redirect is not None else None
    target = target or (match[1] if match else None)
    if target is not None:
        address, reason, _ = site.resolve(target)
        if address is None:
            dropped.append(Dropped(where, reason.replace("link-", "redirect-"), target))
            return None
        return LinkedDocument(*identity, text="", links=(), lead_end=0, redirect=address)
    reason = ""
    if model not in (None, "wikitext"):
        reason = "page-model"
    elif not text:
        reason = "page-empty"
    elif 4 * len(text) > max_page_bytes and len(text.encode("utf-8", "replace")) > max_page_bytes:
        reason = "page-too-large"
    if not text or reason:
        dropped.append(Dropped(where, reason, model or ""))
        return None
    plain = plain_text(text, site)
    dropped.extend(Dropped(where, *each) for each in plain.dropped)
    # Links in templates, tables, references, comments and captions; links to files and categories.
    if (outside := text.count("[[") - len(plain.links) - len(plain.dropped)) > 0:
        dropped.append(Dropped(where, "link-outside-prose", f"{outside} of {outside + len(plain.links)}", outside))
    return LinkedDocument(
        *identity,
        text=plain.text,
        links=tuple(Link(*link) for link in plain.links),
        lead_end=plain.lead_end,
        is_disambiguation=is_disambiguation(title, text),
    )


def is_disambiguation(title: str, wikitext: str) -> bool:
    """Whether the title, a template or a category marks the page as a disambiguation page."""
    return (
        title.lower().endswith(_DISAMBIGUATION_TITLES)
        or _DISAMBIGUATION.search(wikitext) is not None
        or _DISAMBIGUATION_CATEGORY.search(wikitext) is not None
    )
