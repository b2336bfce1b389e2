"""Words: the units that queries are sampled from and compared by.

A *word* is a normalised string without white space: a piece that the pre-tokenizer splits off or, if it does not split, the text
between spaces without adjacent punctuation; in scripts without spaces, one token. Its token ids depend on its position: with
byte-level BPE, "cat" has one id at the start of a query and another after a space. A *term* is a word that may be sampled: not a
stopword, not punctuation, and known to the vocabulary.
"""

import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from harp_jax.base.files import lines
from harp_jax.base.randomness import signed64
from harp_jax.text import languages
from harp_jax.text.languages import ENGLISH, HAN_KANA, SOUTH_EAST, UNSPACED_LETTER, primary
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

Word = str
CACHED = 1 << 17  # words cached per process: a few words make up most occurrences

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
    """A text's words in order: words [words], tokens [tokens] int32, lengths [words] int32 (tokens of each word)."""

    words: list[Word]
    tokens: np.ndarray
    lengths: np.ndarray


def pack_words(words: Iterable[Word]) -> str:
    return " ".join(words)


def unpack_words(packed: str) -> list[Word]:
    return packed.split(" ") if packed else []


@dataclass(frozen=True)
class Terms:
    """A tokenizer with a stopword list. With unit "tokens" every token counts as a word, spelled as in the vocabulary. In
    English text, Chinese and Japanese words stay whole unless the tokenizer splits them."""

    tokenizer: Tokenizer
    stopwords: frozenset[str]
    unit: str = "words"
    language: str = ENGLISH

    @cached_property
    def word(self) -> Callable[[str], Word]:
        """Maps a piece of text to its word."""

        def normalised(text: str) -> Word:
            # SentencePiece's mark for a space: some normalisers write it; it is not in ordinary text.
            return "".join(self.tokenizer.normalise(text).replace("▁", " ").split()) or "?"

        return lru_cache(CACHED)(normalised)

    @cached_property
    def first_ids(self) -> Callable[[Word], tuple[int, ...]]:
        """The token ids of a word at the start of a text."""
        if self.unit != "words":
            return lambda word: (self.tokenizer.vocab[word],)
        return lru_cache(CACHED)(lambda word: tuple(self.tokenizer.encode(word)))

    @cached_property
    def later_ids(self) -> Callable[[Word], tuple[int, ...]]:
        """The token ids of a word after a space."""
        if self.unit != "words":
            return self.first_ids
        return lru_cache(CACHED)(lambda word: tuple(self.tokenizer.encode(f" {word}")))

    def ids(self, words: Iterable[Word]) -> list[int]:
        """The token ids of words with spaces between them."""
        ids: list[int] = []
        for word in words:
            ids += self.later_ids(word) if ids else self.first_ids(word)
        return ids

    @cached_property
    def is_term(self) -> Callable[[Word], bool]:
        """Whether a word may be sampled."""
        stopped = frozenset(self.word(word).lower() for word in self.stopwords)
        return lru_cache(CACHED)(
            lambda word: word.lower() not in stopped and any(map(str.isalnum, word)) and self._known(word)
        )

    def _known(self, word: Word) -> bool:
        return self.tokenizer.unk not in self.later_ids(word)

    def has_content(self, word: Word) -> bool:
        """Whether it is a word and not punctuation; True for stopwords and unknown words."""
        return any(map(str.isalnum, word)) or not self._known(word)

    @cached_property
    def hashed(self) -> Callable[[Word], int]:
        """A hash of a word; out-of-vocabulary words share one."""
        return lru_cache(CACHED)(lambda word: signed64("word", word if self._known(word) else ""))

    @cached_property
    def _kinds(self) -> np.ndarray:
        """Kind of each token id, [vocabulary] int8: 2 for white space, 1 for only punctuation, 0 for the rest."""
        kinds = []
        for token in range(self.tokenizer.size):
            text = self.tokenizer.decode([token]).strip()
            punctuation = all(c in string.punctuation or unicodedata.category(c).startswith("P") for c in text)
            kinds.append(int(punctuation) if text else 2)
        return np.array(kinds, np.int8)

    def split(self, texts: list[str], limit: int) -> Iterable[tuple[Span, np.ndarray, np.ndarray]]:
        """For each text its whole words up to `limit` tokens, and the start and end of each ([words] int32, code points)."""
        # Words are far shorter than 32 characters on average; text beyond that is truncated anyway.
        texts = [text[: 32 * limit] for text in texts]
        for text, encoding in zip(texts, self.tokenizer.encode_batch(texts)):
            ids = np.asarray(encoding.ids, np.int32)
            offsets = np.asarray(encoding.offsets, np.int32).reshape(-1, 2)
            begins = self._begins(text, encoding.word_ids, ids, offsets[:, 0])
            starts = np.flatnonzero(begins)
            ends = np.append(starts[1:], len(ids))[: len(starts)]
            whole = int(np.searchsorted(ends, limit, side="right"))
            starts, ends = starts[:whole], ends[:whole]
            tokens = ids[: int(ends[-1]) if whole else 0]
            first, last = offsets[starts, 0], offsets[ends - 1, 1]
            if self.unit == "words":
                words = [self.word(text[a:b]) for a, b in zip(first.tolist(), last.tolist())]
            else:
                words = [self.tokenizer.tokens[token] for token in tokens.tolist()]
            yield Span(words, tokens, (ends - starts).astype(np.int32)), first, last

    def _begins(self, text: str, word_ids: Sequence[int | None], ids: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Whether each token begins a word, [tokens] bool; `places`: where they start in the text."""
        begins = np.ones(len(ids), bool)
        if self.unit != "words" or not len(ids):
            return begins
        # Tokenizers that split only at spaces leave punctuation attached to its word; Gemma's does not split at all.
        kinds, following = self._kinds[ids], places[1:].tolist()
        blank = kinds[:-1] == 2
        kinds[:-1][blank] = kinds[1:][blank]
        spaced = np.array([text[start : start + 1].isspace() for start in following], bool)
        begins[1:] = (np.diff(np.asarray(word_ids, np.int32)) != 0) | (kinds[1:] != kinds[:-1]) | (spaced & ~blank)
        if primary(self.language) != ENGLISH and not text.isascii():
            unspaced = [UNSPACED_LETTER.match(text, start) is not None for start in following]
            begins[1:] |= np.array(unspaced, bool) & ~blank
        # The bytes of a character, and the letters that a normaliser writes for it, belong to one word.
        begins[1:] &= np.diff(places) != 0
        return begins


# Scripts without spaces between words, with the average letters per word; their punctuation ends words.
_UNSPACED = ((re.compile(f"[{HAN_KANA}]"), 2), (re.compile(f"[{SOUTH_EAST}]"), 5))
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
    """The anchor text normalised for comparison: NFKC, lower case, single spaces; ß is kept, as in documents."""
    return " ".join(unicodedata.normalize("NFKC", text).lower().split())


def read_stopwords(path: str, language: str = ENGLISH) -> frozenset[str]:
    """The words of a file, one per line, without comments (#), or of "inquery"; for an empty path, those of the language.
    Raises InputError for a file that cannot be read."""
    if not path:
        return STOPWORDS if primary(language) == ENGLISH else languages.stopwords(language)
    return frozenset(
        line.strip().lower() for _, line in lines(languages.stopwords_file(path)) if line.partition("#")[0].strip()
    )


def terms_of(c: Mapping[str, Any]) -> Terms:
    """The terms of a generation config."""
    return load_terms(c["tokenizer"], c["stopwords"], c["unit"], c["language"])


@lru_cache(maxsize=2)
def load_terms(tokenizer: str, stopwords: str, unit: str = "words", language: str = ENGLISH) -> Terms:
    """The terms of a tokenizer and a stopword list; loaded once per process."""
    return Terms(load_tokenizer(tokenizer), read_stopwords(stopwords, language), unit, language)
