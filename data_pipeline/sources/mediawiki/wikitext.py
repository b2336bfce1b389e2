"""Wikitext to plain text with link offsets, in linear time for any markup.

Each step is a compiled regular expression that jumps from markup to markup; nesting uses a stack: no recursion and no
backtracking over unbalanced brackets. Links are replaced early by marks in the text (see marked.py), so that the cleaning
steps need no offsets. Removed: templates (which are not expanded), tables, references, captions, headings.
"""

import html
import re
from collections.abc import Iterable
from functools import lru_cache

from data_pipeline.sources import marked
from data_pipeline.sources.marked import CONTROLS, INVISIBLE, ODD_SPACE, SPACES, Plain
from data_pipeline.sources.mediawiki.titles import Resolved, Site

# Extension tags whose content is not prose. The first closing tag ends them: they do not nest.
_OPAQUE = (
    "nowiki|ref|references|math|chem|ce|gallery|score|code|syntaxhighlight|source|timeline|imagemap|pre|hiero|graph|"
    "mapframe|maplink|templatedata|templatestyles|inputbox|indicator|categorytree|includeonly|dynamicpagelist|rss|"
    "charinsert|rp|style|script"
)
_BLOCK = "p|div|blockquote|center|li|ul|ol|dl|dt|dd|h[1-6]|hr|poem|tr|td|th|caption|table|tbody|section|noinclude"
_INLINE = (
    "b|i|u|s|em|strong|small|big|sup|sub|span|font|cite|dfn|del|ins|strike|tt|kbd|samp|var|abbr|q|ruby|rb|rt|rtc|bdi|"
    f"bdo|onlyinclude|nobr|time|mark|data|a|{_OPAQUE}"
)
_LOWER = "a-z\u00df-\u00f6\u00f8-\u00ff\u0101-\u024f\u03ac-\u03ce\u0430-\u045f\u0561-\u0587"

_HIDDEN = re.compile(rf"<(?:!--|(?i:({_OPAQUE}))\b([^<>]*)>)")
_CLOSING = {name: re.compile(rf"<(?i:/{name}\s*>)") for name in _OPAQUE.split("|")}
# Templates that display their last argument unchanged; without them anchors like [[Ilah|{{transl|ar|ilāh}}]] are empty.
_SHOWN = re.compile(
    r"\{\{(?i:nowrap|nobr|nobold|small|lang|transl|transliteration|smallcaps)\|(?:[^{}\[\]|=]*\|)*?([^{}\[\]|=]*)\}\}"
)
_BRACES = re.compile(r"\{\{+|\}\}+")
_TABLES = re.compile(r"\n[ \t:\x01]*+(\{\||\|\})|<(?i:(/?table)\b)[^<>]*>")
_BRACKETS = re.compile(r"\[\[|\]\]")
_HEADING = re.compile(r"\n=[^\n]*=[ \t\x01]*(?=\n)")
_BLOCK_TAG = re.compile(rf"<(?i:/?(?:{_BLOCK})\b)[^<>]*>")
_SPACE_TAG = re.compile(r"<(?i:/?(?:br|wbr)\b)[^<>]*>")
_INLINE_TAG = re.compile(rf"<(?i:/?(?:{_INLINE})\b)[^<>]*>")
_EXTERNAL = re.compile(
    r"\[(?:(?:https?|ftps?|ircs?|news|gopher|git|svn)://|mailto:|//)[^\s\[\]<>\"\x01-\x05]*[^\S\n]*([^\[\]\n]*)\]"
)
_LIST_LINE = re.compile(r"\n[*#:;]+[ \t]*([^\n]*)")
_RULE_OR_ROW = re.compile(r"\n(?:-{4,}|[ \t]*[|!][^\n]*)")
_SWITCH = re.compile(r"__[A-Z]{3,20}__")
_LEFTOVER = re.compile(r"\[\[+|\]\]+|\{\{+|\}\}+|\x01")
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_HOLLOW = re.compile(r"\((?: *+[,;:])*+ *+\)")
_LEAN = re.compile(r"\( *+[,;](?: *+[,;:])*+ *+")


def plain_text(wikitext: str, site: Site) -> Plain:
    """The prose of a page. `text[start:end]` is exactly the link text that MediaWiki displays, never empty or only spaces.

    The lead ends before the first heading that has text above it. Never raises; linear in len(wikitext).
    """
    text = "\n" + CONTROLS.sub("", wikitext).replace("\r", "") + "\n"
    text = _without_hidden(text)
    text = _without_templates(_SHOWN.sub(r"\1", text))
    text = _without_tables(text)
    text = _HEADING.sub("\n\n\x04\n", text)
    if "<" in text:
        text = _INLINE_TAG.sub("", _SPACE_TAG.sub(" ", _BLOCK_TAG.sub("\n\n", text)))
    text = _without_media(text, site)
    text, addresses, dropped = _mark_links(text, site)
    return marked.assemble(_clean(text), addresses, dropped)


