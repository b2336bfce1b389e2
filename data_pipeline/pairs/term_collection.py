"""p(w|C), the language model of the whole collection, which PROP and B-PROP sample from and compare with.

The number of words grows with the corpus: English Wikipedia has millions. A join sums their counts by ranges of their hashes,
and the ranges are written one after another into arrays that all workers map into memory: no process holds more than one.
"""

import contextlib
import functools
import os
from typing import IO

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from data_pipeline.engine.job import Job
from data_pipeline.engine.store import buckets, read
from data_pipeline.engine.tables import pack, table
from data_pipeline.text.terms import Word
from harp_jax.base.digests import check_sums, write_sums
from harp_jax.base.files import replacing
from harp_jax.base.randomness import signed64

# Shares of attention are summed as integers, so that the sums do not depend on the order; 2³¹ pages fit 63 bits.
UNIT = 1 << 32
RANGE_BITS = 7

TERM_TOTALS_SQL = """
    SELECT word, MIN(pieces) AS pieces, CAST(SUM(n) AS BIGINT) AS n, part AS bucket FROM term_counts GROUP BY word, part
"""


def counted(counts: dict[Word, int]) -> pa.Table:
    """Rows of `term_counts`. `part` is the range of the word's hash; ranges are ordered like the hashes."""
    hashes = [signed64("word", *word) for word in counts]
    columns = {
        "word": hashes,
        "pieces": [pack(word) for word in counts],
        "n": list(counts.values()),
        "part": [(hashed >> (64 - RANGE_BITS)) + (1 << (RANGE_BITS - 1)) for hashed in hashes],
    }
    return table("term_counts", columns)


def save(job: Job, folder: str, pages: int) -> None:
    """Writes the rows of `term_totals`, ordered by hash, as the arrays of a `TermCollection`.

    words [terms] int64: hashes; ends [terms] int64: cumulated n; pieces [Σ] int32: wordpieces of all words; offsets [terms + 1]
    int64: where each word's pieces begin.
    """
    ranges = buckets(job, "term_totals")
    terms = total = ended = began = 0
    for part in ranges:
        lengths = _lengths(read(job, "term_totals", part, ["pieces"]))
        terms, total = terms + len(lengths), total + int(lengths.sum())
    with contextlib.ExitStack() as stack:

        def begin(name: str, length: int, dtype: DTypeLike = np.int64) -> IO[bytes]:
            file = stack.enter_context(replacing(os.path.join(folder, f"{name}.npy"), "wb"))
            header = {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (length,)}
            np.lib.format.write_array_header_1_0(file, header)
            return file

        words, ends = begin("words", terms), begin("ends", terms)
        offsets, pieces = begin("offsets", terms + 1), begin("pieces", total, np.int32)
        offsets.write(np.zeros(1, np.int64).tobytes())
        for part in ranges:
            rows = read(job, "term_totals", part).sort_by("word")
            cumulated = ended + np.cumsum(rows.column("n").to_numpy())
            starts = began + np.cumsum(_lengths(rows))
            words.write(rows.column("word").to_numpy().tobytes())
            ends.write(cumulated.tobytes())
            offsets.write(starts.tobytes())
            for chunk in rows.column("pieces").chunks:
                pieces.write(b"".join(chunk.to_pylist()))
            ended, began = int(cumulated[-1]), int(starts[-1])
        begin("pages", 1).write(np.array([pages]).tobytes())
    write_sums(folder, [f"{name}.npy" for name in ("words", "ends", "offsets", "pieces", "pages")])
    with replacing(os.path.join(folder, "complete")) as file:
        file.write("done\n")


def _lengths(rows: pa.Table) -> np.ndarray:
    """Wordpieces of each row's word, [rows] int64."""
    import pyarrow.compute as pc

    return pc.binary_length(rows.column("pieces")).to_numpy().astype(np.int64) // 4


@functools.cache
def _verify(folder: str) -> None:
    """Once a process: arrays in .npy files have no checksums. Raises InputError for a changed one."""
    check_sums(folder)


class TermCollection:
    """p(w|C) over the terms of all passages, from the files of `save`."""

    def __init__(self, folder: str, shares: bool) -> None:
        _verify(folder)

        def load(name: str) -> np.ndarray:
            return np.load(os.path.join(folder, f"{name}.npy"), mmap_mode="r")

        self.words, self.ends, self.offsets, self.pieces = map(load, ("words", "ends", "offsets", "pieces"))
        self.total = int(self.ends[-1]) if len(self.ends) else 0
        self.mean_length = 0.0 if shares else self.total / int(load("pages")[0])
        self._of_shares = int(load("pages")[0]) * UNIT if shares else self.total

    def share(self, word: Word) -> float:
        """p(w|C) of a word of the collection."""
        at = int(np.searchsorted(self.words, signed64("word", *word)))
        return int(self.ends[at] - (self.ends[at - 1] if at else 0)) / self._of_shares

    def draw(self, rng: np.random.Generator) -> Word:
        """A word with probability p(w|C)."""
        at = int(np.searchsorted(self.ends, rng.integers(self.total), side="right"))
        return tuple(self.pieces[self.offsets[at] : self.offsets[at + 1]].tolist())
