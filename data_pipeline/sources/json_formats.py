"""Formats with one JSON object per line: linked JSONL, WikiExtractor's, and that of HARP's authors.

Files are plain, .gz, .bz2 or .xz, or folders of them. Programs write these formats, so a violation (a missing key, offsets outside
the text) is an InputError with the file and line, and is not counted as dropped.
"""

import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from data_pipeline.sources.document import CONTROLS, Chunk, Dropped, Link, LinkedDocument, Plain, Source, assemble, tidy
from data_pipeline.sources.wikitext import Site
from harp_jax.base import files
from harp_jax.base.errors import InputError
from harp_jax.corpus.text_files import LONE_SURROGATE, checked_text, parse_object

SITE = Site({})  # the naming rules of WikiExtractor's titles


def entries(path: str, source: Source) -> Iterator[tuple[tuple[str, int, str | int], int]]:
    """(file, number from 1, content) of each line, and its bytes; the content is a number of bytes if it is too large. Raises
    InputError as `files.lines`: for damage, bytes that are not UTF-8, and a line of more than 128 MiB."""
    for number, line in files.lines(path):
        size = len(line) if line.isascii() else len(line.encode())
        yield ((path, number, line), size) if size <= source["max_page_bytes"] else ((path, number, size), 0)


def _records(chunk: Chunk, dropped: list[Dropped]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file and line, JSON object) of the chunk's lines; InputError for a line that is not a JSON object."""
    for path, number, content in chunk.payload:
        where = f"{path} line {number}"
        if isinstance(content, int):
            dropped.append(Dropped(where, "page-too-large", f"{content} bytes"))
        elif content.strip():
            _check(not content.startswith("<doc "), "not JSON", where, "run WikiExtractor with --json")
            yield where, parse_object(where, content)


def _check(fine: bool, wrong: str, where: str, advice: str = "fix the line") -> None:
    if not fine:
        raise InputError(f"{where}: {wrong}; {advice}")


def _text(record: Mapping[str, Any], key: str, where: str, empty: bool = True) -> str:
    """A field; a lone surrogate becomes one character, which keeps the offsets right."""
    text = checked_text(where, record.get(key), key)
    _check(empty or text != "", f"{key} is empty", where)
    return text


def _disjoint(links: list[Link], text: str, where: str, dropped: list[Dropped]) -> tuple[Link, ...]:
    """The links by start, without those that overlap an earlier one."""
    disjoint: list[Link] = []
    for link in sorted(links):
        if disjoint and link.start < disjoint[-1].end:
            dropped.append(Dropped(where, "link-overlap", text[link.start : link.end]))
        else:
            disjoint.append(link)
    return tuple(disjoint)


def parse_linked(chunk: Chunk, source: Source, dropped: list[Dropped]) -> Iterator[LinkedDocument]:
    """`{"id", "title", "text", "links": [{"start", "end", "target"}], "lead_end"?}`: the neutral format.
    `text[start:end]` is the anchor text in code points and `target` the destination's id. Lines without "links" are only
    destinations. Raises InputError (file, line, id) for a line that breaks the format."""
    for where, record in _records(chunk, dropped):
        where += f", id {str(record.get('id'))[:80]!r}"
        id_ = _text(record, "id", where, empty=False)
        title, text = _text(record, "title", where), _text(record, "text", where)
        size = f"the text of {len(text)} code points"
        lead_end, listed = record.get("lead_end", len(text)), record.get("links", [])
        in_text = type(lead_end) is int and 0 <= lead_end <= len(text)
        _check(in_text, f"lead_end {lead_end!r} lies outside {size}", where)
        objects = isinstance(listed, list) and all(isinstance(link, dict) for link in listed)
        _check(objects, "'links' is not a list of objects", where)
        links: list[Link] = []
        for link in listed:
            start, end = link.get("start"), link.get("end")
            inside = type(start) is type(end) is int and 0 <= start <= end <= len(text)
            _check(
                inside, f"link offsets {start!r}..{end!r} lie outside {size}", where, "offsets count code points from 0"
            )
            # Strip the anchor: a space before a sentence's first word would put the link across two sentences.
            shown, target = text[start:end], _text(link, "target", where)
            if shown.strip() and target:
                links.append(Link(end - len(shown.lstrip()), start + len(shown.rstrip()), target))
            else:
                dropped.append(Dropped(where, "link-empty", target))
        disjoint = _disjoint(links, text, where, dropped)
        yield LinkedDocument(id_, id_, title, text, disjoint, lead_end)


_ANCHOR = re.compile(r'<a href="([^"\n]*)">((?:[^<\n]++|\n(?!\n)|<(?!/?a\b))*+)</a>')
_STRAY = re.compile(r'</?a\b(?:\s+href="[^"<>]*+"?)?\s*>')
_SECTION = re.compile(r"^Section::::.*$", re.MULTILINE)
_BULLET = re.compile(r"^BULLET::::-? ?", re.MULTILINE)
_TAG = re.compile(r"<(?i:/?(?:br|b|i|nowiki|onlyinclude|templatestyles|li|ul|ol|h[1-6])\b)[^<>\n]*>")


