"""Tables on disk as Parquet files, and the marks of finished parts.

A part of a map, or a join, is marked when all its outputs have their final names, and its mark lists them. A file's name ends with
a digest of its content, which every process checks before it first reads the file: a killed job may resume months later. All
processes must share the file system.
"""

import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from data_pipeline.engine.job import Job, MapFunction, P, Part
from data_pipeline.engine.tables import R, Rows, Table
from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing, sha256_file

NAMED = re.compile(r".*\.([0-9a-f]{16})\.parquet")  # with the digest of the content
END = "done\n"  # the last line of a complete list: a power failure may leave an empty file
DAMAGED = "remove {work} and run the command again: the job starts from the beginning"
verified: set[str] = set()  # files whose content this process has compared with their names


def table_dir(job: Job, table: Table) -> str:
    """The directory of a table."""
    return os.path.join(job.weights if table.in_artefact else job.work, table.name)


def read(job: Job, table: Table, bucket: int | None = None, columns: list[str] | None = None) -> pa.Table:
    """A bucket of a table (default: all of it), files in the order of their names; an empty table if there are none."""
    import pyarrow.parquet as pq

    # Files are read one by one: as a data set, the folder names would become a column.
    parts = [pq.ParquetFile(path).read(columns) for path in checked_files(job, table, bucket)]
    return pa.concat_tables(parts) if parts else table.schema.empty_table().select(columns or table.schema.names)


def rows(
    job: Job, table: Table[R], bucket: int, columns: list[str] | None = None, size: int = 256, order: Iterable[str] = ()
) -> Iterator[R]:
    """The rows of a bucket with `columns` (default: all), sorted by `order`, `size` of them in memory as Python objects."""
    content = read(job, table, bucket, columns)
    if by := [(name, "ascending") for name in order]:
        content = content.sort_by(by)
    for batch in content.to_batches(max_chunksize=size):
        yield from batch.to_pylist()


def buckets(job: Job, table: Table) -> list[int]:
    """The numbers of a table's buckets."""
    return sorted(int(folder.name.removeprefix("bucket=")) for folder in Path(table_dir(job, table)).glob("bucket=*"))


def bucket_parts(job: Job, table: Table) -> list[Part[None]]:
    """One part for each bucket of a table."""
    return [(bucket, None) for bucket in buckets(job, table)]


def checked_files(job: Job, table: Table, bucket: int | None = None) -> list[str]:
    """The files of a bucket (default: of the table), each compared with the digest in its name once per process."""
    pattern = "*/*.parquet" if bucket is None else f"bucket={bucket}/*.parquet"
    files = sorted(map(str, Path(table_dir(job, table)).glob(pattern)))
    unread = [path for path in files if path not in verified]
    with ThreadPoolExecutor() as hashing:
        for path, digest in zip(unread, hashing.map(sha256_file, unread)):
            if not (named := NAMED.fullmatch(path)) or digest[:16] != named[1]:
                raise InputError(f"{path} is damaged; {DAMAGED.format(work=job.work)}")
            verified.add(path)
    return files


def write(job: Job, table: Table, bucket: int, stage: str, part: int, rows: Rows) -> list[str]:
    """Writes a file of a table, complete or not at all; returns its name below the directory of the tables, in a list that is empty
    if there are no rows: then no file is written. Several stages may write to one table."""
    import pyarrow.parquet as pq

    made, sink = table.of(rows), pa.BufferOutputStream()
    pq.write_table(made, sink, compression="zstd", row_group_size=16384)
    content = sink.getvalue()
    folder, start = Path(table_dir(job, table), f"bucket={bucket}"), f"{stage}-{part:07d}."
    name = f"{start}{hashlib.sha256(content).hexdigest()[:16]}.parquet" if made.num_rows else ""
    for earlier in folder.glob(f"{start}*parquet"):
        if earlier.name != name:
            earlier.unlink()  # left by a killed part, with another version of a library
    if not name:
        return []
    with replacing(str(folder / name), "wb", durable=False) as file:  # its name shows whether it is complete
        file.write(content)
    return [f"{table.name}/bucket={bucket}/{name}"]


def run_part(stage: str, function: MapFunction[P], job: Job, number: int, payload: P, per_bucket: int) -> None:
    """Runs a part, writes its tables and its mark."""
    outputs = function(job, number, payload)
    written = [write(job, table, number // per_bucket, stage, number, made) for table, made in outputs.items()]
    finish(job, stage, number, itertools.chain(*written))


def mark_path(job: Job, stage: str, part: int | None = None) -> Path:
    """The file that marks a part as finished (None: the whole stage), and lists its files. A join is a stage without parts."""
    return Path(job.work, f"{stage}.marks", "all" if part is None else f"{part:07d}")


def finish(job: Job, stage: str, part: int | None = None, files: Iterable[str] = ()) -> None:
    """Marks a part or a stage, which has written `files` (names below the directory of the tables), as finished."""
    with replacing(str(mark_path(job, stage, part)), durable=False) as mark:
        mark.writelines([*(f"{name}\n" for name in files), END])


def finished(job: Job, stage: str, part: int | None = None) -> bool:
    """Whether a part or a stage is finished. Raises InputError if a file of it, or of a part of it, is missing."""
    own = mark_path(job, stage, part)
    own.parent.mkdir(parents=True, exist_ok=True)  # shows that the stage has begun
    for path in [own] if part is not None else [own, *own.parent.iterdir()]:
        try:
            *names, end = path.read_text(encoding="utf-8").splitlines(keepends=True) or [""]
        except (FileNotFoundError, UnicodeDecodeError):
            return False
        if end != END:
            return False
        for name in (line.rstrip("\n") for line in names):
            if not any(os.path.exists(os.path.join(folder, name)) for folder in (job.work, job.weights) if folder):
                lost = f"{os.path.join(job.work, name)}, which a finished stage wrote, is missing"
                raise InputError(f"{lost}; {DAMAGED.format(work=job.work)}")
    return True


def finish_join(job: Job, output: Table, temporary: str) -> None:
    """Adds digests to the file names of a join's table, renames its directory to the final name, and marks the join."""
    folder, names = table_dir(job, output), []
    for path in sorted(Path(temporary).glob("*/*.parquet")):
        named = path.rename(path.with_suffix(f".{sha256_file(str(path))[:16]}.parquet"))
        names.append(f"{output.name}/{named.relative_to(temporary)}")
    shutil.rmtree(folder, ignore_errors=True)  # left by a killed join
    os.replace(temporary, folder)
    finish(job, f"join {output.name}", files=names)
