"""Pairs of a query and a document as padded rows, one to a row, with the special tokens of the tokenizer's template."""

from collections.abc import Sequence

import numpy as np

from harp_jax.text.tokenizer import Tokenizer

Pair = tuple[np.ndarray, np.ndarray]  # ids of query and document, int32, truncated to a row (`packing.fit`)


def pair_rows(
    pairs: Sequence[Pair], rows: int, length: int, tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(tokens [rows, length], start of token type 1 [rows], end of the sequence [rows]) int32; spare rows end at 0.

    length 0: the longest pair's.
    """
    template = tokenizer.template
    length = length or max(len(query) + len(document) + template.around_pair for query, document in pairs)
    tokens = np.full((rows, length), tokenizer.pad, np.int32)
    second, end = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    for row, (query, document) in enumerate(pairs):
        line = (template.start, query, template.between, document, template.end)
        n = sum(map(len, line))
        tokens[row, :n] = np.concatenate(line)
        second[row] = sum(map(len, line[:3])) if template.second_type else n
        end[row] = n
    return tokens, second, end
