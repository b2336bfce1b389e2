"""Files: decompression by suffix when reading, atomic replacement when writing."""

import bz2
import contextlib
import glob
import gzip
import hashlib
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from typing import IO

from harp_jax.errors import InputError

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SUFFIXES = tuple(_OPENERS)


def open_bytes(path: str) -> IO[bytes]:
    """Open a plain, .gz, .bz2 or .xz file for reading bytes. Raises InputError if it cannot be opened."""
    opener = _OPENERS.get(os.path.splitext(path)[1], open)
    try:
        return opener(path, "rb")  # type: ignore[operator, return-value]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the path and its permissions") from error


def open_text(path: str) -> IO[str]:
    """Like `open_bytes`, decoded as UTF-8: a byte order mark is dropped, line ends are unchanged."""
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="\n")


def lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a text file. Raises InputError with the line if it is damaged."""
    number = 0
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        # Text is decoded in blocks: the bad byte may be many lines later.
        raise InputError(f"{path} is not UTF-8 after line {number}: {error.reason}; convert it (UTF-16?)") from error
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        raise InputError(f"{path} is damaged after line {number}: {error}; fetch or write the file again") from error


def expand(paths: tuple[str, ...]) -> list[str]:
    """Expand paths and globs to files, each glob sorted. Raises InputError for a name that matches nothing."""
    found: list[str] = []
    for path in paths:
        matches = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
        if not matches:
            raise InputError(f"no file matches {path!r}; check the path")
        found.extend(matches)
    return found


def walk(folder: str) -> Iterator[str]:
    """Every file below the folder, each directory sorted by name; hidden files and directories are skipped.

    Symbolic links out of the folder are followed, each directory once; links within it are not, their targets are walked
    under their own names.
    """
    return (path for path, within in _walk(folder, os.path.realpath(folder), set()) if not within)


def links_within(folder: str) -> Iterator[tuple[str, str]]:
    """Yield (link, target) for the symbolic links whose targets `walk` finds under their own names.

    The target is a path below `folder`, spelled as the argument is.
    """
    root = os.path.realpath(folder)
    for path, within in _walk(folder, root, set()):
        if within:
            yield path, os.path.join(folder, os.path.relpath(within, root))


def _walk(folder: str, root: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, "") for files and (path, real path) for links within the root; `seen`: real paths of visited directories."""
    seen.add(os.path.realpath(folder))
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror}; check the path and its permissions") from error
    for entry in entries:
        if entry.name.startswith("."):
            continue
        real = os.path.realpath(entry.path) if entry.is_symlink() or entry.is_dir() else ""
        within = entry.is_symlink() and real.startswith(os.path.join(root, ""))
        if within and f"{os.sep}." not in real[len(root) :]:
            if os.path.exists(real):
                yield entry.path, real
            continue
        if entry.is_dir():
            # Following a link to a parent directory would read files outside the folder.
            if real not in seen and not os.path.join(root, "").startswith(os.path.join(real, "")):
                yield from _walk(entry.path, root, seen)
        elif entry.is_file():
            yield entry.path, ""


@contextlib.contextmanager
def replacing(path: str, mode: str = "w") -> Iterator[IO]:
    """Open a file for writing that replaces `path` only if the block ends without an exception."""
    temporary = f"{path}.tmp.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        file = open(temporary, mode, encoding=None if "b" in mode else "utf-8", newline=None if "b" in mode else "\n")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; choose another path") from error
    try:
        with file:
            yield file
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


def sha256_file(path: str) -> str:
    """Hexadecimal SHA-256 of a file's bytes as stored (not decompressed)."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
