"""The Spark engine: the same maps as Spark tasks, the same joins in Spark SQL, over the same Parquet files.

For corpora that are too large for one machine. Output, work directory and sources must be on a file system that driver and
executors mount at the same path; every node needs Python with this package, and Java 17. A killed executor's parts run elsewhere; a
killed job resumes with either engine, since both use the tables and marks of `store.py`.
"""

import glob
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from data_pipeline.engine import store
from data_pipeline.engine.job import Job, MapFunction, P, Part
from data_pipeline.engine.local import mebibytes
from data_pipeline.engine.tables import Table, read_by
from harp_jax.base.errors import InputError, first_line, needs
from harp_jax.base.files import beside
from harp_jax.base.progress import progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
# Parts of a stream in flight per core: their payloads pass through the driver's memory.
IN_FLIGHT = 4
TYPES = {pa.int32(): "INT", pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "STRING", pa.binary(): "BINARY"}


def sql_type(kind: pa.DataType) -> str:
    """Spark's name for a column type of a table."""
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return "STRUCT<" + ", ".join(f"`{field.name}`: {sql_type(field.type)}" for field in kind) + ">"
    return TYPES[kind]


class SparkEngine:
    """Runs the stages of one job; see `job.Engine`. master: any Spark master URL; empty: this machine, `workers` cores.
    `memory_limit` is the JVM heap of the driver, where a local master runs everything; everything else follows Spark's
    configuration (spark-defaults.conf)."""

    def __init__(self, job: Job, workers: int, memory_limit: str, master: str = "") -> None:
        with needs("--engine=spark", "pyspark (and Java 17)", "spark"):
            import pyspark  # noqa: F401
        self.job, self.master = job, master or f"local[{workers},4]"
        self.memory = max(512, mebibytes(memory_limit))
        self._session: SparkSession | None = None

    @property
    def spark(self) -> "SparkSession":
        """The session, started by the first unfinished stage."""
        if self._session is not None:
            return self._session
        from pyspark.sql import SparkSession

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        search = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
        options: dict[str, bool | float | int | str | None] = {
            "spark.app.name": "harp_jax",
            "spark.master": self.master,
            "spark.driver.memory": f"{self.memory}m",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(search),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            # Split a destination with many links among tasks, even if the next join has the same key.
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.adaptive.skewJoin.enabled": "true",
            "spark.sql.adaptive.forceOptimizeSkewedJoin": "true",
            "spark.sql.parquet.compression.codec": "zstd",
        }
        # A cluster spills to its local disks; the work directory is on a shared one.
        if self.master.startswith("local"):
            spill = os.path.join(self.job.work, "spill")
            os.makedirs(spill, exist_ok=True)
            options["spark.local.dir"] = spill
        try:
            self._session = SparkSession.builder.config(map=options).getOrCreate()
        except Exception as error:
            raise InputError(
                f"Spark did not start with --master={self.master} ({first_line(error)}); "
                "it needs Java 17 (JAVA_HOME) and a reachable master"
            ) from error
        self._session.sparkContext.setLogLevel("ERROR")
        return self._session

    def map(self, stage: str, function: MapFunction[P], parts: Iterable[Part[P]], per_bucket: int = 1) -> None:
        """As `LocalEngine.map`: each part is a Spark task that reads and writes whole files."""
        if store.finished(self.job, stage):
            return
        job, folder = self.job, os.getcwd()

        def run(part: Part[P]) -> tuple[int, str]:
            os.chdir(folder)  # relative paths of the config are relative to the driver's directory
            os.environ["TOKENIZERS_PARALLELISM"], os.environ["CUDA_VISIBLE_DEVICES"] = "false", ""
            try:
                store.run_part(stage, function, job, *part, per_bucket)
            except InputError as error:
                # Bad input is not retried: Spark would retry an exception four times and print a traceback.
                return part[0], str(error)
            return part[0], ""

        total = len(parts) if isinstance(parts, list) else None
        stream = iter(parts)
        with progress(total=total, unit="parts", desc=stage) as bar:
            while batch := list(islice(stream, total or IN_FLIGHT * self.spark.sparkContext.defaultParallelism)):
                if todo := [part for part in batch if not store.finished(job, stage, part[0])]:
                    # Not mapInArrow: a part reads and writes whole files by name, not rows, and mapInArrow needs pandas.
                    tasks = self.spark.sparkContext.parallelize(todo, len(todo)).map(run)
                    for _, problem in sorted(self._try(tasks.collect, stage)):
                        if problem:
                            raise InputError(problem)
                bar.skip(len(batch) - len(todo))
                bar.update(len(todo))
        store.finish(job, stage)

    def join(self, output: Table, sql: str) -> None:
        """As `LocalEngine.join`. A bucket may have several files: rebalancing splits large ones among tasks."""
        target = store.table_dir(self.job, output)
        if store.finished(self.job, f"join {output.name}"):
            return
        # A new name, since executors of a killed job may still be writing to its directory.
        for left in glob.glob(glob.escape(target) + ".tmp*"):
            shutil.rmtree(left, ignore_errors=True)
        temporary = beside(target)
        self._views(sql)
        columns = [f"CAST(`{field.name}` AS {sql_type(field.type)}) AS `{field.name}`" for field in output.schema]
        frame = self.spark.sql(sql)
        if "bucket" in frame.columns:
            frame = frame.selectExpr(*columns, "CAST(bucket AS INT) AS bucket").hint("rebalance", "bucket")
            self._try(lambda: frame.write.partitionBy("bucket").parquet(_uri(temporary)), output.name)
        else:
            frame = frame.selectExpr(*columns)
            self._try(lambda: frame.write.parquet(_uri(f"{temporary}/bucket=0")), output.name)
        store.finish_join(self.job, output, temporary)

    def query(self, sql: str) -> list[tuple]:
        """The rows of a small result."""
        self._views(sql)
        return [tuple(row) for row in self._try(self.spark.sql(sql).collect, "query")]

    def _views(self, sql: str) -> None:
        # Enough join tasks so that each holds about one bucket; adaptive execution merges small ones.
        folders = glob.glob(os.path.join(glob.escape(self.job.work), "*", "bucket=*"))
        partitions = max(4, 2 * len({os.path.basename(folder) for folder in folders}))
        self.spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        for table in read_by(sql):
            folder = store.table_dir(self.job, table)
            schema = ", ".join(f"`{field.name}` {sql_type(field.type)}" for field in table.schema) + ", bucket INT"
            if store.checked_files(self.job, table):
                # Ignore temporary files of a killed job.
                reader = self.spark.read.schema(schema).option("pathGlobFilter", "*.parquet")
                frame = reader.option("basePath", _uri(folder)).parquet(_uri(folder))
            else:
                frame = self.spark.createDataFrame([], schema)
            frame.createOrReplaceTempView(table.name)

    def _try(self, action: Callable[[], T], stage: str) -> T:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return action()
        except (PySparkException, Py4JError) as error:
            if "Traceback (most recent call last)" in str(error):
                raise  # a bug in a map, not in the input
            raise InputError(
                f"Spark failed in stage {stage!r} ({first_line(error)}); see its log and run the command again: it resumes"
            ) from error

    def close(self) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None


def _uri(path: str) -> str:
    """A file:// URI, not the cluster's default file system: `store.read` must find the same files."""
    return "file://" + os.path.abspath(path)
