"""Wikitext to plain text with link offsets, in linear time for any markup; link targets to titles of pages.

Each step is a compiled regular expression that jumps from markup to markup; nesting uses a stack: no recursion and no
backtracking over unbalanced brackets. Links are replaced early by marks in the text (document.py), so that the cleaning steps
need no offsets. Removed: tables, references, captions, headings, and templates except those that display their arguments.

Titles follow MediaWiki's rules: `_` is a space, `#fragment` is not part of the title, the first letter is upper case if <case> is
"first-letter", and a prefix may name a namespace or another wiki. A dump lists its namespaces but neither their aliases nor the
interwiki prefixes: the common ones are below.
"""

import html
import re
import unicodedata
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

from data_pipeline.sources.document import CONTROLS, INVISIBLE, ODD_SPACE, Plain, assemble, tidy
from harp_jax.text.languages import primary

MAX_TITLE_BYTES = 255
CACHED_TARGETS = 1 << 16

# Namespaces that every wiki has (MediaWiki's canonical names and long-lived aliases).
CANONICAL = {
    "media": -2, "special": -1, "talk": 1, "user": 2, "user talk": 3, "project": 4, "project talk": 5, "file": 6,
    "file talk": 7, "image": 6, "image talk": 7, "mediawiki": 8, "mediawiki talk": 9, "template": 10,
    "template talk": 11, "help": 12, "help talk": 13, "category": 14, "category talk": 15, "wp": 4, "wt": 5,
    "wikipedia": 4, "wikipedia talk": 5, "portal": 100, "portal talk": 101, "module": 828, "timedtext": 710,
    "bild": 6, "datei": 6, "fichier": 6, "archivo": 6, "imagen": 6, "immagine": 6, "plik": 6, "grafika": 6,
    "файл": 6, "изображение": 6, "bestand": 6, "afbeelding": 6, "ficheiro": 6, "imagem": 6, "fil": 6, "soubor": 6,
    "ファイル": 6, "画像": 6, "文件": 6, "kategorie": 14, "catégorie": 14, "categoría": 14, "categoria": 14,
    "kategoria": 14, "категория": 14, "categorie": 14,
}  # fmt: skip

# Prefixes of sister projects and of sites in MediaWiki's default interwiki map that articles use.
INTERWIKI = frozenset(
    """w wikt wiktionary s wikisource b wikibooks q wikiquote n wikinews v wikiversity voy wikivoyage c commons d
    wikidata m meta metawikipedia mw mediawikiwiki species wikispecies f foundation wmf wikimedia incubator phab
    bugzilla toollabs tools doi rfc arxiv hdl pubmed imdbname imdbtitle google wikia wikicities memoryalpha
    uncyclopedia oeis wikitech outreach strategy testwiki test2wiki nost dmoz citeseer acronym jstor lojban
    wookieepedia""".split()  # noqa: SIM905
)

# Language editions: a link with such a prefix is shown in the sidebar, not in the text.
LANGUAGES = frozenset(
    """aa ab ace ady af ak als am an ang ar arc ary arz as ast atj av avk awa ay az azb ba ban bar bat-smg bcl be
    be-tarask be-x-old bg bh bi bjn bm bn bo bpy br bs bug bxr ca cbk-zam cdo ce ceb ch cho chr chy ckb co cr crh cs
    csb cu cv cy da de din diq dsb dty dv dz ee el eml en eo es et eu ext fa ff fi fiu-vro fj fo fr frp frr fur fy ga
    gag gan gcr gd gl glk gn gom gor got gu gv ha hak haw he hi hif ho hr hsb ht hu hy hyw hz ia id ie ig ii ik ilo
    inh io is it iu ja jam jbo jv ka kaa kab kbd kbp kg ki kj kk kl km kn ko koi kr krc ks ksh ku kv kw ky la lad lb
    lbe lez lfn lg li lij lld lmo ln lo lrc lt ltg lv mai map-bms mdf mg mh mhr mi min mk ml mn mnw mr mrj ms mt mus
    mwl my myv mzn na nah nap nds nds-nl ne new ng nl nn no nov nqo nrm nso nv ny oc olo om or os pa pag pam pap pcd
    pdc pfl pi pih pl pms pnb pnt ps pt qu rm rmy rn ro roa-rup roa-tara ru rue rw sa sah sat sc scn sco sd se sg sh
    shn si simple sk sl sm smn sn so sq sr srn ss st stq su sv sw szl szy ta tcy te tet tg th ti tk tl tn to tpi tr
    ts tt tum tw ty tyv udm ug uk ur uz ve vec vep vi vls vo wa war wo wuu xal xh xmf yi yo za zea zh zh-classical
    zh-min-nan zh-yue zu""".split()  # noqa: SIM905
)

