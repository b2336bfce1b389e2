"""Writes the documents, vectors and query of a site for another search engine (`harp pack`): `engines` has what each loads.

A ranker is left out: no engine computes it.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import output_folder
from harp_jax.base.progress import progress
from harp_jax.base.randomness import hash64
from harp_jax.corpus.documents import Documents
from harp_jax.ranking.first_stage import read_anchors
from harp_jax.site.engines import ENGINES, Record
from harp_jax.site.search import ANCHOR_TEXTS, DOCS, ENCODER, VECTORS_FOLDER, Settings, documents
from harp_jax.site.vectors import VECTORS_FILE, read_texts


@dataclass(frozen=True)
class Packed:
    """The number of documents and passages, and the parts of the sum that the engine does not compute."""

    documents: int
    passages: int
    left_out: tuple[str, ...]


def pack(folder: str, engine: str, output: str) -> Packed:
    """Writes what `engine`, one of ENGINES, loads into the folder `output`.

    Raises InputError for an unfinished site, for one that only a ranker searches, and if a package is missing.
    """
    settings = Settings.load(folder)
    left_out = tuple(part for part in settings.weights if part in settings.models)
    if len(left_out) == len(settings.weights):
        raise InputError(f"{folder} ranks by {', '.join(left_out)} alone, which no engine computes")
    if engine == "lancedb":
        with needs("--for=lancedb", "lancedb", "lancedb"):
            import lancedb  # noqa: F401
    count = np.zeros(2, int)

    def counted() -> Iterator[Record]:
        for record in records(folder, settings):
            count[:] += 1, len(record.vectors)
            yield record

    with output_folder(output) as new:
        if settings.encoder:
            shutil.copytree(os.path.join(folder, ENCODER), os.path.join(new, ENCODER))
        ENGINES[engine](counted(), settings, engine, new)
    return Packed(int(count[0]), int(count[1]), left_out)


def records(folder: str, settings: Settings) -> Iterator[Record]:
    """The documents of a site."""
    anchors = read_anchors(os.path.join(folder, ANCHOR_TEXTS))
    place, passages = os.path.join(folder, VECTORS_FOLDER), dict[int, np.ndarray]()
    if settings.encoder and (counts := read_texts(place)):
        ends = np.cumsum([*counts.values()])
        stored = np.memmap(os.path.join(place, VECTORS_FILE), np.float16, "r").reshape(int(ends[-1]), -1)
        passages = {key: stored[end - n : end] for (key, n), end in zip(counts.items(), ends.tolist())}
    texts, titles, bodies = (
        documents(folder),
        *(Documents.open(os.path.join(folder, DOCS), (f,)) for f in ("title", "body")),
    )
    rows = zip(texts.texts(), titles.texts(), bodies.texts())
    for (docid, text), (_, title), (_, body) in progress(rows, total=len(texts), unit="documents", desc="pack"):
        vectors = passages.get(hash64(text), np.zeros((0, 0), np.float16))
        if settings.encoder and not len(vectors):
            raise InputError(f"{place} lacks the vectors of {docid}; run harp site again")
        yield Record(docid, title, body, tuple(anchors.get(docid, {}).items()), vectors)
