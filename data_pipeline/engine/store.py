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
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa

from data_pipeline.engine.job import Job, MapFunction, P, Part
from data_pipeline.engine.tables import Row, Rows, Table
from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing, sha256_file

NAMED = re.compile(r".*\.([0-9a-f]{16})\.parquet")  # with the digest of the content
END = "done\n"  # the last line of a complete list: a power failure may leave an empty file
LIST = "files"  # in the directory of a join's table: the names of its files
DAMAGED = "remove {work} and run the command again: the job starts from the beginning"
verified: set[str] = set()  # files whose content this process has compared with their names


def table_dir(job: Job, table: Table) -> str:
    """The directory of a table."""
    return os.path.join(job.weights if table.in_artefact else job.work, table.name)


def read(job: Job, table: Table, bucket: int | None = None, columns: list[str] | None = None) -> pa.Table:
    """A bucket of a table (default: all of it), files in the order of their names; an empty table if there are none."""
    import pyarrow.parquet as pq

    folder = "*" if bucket is None else f"bucket={bucket}"
    paths = sorted(glob.glob(os.path.join(glob.escape(table_dir(job, table)), folder, "*.parquet")))
    for path in paths:
        _verify(job, path)
    # Files are read one by one: as a data set, the folder names would become a column.
    parts = [pq.ParquetFile(path).read(columns) for path in paths]
    return pa.concat_tables(parts) if parts else table.schema.empty_table().select(columns or table.schema.names)


def rows(
    job: Job, table: Table, bucket: int, columns: list[str] | None = None, size: int = 256, order: Iterable[str] = ()
) -> Iterator[Row]:
    """The rows of a bucket, sorted by the columns `order`, `size` of them in memory as Python objects."""
    content = read(job, table, bucket, columns)
    if by := [(name, "ascending") for name in order]:
        content = content.sort_by(by)
    for batch in content.to_batches(max_chunksize=size):
        yield from batch.to_pylist()


def buckets(job: Job, table: Table) -> list[int]:
    """The numbers of a table's buckets."""
    folders = glob.glob(os.path.join(glob.escape(table_dir(job, table)), "bucket=*"))
    return sorted(int(folder.rsplit("=", 1)[1]) for folder in folders)


def bucket_parts(job: Job, table: Table) -> list[Part[None]]:
    """One part for each bucket of a table."""
    return [(bucket, None) for bucket in buckets(job, table)]


def checked_files(job: Job, table: Table) -> list[str]:
    """The files of a table, each compared with the digest in its name."""
    files = sorted(glob.glob(os.path.join(glob.escape(table_dir(job, table)), "*", "*.parquet")))
    with ThreadPoolExecutor() as hashing:
        list(hashing.map(partial(_verify, job), files))
    return files


def _verify(job: Job, path: str) -> None:
    """Raises InputError unless a file has the content that its name says; reads it once per process."""
    if path not in verified:
        named = NAMED.fullmatch(path)
        if not named or sha256_file(path)[:16] != named[1]:
            raise InputError(f"{path} is damaged; {DAMAGED.format(work=job.work)}")
        verified.add(path)


def write(job: Job, table: Table, bucket: int, stage: str, part: int, rows: Rows) -> tuple[list[str], int]:
    """Writes a file of a table, complete or not at all; returns its name below the directory of the tables, and its rows.

    Several stages may write to one table. Writes no file for zero rows.
    """
    import pyarrow.parquet as pq

    start = os.path.join(table_dir(job, table), f"bucket={bucket}", f"{stage}-{part:07d}.")
    made, sink = table.of(rows), pa.BufferOutputStream()
    pq.write_table(made, sink, compression="zstd", row_group_size=16384)
    content = sink.getvalue()
    path = f"{start}{hashlib.sha256(content).hexdigest()[:16]}.parquet" if made.num_rows else ""
    for earlier in glob.glob(glob.escape(start) + "*parquet"):
        if earlier != path:
            os.remove(earlier)  # left by a killed part, with another version of a library
    if not path:
        return [], 0
    with replacing(path, "wb", durable=False) as file:  # the digest in its name shows whether it is complete
        file.write(content)
    return [os.path.join(table.name, f"bucket={bucket}", os.path.basename(path))], made.num_rows


def run_part(stage: str, function: MapFunction[P], job: Job, number: int, payload: P, per_bucket: int) -> int:
    """Runs a part, writes its tables and its mark; returns the number of rows."""
    outputs = function(job, number, payload)
    written = [write(job, table, number // per_bucket, stage, number, made) for table, made in outputs.items()]
    _write_list(mark_path(job, stage, number), (file for files, _ in written for file in files))
    return sum(count for _, count in written)


def mark_path(job: Job, stage: str, part: int | str) -> str:
    """The file that marks a part as finished; part "all": the stage."""
    return os.path.join(job.work, f"{stage}.marks", part if isinstance(part, str) else f"{part:07d}")


def begin(job: Job, stage: str) -> bool:
    """Whether a stage has unfinished parts. Raises InputError if a file of a finished one is missing."""
    every = mark_path(job, stage, "all")
    os.makedirs(os.path.dirname(every), exist_ok=True)
    marks = glob.glob(glob.escape(os.path.dirname(every)) + "/*")
    return not (os.path.exists(every) and all(_listed(job, mark) for mark in marks))


def marked(job: Job, stage: str, part: int) -> bool:
    """Whether a part is finished. Raises InputError if one of its files is missing."""
    return _listed(job, mark_path(job, stage, part))


def finish(job: Job, stage: str) -> None:
    """Marks a stage as finished."""
    _write_list(mark_path(job, stage, "all"))


def complete(job: Job, table: Table) -> bool:
    """Whether the table of a join is finished. Raises InputError if one of its files is missing."""
    folder = table_dir(job, table)
    if not (done := _listed(job, os.path.join(folder, LIST))):
        shutil.rmtree(folder, ignore_errors=True)
    return done


def finish_join(temporary: str, folder: str) -> None:
    """Adds digests to the file names of a join's table, lists them, and renames the directory to its final name."""
    names = []
    for path in sorted(glob.glob(os.path.join(glob.escape(temporary), "*", "*.parquet"))):
        named = f"{path.removesuffix('.parquet')}.{sha256_file(path)[:16]}.parquet"
        os.rename(path, named)
        names.append(os.path.join(os.path.basename(folder), os.path.relpath(named, temporary)))
    _write_list(os.path.join(temporary, LIST), names)
    os.replace(temporary, folder)


def _write_list(path: str, names: Iterable[str] = ()) -> None:
    """Writes the names of files, below the directory of the tables."""
    with replacing(path, durable=False) as file:
        file.writelines([*(f"{name}\n" for name in names), END])


def _listed(job: Job, path: str) -> bool:
    """Whether a list is there and complete. Raises InputError for a file that it names and that is missing."""
    try:
        with open(path, encoding="utf-8") as file:
            *names, end = file.readlines() or [""]
    except (FileNotFoundError, UnicodeDecodeError):
        return False
    for name in (line.rstrip("\n") for line in names if end == END):
        if not any(os.path.exists(os.path.join(folder, name)) for folder in (job.work, job.weights) if folder):
            lost = os.path.join(job.work, name)
            raise InputError(f"{lost}, which a finished stage wrote, is missing; {DAMAGED.format(work=job.work)}")
    return end == END
