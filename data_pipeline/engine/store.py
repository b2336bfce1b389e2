"""Tables on disk as Parquet files, and the marks of finished parts.

A part of a map is marked when all its outputs have their final names, and its mark lists them; the directory of a join's table
is renamed to its final name when it is complete, and lists its files. A file's name ends with a digest of its content, which every
process checks before it first reads the file: a killed job may resume months later. All processes must share the file system.
"""

import glob
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from typing import IO, Any

import pyarrow as pa

from data_pipeline.engine.job import Job, MapFunction, Part
from data_pipeline.engine.stage_tables import SCHEMAS
from harp_jax.base.errors import InputError
from harp_jax.base.files import locked, replacing, sha256_file

NAMED = re.compile(r".*\.([0-9a-f]{16})\.parquet")  # with the digest of the content
END = "done\n"
LIST = "files"  # in the directory of a join's table: the names of its files
LOCK = "lock"  # in the work directory
DAMAGED = "remove {work} and run the command again: the job starts from the beginning"
_verified: set[str] = set()  # files whose content this process has compared with their names


def read(job: Job, name: str, bucket: int | None = None, columns: list[str] | None = None) -> pa.Table:
    """A bucket of a table (default: all of it), files in the order of their names; an empty table if there are none."""
    import pyarrow.parquet as pq

    folder = "*" if bucket is None else f"bucket={bucket}"
    paths = sorted(glob.glob(os.path.join(glob.escape(place(job, name)), folder, "*.parquet")))
    for path in paths:
        verify(job, path)
    # Files are read one by one: as a data set, the folder names would become a column.
    tables = [pq.ParquetFile(path).read(columns) for path in paths]
    return pa.concat_tables(tables) if tables else SCHEMAS[name].empty_table().select(columns or SCHEMAS[name].names)


def buckets(job: Job, name: str) -> list[int]:
    """The numbers of a table's buckets."""
    folders = glob.glob(os.path.join(glob.escape(place(job, name)), "bucket=*"))
    return sorted(int(folder.rsplit("=", 1)[1]) for folder in folders)


def bucket_parts(job: Job, name: str) -> list[Part]:
    """One part for each bucket of a table."""
    return [(bucket, None) for bucket in buckets(job, name)]


def write(job: Job, name: str, bucket: int, stage: str, part: int, rows: pa.Table) -> list[str]:
    """Writes a file of a table, complete or not at all, and returns its name below the directory of the tables.

    Several stages may write to one table. Writes no file for zero rows.
    """
    import pyarrow.parquet as pq

    start = os.path.join(place(job, name), f"bucket={bucket}", f"{stage}-{part:07d}.")
    sink = pa.BufferOutputStream()
    pq.write_table(rows.cast(SCHEMAS[name]), sink, compression="zstd", row_group_size=16384)
    content = sink.getvalue()
    path = f"{start}{hashlib.sha256(content).hexdigest()[:16]}.parquet" if rows.num_rows else ""
    for earlier in glob.glob(glob.escape(start) + "*parquet"):
        if earlier != path:
            os.remove(earlier)  # left by a killed part, with another version of a library
    if not path:
        return []
    with replacing(path, "wb", durable=False) as file:  # the digest in its name shows whether it is complete
        file.write(content)
    return [os.path.join(name, f"bucket={bucket}", os.path.basename(path))]


def verify(job: Job, path: str) -> None:
    """Raises InputError unless the content of a table's file has the digest in its name; once per file and process."""
    if path in _verified:
        return
    named = NAMED.fullmatch(path)
    if not named or sha256_file(path)[:16] != named[1]:
        raise InputError(f"{path} is damaged; {DAMAGED.format(work=job['work'])}")
    _verified.add(path)


def table_files(job: Job, name: str) -> list[str]:
    """The files of a table."""
    return sorted(glob.glob(os.path.join(glob.escape(place(job, name)), "*", "*.parquet")))


def complete(job: Job, name: str) -> bool:
    """Whether the table of a join is finished. Raises InputError if one of its files is missing."""
    folder = place(job, name)
    names = _read_list(os.path.join(folder, LIST))
    if names is None:
        shutil.rmtree(folder, ignore_errors=True)
        return False
    _check_present(job, (os.path.join(name, file) for file in names))
    return True


