"""Finds a collection's files: a path, a BEIR folder, a folder of document files, or an ir_datasets id (irds:ID).

DIR/corpus.jsonl, DIR/queries.jsonl, DIR/qrels/SPLIT.tsv      BEIR: DIR is accepted for each of them
DIR/*.jsonl, DIR/*.json, DIR/*.tsv (also compressed)          documents in several files
DIR/**/*.html, *.warc.gz, a MediaWiki dump                     pages: their documents are extracted once (pages.py)
DIR/docs.tsv with DIR/queries.tsv, DIR/folds.tsv, …           documents by their name: docs, corpus, collection
"""

import os
import re

from harp_jax.base.errors import InputError
from harp_jax.base.files import SUFFIXES
from harp_jax.corpus.pages import are_pages, documents_of_pages

IRDS = "irds:"
DOCUMENTS = (".jsonl", ".json", ".tsv")
NAMED = re.compile(r"(docs|documents|corpus|collection|passages)(?![a-z])", re.IGNORECASE)  # at the start of a name
QRELS = re.compile(r"qrels(?![a-z])", re.IGNORECASE)
OTHERS = re.compile(r"(?<![a-z])(queries|topics|folds|qrels)", re.IGNORECASE)  # anywhere in a name


def is_irds(path: str) -> bool:
    return path.startswith(IRDS)


def document_files(path: str) -> list[str]:
    """The document files of `path`.

    Pages stand for the file of their documents. In a folder: its corpus.jsonl, else the files named docs, corpus, collection or
    similar, else all that are not named queries, topics, folds or qrels. InputError for a folder without any, and where the
    choice is ambiguous.
    """
    if not os.path.isdir(path):
        return [documents_of_pages(path) if are_pages(path) else path]
    corpus = _among(path, ("corpus.jsonl",))
    if corpus:
        return corpus
    candidates = [name for name in sorted(os.listdir(path)) if _plain(name).endswith(DOCUMENTS)]
    found = [name for name in candidates if not OTHERS.search(name)]
    if not found and are_pages(path):
        return [documents_of_pages(path)]
    if not found:
        raise InputError(
            f"{path} has no corpus.jsonl, no other .jsonl or .tsv file, and no pages (.html, .warc); name the documents' file"
        )
    named = [name for name in found if NAMED.match(name)]
    if named:
        found, kinds = named, {match[1].lower() for name in named if (match := NAMED.match(name))}
    else:
        # Files of one kind differ only in numbers; a folder with nothing but documents may name them freely.
        kinds = {re.sub(r"\d+", "", _plain(name)) for name in found} if len(found) < len(candidates) else {""}
    if len(kinds) > 1:
        raise InputError(
            f"{path} has {', '.join(found)}: which are the documents? Name their file, or move them to a folder of their own"
        )
    return [os.path.join(path, name) for name in found]


def query_file(path: str) -> str:
    """The query file of `path`."""
    return _one(path, ("queries.jsonl", "queries.tsv")) if os.path.isdir(path) else path


def qrels_file(path: str) -> str:
    """The judgments' file of `path`: in a BEIR folder its only split, in another its only file that is named qrels…"""
    if not os.path.isdir(path):
        return path
    folder = os.path.join(path, "qrels")
    if not os.path.isdir(folder):
        named = [name for name in sorted(os.listdir(path)) if QRELS.match(name)]
        if len(named) == 1:
            return os.path.join(path, named[0])
    folder = folder if os.path.isdir(folder) else path
    splits = [name for name in sorted(os.listdir(folder)) if _plain(name).endswith(".tsv")]
    if len(splits) != 1:
        shown = f"has the splits {', '.join(splits)}" if splits else "has no split (.tsv)"
        raise InputError(f"{folder} {shown}; name the file of judgments")
    return os.path.join(folder, splits[0])


def _one(folder: str, names: tuple[str, ...]) -> str:
    found = _among(folder, names)
    if len(found) != 1:
        raise InputError(f"{folder} has {len(found)} files named {' or '.join(names)}; name the file itself")
    return found[0]


def _among(folder: str, names: tuple[str, ...]) -> list[str]:
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if _plain(name) in names]


def _plain(name: str) -> str:
    """A file's name without the suffix of its compression."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix in SUFFIXES else name
