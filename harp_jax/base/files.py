"""Files: decompression by suffix when reading, atomic replacement and SHA256SUMS when writing.

A path that cannot be opened raises Python's OSError, which commands print as one line (`cli.ending_well`).
"""

import bz2
import contextlib
import dataclasses
import errno
import fcntl
import glob
import gzip
import hashlib
import io
import json
import lzma
import math
import os
import secrets
import shutil
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import UnionType
from typing import IO, Any, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

from harp_jax.base.errors import InputError

SUFFIXES = (".gz", ".bz2", ".xz")
_UNREAD = (".zst", ".zip", ".7z", ".lz4", ".br")  # else reported as text that is not UTF-8
# Bytes or characters: a few compressed kilobytes may decompress to one line of gigabytes.
LONGEST_LINE = 1 << 27
_BLOCK = 1 << 17  # bytes read from a compressed file at once
SUMS = "SHA256SUMS"
T = TypeVar("T")
CARD = "README.md"  # listed in SHA256SUMS, but people may edit it
LEFT = f".tmp.{'[0-9a-f]' * 8}"  # pattern of what `beside` adds to a name
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # no space, over the quota, over the file size limit


def check_readable(path: str, pipes: bool = False) -> None:
    """Raises InputError for a path that is neither a file nor a directory: reading may never end. OSError if it is missing.
    `pipes`: also allows the shell's `<(command)`, but not a named pipe, which blocks until something writes to it."""
    mode = os.stat(path).st_mode
    unnamed_pipe = stat.S_ISFIFO(mode) and not os.path.exists(os.path.realpath(path))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or (pipes and unnamed_pipe)):
        raise InputError(f"cannot read {path}: it is a device, a pipe or a socket; write its content to a file first")


def as_stored(path: str) -> str:
    """The name of a file on disk: the path, or PATH.gz, PATH.bz2 or PATH.xz if only that exists."""
    if os.path.exists(path):
        return path
    return next((path + suffix for suffix in SUFFIXES if os.path.isfile(path + suffix)), path)


def open_bytes(path: str) -> IO[bytes]:
    """Opens a plain, .gz, .bz2 or .xz file for reading bytes; compressed ones cannot seek backwards. X may name X.gz."""
    path = as_stored(path)
    check_readable(path, pipes=True)
    suffix = os.path.splitext(path)[1]
    if suffix in _UNREAD:
        raise InputError(f"cannot read {path}: {suffix} is not supported; decompress it, or write .gz, .bz2 or .xz")
    if suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return io.BufferedReader(_Streams(path, suffix), _BLOCK) if suffix in SUFFIXES else open(path, "rb")


class _Streams(io.RawIOBase):
    """Decompresses a file of one or more .bz2 or .xz streams. Python's own readers end in silence at bytes that begin no stream,
    so one damaged byte in a later header would lose the rest. Raises OSError, lzma.LZMAError or EOFError for damage."""

    def __init__(self, path: str, suffix: str) -> None:
        self._new = bz2.BZ2Decompressor if suffix == ".bz2" else partial(lzma.LZMADecompressor, lzma.FORMAT_XZ)
        self._padding = b"\0" if suffix == ".xz" else b""  # xz allows zeros after a stream
        self._stream: Any = self._new()
        self._file = open(path, "rb")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        text = b""
        while not text:
            data = self._stream.unused_data if self._stream.eof else b""
            if self._stream.eof:
                while not (data := data.lstrip(self._padding) if self._padding else data):
                    if not (data := self._file.read(_BLOCK)):
                        return 0
                self._stream = self._new()
            elif self._stream.needs_input and not (data := self._file.read(_BLOCK)):
                raise EOFError("compressed file ended before its last stream did")
            text = self._stream.decompress(data, len(buffer))
        buffer[: len(text)] = text
        return len(text)

    def close(self) -> None:
        self._file.close()
        super().close()


