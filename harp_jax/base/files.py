"""Files: decompression by suffix when reading, atomic replacement when writing.

A path that cannot be opened raises the OSError of Python, which commands print as one line (`cli.ending_well`).
"""

import bz2
import contextlib
import errno
import fcntl
import glob
import gzip
import hashlib
import io
import json
import lzma
import os
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import IO, Any

from harp_jax.base.errors import InputError

_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
SUFFIXES = tuple(_OPENERS)
_UNREAD = (".zst", ".zip", ".7z", ".lz4", ".br")  # would be called text that is not UTF-8
# In bytes or characters: a few kilobytes of a compressed file may decompress to one line of gigabytes.
LONGEST_LINE = 1 << 27
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, over the quota, over the limit of a file's size


def check_readable(path: str, pipes: bool = False) -> None:
    """Raises InputError for a path that is neither a file nor a directory: reading may never end. OSError where it is absent.

    `pipes`: the shell's `<(command)` is allowed too; a named pipe is not, which blocks until something writes to it.
    """
    mode = os.stat(path).st_mode
    unnamed_pipe = stat.S_ISFIFO(mode) and not os.path.exists(os.path.realpath(path))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or (pipes and unnamed_pipe)):
        raise InputError(f"cannot read {path}: it is a device, a pipe or a socket; write its content to a file first")


def open_bytes(path: str) -> IO[bytes]:
    """Open a plain, .gz, .bz2 or .xz file for reading bytes."""
    check_readable(path, pipes=True)
    suffix = os.path.splitext(path)[1]
    if suffix in _UNREAD:
        raise InputError(
            f"cannot read {path}: {suffix} is not decompressed here; decompress it, or write .gz, .bz2 or .xz"
        )
    return _OPENERS.get(suffix, open)(path, "rb")  # type: ignore[operator, return-value]


def open_text(path: str) -> IO[str]:
    """Like `open_bytes`, decoded as UTF-8: a byte order mark is dropped, line ends are unchanged."""
    return io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="\n")


def lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a text file.

    Raises InputError with the line if it is damaged, longer than LONGEST_LINE, or has a carriage return within: with the line
    ends of old Macs the whole file would be one line.
    """
    number = 0
    try:
        with open_text(path) as file:
            for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), ""), 1):
                check_length(len(line), path, number)
                line = line.rstrip("\r\n")
                if "\r" in line:
                    raise InputError(
                        f"{path}, line {number}: a carriage return within the line; convert the line ends (tr '\\r' '\\n')"
                    )
                yield number, line
    except UnicodeDecodeError as error:
        # Text is decoded in blocks: the bad byte may be many lines later.
        raise InputError(f"{path} is not UTF-8 after line {number}: {error.reason}; convert it (UTF-16?)") from error
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        raise InputError(f"{path} is damaged after line {number}: {error}; fetch or write the file again") from error


def check_length(length: int, path: str, number: int) -> None:
    """Raises InputError for a line that is too long to be a record."""
    if length > LONGEST_LINE:
        raise InputError(
            f"{path}, line {number}: longer than {LONGEST_LINE >> 20} MiB; split the line, or check the file"
        )


def read_json(path: str, advice: str = "restore or write it again") -> dict[str, Any]:
    """The object in a JSON file. Raises InputError for a file that cannot be read or is no JSON object, with the line.

    `advice` says what to do about a damaged file.
    """
    check_readable(path)
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read().decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error}); {advice}") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no JSON object; {advice}")
    return found


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
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
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


def output_path(path: str, inputs: Iterable[str] = ()) -> str:
    """The file that writing to `path` creates or replaces: symbolic links are followed.

    Raises InputError for a directory, a device, a pipe or a bucket, and for a file that is one of `inputs`.
    """
    if not path:
        raise InputError("cannot write: the path is empty (unset variable?); name a file")
    if "://" in path:
        raise InputError(f"cannot write {path}: buckets are not supported here; mount the bucket, or use a local path")
    target = os.path.realpath(path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode) or not os.path.exists(target):  # /dev/stdout may be a file without a name
        kind = "a directory" if stat.S_ISDIR(mode) else "a device, a pipe or a socket"
        raise InputError(f"cannot write {path}: it is {kind}; name a file")
    for other in inputs:
        if os.path.isfile(other) and os.path.samefile(target, other):
            raise InputError(f"cannot write {path}: it is the input {other}, which would be lost; choose another path")
    return target


def check_plain(path: str) -> None:
    """Raises InputError for the name of a compressed file: what is written is not compressed, and could not be read again."""
    if path.endswith((*SUFFIXES, *_UNREAD)):
        suffix = os.path.splitext(path)[1]
        raise InputError(f"cannot write {path}: outputs are not compressed; name it without {suffix}")


def check_outside(output: str, inputs: Iterable[str]) -> None:
    """Raises InputError for an output directory within a folder that is read, or equal to it: its files would be read, too."""
    target = os.path.join(os.path.realpath(output), "")
    for path in inputs:
        if os.path.isdir(path) and target.startswith(os.path.join(os.path.realpath(path), "")):
            raise InputError(f"cannot write to {output}: it is in {path}, which is read; choose an --output outside")


def check_links(names: Iterable[str]) -> None:
    """Raises InputError where `link` would replace something other than a link."""
    for name in names:
        if os.path.lexists(name) and not os.path.islink(name):
            raise InputError(
                f"{name} is no link of an earlier run and would be lost; move it, or choose another --output"
            )


def link(place: str, name: str) -> None:
    """Makes `name` a relative symbolic link to `place`; an earlier link is replaced. Raises InputError as `check_links`."""
    check_links([name])
    temporary = beside(name)
    os.symlink(os.path.relpath(place, os.path.dirname(name)), temporary)
    os.replace(temporary, name)


def beside(path: str) -> str:
    """A name in the folder of `path` that no two processes choose, for what replaces it: PIDs of containers are equal."""
    return f"{path}.tmp.{secrets.token_hex(4)}"


def disk_full(error: BaseException) -> str:
    """What an exception says of a full disk, a quota or a limit of file sizes; "" for others. Libraries raise their own classes."""
    found = (os.strerror(code) for code in DISK_FULL)
    return next((what for what in found if what in str(error)), "")


@contextlib.contextmanager
def full_disk_refused(path: str) -> Iterator[None]:
    """InputError where what is written to `path` does not fit on the disk."""
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) or not (reason := disk_full(error)):
            raise
        raise InputError(f"cannot write {path}: {reason}; free space and run the same command again") from error


@contextlib.contextmanager
def replacing(path: str, mode: str = "w", durable: bool = True) -> Iterator[IO]:
    """Open a file for writing that replaces `path` only if the block ends without an exception.

    The content is on disk before the file has its name, so that a power failure leaves no empty file; `durable=False` saves
    the few milliseconds where readers notice that. A replaced file keeps its permissions. Raises InputError where
    `output_path` and, for text, `check_plain` do, and when the disk is full.
    """
    if "b" not in mode:
        check_plain(path)
    target = output_path(path)
    temporary = beside(target)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    file = open(
        temporary,
        mode.replace("w", "x"),
        encoding=None if "b" in mode else "utf-8",
        # A name from the command line may have bytes that are not UTF-8.
        errors=None if "b" in mode else "backslashreplace",
        newline=None if "b" in mode else "\n",
    )
    try:
        with full_disk_refused(path), file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            os.chmod(temporary, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)


@contextlib.contextmanager
def replacing_folder(path: str) -> Iterator[str]:
    """A new folder that replaces the folder `path` only if the block ends without an exception.

    No system call replaces a folder that holds files, so there are two renames: interrupted between them, the old folder is put
    back. A link to a folder stays a link. Raises InputError where nothing can be written, and when the disk is full.
    """
    target = os.path.realpath(path)
    temporary = beside(target)
    old = f"{temporary}.old"
    os.makedirs(temporary)
    try:
        with full_disk_refused(path):
            yield temporary
        if os.path.isdir(target):
            os.rename(target, old)
        os.rename(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if os.path.isdir(old):
            shutil.rmtree(old) if os.path.lexists(target) else os.rename(old, target)


def locked(path: str, busy: str) -> IO[str]:
    """A lock file, locked as long as it is open; the kernel releases it even if the process is killed.

    Creates the directory. Raises InputError with the message `busy` while another process holds the lock.
    """
    while True:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            lock = open(path, "w", opener=_unlinked)
        except FileNotFoundError:  # the last holder has just removed the folder
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise InputError(busy) from error
        # A lock on a file that its holder has just removed excludes no other process.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), os.stat(path)):
                return lock
        lock.close()


def _unlinked(path: str, flags: int) -> int:
    """Opens a file, but not through a link: opening the lock for writing empties it."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def cache_directory(name: str) -> str:
    """A directory for derived files in XDG_CACHE_HOME or ~/.cache. Raises InputError where there is no home directory."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if cache.startswith("~"):
        raise InputError("no home directory for the cache; set XDG_CACHE_HOME to a directory")
    return os.path.join(cache, "harp_jax", name)


def sha256_file(path: str) -> str:
    """Hexadecimal SHA-256 of a file's bytes as stored (not decompressed)."""
    check_readable(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
