"""The local engine: maps in a pool of spawned processes, or in this process for small input; joins in DuckDB. One machine."""

import contextlib
import glob
import multiprocessing
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from data_pipeline.engine import store
from data_pipeline.engine.job import Job, MapFunction, P, Part
from data_pipeline.engine.tables import Table
from harp_jax.base.errors import InputError, needs
from harp_jax.base.progress import progress, say

if TYPE_CHECKING:
    import duckdb

# Memory that a DuckDB thread needs to write hundreds of buckets of a table at the same time.
JOIN_THREAD_MIB = 200
MEMORY_SHARE = 0.75  # the rest is for the workers
SMALL = 64 << 20  # bytes of input up to which starting worker processes does not pay


def _follow_parent() -> None:
    """Ends this worker when its parent ends: a killed parent cannot stop it, and the queue it reads from never closes."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    # Ctrl-C reaches every process of the terminal; the parent ends this one, and prints one line.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Blocks Ctrl-C here and in processes started in this block: one that is still importing would print a traceback."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class LocalEngine:
    """Runs the stages of one job in `workers` processes; joins use `memory_limit`, then spill to the work directory."""

    def __init__(self, job: Job, workers: int, memory_limit: str) -> None:
        self.job, self.workers, self.memory_limit = job, workers, memory_limit
        if any("\ud800" <= character <= "\udfff" for character in job.work):
            raise InputError(f"{job.work}: DuckDB opens only files whose names are UTF-8; choose another --output")
        self._pool: ProcessPoolExecutor | None = None

    def map(self, stage: str, function: MapFunction[P], parts: Iterable[Part[P]], per_bucket: int = 1) -> None:
        """Runs `function(job, number, payload) -> {table: rows}` for every part, in any order, in the workers.

        Part `number` writes to bucket `number // per_bucket`. `parts` may be a stream: only a few are in flight at a time.
        """
        if store.finished(self.job, stage):
            return
        os.makedirs(os.path.dirname(store.mark_path(self.job, stage, "all")), exist_ok=True)
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
                    mark = store.mark_path(self.job, stage, number)
                    if store.marked(self.job, mark):
                        bar.skip()
                        continue
                    run = partial(
                        store.run_part, stage, function, self.job, number, number // per_bucket, payload, mark
                    )
                    with _uninterrupted():
                        running.add(self.pool.submit(run))
                    collect(2 * self.workers)
                collect(0)
            except BrokenProcessPool as error:
                raise InputError(
                    f"a worker process of stage {stage!r} was killed (out of memory?); lower config.workers and run the "
                    "command again: it resumes"
                ) from error
            except KeyboardInterrupt:
                # Finished parts are marked; waiting for the running ones would delay the exit.
                for worker in multiprocessing.active_children():
                    worker.terminate()
                raise
            finally:
                for future in running:
                    future.cancel()
        store.finish(self.job, stage)

    @property
    def pool(self) -> Executor:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=context, initializer=_follow_parent)
        return self._pool

    def join(self, output: Table, sql: str, inputs: Iterable[Table], partitioned: bool = False) -> None:
        """Runs `sql` over the named tables and writes its rows as table `output`.

        With `partitioned` the result has a column `bucket`, the bucket of each row; otherwise all rows are in bucket 0.
        The order of rows within a bucket is undefined: readers must sort.
        """
        folder = store.table_dir(self.job, output)
        if store.complete(self.job, output):
            return
        temporary = folder + ".tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        os.makedirs(f"{temporary}/bucket=0" if not partitioned else temporary)
        columns = ", ".join(f'"{name}"' for name in output.schema.names)
        target, options = f"{temporary}/bucket=0/part.parquet", "FORMAT PARQUET, COMPRESSION zstd"
        if partitioned:
            target, columns = temporary, columns + ", bucket"
            options += ", PARTITION_BY (bucket), OVERWRITE_OR_IGNORE"
        with self._connection(inputs) as connection, self.explained(output.name):
            connection.execute(f"COPY (SELECT {columns} FROM ({sql})) TO '{_quoted(target)}' ({options})")
        store.finish_join(temporary, folder)

    def query(self, sql: str, inputs: Iterable[Table]) -> list[tuple]:
        """The rows of a small result, in memory."""
        with self._connection(inputs) as connection, self.explained("query"):
            return connection.execute(sql).fetchall()

    @contextlib.contextmanager
    def explained(self, stage: str) -> Iterator[None]:
        """Raises InputError if DuckDB runs out of memory in the block, and KeyboardInterrupt for Ctrl-C."""
        import duckdb

        try:
            yield
        except RuntimeError as error:
            if "interrupted" in str(error):  # how DuckDB sometimes reports Ctrl-C
                raise KeyboardInterrupt from error
            raise
        except duckdb.OutOfMemoryException as error:
            raise InputError(
                f"config.memory_limit={self.memory_limit} is too small for the join {stage!r}; raise it and run the command "
                "again: it resumes"
            ) from error

    def _connection(self, inputs: Iterable[Table]) -> "duckdb.DuckDBPyConnection":
        with needs("joining tables", "duckdb", "data"):
            import duckdb

        connection = duckdb.connect()
        connection.execute(f"SET memory_limit='{_quoted(self.memory_limit)}'")
        connection.execute(f"SET temp_directory='{_quoted(os.path.join(self.job.work, 'spill'))}'")
        threads = max(1, min(self.workers, mebibytes(self.memory_limit) // JOIN_THREAD_MIB))
        connection.execute(f"SET threads={threads}")
        connection.execute("SET preserve_insertion_order=false")
        for table in inputs:
            pattern = os.path.join(glob.escape(store.table_dir(self.job, table)), "*", "*.parquet")
            files = store.table_files(self.job, table)
            with ThreadPoolExecutor(self.workers) as hashing:
                list(hashing.map(lambda path: store.verify(self.job, path), files))
            if files:
                source = (
                    f"read_parquet('{_quoted(pattern)}', hive_partitioning=true, hive_types={{'bucket': 'INTEGER'}})"
                )
                connection.execute(f"CREATE VIEW {table.name} AS SELECT * FROM {source}")
            else:
                schema = table.schema.append(pa.field("bucket", pa.int32()))
                connection.register(table.name, schema.empty_table())
        return connection

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


class SerialEngine(LocalEngine):
    """`LocalEngine` whose maps run in this process."""

    @property
    def pool(self) -> Executor:
        return _Immediate()


class _Immediate(Executor):
    """Runs each call immediately, in the caller."""

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


def mebibytes(limit: str) -> int:
    """`config.memory_limit` ("4GB", "500 MiB") in MiB."""
    found = re.fullmatch(r"\s*([\d.]+)\s*([KMGT])(i?)B?\s*", limit, re.IGNORECASE)
    if not found:
        raise InputError(
            f"config.memory_limit {limit!r} is not a size; write a number with a unit, such as 4GB or 500MiB"
        )
    power = "KMGT".index(found[2].upper()) + 1
    return int(float(found[1]) * (1024 if found[3] else 1000) ** power) >> 20


def fitting(limit: str, default: str = "") -> str:
    """`config.memory_limit`, lowered to MEMORY_SHARE of DuckDB's `default`: 80 % of the memory of the machine or container."""
    with needs("joining tables", "duckdb", "data"):
        import duckdb

    default = default or duckdb.sql("SELECT current_setting('memory_limit')").fetchall()[0][0]
    most = int(MEMORY_SHARE * mebibytes(default))
    if mebibytes(limit) <= most:
        return limit
    say(
        f"memory_limit={limit}, but this machine or container has little memory: joins use {most} MiB and spill to the disk"
    )
    return f"{most}MiB"


def _quoted(text: str) -> str:
    return text.replace("'", "''")