def raw_lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, bytes of the line with its end). InputError for damage and for lines over LONGEST_LINE."""
    number = 0
    try:
        with open_bytes(path) as file:
            for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), b""), 1):
                if len(line) > LONGEST_LINE:
                    most = f"{LONGEST_LINE >> 20} MiB"
                    raise InputError(f"{path}, line {number}: longer than {most}; split the line, or check the file")
                yield number, line
    except (EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        raise InputError(f"{path} is damaged after line {number}: {error}; fetch or write the file again") from error


def lines(path: str) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a UTF-8 text file; a byte order mark is dropped. InputError as
    `raw_lines`, and for a carriage return within a line: a file with old Mac line ends would be one line."""
    for number, data in raw_lines(path):
        where = f"{path}, line {number}"
        try:
            line = data.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(f"{where}: not UTF-8 ({error.reason}); convert the file (UTF-16?)") from error
        if "\r" in line:
            raise InputError(f"{where}: a carriage return within the line; convert the line ends (tr '\\r' '\\n')")
        yield number, line


def read_json(path: str, advice: str = "restore or write it again") -> dict[str, Any]:
    """The object in a JSON file. Raises InputError, with the line, for a file that is not a JSON object. `advice` says what to do
    about a damaged file."""
    check_readable(path)
    try:
        with open(path, "rb") as file:
            fields = json.loads(file.read().decode())
        if not isinstance(fields, dict):
            raise ValueError("not an object")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a JSON object ({error}); {advice}") from error
    return fields


@contextlib.contextmanager
def json_fields(path: str, advice: str = "restore or write it again") -> Iterator[None]:
    """InputError, with the field, if the block finds a field of `read_json` missing or of the wrong type."""
    try:
        yield
    except KeyError as error:
        raise InputError(f"{path} has no field {error}; {advice}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}; {advice}") from error


def read_json_as(kind: type[T], path: str, advice: str = "restore or write it again") -> T:
    """The JSON object in a file as `kind` (see `typed`). InputError, with the field, unless its types are those of `kind`."""
    with json_fields(path, advice):
        return typed(read_json(path, advice), kind, "it")


def typed(value: Any, kind: Any, name: str) -> Any:
    """A JSON value as `kind`: str, bool, int, float, X | None, list[X], tuple[X, ...], dict[str, X], Any, or a dataclass, TypedDict
    or NamedTuple (a list) of these. Raises ValueError, which names the field, for a value of another type, a number that is not
    finite, and a field that is missing or that the dataclass lacks; a TypedDict may have more fields."""
    shape, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if shape is UnionType:
        return None if value is None else typed(value, inner[0], name)
    if (is_typeddict(kind) or dataclasses.is_dataclass(kind)) and isinstance(value, dict):
        hints, required = get_type_hints(kind), set(getattr(kind, "__required_keys__", ()))
        if not is_typeddict(kind):
            fields = dataclasses.fields(kind)
            required = {each.name for each in fields if each.default is each.default_factory is dataclasses.MISSING}
            if unknown := value.keys() - hints:
                raise ValueError(f"{name} has the unknown field {min(unknown)}")
        if missing := required - value.keys():
            raise ValueError(f"{name} has no field {min(missing)}")
        made = {field: typed(each, hints.get(field, Any), field) for field, each in value.items()}
        return made if is_typeddict(kind) else kind(**made)
    if shape is dict and isinstance(value, dict):
        return {key: typed(each, inner[1], f"{name}.{key}") for key, each in value.items()}
    if shape in (list, tuple) and isinstance(value, list):
        kinds = inner if shape is tuple and inner[-1] is not ... else inner[:1] * len(value)
        if len(kinds) != len(value):
            raise ValueError(f"{name} has {len(value)} values, not {len(kinds)}")
        return shape(typed(each, kinds[number], f"{name}[{number}]") for number, each in enumerate(value))
    if hasattr(kind, "_fields") and isinstance(value, list) and len(value) <= len(kind._fields):
        return kind(*(typed(each, get_type_hints(kind)[field], field) for field, each in zip(kind._fields, value)))
    if kind is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if kind is not float and type(value) is kind:
        return value
    raise ValueError(f"{name} is {str(value)[:60]!r}, not of the type {getattr(kind, '__name__', kind)}")


