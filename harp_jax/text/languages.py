"""Stopwords, stemming and word splitting for ranking and sampling, by language tag ("de", "pt-BR").

Stopwords are from stopwordsiso (58 languages), stemmers from Snowball (36); other languages have none. English words and stopwords
are those of bm25s, so that its figures stay comparable.

In Chinese, Japanese, Korean, Thai, Lao, Burmese and Khmer, the words of lexical ranking are pairs of adjacent letters, as in
Lucene's CJKAnalyzer. A query then finds a word inside a sentence without a dictionary; a single letter in a query matches all pairs
that contain it. docs/lab/languages.md compares pairs with letters and triples.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from harp_jax.base.errors import InputError, needs

ENGLISH = "en"
INQUERY = "inquery"  # the name of INQUERY's 418 English stopwords, which HARP's paper and others filter with
_INQUERY_PATH = str(Path(__file__).with_name("inquery.txt"))  # its licence is in the file
# Letters of scripts without spaces between words: Chinese and Japanese, then Thai, Lao, Burmese, Khmer.
HAN_KANA = "\u3005\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
SOUTH_EAST = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0edf\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u17d7\uaa60-\uaa7f"
)
UNSPACED_LETTER = re.compile(f"[{HAN_KANA}{SOUTH_EAST}]")
# Korean words end in particles, for which there is no stemmer.
HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7fb"
# Languages of these scripts without spaces between words.
UNSPACED = frozenset({"ja", "km", "lo", "my", "th", "zh"})
_TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8})*")
_SAME = {"nb": "no", "nn": "no", "iw": "he", "in": "id", "fil": "tl", "yue": "zh", "cmn": "zh"}
Words = Callable[[str], list[str]]


def stopwords_file(name: str) -> str:
    """The file of a list of stopwords: that of "inquery", else `name` itself."""
    return _INQUERY_PATH if name == INQUERY else name


def primary(tag: str) -> str:
    """The language of a tag, as the lists name it: "de" for "de-AT", "" for "". Raises InputError for an invalid tag."""
    if not tag:
        return ""
    if not _TAG.fullmatch(tag):
        raise InputError(f"language {tag!r} is not a language tag; write one such as en, de or pt-BR, or '' for none")
    code = re.split("[-_]", tag.lower(), maxsplit=1)[0]
    return _SAME.get(code, code)


def stemmer(tag: str) -> Any:
    """Snowball's stemmer for a language (PyStemmer: `stemWord`, `stemWords`); None if there is none, and for ""."""
    if not (code := primary(tag)):
        return None
    with needs("stems", "PyStemmer", "bm25"):
        import Stemmer
    try:
        return Stemmer.Stemmer(code)
    except KeyError:
        return None


def stopwords(tag: str) -> frozenset[str]:
    """The function words of a language in lower case; empty for "" and if stopwordsiso has no list."""
    if not (code := primary(tag)):
        return frozenset()
    with needs("stopwords", "stopwordsiso", "bm25"):
        import stopwordsiso
    return frozenset(word.lower() for word in stopwordsiso.stopwords(code))


def lexical_stopwords(tag: str) -> list[str]:
    """Stopwords of lexical ranking, sorted: those of bm25s for English, else `stopwords`. In scripts without spaces only single
    letters: a pair of letters may be part of another word, and the lists have words that are searched for (结果, "result")."""
    if primary(tag) != ENGLISH:
        return sorted(word for word in stopwords(tag) if len(word) == 1 or not UNSPACED_LETTER.search(word))
    with needs("stopwords", "bm25s", "bm25"):
        from bm25s.stopwords import STOPWORDS_EN
    return sorted(STOPWORDS_EN)


def function_words(tag: str) -> frozenset[str]:
    """Words that do not explain a match; in English a shorter list than `stopwords`, which has page, stop, test and find."""
    if primary(tag) != ENGLISH:
        return stopwords(tag)
    with needs("stopwords", "bm25s", "bm25"):
        from bm25s.stopwords import STOPWORDS_EN_PLUS
    return frozenset(STOPWORDS_EN_PLUS)


@lru_cache(maxsize=8)
def splitter(tag: str) -> Words:
    """Lower-cased text → words of lexical ranking: at least two letters or digits, or letter pairs in unspaced scripts."""
    if primary(tag) == ENGLISH:
        return re.compile(r"(?u)\b\w\w+\b").findall
    word, letter = word_patterns()

    def words(text: str) -> list[str]:
        parts: list[str] = []
        for run in word.findall(unicodedata.normalize("NFKC", text).lower()):
            letters = letter.findall(run)
            pairs = list(map("".join, pairwise(letters))) or letters
            parts += pairs or [run] * (len(run) > 1)
        return parts

    return words


def lone_letters(text: str, tag: str) -> list[str]:
    """The words of `splitter` that are a single letter of a script without spaces."""
    if primary(tag) == ENGLISH:
        return []
    return [word for word in splitter(tag)(text) if word_patterns()[1].fullmatch(word)]


def pieces(text: str, tag: str) -> list[tuple[int, int]]:
    """[start, end) of each word of a text, and of each letter in scripts without spaces."""
    if primary(tag) == ENGLISH:
        return [match.span() for match in re.finditer(r"\w+", text)]
    word, letter = word_patterns()
    spans: list[tuple[int, int]] = []
    for match in word.finditer(text):
        start, end = match.span()
        spans += [inner.span() for inner in letter.finditer(text, start, end)] or [(start, end)]
    return spans


# Words of a sentence; in scripts without spaces a run of one script, of at most 4 Chinese or 8 Thai, Lao, … letters.
_KANA = "\u3041-\u30ff"
_PHRASES = re.compile(
    f"[\u3041-\u309f]+|[\u30a1-\u30fa\u30fc-\u30ff]+|(?:(?![{_KANA}])[{HAN_KANA}]){{1,4}}|[{SOUTH_EAST}]{{1,8}}|[^\\W{HAN_KANA}{SOUTH_EAST}]+"
)
_WORDS = re.compile(r"\w+")


def phrases(tag: str) -> re.Pattern[str]:
    """Pattern of the words of a sentence that may be added to a query."""
    return _WORDS if primary(tag) == ENGLISH else _PHRASES


@lru_cache(maxsize=1)
def word_patterns() -> tuple[Any, Any]:
    """Patterns of a word or a run without spaces, and of a letter of such a run."""
    with needs("words", "regex", "bm25"):
        import regex
    # Vowel signs and accents are marks on the letter before them, which \w in Python's `re` does not match.
    letters = HAN_KANA + SOUTH_EAST + HANGUL
    return regex.compile(rf"(?:[{letters}]\p{{M}}*)+|[^\W{letters}]+"), regex.compile(rf"[{letters}]\p{{M}}*")
