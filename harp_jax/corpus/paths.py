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

from harp_jax.base.errors import InputError
from harp_jax.base.files import SUFFIXES, as_stored, beside, cache_directory, open_bytes, walk
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
    corpus = _among(path, ("corpus.jsonl",))
    if corpus:
        return corpus
    candidates = [name for name in sorted(os.listdir(path)) if _plain(name).endswith(DOCUMENTS)]
    names = [name for name in candidates if not OTHERS.search(name)]
    named = [name for name in names if NAMED.match(name)]
    if not named and are_pages(path):  # as in generation, pages take precedence over data files next to them
        return [documents_of_pages(path)]
    if named:
        names, kinds = named, {match[1].lower() for name in named if (match := NAMED.match(name))}
    else:
        # Files of one kind differ only in numbers; in a folder with nothing but documents, any names are fine.
        kinds = {re.sub(r"\d+", "", _plain(name)) for name in names} if len(names) < len(candidates) else {""}
    if not names and (marked := [name for name in walk(path) if is_sgml(name)]):
        return marked
    if not names or len(kinds) > 1:
        held = f"{', '.join(names)}: which are the documents?" if names else "no .jsonl, .tsv, SGML or page file."
        raise InputError(f"{path} has {held} Name their file, or move them to a separate folder")
    return [os.path.join(path, name) for name in names]


def query_file(path: str) -> str:
    """The query file of `path`."""
    if not os.path.isdir(path):
        return as_stored(path)
    return _one(path, _among(path, ("queries.jsonl", "queries.tsv")), "queries")


def qrels_file(path: str) -> str:
    """The judgments file of `path`: in a BEIR folder the only split, in other folders the only file named qrels…"""
    if not os.path.isdir(path):
        return as_stored(path)
    folder = os.path.join(path, "qrels")
    named = [] if os.path.isdir(folder) else [name for name in sorted(os.listdir(path)) if QRELS.match(name)]
    if len(named) == 1:
        return os.path.join(path, named[0])
    folder = folder if os.path.isdir(folder) else path
    splits = [name for name in sorted(os.listdir(folder)) if _plain(name).endswith(".tsv")]
    return _one(folder, [os.path.join(folder, name) for name in splits], "judgments")


def _one(folder: str, paths: list[str], what: str) -> str:
    if len(paths) != 1:
        names = ", ".join(map(os.path.basename, paths))
        raise InputError(f"{folder} has {len(paths)} files of {what}{names and f' ({names})'}; name the file itself")
    return paths[0]


def _among(folder: str, names: tuple[str, ...]) -> list[str]:
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if _plain(name) in names]


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
    target = os.path.join(cache_directory("pages"), _identity(path) + ".jsonl")
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


def _identity(path: str) -> str:
    """The pages' name and a hash of the version and of every file's state."""
    state = hashlib.blake2b(__version__.encode(), digest_size=12)
    for name in walk(path) if os.path.isdir(path) else [path]:
        state.update(state_of(name))
    return f"{safe_name(path)}-{state.hexdigest()}"


def state_of(path: str) -> bytes:
    """A file's path, size, mtime and ctime, for names of files in the cache; X may name X.gz. The ctime is included because tools
    that restore modification times (rsync, tar, touch) cannot set it."""
    about = os.stat(path := as_stored(path))
    state = f"{os.path.realpath(path)} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}\n"
    return state.encode("utf-8", "surrogateescape")


def safe_name(path: str) -> str:
    """The last part of a path; all characters but letters, digits, dots, dashes and underscores become _."""
    return re.sub("[^A-Za-z0-9._-]", "_", os.path.basename(os.path.normpath(path)))[:80]