def as_number(text: str, kind: type[int] | type[float] = float) -> float:
    """The text as a number, or NaN if it is not one. Python also accepts 1_0 and digits of other scripts."""
    try:
        return float(kind(text)) if text.isascii() and "_" not in text else math.nan
    except (ValueError, OverflowError):
        return math.nan


def within(folder: str, name: str, path: str) -> str:
    """The path of a file that `path`, in the same folder, names. InputError for a name that leads out of the folder, and for
    one with control characters or half a surrogate pair."""
    if not name.isprintable() or not name or os.path.isabs(name) or ".." in name.split("/"):
        raise InputError(f"{path} names {name!r}, which is not below {folder}; restore it or write it again")
    return os.path.join(folder, name)


def expand(paths: tuple[str, ...]) -> list[str]:
    """Expand paths and globs to files, each glob sorted. Raises InputError for a name that matches nothing."""
    files: list[str] = []
    for path in paths:
        matches = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
        if not matches:
            raise InputError(f"no file matches {path!r}; check the path")
        files.extend(matches)
    return files


def walk(folder: str) -> Iterator[str]:
    """Every file below the folder, each directory sorted by name; hidden files and directories are skipped. Symbolic links out of
    the folder are followed, each directory once; links within it are not, since their targets are walked under their own names."""
    return (path for path, target in _walk(folder, os.path.realpath(folder), set()) if not target)


def links_within(folder: str) -> Iterator[tuple[str, str]]:
    """Yield (link, target) for the symbolic links whose targets `walk` finds under their own names. The target is a path that
    begins with `folder` as passed."""
    root = os.path.realpath(folder)
    found = _walk(folder, root, set())
    return ((path, os.path.join(folder, os.path.relpath(target, root))) for path, target in found if target)


def _walk(folder: str, root: str, visited: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, "") for files and (path, real path) for links within the root; `visited`: real paths of directories."""
    visited.add(os.path.realpath(folder))
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        real = os.path.realpath(entry.path) if entry.is_symlink() or entry.is_dir() else ""
        if entry.name.startswith("."):
            continue
        if entry.is_symlink() and real.startswith(os.path.join(root, "")) and f"{os.sep}." not in real[len(root) :]:
            if os.path.exists(real):
                yield entry.path, real
        elif entry.is_file():
            yield entry.path, ""
        # Following a link to a parent directory would read files outside the folder.
        elif entry.is_dir() and real not in visited and not os.path.join(root, "").startswith(os.path.join(real, "")):
            yield from _walk(entry.path, root, visited)


def output_path(path: str, inputs: Iterable[str] = (), packed: bool = False) -> str:
    """The file that writing to `path` creates or replaces: symbolic links are followed. InputError for anything but a plain file,
    for one of `inputs`, and, unless `packed`, for the suffix of a compressed file: outputs are not compressed, so it could not be
    read again."""
    target, suffix = os.path.realpath(path), os.path.splitext(path)[1]
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = 0
    if not path:
        wrong = "the path is empty (unset variable?); name a file"
    elif "://" in path:
        wrong = "buckets are not supported here; mount the bucket, or use a local path"
    elif suffix in (*SUFFIXES, *_UNREAD) and not packed:
        wrong = f"outputs are not compressed; name it without {suffix}"
    elif mode and not (stat.S_ISREG(mode) and os.path.exists(target)):  # /dev/stdout may have no name
        wrong = f"it is {'a directory' if stat.S_ISDIR(mode) else 'a device, a pipe or a socket'}; name a file"
    else:
        same = (p for p in inputs if mode and os.path.isfile(p) and os.path.samefile(target, p))
        wrong = next((f"it is the input {other}, which would be lost; choose another path" for other in same), "")
    if wrong:
        raise InputError(f"cannot write {path}: {wrong}")
    return target


def check_outside(output: str, inputs: Iterable[str]) -> None:
    """Raises InputError for an output directory that is in an input folder, or equal to it: its files would be read too."""
    target = os.path.join(os.path.realpath(output), "")
    for path in inputs:
        if os.path.isdir(path) and target.startswith(os.path.join(os.path.realpath(path), "")):
            raise InputError(f"cannot write to {output}: it is inside the input {path}; choose an --output outside")


def beside(path: str) -> str:
    """A random name next to `path`, for the file that replaces it. Not the PID: two containers may have the same."""
    return f"{path}.tmp.{secrets.token_hex(4)}"


def disk_full(error: BaseException) -> str:
    """The reason if an exception reports a full disk or quota, else "". Reads its text: libraries raise their own classes."""
    return next((what for what in map(os.strerror, DISK_FULL) if what in str(error)), "")


@contextlib.contextmanager
def full_disk_refused(path: str) -> Iterator[None]:
    """InputError if the block fills the disk while it writes `path`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, InputError) or not (reason := disk_full(error)):
            raise
        raise InputError(f"cannot write {path}: {reason}; free space and run the same command again") from error


