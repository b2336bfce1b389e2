"""WikiExtractor's JSON with links kept: files or folders (AA/wiki_00, plain or .bz2), one `{"id", "title", "text"}` per line.

Links are `<a href="Percent%20encoded%20title">anchor</a>` in the text, HTML-escaped in most versions and not in others: the
text is unescaped once. Targets are titles as the article's author wrote them: they are normalised by MediaWiki's rules, and
redirects, which WikiExtractor omits, come from `source.redirects`. The lead ends before the first `Section::::` line, which
only versions that keep headings write.
"""

import html
import re
from collections.abc import Callable
from functools import lru_cache

from data_pipeline.sources import json_lines, marked
from data_pipeline.sources.document import Chunk, Dropped, Link, LinkedDocument, Source
from data_pipeline.sources.mediawiki.titles import Site

_ANCHOR = re.compile(r'<a href="([^"\n]*)">((?:[^<\n]++|<(?!/?a\b))*+)</a>')
_STRAY = re.compile(r'</?a\b(?:\s+href="[^"<>]*+"?)?\s*>')
_SECTION = re.compile(r"^Section::::.*$", re.MULTILINE)
_BULLET = re.compile(r"^BULLET::::-? ?", re.MULTILINE)
_TAG = re.compile(r"<(?i:/?(?:br|b|i|nowiki|onlyinclude|templatestyles|li|ul|ol|h[1-6])\b)[^<>\n]*>")


def parse(chunk: Chunk, source: Source) -> tuple[list[LinkedDocument], list[Dropped]]:
    """Documents of the chunk's lines; raises InputError (file, line) for a line that breaks the format."""
    documents: list[LinkedDocument] = []
    dropped: list[Dropped] = []
    for where, record in json_lines.records(chunk, dropped):
        id_, title = (json_lines.string(record, key, where, empty=False) for key in ("id", "title"))
        text = json_lines.string(record, "text", where)
        plain = plain_text(text, title)
        dropped += [Dropped(f"{where}: {title}", *each) for each in plain.dropped]
        if not plain.text:
            dropped.append(Dropped(f"{where}: {title}", "page-empty", ""))
            continue
        links = tuple(Link(*link) for link in plain.links)
        is_disambiguation = title.lower().endswith("(disambiguation)")
        documents.append(
            LinkedDocument(
                _site().address(title),
                id_,
                title,
                plain.text,
                links,
                plain.lead_end,
                is_disambiguation=is_disambiguation,
            )
        )
    return documents, dropped


def addresser(source: Source) -> Callable[[str], str]:
    """Normalises titles like link targets; leaves titles that no link can have unchanged."""
    return lambda title: _site().resolve(title).address or title.strip()


def plain_text(text: str, title: str) -> marked.Plain:
    """The prose of an extracted article, without the title that some versions put first. Never raises; linear."""
    text = html.unescape(text).removeprefix(title + "\n")
    text = marked.CONTROLS.sub("", text).replace("\r", "\n").replace("\t", " ")
    addresses: list[str] = []
    dropped: list[tuple[str, str]] = []

    def mark(match: re.Match[str]) -> str:
        address, reason, _ = _site().resolve(match[1])
        if address is None:
            dropped.append((reason, match[1][:200]))
            return match[2]
        addresses.append(address)
        return f"\x02{len(addresses) - 1}\x05{match[2]}\x03"

    def stray(match: re.Match[str]) -> str:
        dropped.append(("link-malformed", match[0][:200]))
        return ""

    text = _STRAY.sub(stray, _ANCHOR.sub(mark, text))
    text = _BULLET.sub("", _SECTION.sub("\x04", _TAG.sub("", text)))
    text = marked.ODD_SPACE.sub(" ", marked.INVISIBLE.sub("", text))
    return marked.assemble(marked.tidy(marked.SPACES.sub(" ", text.replace("\n", "\n\n"))), addresses, dropped)


@lru_cache(maxsize=1)
def _site() -> Site:
    return Site({})