_TITLE_SPACES = re.compile(r"[\s_]+")
_INVALID = re.compile(r"[\[\]{}|<>\x00-\x1f\x7f\ufffd]")


class Resolved(NamedTuple):
    """A link target: an address, or the reason (a slug) why it has none; hidden links are not part of the text."""

    address: str | None
    reason: str = ""
    hidden: bool = False


@dataclass(eq=False)
class Site:
    """The naming rules of one dump. `namespaces`: name → number; `language`: BCP 47 tag of the dump. `IT:` and `HR:` are
    language editions only on `wikimedia` sites: in an intranet wiki they begin page titles. With `subpages`, `[[/Part]]` leads
    to a page below the one with the link; `[[../Part]]` always does."""

    namespaces: Mapping[str, int]
    first_letter: bool = True
    language: str = "en"
    wikimedia: bool = True
    subpages: bool = True

    def __post_init__(self) -> None:
        self.namespaces = CANONICAL | {_fold(name): number for name, number in self.namespaces.items() if name}
        self.languages, self.interwiki = (LANGUAGES, INTERWIKI) if self.wikimedia else (frozenset(), frozenset())
        self.resolve = lru_cache(CACHED_TARGETS)(self._resolve)
        # Letters right after a link belong to it: "[[bus]]es". The alphabet depends on the wiki's language.
        trail = "a-z" if self.language.startswith("en") else _LOWER
        anchor = r"(?>[^\[\]\x04]+|\[(?!\[)|\](?!\]))*+"
        self.link = re.compile(rf"\[\[([^\[\]|{{}}<>\n\x01-\x05]+)(?:\|({anchor}))?\]\](\](?!\]))?([{trail}]*)")
        # An opening file link, and all brackets (the group is set if a file link opens).
        names = (re.escape(name).replace(r"\ ", "[ _]") for name, number in self.namespaces.items() if number == 6)
        opening = rf"[ _]*(?i:{'|'.join(names)})[ _]*:"
        self.media, self.brackets = re.compile(rf"\[\[{opening}"), re.compile(rf"\[\[({opening})?|\]\]")

    def _resolve(self, target: str) -> Resolved:
        """Resolves the text between `[[` and `|` or `]]`."""
        title = _TITLE_SPACES.sub(" ", _decoded(target).partition("#")[0]).strip()
        leading_colon = title.startswith(":")
        title = title[1:].lstrip() if leading_colon else title
        prefix, colon, _ = title.partition(":")
        if colon:
            prefix = _fold(prefix)
            if number := self.namespaces.get(prefix):
                return Resolved(None, "link-namespace", hidden=number in (6, 14) and not leading_colon)
            if prefix in self.languages or prefix in self.interwiki:
                return Resolved(None, "link-interwiki", hidden=prefix in self.languages and not leading_colon)
        if not title:
            return Resolved(None, "link-self" if "#" in target else "link-invalid")
        address = self.address(title)
        if not address or _INVALID.search(address) or len(address.encode("utf-8", "replace")) > MAX_TITLE_BYTES:
            return Resolved(None, "link-invalid")
        return Resolved(address)

    def normalised(self, title: str) -> str:
        """Normalises a title like a link target; returns one that cannot be linked unchanged."""
        return self.resolve(title).address or title.strip()

    def address(self, title: str) -> str:
        """A page title in its canonical form: spaces, composition (NFC), first letter."""
        title = _TITLE_SPACES.sub(" ", title).strip()
        if not title.isascii():
            title = unicodedata.normalize("NFC", INVISIBLE.sub("", title)).strip()
        first, language = title[:1], primary(self.language)
        # ß and Georgian letters do not change. Turkish, Azerbaijani and Karakalpak have İ; Dutch has IJ, one letter.
        upper = "İ" if first == "i" and language in ("tr", "az", "kaa") else first.upper()
        if not self.first_letter or len(upper) != 1 or "\u10d0" <= first <= "\u10ff":
            return title
        return "IJ" + title[2:] if language == "nl" and title[:2].lower() == "ij" else upper + title[1:]

    def namespace(self, title: str) -> int:
        """The number of the namespace that the title's prefix names; 0 without such a prefix."""
        prefix, colon, _ = title.partition(":")
        return self.namespaces.get(_fold(prefix), 0) if colon else 0

    def absolute(self, target: str, page: str) -> tuple[str, str]:
        """A link target, below or beside the page if it begins with / or ../, and its text if the link has no other."""
        written = _decoded(target).strip()
        shown = written.removeprefix(":").replace("_", " ")
        part, around = written, page.split("/")
        while part.startswith("../"):
            part, around = part[3:], around[:-1]
        if part == written and part.startswith("/") and self.subpages and page:
            part = part[1:]
        if part == written or not around:  # no subpage, or above the first page
            return target, shown
        name = part.rstrip("/").strip()
        whole = "/".join([*around, *([name] if name else [])])
        return whole, name if part.endswith("/") else (whole if written.startswith(".") else shown)


