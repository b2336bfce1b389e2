"""The tables of a half-done job: a changed, truncated or missing file is named when the job resumes, never read."""

from pathlib import Path

import numpy as np
import pytest

from data_pipeline.engine import store
from data_pipeline.engine.local import SerialEngine
from data_pipeline.engine.stage_tables import table
from harp_jax.base.errors import InputError

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
    """The files of a map and of a join, as another process left them."""
    work = run(tmp_path)["work"]
    store._verified.clear()
    return sorted(Path(work).rglob("*.parquet"))


def resume(tmp_path) -> int:
    job = run(tmp_path)
    return store.read(job, "word_totals").num_rows + store.read(job, "word_counts", 0).num_rows


def test_every_changed_byte_of_a_stage_file_is_named(tmp_path):
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
        path.write_bytes(content)


def test_a_missing_stage_file_is_named(tmp_path):
    for path in begun(tmp_path):
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(InputError, match=f"{path.name} is missing, which a finished stage wrote"):
            resume(tmp_path)
        (tmp_path / "elsewhere").rename(path)
    # Without the mark of the whole stage the parts' marks count.
    (tmp_path / ".work" / "count.marks" / "all").unlink()
    begun(tmp_path)[0].unlink()
    with pytest.raises(InputError, match="is missing, which a finished stage wrote"):
        resume(tmp_path)


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
    for some in (rows, rows.slice(1), rows.slice(2)):
        store.write(job, "word_counts", 0, "count", 0, some)
        assert store.read(job, "word_counts").num_rows == some.num_rows
    store.write(job, "word_counts", 0, "count", 0, rows.slice(3))
    assert not list((tmp_path / ".work").rglob("*.parquet"))


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
