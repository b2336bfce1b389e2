"""Tables of an unfinished job are checked when it resumes; both engines compute the same from SQL."""

from pathlib import Path

import numpy as np
import pytest

from data_pipeline.engine import store, tables
from data_pipeline.engine.job import Job
from data_pipeline.engine.local import SerialEngine
from harp_jax.base.errors import InputError

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
    files = sorted(Path(run(tmp_path).work).rglob("*.parquet"))
    store.verified.clear()
    return files


def resume(tmp_path) -> int:
    """Rows of both tables, and of a query."""
    job = run(tmp_path)
    ((counted,),) = engine(tmp_path).query("SELECT COUNT(*) FROM word_counts")
    return store.read(job, tables.WORD_TOTALS).num_rows + store.read(job, tables.WORD_COUNTS, 0).num_rows + counted


def test_a_changed_or_missing_stage_file_is_named(tmp_path):
    files = begun(tmp_path)
    assert len(files) == 3 and resume(tmp_path) == 270
    for path in files:
        content = path.read_bytes()
        for place in np.linspace(0, len(content) - 1, 4).astype(int):
            store.verified.clear()
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(InputError, match=rf"{path.name} is damaged; remove .*\.work and run the command again"):
                resume(tmp_path)
        path.unlink()
        with pytest.raises(InputError, match=f"{path.name}, which a finished stage wrote, is missing"):
            resume(tmp_path)
        path.write_bytes(content)


def test_what_a_power_failure_emptied_is_made_again(tmp_path):
    begun(tmp_path)
    work, emptied = tmp_path / ".work", ("count.marks/all", "count.marks/0000001", "join word_totals.marks/all")
    for name in emptied:
        (work / name).write_text("")
    before = (work / "count.marks" / "0000000").stat().st_mtime_ns
    assert resume(tmp_path) == 270 and (work / "count.marks" / "0000000").stat().st_mtime_ns == before
    assert all((work / name).read_text().endswith("done\n") for name in emptied)


@pytest.mark.parametrize("name", ["a[b]c*?", "it's [", "ü é"])
def test_directories_with_odd_names(tmp_path, name):
    (tmp_path / name).mkdir()
    assert len(begun(tmp_path / name)) == 3 and resume(tmp_path / name) == 270


def test_an_interrupt_that_duckdb_reports_as_an_error_is_one(tmp_path):
    with pytest.raises(KeyboardInterrupt), engine(tmp_path).explained("join"):
        raise RuntimeError("Query interrupted")