def _fold(prefix: str) -> str:
    return _TITLE_SPACES.sub(" ", prefix).strip().lower()


def _decoded(target: str) -> str:
    """A link target without character references and percent-encoding."""
    target = html.unescape(target) if "&" in target else target
    try:
        return urllib.parse.unquote(target, errors="strict") if "%" in target else target
    except UnicodeDecodeError:
        return target


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
# Templates that display arguments, by which ones: the first, the last, a number with its unit, a link to the first. Others are
# removed.
_SHOWN = {
    name: what
    for what, names in {
        "first": """nowrap nobr nobold small smaller smallcaps big larger em strong abbr tooltip nihongo nihongo_foot vanchor
            visible_anchor sup sub resize formatnum lc uc lcfirst ucfirst quote blockquote cquote " angbr ruby 読み仮名""",
        "last": "lang langue transl transliteration font color colour script",
        "unit": "convert cvt val unité unidad convertir",
        "link": "ill interlanguage_link lien link-interwiki link-en le ilh 仮リンク не_переведено flag flagcountry country",
        "pair": "w",
    }.items()
    for name in names.split()
}
_FLAGS, _LANGUAGE_CODE = ("flag", "flagcountry", "country"), re.compile("[a-z]{2,3}")
_TEMPLATE = re.compile(
    rf"\{{\{{\s*+((?i:lang-[a-z-]+|{'|'.join(map(re.escape, _SHOWN))}))\s*+[|:]([^{{}}]*+)\}}\}}".replace("_", "[ _]")
)
_INNER_LINK = re.compile(r"\[\[[^\[\]]*+\]\]")
_NUMBERED = re.compile(r"\s*[1-9]\s*=")
_NAMED = re.compile(r"\s*[\w -]+=")
_UNIT = re.compile(r"\|\s*(?:u|ul|unit)\s*=([^|]+)")
_RANGES = frozenset(("to", "-", "–", "and", "or", "by", "x", "×"))
# Between words a template leaves a hole in the sentence, unless it is a note, which mostly follows a word without a space.
_BEFORE_HOLE = re.compile(r"[\w,;] +$")
_AFTER_HOLE = re.compile(r"[.,;]| \w")
_NOTE = re.compile(
    r"\{\{\s*(?i:cn|fact|citation|cit|sfn|efn|refn?|r|rp|dubious|clarify|when|who|which|by whom|according to whom|dead|"
    r"disambiguation needed|dn|note)\b"
)
_VARIANTS = re.compile(r"-\{(?!\{)([^{}]*+)\}-")
_VARIANT = re.compile(r"\s*([a-z]{2,3}(?:-[a-z]+)?)\s*:(.*)", re.DOTALL)
_CONVERTED = frozenset("zh sr kk ku uz iu tg gan crh ban shi".split())  # noqa: SIM905 - wikis with language variants
_BRACES = re.compile(r"\{\{+|\}\}+")
_TABLES = re.compile(r"\n[ \t:\x01]*+(\{\||\|\})|<(?i:(/?table)\b)[^<>]*>")
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


