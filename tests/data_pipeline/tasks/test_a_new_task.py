"""A new task is one file and one name in a table: pairs, statistics, trivial predictors, and training then work.

The toy task: a sentence matches the page of its first link, not the page of its last one.
"""

from functools import partial

from data_pipeline.engine import tables
from data_pipeline.engine.job import LINKS, SENTENCES
from data_pipeline.engine.local import SerialEngine
from data_pipeline.output.inspection import as_text, inspect
from data_pipeline.pipeline import generate
from data_pipeline.tasks.diagnostics import NAMES
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.table import TASKS
from data_pipeline.tasks.task import Field, PairTokens, Request, Task
from harp_jax import config as configs
from harp_jax.training.train import train
from tests.support import corpus


def requests(sentence, setup):
    yield sentence.key, partial(request, sentence, setup.c["toy_apart"])


def request(sentence, apart, rng):
    first, last = sentence.anchors[0].destination, sentence.anchors[-1].destination
    if apart and first == last:
        raise NoPair("one-page")
    return [Request("toy", sentence.key, sentence.page, first, sentence.tokens, negative=last)]


def sides(request, passages, setup, rng):
    return PairTokens(request.query, passages.positive, (), passages.negative)


def test_a_task_of_one_file_is_made_and_trained_on(tmp_path, monkeypatch):
    fields = {"toy_apart": Field(True, "only sentences that link to two pages")}
    task = Task("toy", tables.SENTENCES, lambda c: {LINKS, SENTENCES}, fields, requests, sides=sides)
    monkeypatch.setitem(TASKS, "toy", task)
    folder = corpus.write(tmp_path / "corpus")
    manifest = generate(corpus.config(folder, tasks=("toy",), workers=1), tmp_path / "out", SerialEngine)
    made = manifest["tasks"]["toy"]
    assert made["pairs"] > 50 and set(made["predictors"]) == set(NAMES) and manifest["config"]["toy_apart"] is True
    assert made["predictors"]["query_only"] == 0.5  # both sides have the sentence
    assert "toy " in as_text(inspect(str(tmp_path / "out"), 1))
    c = configs.pretrain()
    c.data, c.tasks, c.tokenizer = (str(tmp_path / "out"),), ("toy",), str(folder / "vocab.txt")
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = 1, 16, 2, 128
    c.row_length, c.window, c.lanes, c.batch_pairs, c.steps, c.log_every, c.dtype = 128, 16, 2, 8, 2, 1, "float32"
    train(c, str(tmp_path / "run"))
    assert '"toy' in (tmp_path / "run" / "metrics.jsonl").read_text()
