"""Tables of an unfinished job are checked when it resumes."""

from pathlib import Path

import pytest

from data_pipeline.engine import store, tables
from data_pipeline.engine.job import Job
from data_pipeline.engine.local import SerialEngine
from harp_jax.base.errors import InputError

SQL = "SELECT word, CAST(SUM(n) AS BIGINT) AS n FROM word_counts GROUP BY word"


def count(job, number, payload):
    return {tables.WORD_COUNTS: [dict(word=number * 100 + i, n=i) for i in range(payload)]}


def run(folder: Path) -> SerialEngine:
    running = SerialEngine(Job({}, str(folder / ".work")), 1, "1GB")
    running.map("count", count, [(0, 50), (1, 60), (2, 0)])
    running.join(tables.WORD_TOTALS, SQL)
    return running


def begun(folder: Path) -> list[Path]:
    """The files of a map and a join."""
    folder.mkdir(exist_ok=True)
    return sorted(Path(run(folder).job.work).rglob("*.parquet"))


def resume(folder: Path) -> int:
    """Rows of both tables, and of a query, in another process."""
    store.verified.clear()
    running = run(folder)
    ((counted,),) = running.query("SELECT COUNT(*) FROM word_counts")
    read = store.read(running.job, tables.WORD_TOTALS), store.read(running.job, tables.WORD_COUNTS, 0)
    return counted + sum(table.num_rows for table in read)


def test_a_changed_or_missing_stage_file_is_named(tmp_path):
    files = begun(tmp_path)
    assert len(files) == 3 and resume(tmp_path) == 270
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        with pytest.raises(InputError, match=rf"{path.name} is damaged; remove .*\.work and run the command again"):
            resume(tmp_path)
        path.unlink()
        with pytest.raises(InputError, match=f"{path.name}, which a finished stage wrote, is missing"):
            resume(tmp_path)
        path.write_bytes(content)


def test_what_a_power_failure_emptied_is_made_again_in_directories_with_odd_names(tmp_path):
    folder = tmp_path / "it's a[b]c*? é"
    begun(folder)
    work, emptied = folder / ".work", ("count.marks/all", "count.marks/0000001", "join word_totals.marks/all")
    for name in emptied:
        (work / name).write_text("")
    before = (work / "count.marks" / "0000000").stat().st_mtime_ns
    assert resume(folder) == 270 and (work / "count.marks" / "0000000").stat().st_mtime_ns == before
    assert all((work / name).read_text().endswith("done\n") for name in emptied)


def test_an_interrupt_that_duckdb_reports_as_an_error_is_one(tmp_path):
    with pytest.raises(KeyboardInterrupt), run(tmp_path).connected("", "join"):
        raise RuntimeError("Query interrupted")
