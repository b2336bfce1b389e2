"""Finds a collection's files: a path, a BEIR folder, a folder of document files, or an ir_datasets id (irds:ID); named paths.

DIR/corpus.jsonl, DIR/queries.jsonl, DIR/qrels/SPLIT.tsv      BEIR: DIR is accepted for each of them
DIR/*.jsonl, DIR/*.json, DIR/*.tsv (also compressed)          documents in several files
DIR/**/* that begin with <DOC>, DIR/**/*.z                     TREC's SGML
DIR/docs.tsv with DIR/queries.tsv, DIR/folds.tsv, …           documents by name: docs, corpus, collection

A file X may be named where only X.gz, X.bz2 or X.xz exists, as MS MARCO distributes docs.tsv.gz (`files.as_stored`).
irds:msmarco-document/dev is accepted wherever a file is (extra [irds]): ir_datasets downloads missing data to IR_DATASETS_HOME
(default: ~/.ir_datasets).
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import SUFFIXES, as_stored, check_readable, walk
from harp_jax.corpus.sgml import is_sgml

if TYPE_CHECKING:
    import ir_datasets

IRDS = "irds:"
DOCUMENTS = (".jsonl", ".json", ".tsv")
NAMED = re.compile(r"(docs|documents|corpus|collection|passages)(?![a-z])", re.IGNORECASE)  # at the start of a name
QRELS = re.compile(r"qrels(?![a-z])", re.IGNORECASE)
OTHERS = re.compile(r"(?<![a-z])(queries|topics|folds|qrels)", re.IGNORECASE)  # anywhere in a name


def is_irds(path: str) -> bool:
    return path.startswith(IRDS)


@contextlib.contextmanager
def dataset(path: str, what: str) -> Iterator["ir_datasets.Dataset"]:
    """The dataset "irds:ID". InputError if it does not exist or has no `what` (docs, queries, …), and for what ir_datasets
    raises in the block, when it downloads and unpacks."""
    name = path.removeprefix(IRDS)
    with needs(path, "ir_datasets", "irds"):
        import ir_datasets
    try:
        loaded = ir_datasets.load(name)
    except KeyError:
        loaded = None
    if loaded is None or not getattr(loaded, f"has_{what}")():
        raise InputError(f"ir_datasets has no {what} of {name!r}; see ir-datasets.com for its ids, or use a file")
    try:
        yield loaded
    except (RuntimeError, OSError, EOFError, ValueError) as error:
        raise InputError(
            f"ir_datasets cannot serve {name}: {type(error).__name__}: {error}; check the network and the disk space of "
            "IR_DATASETS_HOME, or follow the instructions of ir-datasets.com for it"
        ) from error


def document_files(path: str) -> list[str]:
    """The document files of `path`. In a folder: corpus.jsonl, else the files named docs, corpus, collection or similar, else all
    files not named queries, topics, folds or qrels, else TREC's SGML. InputError if there are none, or the choice is ambiguous."""
    path = as_stored(path)
    if not os.path.isdir(path):
        return [path]
    if corpus := _files(path, lambda name: name == "corpus.jsonl"):
        return corpus
    candidates = list(map(os.path.basename, _files(path, lambda name: name.endswith(DOCUMENTS))))
    names = [name for name in candidates if not OTHERS.search(name)]
    if kinds := {match[1].lower() for name in names if (match := NAMED.match(name))}:
        names = [name for name in names if NAMED.match(name)]
    elif len(names) < len(candidates):
        # Files of one kind differ only in numbers; in a folder with nothing but documents, any names are fine.
        kinds = {re.sub(r"\d+", "", _plain(name)) for name in names}
    if not names and (marked := [name for name in walk(path) if is_sgml(name)]):
        return marked
    if not names or len(kinds) > 1:
        held = f"{', '.join(names)}: which are the documents?" if names else "no .jsonl, .tsv or SGML file."
        advice = "Name their file, or move them to a separate folder; `harp documents` writes those of HTML pages"
        raise InputError(f"{path} has {held} {advice}")
    return [os.path.join(path, name) for name in names]


def query_file(path: str) -> str:
    """The query file of `path`."""
    return _one(path, lambda name: name in ("queries.jsonl", "queries.tsv"), "queries")


def qrels_file(path: str) -> str:
    """The judgments file of `path`: in a BEIR folder the only split, in other folders the only file named qrels…"""
    splits = os.path.join(path, "qrels")
    folder = splits if os.path.isdir(splits) else path
    if folder == splits or (os.path.isdir(path) and not _files(path, QRELS.match)):
        return _one(folder, lambda name: name.endswith(".tsv"), "judgments")
    return _one(path, QRELS.match, "judgments")


def _one(path: str, chosen: Callable[[str], object], what: str) -> str:
    """`path` if it is a file, else the only chosen file in the folder. InputError if there are none or more."""
    if not os.path.isdir(path):
        return as_stored(path)
    paths = _files(path, chosen)
    if len(paths) != 1:
        names = ", ".join(map(os.path.basename, paths))
        raise InputError(f"{path} has {len(paths)} files of {what}{names and f' ({names})'}; name the file itself")
    return paths[0]


def _files(folder: str, chosen: Callable[[str], object]) -> list[str]:
    """The files in a folder whose name without compression suffix is chosen."""
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if chosen(_plain(name))]


def _plain(name: str) -> str:
    """A file name without its compression suffix."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix in SUFFIXES else name


def named_paths(
    words: Iterable[str], option: str, name_of: Callable[[str], str] | None = None, same: Callable[[str], str] = str
) -> dict[str, str]:
    """{"HARP": "run.trec"} from ["HARP=run.trec"], or from a path alone, if `name_of` names it. InputError for other texts, and for
    repeated names: those that `same` makes equal."""
    paths: dict[str, str] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if name_of and (not equals or os.path.exists(word)):
            name, path = name_of(word), word
        if not (name and path) or same(name) in map(same, paths):
            raise InputError(f"{option} {word}: write NAME=PATH, and every name once")
        paths[name] = path
    return paths


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
