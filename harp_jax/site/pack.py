"""Writes the documents, vectors and query of a site for another search engine (`harp pack`): `engines` has what each loads.

A ranker is left out: no engine computes it.
"""

import itertools
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
from harp_jax.ranking.vectors import VECTORS_FILE, read_texts
from harp_jax.site.engines import ENGINES, Record, impacts
from harp_jax.site.search import ANCHOR_TEXTS, DOCS, ENCODER, VECTORS_FOLDER, Settings, documents


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
    place, counts = os.path.join(folder, VECTORS_FOLDER), dict[int, int]()
    stored = np.zeros((0, 0), np.float16)
    if settings.encoder:
        counts = read_texts(place)
        stored = np.memmap(os.path.join(place, VECTORS_FILE), np.float16, "r").reshape(sum(counts.values()), -1)
    ends = dict(zip(counts, itertools.accumulate(counts.values())))
    passages = 0

    def records() -> Iterator[Record]:
        nonlocal passages
        anchors = read_anchors(os.path.join(folder, ANCHOR_TEXTS))
        titles, bodies = (Documents.open(os.path.join(folder, DOCS), (field,)) for field in ("title", "body"))
        scored = impacts(folder) if engine in ("jsonl", "lancedb") else itertools.repeat(dict[str, list]())
        rows = zip(texts.texts(), titles.texts(), bodies.texts(), scored)
        for (docid, text), (_, title), (_, body), terms in progress(
            rows, total=len(texts), unit="documents", desc="pack"
        ):
            key = hash64(text)
            if settings.encoder and key not in ends:
                raise InputError(f"{place} lacks the vectors of {docid}; run harp site again")
            vectors = stored[ends[key] - counts[key] : ends[key]] if settings.encoder else stored
            passages += len(vectors)
            yield Record(docid, title, body, tuple(anchors.get(docid, {}).items()), vectors, terms)

    texts = documents(folder)
    with output_folder(output) as new:
        if settings.encoder:
            shutil.copytree(os.path.join(folder, ENCODER), os.path.join(new, ENCODER))
        ENGINES[engine](records(), stored.shape[1], settings, new)
    return Packed(len(texts), passages, left_out)
