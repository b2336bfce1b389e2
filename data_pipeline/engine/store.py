"""Tables on disk as Parquet files, and the marks of what is finished.

A part of a map is marked when all its outputs have their final names; the directory of a join's table is renamed to its final
name when it is complete. All processes must share the file system.
"""

import glob
import os
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from data_pipeline.engine.job import Job, MapFunction, Part
from data_pipeline.engine.tables import SCHEMAS
from harp_jax.files import replacing


def read(job: Job, name: str, bucket: int | None = None, columns: list[str] | None = None) -> pa.Table:
    """A bucket of a table (default: all of it), files in the order of their names; an empty table if there are none."""
    import pyarrow.parquet as pq

    folder = "*" if bucket is None else f"bucket={bucket}"
    paths = sorted(glob.glob(os.path.join(glob.escape(place(job, name)), folder, "*.parquet")))
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


def write(job: Job, name: str, bucket: int, stage: str, part: int, rows: pa.Table) -> None:
    """Writes a file of a table, complete or not at all; several stages may write to one table. Writes no file for zero rows."""
    import pyarrow.parquet as pq

    if rows.num_rows:
        path = os.path.join(place(job, name), f"bucket={bucket}", f"{stage}-{part:07d}.parquet")
        with replacing(path, "wb") as file:
            pq.write_table(rows.cast(SCHEMAS[name]), file, compression="zstd", row_group_size=16384)


def place(job: Job, name: str) -> str:
    """The directory of a table."""
    return job.get("elsewhere", {}).get(name) or os.path.join(job["work"], name)


def run_part(stage: str, function: MapFunction, job: Job, number: int, bucket: int, payload: Any, mark: str) -> int:
    """Runs a part, writes its tables and its mark; returns the number of rows."""
    outputs = function(job, number, payload)
    for name, rows in outputs.items():
        write(job, name, bucket, stage, number, rows)
    with replacing(mark) as file:
        file.write("done\n")
    return sum(rows.num_rows for rows in outputs.values())


def mark_path(job: Job, stage: str, part: int | str) -> str:
    """The file that marks a part as finished; part "all": the stage."""
    name = part if isinstance(part, str) else f"{part:07d}"
    return os.path.join(job["work"], f"{stage}.marks", name)


def unfinished(job: Job, stage: str, parts: Iterable[Part]) -> Iterator[Part]:
    """The parts that have no mark yet."""
    return (part for part in parts if not os.path.exists(mark_path(job, stage, part[0])))


def finish(job: Job, stage: str) -> None:
    """Marks a stage as done."""
    with replacing(mark_path(job, stage, "all")) as file:
        file.write("done\n")


def finished(job: Job, stage: str) -> bool:
    return os.path.exists(mark_path(job, stage, "all"))
