"""Finds a collection's files: a path, a BEIR folder, a folder of document files, or an ir_datasets id (irds:ID).

DIR/corpus.jsonl, DIR/queries.jsonl, DIR/qrels/SPLIT.tsv      BEIR: DIR is accepted for each of them
DIR/*.jsonl, DIR/*.json, DIR/*.tsv (also compressed)          documents in several files
DIR/**/* that begin with <DOC>, DIR/**/*.z                     TREC's SGML
DIR/**/*.html, a WARC, a MediaWiki dump                        pages: their documents are extracted once
DIR/docs.tsv with DIR/queries.tsv, DIR/folds.tsv, …           documents by name: docs, corpus, collection

A file X may be named where only X.gz, X.bz2 or X.xz exists, as MS MARCO distributes docs.tsv.gz (`files.as_stored`).

For pages, a `harp documents` process (this package never imports data_pipeline) writes their documents to the user's cache,
and again when a page file changes. Ids are those of `harp documents` without --base_url; for ids with the URL of your site, or
to keep the documents, run it yourself and pass its output.
"""

import hashlib
import lzma
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable

from harp_jax.base.errors import InputError
from harp_jax.base.files import SUFFIXES, as_stored, beside, cache_directory, check_readable, open_bytes, walk
from harp_jax.base.version import __version__
from harp_jax.corpus.sgml import is_sgml

IRDS = "irds:"
DOCUMENTS = (".jsonl", ".json", ".tsv")
NAMED = re.compile(r"(docs|documents|corpus|collection|passages)(?![a-z])", re.IGNORECASE)  # at the start of a name
QRELS = re.compile(r"qrels(?![a-z])", re.IGNORECASE)
OTHERS = re.compile(r"(?<![a-z])(queries|topics|folds|qrels)", re.IGNORECASE)  # anywhere in a name

_PAGE_NAMES = (".html", ".htm", ".xhtml")
_PAGES = re.compile(rb"WARC/1|\s*<mediawiki[\s>]|\s*(?:<\?xml[^>]*>\s*)?(?:<!doctype\s+html|<html[\s>])", re.IGNORECASE)


def is_irds(path: str) -> bool:
    return path.startswith(IRDS)


def document_files(path: str) -> list[str]:
    """The document files of `path`. For pages: the file of their extracted documents. In a folder: corpus.jsonl, else the files
    named docs, corpus, collection or similar, else all files not named queries, topics, folds or qrels, else TREC's SGML.
    InputError if there are none, or the choice is ambiguous."""
    path = as_stored(path)
    if not os.path.isdir(path):
        return [documents_of_pages(path) if are_pages(path) else path]
    if corpus := _files(path, lambda name: name == "corpus.jsonl"):
        return corpus
    candidates = list(map(os.path.basename, _files(path, lambda name: name.endswith(DOCUMENTS))))
    names = [name for name in candidates if not OTHERS.search(name)]
    if kinds := {match[1].lower() for name in names if (match := NAMED.match(name))}:
        names = [name for name in names if NAMED.match(name)]
    elif are_pages(path):  # as in generation, pages take precedence over data files next to them
        return [documents_of_pages(path)]
    elif len(names) < len(candidates):
        # Files of one kind differ only in numbers; in a folder with nothing but documents, any names are fine.
        kinds = {re.sub(r"\d+", "", _plain(name)) for name in names}
    if not names and (marked := [name for name in walk(path) if is_sgml(name)]):
        return marked
    if not names or len(kinds) > 1:
        held = f"{', '.join(names)}: which are the documents?" if names else "no .jsonl, .tsv, SGML or page file."
        raise InputError(f"{path} has {held} Name their file, or move them to a separate folder")
    return [os.path.join(path, name) for name in names]


def query_file(path: str) -> str:
    """The query file of `path`."""
    return _one(path, path, lambda name: name in ("queries.jsonl", "queries.tsv"), "queries")


def qrels_file(path: str) -> str:
    """The judgments file of `path`: in a BEIR folder the only split, in other folders the only file named qrels…"""
    splits = os.path.join(path, "qrels")
    if os.path.isdir(splits):
        return _one(path, splits, lambda name: name.endswith(".tsv"), "judgments")
    if os.path.isdir(path) and not _files(path, QRELS.match):
        return _one(path, path, lambda name: name.endswith(".tsv"), "judgments")
    return _one(path, path, QRELS.match, "judgments")


def _one(path: str, folder: str, chosen: Callable[[str], object], what: str) -> str:
    """`path` if it is a file, else the only chosen file in the folder. InputError if there are none or more."""
    if not os.path.isdir(path):
        return as_stored(path)
    paths = _files(folder, chosen)
    if len(paths) != 1:
        names = ", ".join(map(os.path.basename, paths))
        raise InputError(f"{folder} has {len(paths)} files of {what}{names and f' ({names})'}; name the file itself")
    return paths[0]


def _files(folder: str, chosen: Callable[[str], object]) -> list[str]:
    """The files in a folder whose name without compression suffix is chosen."""
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if chosen(_plain(name))]


def _plain(name: str) -> str:
    """A file name without its compression suffix."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix in SUFFIXES else name


def are_pages(path: str) -> bool:
    """Whether `path` is a file of pages (by content), or a folder with such files (by name)."""
    if os.path.isdir(path):
        return any(name.lower().endswith(_PAGE_NAMES) for name in walk(path))
    if not os.path.isfile(path):
        return False
    try:
        with open_bytes(path) as file:
            return _PAGES.match(file.read(4096)) is not None
    except (InputError, OSError, EOFError, ValueError, lzma.LZMAError, zlib.error):
        return False  # its reader reports the error


def documents_of_pages(path: str) -> str:
    """The JSONL file with the documents of `path`, written into the cache on first use. Raises InputError if the pages cannot be
    read; the command has printed the reason."""
    files = walk(path) if os.path.isdir(path) else [path]
    target = os.path.join(cache_directory("pages"), cache_name(path, files, __version__) + ".jsonl")
    if os.path.exists(target):
        return target
    os.makedirs(os.path.dirname(target), exist_ok=True)
    print(f"{path} has pages: writing their documents to {target} (only once)", file=sys.stderr)
    temporary = beside(target)
    # -P: a duckdb.py in the working folder is not imported. PYTHONPATH: the child finds this package even if not installed.
    command = [sys.executable, "-P", "-m", "harp_jax", "documents", path, f"--output={temporary}"]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))}
    # umask: the pages may be private.
    done = subprocess.run(command, stdout=subprocess.PIPE, env=env, umask=0o077, text=True, check=False)
    print(done.stdout.replace(temporary, target), end="", file=sys.stderr)  # standard output belongs to the caller
    if done.returncode:
        raise InputError(f"cannot read the pages of {path}; `harp documents {path} --output=docs.jsonl` says why")
    os.replace(temporary, target)
    return target


def cache_name(path: str, files: Iterable[str], options: str = "") -> str:
    """A file name in the cache for what is made from the files of `path`: its last part, and a hash of `options` and of every
    file's path, size, mtime and ctime. The ctime, because tools that restore mtimes (rsync, tar, touch) cannot set it."""
    state = hashlib.blake2b(options.encode("utf-8", "surrogateescape"), digest_size=12)
    for name in map(as_stored, files):
        check_readable(name)
        about = os.stat(name)
        times = f"{os.path.realpath(name)} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}\n"
        state.update(times.encode("utf-8", "surrogateescape"))
    return f"{re.sub('[^A-Za-z0-9._-]', '_', os.path.basename(os.path.normpath(path)))[:80]}-{state.hexdigest()}"