def _remove(text: str, spans: Iterable[tuple[int, int]], filler: str = "\x01") -> str:
    """The text without the spans (sorted, disjoint); the filler separates the text around them."""
    pieces, position = [], 0
    for start, end in spans:
        pieces += [text[position:start], filler]
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


def _close(spans: list[tuple[int, int]], start: int, end: int) -> None:
    """Adds a span and removes the spans inside it. Each is added and removed at most once: linear."""
    while spans and spans[-1][0] >= start:
        spans.pop()
    spans.append((start, end))


def _without_hidden(text: str) -> str:
    """Without comments and extension tags. An unclosed one is literal text, and so are all later ones of its kind."""
    pieces, position, unclosed = [], 0, set()
    match = _HIDDEN.search(text)
    while match:
        start, after, filler = match.start(), match.end(), "\x01"
        name = (match[1] or "!--").lower()
        if name == "!--":
            end = -1 if name in unclosed else text.find("-->", after)
            filler, end = "", end if end < 0 else end + 3
            # Remove the line of a comment that is alone on it: an empty line would split the paragraph.
            if end > 0 and text[start - 1] == "\n" and text.startswith("\n", end):
                end += 1
        elif match[2].endswith("/"):
            end = after
        else:
            closing = None if name in unclosed else _CLOSING[name].search(text, after)
            end = closing.end() if closing else -1
        if end < 0:
            unclosed.add(name)
        else:
            pieces += [text[position:start], filler]
            position = after = end
        match = _HIDDEN.search(text, after)
    pieces.append(text[position:])
    return "".join(pieces)


def _without_templates(text: str) -> str:
    """Without `{{...}}` and `{{{...}}}`, to any depth; unbalanced braces stay."""
    spans: list[tuple[int, int]] = []
    stack: list[list[int]] = []  # [position of the run of braces, how many are still open]
    for match in _BRACES.finditer(text):
        start, end = match.span()
        if text[start] == "{":
            stack.append([start, end - start])
            continue
        while stack and end - start >= 2:
            position, count = stack[-1]
            matched = min(count, end - start)
            start += matched
            _close(spans, position + count - matched, start)
            if count - matched >= 2:
                stack[-1][1] = count - matched
            else:
                stack.pop()
    return _remove(text, spans)


def _without_tables(text: str) -> str:
    """Without `{| |}` and <table>, nested or mixed; an unclosed one ends at the next heading or with the page."""
    if "{|" not in text and "<table" not in text and "<TABLE" not in text:
        return text
    spans: list[tuple[int, int]] = []
    stack: list[tuple[str, int]] = []
    depth = {"{|": 0, "table": 0}
    for match in _TABLES.finditer(text):
        token = match[1] or match[2].lower()
        if token in depth:
            stack.append((token, match.start()))
            depth[token] += 1
            continue
        opener = "{|" if token == "|}" else "table"
        while depth[opener]:
            kind, start = stack.pop()
            depth[kind] -= 1
            if kind == opener:
                _close(spans, start, match.end())
                break
    position = 0
    for _, start in stack:
        if start >= position:
            heading = _HEADING.search(text, start + 1)
            position = heading.start() if heading else len(text)
            # The merge handles closed tables inside it, and those after it that `_close` does not reach.
            spans.append((start, position))
    return _remove(text, _merged(spans), "\n\x01\n")


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


