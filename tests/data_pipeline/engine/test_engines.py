"""Tables of an unfinished job are checked when it resumes; both engines compute the same from SQL."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from data_pipeline import pipeline
from data_pipeline.engine import store
from data_pipeline.engine.local import SerialEngine, mebibytes
from data_pipeline.engine.spark import sql_type
from data_pipeline.engine.stage_tables import SCHEMAS, table
from data_pipeline.links import link_graph, web_sites
from data_pipeline.output import manifest
from data_pipeline.tasks import acm, adp, prop, qdm, wlp
from harp_jax.base.errors import InputError
from tests.support import corpus
from tests.support.commands import python

SQL = "SELECT word, CAST(SUM(n) AS BIGINT) AS n FROM word_counts GROUP BY word"


def count(job, number, payload):
    return {"word_counts": table("word_counts", [dict(word=number * 100 + i, n=i) for i in range(payload)])}


def engine(tmp_path) -> SerialEngine:
    return SerialEngine({"config": {}, "work": str(tmp_path / ".work"), "per_bucket": 1}, 1, "1GB")


def run(tmp_path) -> dict:
    running = engine(tmp_path)
    running.map("count", count, [(0, 50), (1, 60), (2, 0)])
    running.join("word_totals", SQL, ["word_counts"])
    return running.job


def begun(tmp_path) -> list[Path]:
    """The files of a map and a join, as if another process had written them."""
    work = run(tmp_path)["work"]
    store._verified.clear()
    return sorted(Path(work).rglob("*.parquet"))


def resume(tmp_path) -> int:
    job = run(tmp_path)
    return store.read(job, "word_totals").num_rows + store.read(job, "word_counts", 0).num_rows


def test_a_changed_or_missing_stage_file_is_named(tmp_path):
    files = begun(tmp_path)
    assert len(files) == 3 and resume(tmp_path) == 160
    for path in files:
        content = path.read_bytes()
        for place in np.linspace(0, len(content) - 1, 8).astype(int):
            store._verified.clear()
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(InputError, match=rf"{path.name} is damaged; remove .*\.work and run the command again"):
                resume(tmp_path)
                engine(tmp_path).query("SELECT COUNT(*) FROM word_counts", ["word_counts"])
        path.unlink()
        with pytest.raises(InputError, match=f"{path.name}, which a finished stage wrote, is missing"):
            resume(tmp_path)
        path.write_bytes(content)


def test_what_a_power_failure_emptied_is_made_again(tmp_path):
    begun(tmp_path)
    work = tmp_path / ".work"
    for name in ("count.marks/all", "count.marks/0000001", "word_totals/files"):
        (work / name).write_text("")
    before = (work / "count.marks" / "0000000").stat().st_mtime_ns
    assert resume(tmp_path) == 160 and (work / "count.marks" / "0000000").stat().st_mtime_ns == before
    assert all((work / name).read_text().endswith("done\n") for name in ("count.marks/0000001", "word_totals/files"))


def test_a_part_that_runs_again_replaces_its_file(tmp_path):
    job = engine(tmp_path).job
    rows = count(job, 0, 3)["word_counts"]
    for kept in (3, 2, 0):
        store.write(job, "word_counts", 0, "count", 0, rows.slice(0, kept))
        assert store.read(job, "word_counts").num_rows == kept


@pytest.mark.parametrize("name", ["a[b]c", "wild*", "what?", "it's", "[", "ü é"])
def test_directories_with_odd_names(tmp_path, name):
    (tmp_path / name).mkdir()
    assert len(begun(tmp_path / name)) == 3 and resume(tmp_path / name) == 160
    assert engine(tmp_path / name).query("SELECT COUNT(*) FROM word_counts", ["word_counts"]) == [(110,)]


def test_an_interrupt_that_duckdb_reports_as_an_error_is_one(tmp_path):
    with pytest.raises(KeyboardInterrupt), engine(tmp_path)._memory("join"):
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="another"), engine(tmp_path)._memory("join"):
        raise RuntimeError("another")


FORBIDDEN = re.compile(
    r"\b(hash|md5|lower|upper|initcap|list|array_agg|collect_list|string_agg|float|double|real|avg|random|rand|rank|first|"
    r"last|any_value|arg_min|arg_max|strftime|date_trunc)\s*\(|/|\bLIMIT\b|\bILIKE\b|\bSIMILAR\b",
    re.IGNORECASE,
)


def test_sql_keeps_to_what_both_engines_compute_alike():
    found: list[str] = []
    for module in (web_sites, link_graph, manifest, pipeline, prop, acm, adp, qdm, wlp):
        for name, value in vars(module).items():
            if name.endswith("_SQL"):
                found += value.values() if isinstance(value, dict) else [value]
    assert len(found) >= 12
    for sql in found:
        assert not FORBIDDEN.search(sql), sql
        assert all("ORDER BY" in order for order in re.findall(r"row_number\(\) OVER \(([^)]*)\)", sql)), sql


def test_types_and_sizes():
    assert all(sql_type(field.type) for schema in SCHEMAS.values() for field in schema)
    assert sql_type(pa.list_(pa.struct([("end", pa.int32())]))) == "ARRAY<STRUCT<`end`: INT>>"
    assert (mebibytes("4GB"), mebibytes("2 GiB"), mebibytes("600mb")) == (3814, 2048, 572)


SPARK = "Java 17" if importlib.util.find_spec("pyspark") else "pip install '.[spark]'"


@pytest.mark.parametrize("flag, message", [("--engine=spark", SPARK), ("--master=local[2]", "--engine=spark")])
def test_bad_usage_is_one_line_and_status_2(tmp_path, flag, message):
    folder = corpus.write(tmp_path / "corpus", files=1)
    arguments = ["--config=configs/data/demo.py", f"--config.source.paths=('{folder}/pages-0.jsonl',)"]
    arguments += ["--config.source.format=linked_jsonl", f"--config.tokenizer={folder}/vocab.txt"]
    words = ["-m", "data_pipeline.main", *arguments, f"--output={tmp_path / 'out'}", flag]
    error = python(*words, status=2, JAVA_HOME=str(tmp_path / "none")).stderr
    lines = [line for line in error.splitlines() if "error: " in line]
    assert len(lines) == 1 and message in lines[0] and "Traceback" not in error
    assert not (tmp_path / "out" / "manifest.json").exists()
