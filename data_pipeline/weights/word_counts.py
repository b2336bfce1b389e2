"""Counts of all words of a collection, in an Arrow file that workers map into memory: English Wikipedia has millions of words."""

import numpy as np
import pyarrow as pa

from data_pipeline.text.terms import Word
from harp_jax.base.files import replacing
from harp_jax.base.randomness import signed64

FREQUENCY = "document_frequency.arrow"  # in the work directory: how many passages contain a word
UNIT = 1 << 32  # shares are summed as integers in this unit, so that the order does not matter; 2³¹ pages fit 63 bits


class WordCounts:
    """How many passages have a word (`idf`), or how often it occurs in all of them (`share`, `draw`: p(w|C)). `shares`: the counts
    are sums of shares of a page, which add up to 1, in UNITs."""

    @staticmethod
    def save(path: str, totals: pa.Table, passages: int) -> None:
        """Writes rows with `word` (hash), `n` and, for `draw`, `text`: sorted by hash, in one batch, `n` cumulated as `end`."""
        totals = totals.sort_by("word")
        columns = {"word": totals["word"], "end": pa.array(np.cumsum(totals["n"].to_numpy()), pa.int64())}
        if "text" in totals.column_names:
            columns["text"] = totals["text"].cast(pa.large_string())
        table = pa.table(columns).combine_chunks().replace_schema_metadata({"passages": str(passages)})
        with replacing(path, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)

    def __init__(self, path: str, shares: bool = False) -> None:
        self._table = pa.ipc.open_file(pa.memory_map(path)).read_all()
        self._words, self._ends = (self._table.column(name).to_numpy() for name in ("word", "end"))
        self.passages = int(self._table.schema.metadata[b"passages"])
        self.total = int(self._ends[-1]) if len(self._ends) else 0
        self._whole = self.passages * UNIT if shares else self.total
        self.mean_length = 0.0 if shares else self.total / max(1, self.passages)

    def counts(self, words: np.ndarray) -> np.ndarray:
        """Counts of hashed words, both [n] int64."""
        if not len(self._words):
            return np.zeros(len(words), np.int64)
        at = np.minimum(np.searchsorted(self._words, words), len(self._words) - 1)
        starts = np.where(at, self._ends[at - 1], 0)
        return np.where(self._words[at] == words, self._ends[at] - starts, 0)

    def idf(self, words: np.ndarray) -> np.ndarray:
        """log((N + 1) / (df + 1/2)) of hashed words, [n]; positive for every word."""
        return np.log((self.passages + 1) / (self.counts(words) + 0.5))

    def share(self, word: Word) -> float:
        """p(w|C) of a word of the collection."""
        return int(self.counts(np.array([signed64("word", word)]))[0]) / self._whole

    def draw(self, rng: np.random.Generator) -> Word:
        """A word with probability p(w|C)."""
        at = int(np.searchsorted(self._ends, rng.integers(self.total), side="right"))
        return self._table["text"][at].as_py()