def plain_text(wikitext: str, site: Site, page: str = "") -> Plain:
    """The prose of the page titled `page`. `text[start:end]` is exactly the link text that MediaWiki displays, never empty or
    only spaces. The lead ends before the first heading that has text above it. Never raises; linear in len(wikitext)."""
    text = "\n" + CONTROLS.sub("", wikitext).replace("\r", "") + "\n"
    text = _without_hidden(text)
    dropped: list[tuple[str, str]] = []
    if "-{" in text and primary(site.language) in _CONVERTED:
        text = _VARIANTS.sub(partial(_variant, site.language.lower()), text)
    for _ in range(3):  # templates in templates
        before, text = text, _TEMPLATE.sub(_words_of, text)
        if text == before:
            break
    text = _without_templates(text, dropped)
    text = _without_tables(text)
    text = _HEADING.sub("\n\n\x04\n", text)
    if "<" in text:
        text = _INLINE_TAG.sub("", _SPACE_TAG.sub(" ", _BLOCK_TAG.sub("\n\n", text)))
    text = _without_media(text, site)
    text, addresses = _mark_links(text, site, page, dropped)
    return assemble(_clean(text), addresses, dropped)


def _without_hidden(text: str) -> str:
    """Without comments, to the end of the page if unclosed, and extension tags. An unclosed tag is literal text, and so are all
    later ones of its kind."""
    pieces, position, unclosed = [], 0, set()
    match = _HIDDEN.search(text)
    while match:
        start, after, filler = match.start(), match.end(), "\x01"
        if not match[1]:  # a comment
            end = text.find("-->", after)
            filler, end = "", len(text) if end < 0 else end + 3
            # Remove the line of a comment that is alone on it: an empty line would split the paragraph.
            if text[start - 1] == "\n" and text.startswith("\n", end):
                end += 1
        elif match[2].endswith("/"):
            end = after
        else:
            name = match[1].lower()
            closing = None if name in unclosed else _CLOSING[name].search(text, after)
            end = closing.end() if closing else -1
            unclosed |= set() if closing else {name}
        if end >= 0:
            pieces += [text[position:start], filler]
            position = after = end
        match = _HIDDEN.search(text, after)
    return "".join([*pieces, text[position:]])


def _variant(language: str, conversion: re.Match[str]) -> str:
    """What `-{zh-hans:…;zh-hant:…}-` displays: the text for the wiki's language, else the first; nothing if it only sets a rule."""
    flags, bar, text = conversion[1].partition("|")
    if bar and {"H", "T", "N", "-"} & set(flags.strip()):
        return ""
    text = text if bar else conversion[1]
    texts = {variant[1]: variant[2] for part in text.split(";") if (variant := _VARIANT.match(part))}
    return texts.get(language, next(iter(texts.values()), text)).strip()


def _words_of(template: re.Match[str]) -> str:
    """What a template of `_SHOWN`, or of the text in a language ("lang-fr"), displays."""
    what = _SHOWN.get(template[1].lower().replace(" ", "_"), "first")
    arguments = _INNER_LINK.sub(lambda link: link[0].replace("|", "\0"), template[2]).split("|")
    arguments = [each for each in arguments if _NUMBERED.match(each) or not _NAMED.match(each)]
    values = [_NUMBERED.sub("", each, count=1).replace("\0", "|").strip() for each in arguments]
    values += [""] * (4 - len(values))
    if what == "unit":
        unit = _UNIT.search(template[2])
        after = values[1:4] if values[1] in _RANGES else [unit[1].strip() if unit else values[1]]
        return " ".join([values[0], *after]).rstrip()
    if what == "link" and values[1] and _LANGUAGE_CODE.fullmatch(values[0]) and template[1].lower() not in _FLAGS:
        values[0] = values[2] or values[1]  # the older order: language, page there, page here
    if what in ("link", "pair") and values[0] and "[" not in template[2]:
        return f"[[{values[0]}|{(what == 'pair' and values[1]) or values[0]}]]"
    return next(filter(None, values[::-1]), "") if what == "last" else values[0]


