"""The local engine: maps in a pool of spawned processes, or in this process for small input; joins in DuckDB. One machine."""

import contextlib
import glob
import multiprocessing
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from data_pipeline.engine import store
from data_pipeline.engine.job import Job, MapFunction, P, Part
from data_pipeline.engine.tables import Table, read_by
from harp_jax.base.errors import InputError, needs
from harp_jax.base.progress import progress, say
from harp_jax.base.steps import end_with_parent

if TYPE_CHECKING:
    import duckdb

# Memory that a DuckDB thread needs to write hundreds of buckets of a table at the same time.
JOIN_THREAD_MIB = 200
MEMORY_SHARE = 0.75  # the rest is for the workers
SMALL = 64 << 20  # bytes of input up to which starting worker processes does not pay


def _begin_worker() -> None:
    os.environ["TOKENIZERS_PARALLELISM"], os.environ["CUDA_VISIBLE_DEVICES"] = "false", ""
    # Ctrl-C reaches every process of the terminal; the parent ends this one, and prints one line.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A killed parent cannot end it, and the queue that it reads from never closes.
    threading.Thread(target=end_with_parent, daemon=True).start()


class LocalEngine:
    """Runs the stages of one job in `workers` processes; joins use `memory_limit`, then spill to the work directory."""

    def __init__(self, job: Job, workers: int, memory_limit: str) -> None:
        self.job, self.workers, self.memory_limit = job, workers, memory_limit
        if any("\ud800" <= character <= "\udfff" for character in job.work):
            raise InputError(f"{job.work}: DuckDB opens only files whose names are UTF-8; choose another --output")
        self._pool: ProcessPoolExecutor | None = None
        self._database: duckdb.DuckDBPyConnection | None = None

    def map(self, stage: str, function: MapFunction[P], parts: Iterable[Part[P]], per_bucket: int = 1) -> None:
        """Runs `function(job, number, payload) -> {table: rows}` for every part, in any order, in the workers. Part `number` writes
        to bucket `number // per_bucket`. `parts` may be a stream: only a few are in flight at a time."""
        if store.finished(self.job, stage):
            return
        self._close_database()  # the memory is for the workers
        running: set[Future[None]] = set()
        with progress(total=len(parts) if isinstance(parts, list) else None, unit="parts", desc=stage) as bar:

            def wait_until(at_most: int) -> None:
                nonlocal running
                while len(running) > at_most:
                    done, running = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                        bar.update()

            try:
                for part in parts:
                    if store.finished(self.job, stage, part[0]):
                        bar.skip()
                        continue
                    running.add(self.submit(partial(store.run_part, stage, function, self.job, *part, per_bucket)))
                    wait_until(2 * self.workers)
                wait_until(0)
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

    def submit(self, run: Callable[[], None]) -> Future[None]:
        """Calls `run` in a worker."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self.workers, mp_context=context, initializer=_begin_worker)
        # Blocks Ctrl-C in workers started here, too: one that is still importing would print a traceback.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(run)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def join(self, output: Table, sql: str) -> None:
        """Runs `sql` over the tables that it names and writes its rows as table `output`. A column `bucket` of the result is the
        bucket of each row; without it all rows are in bucket 0. The order of rows within a bucket is undefined: readers must
        sort."""
        if store.finished(self.job, f"join {output.name}"):
            return
        temporary = store.table_dir(self.job, output) + ".tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        columns, options = ", ".join(f'"{name}"' for name in output.schema.names), "FORMAT PARQUET, COMPRESSION zstd"
        with self.connected(sql, output.name) as connection:
            if "bucket" in connection.sql(sql).columns:
                os.makedirs(temporary)
                target, columns = temporary, f"{columns}, bucket"
                options += ", PARTITION_BY (bucket), OVERWRITE_OR_IGNORE"
            else:
                os.makedirs(f"{temporary}/bucket=0")
                target = f"{temporary}/bucket=0/part.parquet"
            quoted = target.replace("'", "''")
            connection.execute(f"COPY (SELECT {columns} FROM ({sql})) TO '{quoted}' ({options})")
        store.finish_join(self.job, output, temporary)

    def query(self, sql: str) -> list[tuple]:
        """The rows of a small result, in memory."""
        with self.connected(sql, "query") as connection:
            return connection.execute(sql).fetchall()

    @contextlib.contextmanager
    def connected(self, sql: str, stage: str) -> Iterator["duckdb.DuckDBPyConnection"]:
        """A connection with the tables of `sql` as views. Joins in a row share a database: opening one takes 30 ms. Raises
        InputError if DuckDB runs out of memory in the block, and KeyboardInterrupt for Ctrl-C."""
        with needs("joining tables", "duckdb", "data"):
            import duckdb

        if self._database is None:
            threads = max(1, min(self.workers, mebibytes(self.memory_limit) // JOIN_THREAD_MIB))
            spill = os.path.join(self.job.work, "spill")
            options: dict[str, Any] = dict(memory_limit=self.memory_limit, temp_directory=spill, threads=threads)
            self._database = duckdb.connect(config=options | {"preserve_insertion_order": "false"})
        try:
            with self._database.cursor() as connection:
                for table in read_by(sql):
                    if store.checked_files(self.job, table):
                        pattern = os.path.join(glob.escape(store.table_dir(self.job, table)), "*", "*.parquet")
                        connection.read_parquet(pattern, hive_partitioning=True).create_view(table.name)
                    else:
                        empty = table.schema.append(pa.field("bucket", pa.int32())).empty_table()
                        connection.register(table.name, empty)
                yield connection
        except RuntimeError as error:
            if "interrupted" in str(error):  # how DuckDB sometimes reports Ctrl-C
                raise KeyboardInterrupt from error
            raise
        except duckdb.OutOfMemoryException as error:
            raise InputError(
                f"config.memory_limit={self.memory_limit} is too small for the join {stage!r}; raise it and run the command "
                "again: it resumes"
            ) from error

    def _close_database(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def close(self) -> None:
        self._close_database()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


class SerialEngine(LocalEngine):
    """`LocalEngine` whose maps run in this process."""

    def submit(self, run: Callable[[], None]) -> Future[None]:
        done: Future[None] = Future()
        run()
        done.set_result(None)
        return done


def mebibytes(limit: str) -> int:
    """`config.memory_limit` ("4GB", "500 MiB") in MiB."""
    size = re.fullmatch(r"\s*([\d.]+)\s*([KMGT])(i?)B?\s*", limit, re.IGNORECASE)
    if not size:
        raise InputError(f"config.memory_limit {limit!r} is not a size; write a number with a unit, as 4GB or 500MiB")
    power = "KMGT".index(size[2].upper()) + 1
    return int(float(size[1]) * (1024 if size[3] else 1000) ** power) >> 20


def fitting(limit: str) -> str:
    """`config.memory_limit`, lowered to MEMORY_SHARE of DuckDB's default: 80 % of the memory of the machine or container."""
    with needs("joining tables", "duckdb", "data"):
        import duckdb

    ((default,),) = duckdb.execute("SELECT current_setting('memory_limit')").fetchall()
    most = f"{int(MEMORY_SHARE * mebibytes(default))}MiB"
    if mebibytes(limit) <= mebibytes(most):
        return limit
    say(
        f"memory_limit={limit}, but this machine or container has little memory: joins use {most} and spill to the disk"
    )
    return most
