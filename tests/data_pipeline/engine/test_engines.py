"""Tables of an unfinished job are checked when it resumes; both engines compute the same from SQL."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from data_pipeline.engine import store, tables
from data_pipeline.engine.job import Job
from data_pipeline.engine.local import SerialEngine
from harp_jax.base.errors import InputError
from tests.support import corpus
from tests.support.commands import python

SQL = "SELECT word, CAST(SUM(n) AS BIGINT) AS n FROM word_counts GROUP BY word"


def count(job, number, payload):
    return {tables.WORD_COUNTS: [dict(word=number * 100 + i, n=i) for i in range(payload)]}


def engine(tmp_path) -> SerialEngine:
    return SerialEngine(Job({}, str(tmp_path / ".work")), 1, "1GB")


def run(tmp_path) -> Job:
    running = engine(tmp_path)
    running.map("count", count, [(0, 50), (1, 60), (2, 0)])
    running.join(tables.WORD_TOTALS, SQL)
    return running.job


def begun(tmp_path) -> list[Path]:
    """The files of a map and a join, as if another process had written them."""
    work = run(tmp_path).work
    store.verified.clear()
    return sorted(Path(work).rglob("*.parquet"))


def resume(tmp_path) -> int:
    job = run(tmp_path)
    return store.read(job, tables.WORD_TOTALS).num_rows + store.read(job, tables.WORD_COUNTS, 0).num_rows


def test_a_changed_or_missing_stage_file_is_named(tmp_path):
    files = begun(tmp_path)
    assert len(files) == 3 and resume(tmp_path) == 160
    for path in files:
        content = path.read_bytes()
        for place in np.linspace(0, len(content) - 1, 8).astype(int):
            store.verified.clear()
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(InputError, match=rf"{path.name} is damaged; remove .*\.work and run the command again"):
                resume(tmp_path)
                engine(tmp_path).query("SELECT COUNT(*) FROM word_counts")
        path.unlink()
        with pytest.raises(InputError, match=f"{path.name}, which a finished stage wrote, is missing"):
            resume(tmp_path)
        path.write_bytes(content)


def test_what_a_power_failure_emptied_is_made_again(tmp_path):
    begun(tmp_path)
    work = tmp_path / ".work"
    for name in ("count.marks/all", "count.marks/0000001", "join word_totals.marks/all"):
        (work / name).write_text("")
    before = (work / "count.marks" / "0000000").stat().st_mtime_ns
    assert resume(tmp_path) == 160 and (work / "count.marks" / "0000000").stat().st_mtime_ns == before
    assert all(
        (work / name).read_text().endswith("done\n") for name in ("count.marks/0000001", "join word_totals.marks/all")
    )


@pytest.mark.parametrize("name", ["a[b]c*?", "it's [", "ü é"])
def test_directories_with_odd_names(tmp_path, name):
    (tmp_path / name).mkdir()
    assert len(begun(tmp_path / name)) == 3 and resume(tmp_path / name) == 160
    assert engine(tmp_path / name).query("SELECT COUNT(*) FROM word_counts") == [(110,)]


def test_an_interrupt_that_duckdb_reports_as_an_error_is_one(tmp_path):
    with pytest.raises(KeyboardInterrupt), engine(tmp_path).explained("join"):
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="another"), engine(tmp_path).explained("join"):
        raise RuntimeError("another")


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