def _outer(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order, without those inside others; overlapping ones are joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            start, end = joined[-1][0], max(end, joined.pop()[1])
        joined.append((start, end))
    return joined


def _remove(text: str, spans: list[tuple[int, int]], filler: str = "\x01") -> str:
    """The text without the spans; the filler separates the text around them."""
    pieces, position = [], 0
    for start, end in _outer(spans):
        pieces += [text[position:start], filler]
        position = end
    return "".join([*pieces, text[position:]])


def _without_templates(text: str, dropped: list[tuple[str, str]]) -> str:
    """Without `{{...}}` and `{{{...}}}`, to any depth; unbalanced braces stay. Those inside a sentence are counted."""
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
            spans.append((position + count - matched, start))
            if count - matched >= 2:
                stack[-1][1] = count - matched
            else:
                stack.pop()
    for start, end in _outer(spans):
        inside = _BEFORE_HOLE.search(text, max(0, start - 8), start) and _AFTER_HOLE.match(text, end)
        if inside and not _NOTE.match(text, start):
            dropped.append(("template-in-sentence", text[start : min(end, start + 200)]))
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
                spans.append((start, match.end()))
                break
    end = 0
    for _, start in stack:
        if start >= end:
            heading = _HEADING.search(text, start + 1)
            end = heading.start() if heading else len(text)
            spans.append((start, end))
    return _remove(text, spans, "\n\x01\n")


def _without_media(text: str, site: Site) -> str:
    """Without `[[File:...|caption]]`, including captions that contain links."""
    if not site.media.search(text):
        return text
    spans: list[tuple[int, int]] = []
    stack: list[tuple[int, bool]] = []
    for match in site.brackets.finditer(text):
        if match[0] != "]]":
            stack.append((match.start(), match[1] is not None))
        elif stack:
            start, media = stack.pop()
            if media:
                spans.append((start, match.end()))
    return _remove(text, spans)


def _mark_links(text: str, site: Site, page: str, dropped: list[tuple[str, str]]) -> tuple[str, list[str]]:
    addresses: list[str] = []

    def mark(match: re.Match[str]) -> str:
        target, anchor, bracket, trail = match.groups()
        written, shown = site.absolute(target, page)
        resolved = site.resolve(written)
        if resolved.hidden:
            if resolved.reason == "link-interwiki":
                dropped.append((resolved.reason, target))
            return "\x01" + (bracket or "") + trail
        anchor = (shown if anchor is None else anchor).replace("\n", " ")
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

    return site.link.sub(mark, text), addresses


def _clean(text: str) -> str:
    # Patterns begin with a literal character if possible: the regex engine then searches for it.
    text = _EXTERNAL.sub(r"\1", text)
    # Bold and italics; apostrophes next to them stay.
    if "'''s" in text:
        text = "\n".join(_possessive(line) if "'''s" in line else line for line in text.split("\n"))
    if "''" in text:
        text = re.sub("''+", "", re.sub("(?<!')''''(?!')", "'", text))
    text = _SWITCH.sub("", _RULE_OR_ROW.sub("\n", text))
    text = _LIST_LINE.sub(r"\n\n\1\n", text)
    text = _LEFTOVER.sub("", text)
    if "&" in text:
        text = _ENTITY.sub(_unescaped, text)
    text = text.replace("\t", " ")
    if not text.isascii():
        text = ODD_SPACE.sub(" ", INVISIBLE.sub("", text))
    return tidy(_LEAN.sub("(", _HOLLOW.sub("", text)))


def _unescaped(match: re.Match[str]) -> str:
    character = html.unescape(match[0])
    return " " if character.isspace() else CONTROLS.sub("", character)


def _possessive(line: str) -> str:
    """`''The Times'''s`: if bold and italics are both odd in a line, MediaWiki reads one ''' as ' and ''."""
    runs = [len(run) for run in re.findall("''+", line)]
    bold = sum(run in (3, 4) or run >= 5 for run in runs)
    italic = sum(run == 2 or run >= 5 for run in runs)
    return re.sub(r"(?<=[^\s'])'''(?=s\b)", "'", line, count=1) if bold % 2 and italic % 2 else line
