"""Tables as Parquet files, and the local engine: maps in a pool of spawned processes, joins in DuckDB.

A stage that is finished is not repeated: a part of a map leaves a mark when all its outputs have their final names, a join's
directory gets its name when it is complete. Rerunning a killed job therefore continues it, and since every part is a pure
function of its input, ends with the same bytes. One machine; the tables lie on a file system that its processes share.
"""

import contextlib
import glob
import multiprocessing
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

import pyarrow as pa

from data_pipeline.engine.tables import SCHEMAS
from harp_jax.errors import InputError
from harp_jax.files import replacing
from harp_jax.progress import progress

Job = dict[str, Any]  # plain values that every part of a map receives
# Of the memory of the joins: what a thread needs to write a table in hundreds of buckets at once.
JOIN_THREAD_MIB = 200
Part = tuple[int, Any]  # number of the part, which is the bucket of its output, and its payload
MapFunction = Callable[[Job, int, Any], dict[str, pa.Table]]


class Engine(Protocol):
    """What runs the stages of one job; `job["work"]` is the directory of its tables. Local below, or `spark_engine.py`."""

    job: Job

    def map(self, stage: str, function: MapFunction, parts: Iterable[Part], per_bucket: int = 1) -> None: ...

    def join(self, output: str, sql: str, inputs: Iterable[str], partitioned: bool = False) -> None: ...

    def query(self, sql: str, inputs: Iterable[str]) -> list[tuple]: ...

    def close(self) -> None: ...


def read(job: Job, name: str, bucket: int | None = None, columns: list[str] | None = None) -> pa.Table:
    """A bucket of a table (or all of it), files in the order of their names; no rows where there are no files."""
    import pyarrow.parquet as pq

    folder = "*" if bucket is None else f"bucket={bucket}"
    paths = sorted(glob.glob(os.path.join(glob.escape(place(job, name)), folder, "*.parquet")))
    # Files are read one by one: as a data set, their folders would become a column.
    tables = [pq.ParquetFile(path).read(columns) for path in paths]
    return pa.concat_tables(tables) if tables else SCHEMAS[name].empty_table().select(columns or SCHEMAS[name].names)


def buckets(job: Job, name: str) -> list[int]:
    """The numbers of a table's buckets."""
    folders = glob.glob(os.path.join(glob.escape(place(job, name)), "bucket=*"))
    return sorted(int(folder.rsplit("=", 1)[1]) for folder in folders)


def write(job: Job, name: str, bucket: int, stage: str, part: int, rows: pa.Table) -> None:
    """Writes a file of a table, complete or not at all; several stages may write to one table. No rows, no file."""
    import pyarrow.parquet as pq

    if rows.num_rows:
        path = os.path.join(place(job, name), f"bucket={bucket}", f"{stage}-{part:07d}.parquet")
        with replacing(path, "wb") as file:
            pq.write_table(rows.cast(SCHEMAS[name]), file, compression="zstd", row_group_size=16384)


def place(job: Job, name: str) -> str:
    """The directory of a table."""
    return job.get("elsewhere", {}).get(name) or os.path.join(job["work"], name)


def run_part(stage: str, function: MapFunction, job: Job, number: int, bucket: int, payload: Any, mark: str) -> int:
    """Runs a part and leaves its mark; the number of rows it wrote."""
    outputs = function(job, number, payload)
    for name, rows in outputs.items():
        write(job, name, bucket, stage, number, rows)
    with replacing(mark) as file:
        file.write("done\n")
    return sum(rows.num_rows for rows in outputs.values())


def mark_path(job: Job, stage: str, part: int | str) -> str:
    """The file whose presence says that a part is done; part "all": the stage."""
    name = part if isinstance(part, str) else f"{part:07d}"
    return os.path.join(job["work"], f"{stage}.marks", name)


def unfinished(job: Job, stage: str, parts: Iterable[Part]) -> Iterator[Part]:
    """Those of the parts that have no mark yet."""
    return (part for part in parts if not os.path.exists(mark_path(job, stage, part[0])))


def finish(job: Job, stage: str) -> None:
    """Marks a stage as done."""
    with replacing(mark_path(job, stage, "all")) as file:
        file.write("done\n")


def finished(job: Job, stage: str) -> bool:
    return os.path.exists(mark_path(job, stage, "all"))