def finish_join(temporary: str, folder: str) -> None:
    """Adds digests to the file names of a join's table, lists them, and renames the directory to its final name."""
    names = []
    for path in sorted(glob.glob(os.path.join(glob.escape(temporary), "*", "*.parquet"))):
        named = f"{path.removesuffix('.parquet')}.{sha256_file(path)[:16]}.parquet"
        os.rename(path, named)
        names.append(os.path.relpath(named, temporary))
    _write_list(os.path.join(temporary, LIST), names)
    os.replace(temporary, folder)


def _write_list(path: str, names: Iterable[str]) -> None:
    """Writes file names, and a last line that marks the list as complete: a power failure may leave an empty file."""
    with replacing(path, durable=False) as file:
        file.writelines([*(f"{name}\n" for name in names), END])


def _read_list(path: str) -> list[str] | None:
    """The names of `_write_list`; None if the file is missing or incomplete."""
    try:
        with open(path, encoding="utf-8") as file:
            *names, end = file.readlines() or [""]
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return [name.rstrip("\n") for name in names] if end == END else None


def _check_present(job: Job, names: Iterable[str]) -> None:
    """Raises InputError for a file of a finished part or join that is missing; `names` begin with the table's."""
    for name in names:
        table, _, file = name.partition(os.sep)
        path = os.path.join(place(job, table), file)
        if file and not os.path.exists(path):
            raise InputError(f"{path}, which a finished stage wrote, is missing; {DAMAGED.format(work=job['work'])}")


def place(job: Job, name: str) -> str:
    """The directory of a table."""
    return job.get("elsewhere", {}).get(name) or os.path.join(job["work"], name)


def run_part(stage: str, function: MapFunction, job: Job, number: int, bucket: int, payload: Any, mark: str) -> int:
    """Runs a part, writes its tables and its mark; returns the number of rows."""
    outputs = function(job, number, payload)
    written = [file for name, rows in outputs.items() for file in write(job, name, bucket, stage, number, rows)]
    _write_list(mark, written)
    return sum(rows.num_rows for rows in outputs.values())


def mark_path(job: Job, stage: str, part: int | str) -> str:
    """The file that marks a part as finished; part "all": the stage."""
    name = part if isinstance(part, str) else f"{part:07d}"
    return os.path.join(job["work"], f"{stage}.marks", name)


def unfinished(job: Job, stage: str, parts: Iterable[Part]) -> Iterator[Part]:
    """The parts that have no mark yet. Raises InputError for a marked one whose files are missing."""
    return (part for part in parts if not marked(job, mark_path(job, stage, part[0])))


def marked(job: Job, mark: str) -> bool:
    """Whether a part is finished. Raises InputError if one of its files is missing."""
    names = _read_list(mark)
    if names is not None:
        _check_present(job, names)
    return names is not None


def finish(job: Job, stage: str) -> None:
    """Marks a stage as done."""
    _write_list(mark_path(job, stage, "all"), [])


def finished(job: Job, stage: str) -> bool:
    """Whether all parts of a stage are finished. Raises InputError if one of their files is missing."""
    every = mark_path(job, stage, "all")
    return os.path.exists(every) and all(
        marked(job, mark) for mark in glob.glob(glob.escape(os.path.dirname(every)) + "/*")
    )


def claim(work: str, output: str) -> IO[str]:
    """Locks and empties the work directory of a command that removes it at its end; returns the lock.

    Raises InputError if the directory holds other files, or while another process uses it.
    """
    if os.path.isdir(work) and os.listdir(work) and not os.path.exists(os.path.join(work, LOCK)):
        raise InputError(f"{work} is needed as a work directory but holds other files; move it or use another --output")
    busy = f"another process is writing to {output}; wait for it, or choose another --output"
    lock = locked(os.path.join(work, LOCK), busy)
    _empty(work)
    return lock


def release(work: str) -> None:
    """Removes the work directory of `claim`, the lock last: `claim` refuses a directory without it."""
    if os.path.isdir(work):
        _empty(work)
    shutil.rmtree(work, ignore_errors=True)


def _empty(work: str) -> None:
    for name in os.listdir(work):
        if name != LOCK:
            path = os.path.join(work, name)
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.remove(path)
