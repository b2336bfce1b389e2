"""Fine-tuning through the shared loop: groups from judgments and candidates, each loss against a loop, a ranker that learns."""

import os

import jax
import numpy as np
import pytest
from synthetic import tokenizer

from harp_jax import config as configs
from harp_jax import metrics_log, stages
from harp_jax.errors import InputError
from harp_jax.keys import generator
from harp_jax.lanes import Batches
from harp_jax.packing import plan
from harp_jax.train import train

WORDS = [f"w{i}" for i in range(200)]


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """40 documents of 12 words; each query is 3 words of its document; candidates are all documents."""
    path = tmp_path_factory.mktemp("collection")
    rng = generator("collection")
    documents = [rng.choice(WORDS, 12, replace=False) for _ in range(40)]
    (path / "docs.tsv").write_text("".join(f"d{i}\t\t\t{' '.join(d)}\n" for i, d in enumerate(documents)))
    queries = [" ".join(rng.choice(documents[i], 3, replace=False)) for i in range(40)]
    (path / "queries.tsv").write_text("".join(f"q{i}\t{q}\n" for i, q in enumerate(queries)))
    (path / "qrels.txt").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(40)))
    (path / "folds.tsv").write_text("".join(f"q{i}\t{i % 4}\n" for i in range(40)))
    run = [f"q{i} Q0 d{(i + j) % 40} {j + 1} {100 - j} bm25\n" for i in range(40) for j in range(20)]
    (path / "run.trec").write_text("".join(run))
    tokenizer().save(str(path / "tokenizer"))
    return path


def ranking_config(path, **changes):
    c = configs.finetune()
    c.tokenizer = str(path / "tokenizer")
    c.docs, c.queries, c.qrels = (str(path / name) for name in ("docs.tsv", "queries.tsv", "qrels.txt"))
    c.candidates, c.folds, c.train_folds = str(path / "run.trec"), str(path / "folds.tsv"), ("0", "1", "2")
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions, c.model.dropout = 1, 32, 2, 64, 0.0
    c.row_length, c.batch_pairs, c.window, c.lanes, c.negatives = 64, 32, 16, 2, 3
    c.steps, c.log_every, c.learning_rate, c.compilation_cache = 10, 5, 1e-3, False
    for name, value in changes.items():
        c.update_from_flattened_dict({name: value})
    return c


def packed_scores(ranker, params, batch):
    hidden = ranker.apply({"params": params}, batch, method="encode")
    return ranker.apply({"params": params}, hidden, batch["cls_offset"], method="scores")


def slow_loss(name: str, scores: list[float]) -> list[float]:
    sigma = [1 / (1 + np.exp(-s)) for s in scores]
    if name == "bce":
        return [-np.log(sigma[0]), *(-np.log(1 - s) for s in sigma[1:])]
    if name == "hinge":
        return [max(0.0, 1 - scores[0] + s) for s in scores[1:]]
    if name == "logistic":
        return [np.log(1 + np.exp(s - scores[0])) for s in scores[1:]]
    return [-np.log(np.exp(scores[0]) / np.sum(np.exp(scores)))]


@pytest.mark.parametrize("name", ["bce", "hinge", "logistic", "lce"])
def test_each_loss_equals_a_loop_over_its_groups(collection, name):
    config = ranking_config(collection, rank_loss=name)
    stage = stages.finetune(config)
    params = stage.start(stage.bert, jax.random.key(0))
    params["score"]["kernel"] = params["score"]["kernel"] * 2e3
    batch, _ = Batches(stage.reader, stage.layout, range(2), stage.shares, 16, 0).make()
    objective = stage.objective(stage.bert)
    loss, sums = jax.jit(lambda p, b: objective(p, b, jax.random.key(0), None))(params, batch)
    scores = np.asarray(jax.jit(lambda p, b: packed_scores(objective.ranker, p, b))(params, batch))
    expected = []
    for lane, by_lane in enumerate(scores.reshape(2, -1)):
        for members, valid in zip(batch["members"][lane], batch["group_valid"][lane]):
            if valid:
                expected += slow_loss(name, [float(by_lane[m]) for m in members if m >= 0])
    assert np.std(expected) > 0.01
    assert float(loss) == pytest.approx(np.mean(expected), rel=1e-4)
    assert sums["groups"] == batch["group_valid"].sum()


def test_only_the_training_folds_are_seen_and_an_epoch_has_every_unit_once(collection):
    stage = stages.finetune(ranking_config(collection))
    assert stage.reader.sizes == {"rank": 30}
    groups = [g for lane in range(2) for g in stage.reader.read(lane, "rank", 0, 15)]
    assert len({tuple(g.sequences[0].query) for g in groups}) == 30
    assert all(len(g.sequences) == 4 for g in groups)
    assert stage.steps == 10 and stages.finetune(ranking_config(collection, steps=0)).steps == 8


def test_every_group_fits_a_batch_whatever_lengths_the_sample_lacks(collection):
    layout = stages.finetune(ranking_config(collection, batch_pairs=2)).layout
    longest = [(layout.row_length,) * layout.group_size]
    assert len(list(plan(longest, layout))) == 1


def test_learns_to_rank_what_it_has_seen(collection, tmp_path):
    config = ranking_config(collection, steps=120, log_every=20, learning_rate=5e-3)
    last = train(config, str(tmp_path / "run"), devices=jax.devices()[:1])
    first = metrics_log.read(str(tmp_path / "run"))[0]
    assert last["loss"] < first["loss"] - 0.05 and last["pair_accuracy"] > 0.7


def test_the_head_is_fresh_or_pretrained(collection, tmp_path):
    config = ranking_config(collection, steps=1)
    train(config, str(tmp_path / "run"), devices=jax.devices()[:1])
    found = {}
    for head in ("fresh", "pretrained"):
        again = ranking_config(collection, init=str(tmp_path / "run"), tokenizer="", init_head=head)
        stage = stages.finetune(again)
        found[head] = stage.start(stage.bert, jax.random.key(7))
    kernel = "bert", "layer_0", "mlp", "up", "kernel"
    a, b = found["fresh"], found["pretrained"]
    for part in kernel:
        a, b = a[part], b[part]
    np.testing.assert_array_equal(a, b)
    assert (found["fresh"]["score"]["kernel"] != found["pretrained"]["score"]["kernel"]).any()


def test_wrong_files_are_named(collection, tmp_path):
    with pytest.raises(InputError, match="queries is empty"):
        stages.finetune(ranking_config(collection, queries=""))
    other = tmp_path / "run.trec"
    other.write_text("q0 Q0 nowhere 1 1.0 x\n")
    with pytest.raises(InputError, match="candidate nowhere of query q0"):
        stages.finetune(ranking_config(collection, candidates=str(other)))
    assert os.path.exists(other)
