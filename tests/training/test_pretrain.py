"""Pre-training: what a run starts from, the MLM head that is trained alone, selection by judged queries, and that it learns,
also an answer far from the beginning of a document, if its rows are long enough."""

import dataclasses
import os
from functools import partial
from pathlib import Path

import jax
import numpy as np
import pytest

from harp_jax.api import Reranker
from harp_jax.base.randomness import generator
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.checkpoints.recorded import best, read_metrics
from harp_jax.checkpoints.start import load_encoder
from harp_jax.text.tokenizer import load_tokenizer
from harp_jax.training.stages.pretrain import pretrain_stage
from harp_jax.training.train import train
from tests.support.planted_pairs import TASK, FarAnswers, exact_match, from_scratch, held_out_accuracy, trained
from tests.support.ranking_collection import judged, write_collection
from tests.support.shards_fixture import write_job
from tests.support.synthetic import tokenizer
from tests.support.tiny_bert import random_params
from tests.support.tiny_run import end, run_tiny, same_parameters, tiny_config, two_processes


def few(records: int):
    """Changes a stage so that it repeats few pairs, which a tiny model can learn by heart."""

    def change(stage):
        reader = dataclasses.replace(stage.source.reader, records=records)
        return dataclasses.replace(stage, source=dataclasses.replace(stage.source, reader=reader))

    return change


@pytest.fixture(scope="module")
def overfitted(tmp_path_factory) -> str:
    """A training without MLM on a few pairs."""
    changes = {"steps": 80, "log_every": 10, "learning_rate": 5e-3, "mlm_weight": 0.0, "model.dropout": 0.0}
    return run_tiny(tmp_path_factory.mktemp("few"), change=few(16), **changes)


def test_overfits_a_few_pairs(overfitted):
    last = read_metrics(overfitted)[-1]
    assert last["rqp_accuracy"] > 0.95 and last["qdm_accuracy"] > 0.95


def test_a_new_head_is_trained_alone_once_and_the_encoder_keeps_every_bit(overfitted, tmp_path, monkeypatch):
    headless, shape = str(tmp_path / "hf"), pretrain_stage(tiny_config(str(tmp_path)), with_data=False).encoder
    params = random_params(shape)
    save_hf(headless, shape, {name: params[name] for name in ("encoder", "pooler")}, tokenizer(), "")
    monkeypatch.setattr("harp_jax.training.stages.pretrain.HEAD_RATE", 1e-2)
    changes = {"init": headless, "tokenizer": "", "mlm_head_steps": 30, "log_every": 10}
    workdir = run_tiny(tmp_path, change=few(3), steps=2, learning_rate=0.0, **changes)
    head = Path(workdir) / "mlm_head"
    _, start = load_hf(headless)
    _, trained = load_encoder(str(head))
    jax.tree.map(np.testing.assert_array_equal, start, {name: trained[name] for name in start})
    rows = [row["mlm_loss"] for row in read_metrics(str(head))]
    assert rows[-1] < rows[0] - 0.05
    # The run starts from that head, and keeps it with a learning rate of 0. It is trained once.
    assert same_parameters(workdir, str(head))
    written = (head / "metrics.jsonl").stat().st_mtime_ns
    run_tiny(tmp_path, change=few(3), steps=2, learning_rate=0.0, **changes)
    assert (head / "metrics.jsonl").stat().st_mtime_ns == written
    # Other runs need it, too, unless they start from a head or predict no tokens.
    for init, changed, needed in (
        (headless, {"mlm_weight": 0.0}, False),
        (workdir, {}, False),
        (headless, {}, True),
        (overfitted, {}, True),
    ):
        config = tiny_config(str(tmp_path), init=init, **changed)
        assert (pretrain_stage(config, with_data=False).before is not None) == needed


def selecting(directory: Path) -> dict[str, object]:
    """Writes pairs and judged queries to `directory`; returns config fields of pre-training that selects by them."""
    write_collection(directory)
    write_job(str(directory / "pairs"), {"qdm": [400]}, validation=[100])
    # The rate is too high, so the last parameters are not the best.
    options = {"tasks": ("qdm",), "mlm_weight": 0.0, "learning_rate": 3e-2, "schedule": "constant", "steps": 15}
    select = {"data": (str(directory / "pairs"),), "select": "RR@10", "eval_every": 5, "eval_batches": 1}
    return {**options, **select, **judged(directory)}