@contextlib.contextmanager
def replacing(path: str, mode: str = "w", durable: bool = True) -> Iterator[IO]:
    """Open a file for writing that replaces `path` only if the block ends without an exception. The content is flushed to disk
    before the rename, so that a power failure leaves no empty file; `durable=False` skips that, and saves a few milliseconds, where
    readers detect an empty file. A replaced file keeps its permissions. Temporary files of killed processes with the same target
    are removed. InputError as `output_path`, and when the disk is full."""
    target = output_path(path, packed="b" in mode)
    temporary = beside(target)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    _remove_left(target, os.remove)
    # A name from the command line may have bytes that are not UTF-8.
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    file = open(temporary, mode.replace("w", "x"), **text)
    try:
        with full_disk_refused(path), file:
            with contextlib.suppress(OSError):  # some network file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
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


def locked(path: str, busy: str) -> IO[str]:
    """A lock file, locked while it is open; the kernel releases it even if the process is killed. Creates the directory. Raises
    InputError with the message `busy` while another process holds the lock."""
    while True:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            lock = open(path, "a")  # append: does not truncate a file that a planted link points to
        except FileNotFoundError:  # the last holder has just removed the folder
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise InputError(busy) from error
        # If the holder has just removed the file, this lock excludes nobody.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), os.stat(path)):
                return lock
        lock.close()


