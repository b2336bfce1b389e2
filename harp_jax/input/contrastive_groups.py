"""Groups for training vectors: a query, its page and negatives, each a sequence of its own, and what identifies their texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harp_jax.base.randomness import hash64
from harp_jax.input.packing import Group, text_sequence
from harp_jax.text.tokenizer import Template

COPY = 12  # of 64 bits, by which the signatures of copies differ at most


@dataclass(frozen=True)
class SeparateTexts:
    """How a text becomes a sequence: its side's prompt before it, truncated to `length` tokens with its special tokens."""

    length: int
    template: Template
    prompts: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # token ids before every query and before every page

    @property
    def room(self) -> int:
        """Tokens of a text that fit after the longer prompt."""
        return self.length - self.template.around_text - max(map(len, self.prompts))

    def group(
        self,
        task: int,
        source: str,
        query: np.ndarray,
        pages: Sequence[np.ndarray],
        negatives: int,
        scores: Sequence[float] = (),
    ) -> Group:
        """Query, its page (the first of `pages`) and up to `negatives` others; texts are token ids, an empty page is skipped.
        `source`: the page that links to the first one; empty: unknown. `scores`: a teacher's, of each page."""
        nonempty = [at for at, page in enumerate(pages) if len(page)][: 1 + negatives]
        pages = [pages[at] for at in nonempty]
        texts = [(0, query), *((1, page) for page in pages)]
        sequences = tuple(
            text_sequence(np.concatenate([np.asarray(self.prompts[side], np.int32), text]), self.length, self.template)
            for side, text in texts
        )
        known = identity(source), identity(sequences[0].query.tobytes().hex())
        signatures = (word for sequence in sequences[1:] for word in signature(sequence.query))
        teacher = (0.0, *(scores[at] for at in nonempty)) if scores else ()  # the query, a member too, has none
        return Group(task, sequences, teacher, identities=(*known, *signatures))


def identity(content: str) -> int:
    """A hash of 30 bits, int32; 0 for an empty text only."""
    return hash64(content) >> 33 | 1 if content else 0


def signature(ids: np.ndarray) -> list[int]:
    """SimHash (Charikar 2002) of the set of token ids [n] int32: two numbers of 32 bits. Of 64 bits, texts with 95 % of their words
    in common differ in 5 on average, two texts of one language in about 25."""
    return _simhash(ids.astype(np.uint64))


def copy_signature(ids: np.ndarray) -> list[int]:
    """The same of the set of three consecutive tokens, so that the order counts: only copies have near signatures. Texts with 95 %
    of their words in common differ in about 11 of 64 bits, others in about 32."""
    x, base = np.pad(ids, (0, max(0, 3 - len(ids)))).astype(np.uint64), np.uint64(0x100000001B3)
    return _simhash((x[:-2] * base + x[1:-1]) * base + x[2:])


def are_copies(signatures: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether texts are near-equal to another one: [n] bool from the `copy_signature`s [n, 2] and [2] int32."""
    return np.unpackbits((signatures ^ other).view(np.uint8), axis=-1).sum(-1) <= COPY


def _simhash(features: np.ndarray) -> list[int]:
    """Of a set of features [n] uint64."""
    x = np.unique(features) + np.uint64(0x9E3779B97F4A7C15)  # splitmix64
    for shift, multiplier in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(multiplier)
    bits = np.unpackbits(x.view(np.uint8).reshape(-1, 8), axis=1)
    return np.packbits(2 * bits.sum(0) > len(x)).view(np.int32).tolist()