@pytest.mark.real  # a minute of compiling
def test_two_processes_that_share_the_parameters_select_by_all_of_them(tmp_path):
    # Without learning, so the parameters selected at step 0 equal the last ones.
    fields = {**selecting(tmp_path), "steps": 5, "mesh.fsdp": 2, "learning_rate": 0.0}
    end(two_processes(tmp_path, *(f"{name}={value!r}" for name, value in fields.items()), devices=1))
    workdir = str(tmp_path / "run")
    _, kept = load_hf(os.path.join(workdir, "selected", best(workdir)["model"]))
    last = load_params(workdir)[0]
    for name, parameters in kept["encoder"].items():  # selected parameters have no vocabulary padding
        jax.tree.map(lambda x, y: np.testing.assert_array_equal(x, y[: len(x)]), parameters, last["encoder"][name])


def test_the_best_of_all_evaluations_is_kept_beside_the_pairs_metrics(tmp_path):
    config = tiny_config(str(tmp_path), **selecting(tmp_path))
    workdir = str(tmp_path / "run")
    train(config, workdir, devices=jax.devices()[:1])
    rows = [row for row in read_metrics(workdir) if row["split"] == "validation"]
    assert len(rows) == 4 and all("qdm_accuracy" in row for row in rows)
    kept = best(workdir)
    assert kept["value"] == pytest.approx(max(row["RR@10"] for row in rows), rel=1e-5) and kept["queries"] == 40


@pytest.mark.parametrize("sample, document", [(0, 10), pytest.param(1, 20, marks=pytest.mark.real)])
def test_a_small_encoder_from_scratch_learns_exact_matches(tmp_path, sample, document):
    config = from_scratch(str(tmp_path))
    config.model.initialisation, config.model.dropout, config.steps = "matching", 0.0, 15 * document
    config.eval_every = config.steps
    assert held_out_accuracy(config, str(tmp_path), partial(exact_match, sample, document))[TASK] >= 0.95


QUERIES = 60  # with three candidates each, one of which answers the query


def learned(folder, length: int, layers: int, pairs: FarAnswers) -> str:
    """The workdir of a ModernBERT trained in rows of `length` tokens."""
    folder.mkdir()
    c = from_scratch(str(folder))
    c.model.model_type, c.model.initialisation, c.model.dropout = "modernbert", "matching", 0.0
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = layers, 32, 1, length
    c.row_length, c.batch_pairs, c.window = length, 12, 48
    c.steps, c.learning_rate, c.eval_every, c.dtype = 100, 3e-3, 0, "float32"
    return trained(c, str(folder), pairs)


def right(workdir: str, pairs: FarAnswers) -> float:
    """The share of queries for which the answer has the highest score."""
    decode, rng = load_tokenizer(f"{workdir}/tokenizer").decode, generator("candidates")
    numbers = [(i % 3, n) for i in range(QUERIES) for n in range(3)]
    texts = [(decode(pairs.query(asked)), decode(pairs.document(told, rng))) for asked, told in numbers]
    scores = Reranker.from_pretrained(workdir).predict(texts).reshape(QUERIES, 3)
    return float((scores.argmax(1) == np.arange(QUERIES) % 3).mean())


# With one layer, only [CLS] attends, at linear cost in the length; with two, the second attends only to its window.
@pytest.mark.real
@pytest.mark.parametrize("depth, long, short, layers", [(210, 288, 128, 2), (3000, 4096, 512, 1)])
def test_a_far_answer_is_learned_in_long_rows_and_missed_in_short_ones(tmp_path, depth, long, short, layers):
    pairs = FarAnswers(depth)
    found = {length: right(learned(tmp_path / str(length), length, layers, pairs), pairs) for length in (long, short)}
    assert found[long] >= 0.95
    assert found[short] < 0.55  # 1/3 is chance, with a deviation of .06