@lru_cache(maxsize=8)
def _media_patterns(names: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of an opening file link, and of all brackets (the group is set if a file link opens)."""
    alternatives = "|".join(re.escape(name).replace(r"\ ", "[ _]") for name in names)
    opening = rf"[ _]*(?i:{alternatives})[ _]*:"
    return re.compile(rf"\[\[{opening}"), re.compile(rf"\[\[({opening})?|\]\]")


def _without_media(text: str, site: Site) -> str:
    """Without `[[File:...|caption]]`, including captions that contain links."""
    opening, brackets = _media_patterns(tuple(site.media))
    spans: list[tuple[int, int]] = []
    match = opening.search(text)
    while match:
        depth = 0
        for bracket in _BRACKETS.finditer(text, match.start()):
            depth += 1 if bracket[0] == "[[" else -1
            if not depth:
                break
        else:
            # An unclosed link may contain closed ones; searching from each of them to the end would be quadratic.
            return _remove(text, _media_spans(text, brackets))
        spans.append((match.start(), bracket.end()))
        match = opening.search(text, bracket.end())
    return _remove(text, spans)


def _media_spans(text: str, brackets: re.Pattern[str]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    stack: list[tuple[int, bool]] = []
    for match in brackets.finditer(text):
        if match[0] != "]]":
            stack.append((match.start(), match[1] is not None))
        elif stack:
            start, media = stack.pop()
            if media:
                _close(spans, start, match.end())
    return spans


@lru_cache(maxsize=8)
def _link_pattern(language: str) -> re.Pattern[str]:
    # Letters right after a link belong to it: "[[bus]]es". The alphabet depends on the wiki's language.
    trail = "a-z" if language.startswith("en") else _LOWER
    anchor = r"(?>[^\[\]\x04]+|\[(?!\[)|\](?!\]))*+"
    return re.compile(rf"\[\[([^\[\]|{{}}<>\n\x01-\x05]+)(?:\|({anchor}))?\]\](\](?!\]))?([{trail}]*)")


def _mark_links(text: str, site: Site) -> tuple[str, list[str], list[tuple[str, str]]]:
    addresses: list[str] = []
    dropped: list[tuple[str, str]] = []

    def mark(match: re.Match[str]) -> str:
        target, anchor, bracket, trail = match.groups()
        resolved: Resolved = site.resolve(target)
        if resolved.hidden:
            if resolved.reason == "link-interwiki":
                dropped.append((resolved.reason, target))
            return "\x01" + (bracket or "") + trail
        if anchor is None:
            anchor = target.strip().removeprefix(":").replace("_", " ")
        elif not anchor:
            anchor = _pipe_trick(target)
        if "\n" in anchor:
            anchor = anchor.replace("\n", " ")
        outside = ""
        if bracket and anchor.count("[") > anchor.count("]"):
            anchor += bracket
        elif bracket:
            outside, trail = bracket + trail, ""
        if resolved.address is None:
            dropped.append((resolved.reason, match[0][:200]))
            return anchor + trail + outside
        addresses.append(resolved.address)
        return f"\x02{len(addresses) - 1}\x05{anchor}{trail}\x03{outside}"

    return _link_pattern(site.language).sub(mark, text), addresses, dropped


def _pipe_trick(target: str) -> str:
    """`[[Wiki:Rome (city)|]]` and `[[Rome, Georgia|]]` display "Rome"."""
    name = target.strip().removeprefix(":")
    name = name.partition(":")[2] or name
    if name.endswith(")") and " (" in name:
        return name[: name.rindex(" (")].strip()
    return name.partition(", ")[0].strip()


def _clean(text: str) -> str:
    # Patterns begin with a literal character if possible: the regex engine then searches for it.
    text = _EXTERNAL.sub(r"\1", text)
    text = _without_quotes(text)
    text = _SWITCH.sub("", _RULE_OR_ROW.sub("\n", text))
    text = _LIST_LINE.sub(r"\n\n\1\n", text)
    text = _LEFTOVER.sub("", text)
    if "&" in text:
        text = _ENTITY.sub(_unescape, text)
    text = text.replace("\t", " ")
    if not text.isascii():
        text = ODD_SPACE.sub(" ", INVISIBLE.sub("", text))
    text = SPACES.sub(" ", _LEAN.sub("(", _HOLLOW.sub("", text)))
    return marked.tidy(text)


def _without_quotes(text: str) -> str:
    """Without bold and italic quotes; apostrophes next to them stay."""
    if "''" not in text:
        return text
    if "'''s" in text:
        text = "\n".join(_possessive(line) if "'''s" in line else line for line in text.split("\n"))
    if "''''" in text:
        text = re.sub("(?<!')''''(?!')", "'", text)
    return re.sub("''+", "", text)


def _possessive(line: str) -> str:
    """`''The Times'''s`: if bold and italics are both odd in a line, MediaWiki reads one ''' as ' and ''."""
    runs = [len(run) for run in re.findall("''+", line)]
    bold = sum(run in (3, 4) or run >= 5 for run in runs)
    italic = sum(run == 2 or run >= 5 for run in runs)
    return re.sub(r"(?<=[^\s'])'''(?=s\b)", "'", line, count=1) if bold % 2 and italic % 2 else line


def _unescape(match: re.Match[str]) -> str:
    character = html.unescape(match[0])
    return " " if character.isspace() else CONTROLS.sub("", character)
