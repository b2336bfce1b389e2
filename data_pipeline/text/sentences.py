"""Sentence boundaries: our own rules for English, else `sentencex` (Wikimedia's rules and abbreviations for 240 languages).

One pass: a regular expression finds candidates, the neighbouring words decide. Text with spaces around punctuation ("Eek ! The Cat
is a series .") works too. Known limits of the rules: a sentence is joined to the one before if it begins in lower case, or if it
follows an abbreviation and does not begin with a common opening word. docs/lab/languages.md compares them with `sentencex`.
"""

import re
from collections.abc import Iterator

from harp_jax.base.errors import needs
from harp_jax.text.languages import ENGLISH, primary

_CANDIDATE = re.compile(
    # Closing marks and references may follow the stop; the space after them is often missing.
    r"(?<![.!?…])([.!?…]++)([\"'”’»)\]]*+(?:\[\w{1,4}\])*+)(?:[^\S\n]++(?=\S)|(?<=[a-z0-9][a-z0-9]\.)(?=[A-Z][a-z]))"
    r"|(?<![。！？])[。！？]++[」』”’）]*+|\n++"
)
_LAST_WORD = re.compile(r"[^\s\"'“‘«(\[]*$")
_NEXT = re.compile(r"(?:[\"'“‘«(\[¿¡`]{1,4} ?)?(\w{0,24})")
_STANDING_CLOSERS = re.compile(r"(?:(?:''|[”’»)\]]) +)+")
_DOTTED = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]{1,2}$|[A-Z][a-z]\.[A-Z]$")
_OPENERS = ('"', "“", "‘", "«")
_NUMERAL = re.compile(r"[0-9]|[IVXLC]+$")
_LOOK_BACK = 28
WINDOW = 8192  # characters per call of sentencex: its time is quadratic in the length of a paragraph of quotations

# Abbreviations that never end a sentence: a name or a number follows.
_BEFORE_NAMES = frozenset(
    """mr mrs ms mx dr prof rev hon gen col maj capt cpt lt sgt cpl pvt adm cmdr gov sen rep pres amb fr mme mlle mgr
    messrs vs v cf viz e.g i.e eg ie ca approx resp incl ed eds trans fig figs eq eqs ref refs fl lit née
    mt ft pt brig def rs""".split()  # noqa: SIM905
)
# Abbreviations only before a number ("No. 5"), otherwise words ("He said no. Then ...").
_BEFORE_NUMBERS = frozenset(
    """no nos nr vol vols p pp ch chap sec art op bk pl par §
    jan feb mar apr jun jul aug sep sept oct nov dec""".split()  # noqa: SIM905
)
# Abbreviations that end a sentence if a usual opening word follows.
_MAY_END = frozenset(
    """inc ltd co corp jr sr al bros ave blvd rd st dept univ assn est ltda llc plc cie mfg intl natl
    hrs ph.d m.d d.c u.s u.k u.n""".split()  # noqa: SIM905
)
_OPENING_WORDS = frozenset(
    """The A An This That These Those It Its He She They We You His Her Their Our My There Here In On At By From With
    For After Before During Since Until When While Where If As Although Though Because However But And Or Nor So Yet
    Then Thus Hence Therefore Moreover Furthermore Also Another Other Some Many Most Several Each Every All Both One
    Two Three What Who Why How Which Not No See Under Over Between Through According Despite Today Later Once Only Even
    Such To Of Among Within Without Instead Meanwhile Finally First Second Next Later Earlier Like Unlike""".split()  # noqa: SIM905
)  # fmt: skip


def sentences(text: str, language: str = ENGLISH) -> list[tuple[int, int]]:
    """Spans (start, end) in code points, in order, without surrounding white space; none contains a line feed."""
    spans: list[tuple[int, int]] = []
    code = primary(language)
    for start, end in _english(text) if code == ENGLISH else _by_sentencex(text, code):
        if body := text[start:end].strip():
            start = text.index(body, start)
            spans.append((start, start + len(body)))
    return spans


def _by_sentencex(text: str, code: str) -> Iterator[tuple[int, int]]:
    with needs(f"sentences of the language {code!r}", "sentencex", "data"):
        import sentencex
    before = 0
    for paragraph in text.split("\n"):
        start = 0
        while start < len(paragraph):
            part = paragraph[start : start + WINDOW]
            bounds = [(b["start_index"], b["end_index"]) for b in sentencex.get_sentence_boundaries(code, part)]
            # The last sentence of a window is read again, with the text after it.
            whole = len(bounds) < 2 or start + len(part) == len(paragraph)
            for first, last in bounds if whole else bounds[:-1]:
                yield before + start + first, before + start + last
            start += len(part) if whole else bounds[-1][0]
        before += len(paragraph) + 1


def _english(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in _CANDIDATE.finditer(text):
        end = match.end()
        if match.start() < start:
            continue
        if match[1] is not None:
            if not _is_boundary(text, start, match):
                continue
            # A straight quotation mark after the stop closes a quotation if one is open.
            if text.startswith('" ', end) and text.count('"', start, end) % 2:
                end += 2
            elif closers := _STANDING_CLOSERS.match(text, end):
                end = closers.end()
        yield start, end
        start = end
    yield start, len(text)


def _is_boundary(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the sentence that begins at `start` ends with the stop and the closing marks of the match."""
    stop, closers = match[1], match[2]
    following = _NEXT.match(text, match.end())
    word = following[1] if following else ""
    if word[:1].islower() or (not word and text[match.end()] in "-–—,;:.!?…/&=+"):
        return False
    if text[match.end()] == "(" and "." not in stop:
        return False  # A title and its year or a gloss: "Flood! (1976)".
    if len(stop) > 1 and text[max(start, match.start() - 1) : match.start()] in _OPENERS:
        return False  # A quotation that begins with an ellipsis.
    before = text[max(start, match.start() - _LOOK_BACK) : match.start()]
    last = _LAST_WORD.search(before.rstrip() if before.endswith(" ") else before)[0]  # type: ignore[index]
    whole = last.strip() == text[start : start + _LOOK_BACK + 1][: match.start() - start].strip()
    if "." not in stop or len(stop) > 1:
        # One word and a mark is a name or an exclamation ("Yahoo! Mail", "Eek ! The Cat"): no boundary.
        if stop != "!" or closers:
            return True
        # The same for a capitalised word inside a sentence ("Jeopardy! College") and a repeated word ("Turn! Turn!").
        return not whole and word != last.strip() and (not last[:1].isupper() or word in _OPENING_WORDS)
    if closers:
        return True
    # A full stop: does it belong to the word before it?
    folded = last.lower()
    if (whole and last.isdigit()) or (folded in _BEFORE_NAMES and last != "V"):
        return False
    if folded in _BEFORE_NUMBERS and _NUMERAL.match(word):
        return False
    letter = len(last) == 1 and last.isalpha()
    abbreviates = letter or folded in _MAY_END or _DOTTED.match(last)
    return folded in ("a.m", "p.m") or not abbreviates or word in _OPENING_WORDS
