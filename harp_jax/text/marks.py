"""Marks before the query and the document, such as [Q] and [D] in coarse-tuning: unused tokens of the vocabulary.

A model trained with marks needs them at inference, so configs and exports record them.
"""

import os
from dataclasses import dataclass

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json
from harp_jax.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Marks:
    """Token ids put before every query and every document; -1: none."""

    query: int = -1
    document: int = -1

    def on_query(self, ids: np.ndarray) -> np.ndarray:
        """ids: [n] int32 → [n + 1] with the mark, or [n] without one."""
        return ids if self.query < 0 else np.concatenate([np.array([self.query], np.int32), ids])

    def on_document(self, ids: np.ndarray) -> np.ndarray:
        """As `on_query`."""
        return ids if self.document < 0 else np.concatenate([np.array([self.document], np.int32), ids])

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(i for i in (self.query, self.document) if i >= 0)


MARKS = "harp_jax_marks"  # in config.json of an export that has any
NO_MARKS = Marks()


def marks_of(tokenizer: Tokenizer, query: str, document: str) -> Marks:
    """The marks for two tokens; "" means none. InputError for a token missing from the vocabulary."""
    for token in (query, document):
        if token and token not in tokenizer.vocab:
            raise InputError(
                f"the vocabulary has no token {token!r} for a mark; use one of its [unused…] tokens, or set "
                "query_mark and document_mark to ''"
            )
    return Marks(*(tokenizer.vocab[token] if token else -1 for token in (query, document)))


def recorded_marks(directory: str, tokenizer: Tokenizer) -> Marks:
    """The marks that a training workdir or an export was trained with."""
    path = os.path.join(directory, "config.json")
    if not os.path.exists(path):
        return NO_MARKS
    config = read_json(path)
    found = config.get(MARKS) or [config.get("query_mark", ""), config.get("document_mark", "")]
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(token, str) for token in found):
        raise InputError(f"{path}: {MARKS} is {found!r}, not the marks of query and document; write the model again")
    return marks_of(tokenizer, *found)
