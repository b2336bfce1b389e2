"""Words and their wordpieces: what queries are sampled from.

A *word* is a unit of BERT's pre-tokenizer (split at white space and punctuation), identified by the tuple of its wordpiece ids. A
*term* is a word that may be sampled: no stopword, no punctuation, not unknown to the vocabulary.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harp_jax.base.files import lines
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Encoding

Word = tuple[int, ...]

# English function words by class; the last class is the parts of contractions that the pre-tokenizer splits off.
STOPWORDS = frozenset(
    """
    a an the
    i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves one ones oneself who whom whose whoever which whichever what whatever
    this that these those such same other others another each every either neither both all any some many much more most
    few fewer less least several enough own none nobody nothing no somebody someone something anybody anyone anything
    everybody everyone everything
    about above across after against along amid among amongst around as at before behind below beneath beside besides between
    beyond by despite down during except for from in inside into like near of off on onto out outside over past per since
    through throughout till to toward towards under until unto up upon via versus vs with within without
    and but or nor so yet if then else than because although though unless while whereas whether when whenever where wherever
    why how however therefore thus hence moreover furthermore otherwise
    am is are was were be been being have has had having do does did doing done can could may might must shall should will
    would ought need cannot become became becomes becoming get gets got
    not never ever very too also just only even still again already always often sometimes usually almost perhaps maybe quite
    rather here there now once twice first last later earlier soon ago away back further well
    s t d m ll re ve don doesn didn isn aren wasn weren hasn haven hadn couldn shouldn wouldn mustn needn ain
    """.split()  # noqa: SIM905
)


class Span(NamedTuple):
    """Words of a text with their wordpieces: tokens [pieces] int32, lengths [words] int32 (pieces of each word)."""

    tokens: np.ndarray
    lengths: np.ndarray

    def words(self) -> list[Word]:
        ends = np.cumsum(self.lengths).tolist()
        ids = self.tokens.tolist()
        return [tuple(ids[start:end]) for start, end in zip([0, *ends], ends)]


@dataclass(frozen=True)
class Terms:
    """A tokenizer with a stopword list. With unit "wordpieces" every piece counts as a word."""

    tokenizer: Tokenizer
    stopwords: frozenset[str]
    unit: str = "words"

    @cached_property
    def _content(self) -> list[bool]:
        """By wordpiece id: does it contain a letter or a digit?"""
        return [
            any(c.isalnum() for c in token) and not re.fullmatch(r"\[[A-Z]+\]", token)
            for token in self.tokenizer.tokens
        ]

    @cached_property
    def _stop_ids(self) -> frozenset[Word]:
        forms = sorted({form for word in self.stopwords for form in (word, word.capitalize(), word.upper())})
        found = [(e.ids, e.word_ids) for e in self.tokenizer.encode_batch(forms)]
        # An entry of several words, such as doesn't, matches no single word and is ignored.
        return frozenset(tuple(ids) for ids, words in found if ids and words[0] == words[-1])

    @cached_property
    def _single(self) -> list[bool]:
        """By wordpiece id: is the word of this single piece a term? Four of five words have one piece."""
        return [self._is_term((piece,)) for piece in range(self.tokenizer.size)]

    def _is_term(self, word: Word) -> bool:
        unknown, content = self.tokenizer.unk, self._content
        return word not in self._stop_ids and unknown not in word and any(content[piece] for piece in word)

    def is_term(self, word: Word) -> bool:
        """Whether the word may be sampled."""
        return self._single[word[0]] if len(word) == 1 else self._is_term(word)

    def has_content(self, word: Word) -> bool:
        """Whether it is a word and not punctuation; True for stopwords and unknown words."""
        return any(self._content[piece] or piece == self.tokenizer.unk for piece in word)

    def split(self, texts: list[str], limit: int) -> Iterable[tuple[Span, np.ndarray, np.ndarray]]:
        """For each text its whole words up to `limit` wordpieces, and the start and end of each ([words] int32, code points)."""
        # Words are far shorter than 32 characters on average; text beyond that is truncated anyway.
        for encoding in self.tokenizer.encode_batch([text[: 32 * limit] for text in texts]):
            yield _words(encoding, limit, self.unit)


def _words(encoding: "Encoding", limit: int, unit: str) -> tuple[Span, np.ndarray, np.ndarray]:
    ids = np.asarray(encoding.ids, np.int32)
    word_ids = np.asarray(encoding.word_ids if unit == "words" else range(len(ids)), np.int32)
    if not len(ids):
        empty = np.zeros(0, np.int32)
        return Span(empty, empty), empty, empty
    offsets = np.asarray(encoding.offsets, np.int32)
    starts = np.flatnonzero(np.diff(word_ids, prepend=-1))
    ends = np.append(starts[1:], len(ids))
    kept = int(np.searchsorted(ends, limit, side="right"))
    starts, ends = starts[:kept], ends[:kept]
    pieces = int(ends[-1]) if kept else 0
    return Span(ids[:pieces], (ends - starts).astype(np.int32)), offsets[starts, 0], offsets[ends - 1, 1]


def join(words: Iterable[Word]) -> list[int]:
    """The wordpieces of words, concatenated."""
    return [piece for word in words for piece in word]


# Scripts without spaces between words, with the average letters per word; their punctuation ends words.
_UNSPACED = (
    (re.compile("[\u3005\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"), 2),
    (re.compile("[\u0e01-\u0edf\u1000-\u109f\u1780-\u17dd\uaa60-\uaa7f]"), 5),  # Thai, Lao, Burmese, Khmer
)
_STOPS = re.compile("[\u3000-\u3004\u3006-\u303f\uff00-\uff65]+")


def count_words(text: str) -> int:
    """Number of words of a text: split at white space; an estimate for Chinese, Japanese, Thai …"""
    if text.isascii():
        return len(text.split())
    count = 0
    for letter, length in _UNSPACED:
        text, letters = letter.subn(" ", text)
        count -= -letters // length
    return count + len(_STOPS.sub(" ", text).split())


def normalise_anchor(text: str) -> str:
    """The anchor text in the form that is compared: NFKC, case-folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def read_stopwords(path: str) -> frozenset[str]:
    """The words of a list (one per line), or `STOPWORDS` for an empty path; InputError for a file that cannot be read."""
    if not path:
        return STOPWORDS
    return frozenset(line.strip().lower() for _, line in lines(path) if line.strip())


@lru_cache(maxsize=2)
def load_terms(tokenizer: str, stopwords: str, unit: str = "words") -> Terms:
    """The terms of a tokenizer and a stopword list; loaded once per process."""
    return Terms(load_tokenizer(tokenizer), read_stopwords(stopwords), unit)
