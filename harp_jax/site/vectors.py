"""The vectors of a site: one memory-mapped file of all passages, each text embedded once.

    vectors.float16   unit vectors [passages, size], appended as texts are embedded
    texts.tsv         the encoder and windows that they were made with; then hash<TAB>passages for each text, in the same order

A document's vectors are found by the hash of its text, so a changed collection embeds only its new texts, and a killed run resumes.
A long text is embedded in up to `windows` windows, and its best one counts. Search is exact: every query reads the whole file. A
million passages of 384 numbers are .8 GB.
"""

import os
import string
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np

from harp_jax.base.cli import keep_compiled
from harp_jax.base.errors import InputError
from harp_jax.base.files import full_disk_refused
from harp_jax.base.made import AGAIN, InputPath, digest, once
from harp_jax.base.progress import progress
from harp_jax.base.randomness import generator, hash64
from harp_jax.corpus.documents import Documents
from harp_jax.model.products import fastest_dtype
from harp_jax.ranking.runtimes import sentence_encoder
from harp_jax.ranking.scorers import Windows
from harp_jax.site.options import FIELDS

VECTORS_FILE, TEXTS_FILE = "vectors.float16", "texts.tsv"
BLOCK = 256  # texts embedded together, sorted by length; a killed run loses a block
SAMPLE = 64  # texts of which the time is measured
ROWS = 1 << 16  # passages compared with a query at once
RANDOM_QUERIES = 64
NO_IDS = np.zeros(0, np.int32)


@dataclass(frozen=True)
class Embedded:
    """How many texts were embedded now, how many there are, and the seconds that the others take (of a sample)."""

    new: int
    texts: int
    seconds_left: float = 0.0


@once(changed=AGAIN)
def embed(docs: InputPath, encoder: InputPath, windows: int, output: str) -> Embedded:
    """Embeds the texts of the documents `docs` that the folder `output` lacks; drops texts that are gone if most are."""
    return add_texts(docs, encoder, windows, output)


def missing_texts(docs: str, encoder: str, windows: int, output: str) -> int:
    """How many texts have no vector."""
    texts = {hash64(text) for _, text in Documents.open(docs, FIELDS).texts()}
    return len(texts - read_texts(output, made_with(encoder, windows)).keys())


def made_with(encoder: str, windows: int) -> str:
    """Names an encoder by its content, and the windows."""
    return f"{digest(encoder).sha256} {windows}"