def parse_extracted(chunk: Chunk, source: Source, dropped: list[Dropped]) -> Iterator[LinkedDocument]:
    """WikiExtractor's `{"id", "title", "text"}` with links kept, in folders (AA/wiki_00, plain or .bz2).
    Links are `<a href="Percent%20encoded%20title">anchor</a>` in the text, HTML-escaped in most versions and not in others: the
    text is unescaped once. Targets are titles as the article's author wrote them: they are normalised by MediaWiki's rules, and
    redirects, which WikiExtractor omits, come from `source.redirects`. The lead ends before the first `Section::::` line, which
    only versions that keep headings write."""
    for where, record in _records(chunk, dropped):
        id_, title = _text(record, "id", where, empty=False), _text(record, "title", where, empty=False)
        plain = plain_text(_text(record, "text", where), title)
        dropped += [Dropped(f"{where}: {title}", *each) for each in plain.dropped]
        if not plain.text:
            dropped.append(Dropped(f"{where}: {title}", "page-empty", ""))
            continue
        page = (SITE.address(title), id_, title, plain.text, plain.links, plain.lead_end)
        yield LinkedDocument(*page, is_disambiguation=title.lower().endswith("(disambiguation)"))


def plain_text(text: str, title: str) -> Plain:
    """The prose of an extracted article, without the title that some versions put first. Never raises; linear."""
    text = html.unescape(text).removeprefix(title + "\n")
    text = CONTROLS.sub("", text).replace("\r", "\n").replace("\t", " ")
    addresses: list[str] = []
    dropped: list[tuple[str, str]] = []

    def mark(match: re.Match[str]) -> str:
        address, reason, _ = SITE.resolve(match[1])
        shown = match[2].replace("\n", " ")
        if address is None:
            dropped.append((reason, match[1][:200]))
            return shown
        addresses.append(address)
        return f"\x02{len(addresses) - 1}\x05{shown}\x03"

    text = _ANCHOR.sub(mark, text)
    dropped += [("link-malformed", stray[:200]) for stray in _STRAY.findall(text)]
    text = _BULLET.sub("", _SECTION.sub("\x04", _TAG.sub("", _STRAY.sub("", text))))
    return assemble(tidy(text.replace("\n", "\n\n")), addresses, dropped)


def parse_harp(chunk: Chunk, source: Source, dropped: list[Dropped]) -> Iterator[LinkedDocument]:
    """The data of HARP's authors: `{"tokenized_sentence": [...], "anchors": [[{"text", "pos": [first, last], "passage"}]]}`.
    `pos` are inclusive indices into the tokens. Every sentence and every passage becomes a document; a passage of several
    anchors is one page (repeats in later chunks are counted as `page-duplicate`). An anchor whose `pos` does not match its text
    is counted and skipped: 3 of 100 in the authors' demo. The text is the tokens joined by single spaces, which is what `pos`
    refers to ("sentence" differs from it in places)."""
    known: set[str] = set()
    for where, record in _records(chunk, dropped):
        tokens: Any = record.get("tokenized_sentence")
        anchors: Any = record.get("anchors")
        strings = isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
        _check(strings, "'tokenized_sentence' is missing or not a list of strings", where)
        _check(isinstance(anchors, list), "'anchors' is missing or not a list", where)
        tokens = [LONE_SURROGATE.sub("\ufffd", token) for token in tokens]
        links: list[Link] = []
        passages: list[LinkedDocument] = []
        for anchor in [anchor for group in anchors for anchor in (group if isinstance(group, list) else [group])]:
            try:
                (first, last), shown = anchor["pos"], anchor["text"].strip()
                inside = type(first) is type(last) is int and 0 <= first <= last < len(tokens)
                before, after = " ".join(tokens[first : last + 1] if inside else ()).split(shown, 1)
                fine = anchor["passage"].strip() and not re.search(r"\w", before + after)  # no other words beside it
            except (TypeError, KeyError, AttributeError, ValueError):
                fine = False
            if not fine:
                dropped.append(Dropped(where, "anchor-malformed", json.dumps(anchor, ensure_ascii=False)))
                continue
            start = sum(len(token) + 1 for token in tokens[:first]) + len(before)
            passage = _text(anchor, "passage", where)
            address = "passage-" + hashlib.blake2b(passage.encode(), digest_size=12).hexdigest()
            links.append(Link(start, start + len(shown), address))
            if address not in known:
                known.add(address)
                passages.append(LinkedDocument(address, address, "", passage, (), len(passage)))
        text = " ".join(tokens)
        id_ = LONE_SURROGATE.sub("\ufffd", f"{chunk.name.rpartition(':')[0]}-{where.rpartition(' ')[2]}")
        yield LinkedDocument(id_, id_, "", text, _disjoint(links, text, where, dropped), len(text))
        yield from passages
