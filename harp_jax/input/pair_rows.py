"""Pairs of a query and a document as padded rows, one to a row: [CLS] query [SEP] document [SEP]."""

from collections.abc import Sequence

import numpy as np

from harp_jax.text.tokenizer import Tokenizer

Pair = tuple[np.ndarray, np.ndarray]  # ids of query and document, int32, truncated to a row (`packing.fit`)


def pair_rows(
    pairs: Sequence[Pair], rows: int, length: int, tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(tokens [rows, length], start of the document [rows], end of the sequence [rows]) int32; spare rows end at 0.

    length 0: the longest pair's.
    """
    length = length or max(len(query) + len(document) + 3 for query, document in pairs)
    tokens = np.full((rows, length), tokenizer.pad, np.int32)
    second, end = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    for row, (query, document) in enumerate(pairs):
        q, n = len(query) + 2, len(query) + len(document) + 3
        tokens[row, 0] = tokenizer.cls
        tokens[row, 1 : q - 1] = query
        tokens[row, q - 1] = tokenizer.sep
        tokens[row, q : n - 1] = document
        tokens[row, n - 1] = tokenizer.sep
        second[row], end[row] = q, n
    return tokens, second, end
