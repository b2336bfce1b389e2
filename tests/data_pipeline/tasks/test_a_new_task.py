"""A new task is one file and one name in a table: pairs, statistics, trivial predictors, and training follow."""

from data_pipeline.commands.inspect import as_text, report
from data_pipeline.engine.local import SerialEngine
from data_pipeline.pipeline import generate
from data_pipeline.tasks.diagnostics import NAMES
from data_pipeline.tasks.table import TASKS
from harp_jax import config as configs
from harp_jax.input.records import read_manifest
from harp_jax.training.train import train
from tests.support import corpus, toy_task


def test_a_task_of_one_file_is_made_and_trained_on(tmp_path, monkeypatch):
    monkeypatch.setitem(TASKS, "toy", toy_task.TASK)
    folder = corpus.write(tmp_path / "corpus")
    generate(corpus.config(folder, tasks=("toy",), workers=1), str(tmp_path / "out"), SerialEngine)
    manifest = read_manifest(str(tmp_path / "out"))
    made = manifest["tasks"]["toy"]
    assert made["pairs"] > 50 and set(made["predictors"]) == set(NAMES) and manifest["config"]["toy_apart"] is True
    assert made["predictors"]["query_only"] == 0.5  # both sides have the sentence
    dropped = manifest["losses"].get("toy-one-page", {"count": 0})["count"]
    generate(corpus.config(folder, tasks=("toy",), workers=1, toy_apart=False), str(tmp_path / "all"), SerialEngine)
    losses = read_manifest(str(tmp_path / "all"))["losses"]
    assert "toy-one-page" not in losses and losses.get("toy-sides-equal", {"count": 0})["count"] >= dropped
    assert "toy " in as_text(report(str(tmp_path / "out"), 1))

    c = configs.pretrain()
    c.data, c.tasks, c.tokenizer = (str(tmp_path / "out"),), ("toy",), str(folder / "vocab.txt")
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = 1, 16, 2, 128
    c.row_length, c.window, c.lanes, c.batch_pairs, c.steps, c.log_every, c.dtype = 128, 16, 2, 8, 2, 1, "float32"
    result = train(c, str(tmp_path / "run"))
    assert result is None or result
    logged = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert '"toy' in logged or "/toy" in logged
