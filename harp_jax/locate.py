"""Where a collection's files lie: a path, a BEIR folder, a folder of document files, or an ir_datasets id (irds:ID).

DIR/corpus.jsonl, DIR/queries.jsonl, DIR/qrels/SPLIT.tsv      BEIR: DIR stands for each of them
DIR/*.jsonl, DIR/*.json, DIR/*.tsv (also compressed)          documents in several files
"""

import os

from harp_jax.errors import InputError
from harp_jax.files import SUFFIXES

IRDS = "irds:"
DOCUMENTS = (".jsonl", ".json", ".tsv")


def is_irds(path: str) -> bool:
    return path.startswith(IRDS)


def document_files(path: str) -> list[str]:
    """The files of documents that `path` stands for. InputError for a folder without any."""
    if not os.path.isdir(path):
        return [path]
    corpus = _among(path, ("corpus.jsonl",))
    found = corpus or [
        os.path.join(path, name) for name in sorted(os.listdir(path)) if _plain(name).endswith(DOCUMENTS)
    ]
    if not found:
        raise InputError(f"{path} holds no corpus.jsonl and no other .jsonl or .tsv file; name the documents' file")
    return found


def query_file(path: str) -> str:
    """The file of queries that `path` stands for."""
    return _one(path, ("queries.jsonl", "queries.tsv")) if os.path.isdir(path) else path


def qrels_file(path: str) -> str:
    """The file of judgments that `path` stands for: of a BEIR folder its only split."""
    if not os.path.isdir(path):
        return path
    folder = os.path.join(path, "qrels")
    folder = folder if os.path.isdir(folder) else path
    splits = [name for name in sorted(os.listdir(folder)) if _plain(name).endswith(".tsv")]
    if len(splits) != 1:
        shown = f"has the splits {', '.join(splits)}" if splits else "holds no split (.tsv)"
        raise InputError(f"{folder} {shown}; name the file of judgments")
    return os.path.join(folder, splits[0])


def _one(folder: str, names: tuple[str, ...]) -> str:
    found = _among(folder, names)
    if len(found) != 1:
        raise InputError(f"{folder} holds {len(found)} files named {' or '.join(names)}; name the file itself")
    return found[0]


def _among(folder: str, names: tuple[str, ...]) -> list[str]:
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if _plain(name) in names]


def _plain(name: str) -> str:
    """A file's name without the suffix of its compression."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix in SUFFIXES else name