def cache_directory(name: str) -> str:
    """A directory for derived files in XDG_CACHE_HOME or ~/.cache. Raises InputError without a home directory."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or expand_home("~/.cache"), "harp_jax", name)


def expand_home(path: str) -> str:
    """Expands ~ in a path. InputError without a home directory: a directory named ~ would be created."""
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise InputError(f"{path}: no home directory; write the whole path, or set XDG_CACHE_HOME for the cache")
    return expanded


def sha256_file(path: str) -> str:
    """Hexadecimal SHA-256 of a file's bytes as stored (not decompressed)."""
    check_readable(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_below(directory: str) -> list[str]:
    """The paths of all files below a directory, relative to it, sorted."""
    paths = (os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names)
    return sorted(os.path.relpath(path, directory) for path in paths)


def write_sums(directory: str, names: Iterable[str] | None = None) -> None:
    """Writes SHA256SUMS for these files of a directory (None: all), as `sha256sum -c` reads it. Mismatched weights, config and
    vocabulary may still load and score; the sums detect them. A folder without sums, such as one that another tool wrote, is not
    checked when it is read, and never replaced."""
    named = files_below(directory) if names is None else sorted(names)
    sums = [f"{sha256_file(os.path.join(directory, name))}  {name}\n" for name in named if name != SUMS]
    with replacing(os.path.join(directory, SUMS)) as file:
        file.writelines(sums)


def listed_sums(directory: str) -> dict[str, str]:
    """Name → sha256 of the directory's SHA256SUMS; empty without one."""
    path = os.path.join(directory, SUMS)
    rows = [line.partition("  ") for _, line in lines(path)] if os.path.exists(path) else []
    return {name: digest for digest, _, name in rows}


def check_sums(directory: str, names: Iterable[str] | None = None) -> None:
    """InputError for the first file that is missing or was changed since `write_sums`. `names`: the listed files to check; None:
    all but the card and files in subfolders, which only some readers need."""
    listed = listed_sums(directory)
    chosen = [name for name in listed if "/" not in name and name != CARD] if names is None else names
    for name in listed.keys() & set(chosen):
        file = os.path.join(directory, name)
        missing = not os.path.isfile(file)
        if missing or sha256_file(file) != listed[name]:
            what = "is missing" if missing else "was changed since it was written"
            advice = f"copy or write the folder again, or remove {SUMS} if that was intended"
            raise InputError(f"{file} {what} (see {SUMS}); {advice}")


def intact(directory: str) -> bool:
    """Whether the directory has SHA256SUMS and its files match."""
    try:
        check_sums(directory)
        return bool(listed_sums(directory))
    except InputError:
        return False


def check_replaceable(directory: str) -> None:
    """InputError unless `directory` is absent, empty, or holds only files that its SHA256SUMS lists, unchanged."""
    wrong, listed = "", listed_sums(directory)
    sums = ((name, sha256_file(os.path.join(directory, name))) for name in files_below(directory) if name != SUMS)
    if not directory:
        wrong = "the path is empty (unset variable?); name a directory"
    elif os.path.lexists(directory) and not os.path.isdir(directory):
        wrong = "it is not a directory; choose another --output or remove it"
    elif other := next((name for name, digest in sums if listed.get(name) != digest), ""):
        wrong = f"it holds {other}, which was changed or was not written by harp_jax (see {SUMS}) and would be lost; "
        wrong += "move it away or choose another --output"
    if wrong:
        raise InputError(f"cannot write {directory}: {wrong}")


@contextlib.contextmanager
def output_folder(path: str) -> Iterator[str]:
    """A new folder that gets its SHA256SUMS and replaces the folder `path` if the block ends without an exception. No portable
    system call replaces a folder that has files, so there are two renames. After an interrupt between them the old folder is
    restored; after a kill, by the next command that writes to `path`, which also removes the unfinished one. A link to a folder
    stays a link. InputError as `check_replaceable`, and when the disk is full."""
    target = os.path.realpath(path)
    _put_back(target)
    _remove_left(target, shutil.rmtree)
    check_replaceable(path)
    temporary = beside(target)
    try:
        with alone_in(temporary):  # else `_remove_left` of another process would remove it
            with full_disk_refused(path):
                yield temporary
                write_sums(temporary)
            with alone_in(os.path.dirname(target)):
                if os.path.isdir(target):
                    os.rename(target, f"{temporary}.old")
                os.rename(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        _put_back(target)


def _remove_left(target: str, remove: Callable[[str], None]) -> None:
    """Removes the files or folders that killed processes have left next to `target`: no process has locked them."""
    for left in glob.glob(f"{glob.escape(target)}{LEFT}"):
        with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
            descriptor = os.open(left, os.O_RDONLY)
            opened.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove(left)


def _put_back(target: str) -> None:
    """Restores the folder `target` if a process ended between the two renames; removes the old one if it was replaced."""
    pattern = f"{glob.escape(target)}{LEFT}.old"
    if glob.glob(pattern):
        with alone_in(os.path.dirname(target)):
            for old in glob.glob(pattern):
                shutil.rmtree(old) if os.path.lexists(target) else os.rename(old, target)


@contextlib.contextmanager
def alone_in(folder: str) -> Iterator[None]:
    """Locks `folder` against other processes that change its content, without a lock file. Creates the folder."""
    os.makedirs(folder, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # NFS cannot lock directories
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