def add_texts(docs: str, encoder: str, windows: int, output: str, sample: int = 0) -> Embedded:
    """Embeds missing texts: all, or a `sample` spread over the collection, once to compile and once to measure the time."""
    os.makedirs(output, mode=0o700, exist_ok=True)  # as private as the documents
    head = made_with(encoder, windows)
    texts = {hash64(text): text for _, text in Documents.open(docs, FIELDS).texts()}
    stored = read_texts(output, head)
    if len(stored.keys() - texts.keys()) > len(texts):
        os.remove(os.path.join(output, TEXTS_FILE))
        stored = {}
    missing = [key for key in texts if key not in stored]
    chosen = missing[:: max(1, len(missing) // sample)][:sample] if sample else missing
    if not chosen:
        return Embedded(0, len(texts))
    keep_compiled()
    # bfloat16 where the CPU computes in it: cosines differ by 2e-5, less than float16 stores.
    scorer, cut = sentence_encoder(encoder, fastest_dtype(jax.default_backend())), Windows(windows)
    room = scorer.room(NO_IDS)
    began = time.monotonic()
    with (
        progress(total=len(chosen), unit="texts", desc="embed") as bar,
        full_disk_refused(output),
        open(os.path.join(output, VECTORS_FILE), "ab") as vectors,
        open(os.path.join(output, TEXTS_FILE), "a") as written,
    ):
        # What a killed run wrote in part, or with another encoder.
        vectors.truncate(sum(stored.values()) * scorer.size * 2)
        written.truncate(len(head) + 1 + sum(len(f"{'':16}\t{n}\n") for n in stored.values()) if stored else 0)
        if not stored:
            written.write(f"{head}\n")
        for start in range(0, len(chosen), BLOCK):
            keys = chosen[start : start + BLOCK]
            ids = scorer.encode_documents([texts[key] for key in keys], cut.reach(room))
            pieces = [cut.of(each, room) for each in ids]
            rows = [scorer.as_document(piece) for each in pieces for piece in each]
            found = scorer.vectors(rows)
            if sample:
                began = time.monotonic()
                found = scorer.vectors(rows)
            vectors.write(found.astype(np.float16).tobytes())
            vectors.flush()
            written.write("".join(f"{key:016x}\t{len(each)}\n" for key, each in zip(keys, pieces)))
            written.flush()
            bar.update(len(keys))
    seconds = (time.monotonic() - began) / len(chosen) * (len(missing) - len(chosen))
    return Embedded(len(chosen), len(texts), round(seconds, 1) if sample else 0.0)


def read_texts(folder: str, wanted: str = "") -> dict[int, int]:
    """Hash of each stored text → its passages, in order; empty if they were not made with the `wanted` encoder and windows."""
    path, found = os.path.join(folder, TEXTS_FILE), dict[int, int]()
    if not os.path.exists(path):
        return found
    with open(path) as file:
        head, *rows = file.read().rpartition("\n")[0].split("\n")  # the last row may have been written in part
    if wanted and head != wanted:
        return found
    for row in rows:
        key, _, count = row.partition("\t")
        if len(key) != 16 or not count.isdecimal():
            raise InputError(f"{path} is damaged ({row[:40]!r}); remove {folder} and run harp site again")
        found[int(key, 16)] = int(count)
    return found


class SiteVectors:
    """The vectors in `directory`, for documents whose texts have these `hashes`, in order, and the encoder in the folder `encoder`.

    Raises InputError if a document has no vector of this encoder.
    """

    def __init__(self, directory: str, encoder: str, windows: int, hashes: Sequence[int]) -> None:
        self.encoder, self.windows = sentence_encoder(encoder), Windows(windows)
        stored = read_texts(directory, made_with(encoder, windows))
        self._starts = np.cumsum([0, *stored.values()])
        number = {key: n for n, key in enumerate(stored)}
        path = os.path.join(directory, VECTORS_FILE)
        if any(key not in number for key in hashes) or os.path.getsize(path) < self._starts[-1] * self.encoder.size * 2:
            raise InputError(f"{directory} lacks the vectors of some documents by {encoder}; run harp site again")
        self._text_of = np.array([number[key] for key in hashes])
        self._vectors = np.memmap(path, np.float16, "r", shape=(int(self._starts[-1]), self.encoder.size))

    def cosines(self, query: str) -> tuple[np.ndarray, np.ndarray]:
        """Cosines [documents] float32 of a query, and the indices [documents] int64 of their best windows."""
        (asked,) = self._embedded([query])
        texts = len(self._starts) - 1
        best, window = np.empty(texts, np.float32), np.empty(texts, np.int64)
        first = 0
        while first < texts:  # whole texts, about ROWS passages at once
            last = max(first + 1, int(np.searchsorted(self._starts, self._starts[first] + ROWS, "right")) - 1)
            starts, end = self._starts[first:last], self._starts[last]
            each = self._vectors[starts[0] : end].astype(np.float32) @ asked
            counts, starts = np.diff([*starts, end]), starts - starts[0]
            best[first:last] = np.maximum.reduceat(each, starts)
            number = np.arange(len(each)) - np.repeat(starts, counts)
            is_best = each == np.repeat(best[first:last], counts)
            window[first:last] = np.minimum.reduceat(np.where(is_best, number, len(each)), starts)
            first = last
        return best[self._text_of], window[self._text_of]

    @cached_property
    def noise(self) -> float:
        """The cosine with the nearest passage that 95 % of queries of random letters stay below."""
        rng = generator("queries without meaning")
        letters = [*string.ascii_lowercase]
        queries = [
            " ".join("".join(rng.choice(letters, rng.integers(4, 11))) for _ in range(rng.integers(1, 4)))
            for _ in range(RANDOM_QUERIES)
        ]
        asked = self._embedded(queries).T
        blocks = range(0, len(self._vectors), ROWS)
        nearest = np.max([(self._vectors[n : n + ROWS].astype(np.float32) @ asked).max(axis=0) for n in blocks], axis=0)
        return float(np.quantile(nearest, 0.95))

    def _embedded(self, queries: list[str]) -> np.ndarray:
        """Unit vectors [queries, size] float32."""
        return self.encoder.vectors([self.encoder.as_query(ids) for ids in self.encoder.encode_queries(queries)])