def _follow_parent() -> None:
    """Ends this worker with its parent: a killed parent cannot end it, and the queue it reads from never closes."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: Any) -> None:
    parent.join()
    os._exit(1)


class LocalEngine:
    """Runs the stages of one job in `workers` processes; joins take `memory_limit` and then spill to `temp_directory`."""

    def __init__(self, job: Job, workers: int, memory_limit: str, temp_directory: str = "") -> None:
        self.job, self.workers, self.memory_limit = job, workers, memory_limit
        self.temp_directory = temp_directory or os.path.join(job["work"], "spill")
        self._pool: ProcessPoolExecutor | None = None

    def map(self, stage: str, function: MapFunction, parts: Iterable[Part], per_bucket: int = 1) -> None:
        """Runs `function(job, number, payload) -> {table: rows}` for every part, in any order, in the workers.

        Part `number` writes to bucket `number // per_bucket`. `parts` may be a stream: few are in flight at once.
        """
        if finished(self.job, stage):
            return
        os.makedirs(os.path.dirname(mark_path(self.job, stage, "all")), exist_ok=True)
        running: set[Future[int]] = set()
        with progress(total=len(parts) if isinstance(parts, list) else None, unit="parts", desc=stage) as bar:
            rows = 0

            def collect(at_most: int) -> None:
                nonlocal running, rows
                while len(running) > at_most:
                    finished, running = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                    for future in finished:
                        rows += future.result()
                        bar.set_postfix_str(f"{rows:,} rows", refresh=False)
                        bar.update()

            try:
                for number, payload in parts:
                    mark = mark_path(self.job, stage, number)
                    if os.path.exists(mark):
                        bar.update()
                        continue
                    job = (stage, function, self.job, number, number // per_bucket, payload, mark)
                    running.add(self.pool.submit(run_part, *job))
                    collect(2 * self.workers)
                collect(0)
            except BrokenProcessPool as error:
                raise InputError(
                    f"a worker process of stage {stage!r} was killed (out of memory?); lower config.workers and run the "
                    "command again: it continues"
                ) from error
            finally:
                for future in running:
                    future.cancel()
        finish(self.job, stage)

    @property
    def pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=context, initializer=_follow_parent)
        return self._pool

    def join(self, output: str, sql: str, inputs: Iterable[str], partitioned: bool = False) -> None:
        """Runs `sql` over the named tables and writes its rows as table `output`.

        With `partitioned` the column `bucket` of the result says where a row goes; otherwise everything is bucket 0.
        The order of the rows within a bucket is not defined: who reads them sorts them.
        """
        folder = place(self.job, output)
        if os.path.isdir(folder):
            return
        temporary = folder + ".tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        os.makedirs(temporary)
        options = "FORMAT PARQUET, COMPRESSION zstd"
        columns = ", ".join(f'"{name}"' for name in SCHEMAS[output].names)
        target = f"{temporary}/bucket=0/part.parquet"
        if partitioned:
            target, options, columns = (
                temporary,
                options + ", PARTITION_BY (bucket), OVERWRITE_OR_IGNORE",
                columns + ", bucket",
            )
        else:
            os.makedirs(os.path.dirname(target))
        with self._connection(inputs) as connection, self._memory(output):
            connection.execute(f"COPY (SELECT {columns} FROM ({sql})) TO '{_quoted(target)}' ({options})")
        os.replace(temporary, folder)

    def query(self, sql: str, inputs: Iterable[str]) -> list[tuple]:
        """The rows of a small result."""
        with self._connection(inputs) as connection, self._memory("query"):
            return connection.execute(sql).fetchall()

    @contextlib.contextmanager
    def _memory(self, stage: str) -> Iterator[None]:
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException as error:
            raise InputError(
                f"config.memory_limit={self.memory_limit} is too little for the join {stage!r}; raise it and run the command "
                "again: it continues"
            ) from error

    def _connection(self, inputs: Iterable[str]) -> Any:
        import duckdb

        connection = duckdb.connect()
        connection.execute(f"SET memory_limit='{_quoted(self.memory_limit)}'")
        connection.execute(f"SET temp_directory='{_quoted(self.temp_directory)}'")
        threads = max(1, min(self.workers, mebibytes(self.memory_limit) // JOIN_THREAD_MIB))
        connection.execute(f"SET threads={threads}")
        connection.execute("SET preserve_insertion_order=false")
        for name in inputs:
            pattern = os.path.join(place(self.job, name), "*", "*.parquet")
            if glob.glob(os.path.join(glob.escape(place(self.job, name)), "*", "*.parquet")):
                source = (
                    f"read_parquet('{_quoted(pattern)}', hive_partitioning=true, hive_types={{'bucket': 'INTEGER'}})"
                )
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {source}")
            else:
                schema = SCHEMAS[name].append(pa.field("bucket", pa.int32()))
                connection.register(name, schema.empty_table())
        return connection

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def mebibytes(limit: str) -> int:
    """`config.memory_limit` ("4GB", "500 MiB") in MiB."""
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMGT])(i?)B?\s*", limit, re.IGNORECASE)
    if not found:
        raise InputError(f"config.memory_limit {limit!r} is no size such as 4GB; mend it")
    power = "KMGT".index(found[2].upper()) + 1
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power) >> 20


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def bucket_parts(job: Job, name: str) -> list[Part]:
    """One part for each bucket of a table."""
    return [(bucket, None) for bucket in buckets(job, name)]
