"""LinkLearn against loops over the equations; a signal it must find and carry to other words; models and options refused."""

import math
from collections import Counter

import jax
import numpy as np
import pytest

from harp_jax import config as configs
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.baselines.linklearn import model as f
from harp_jax.baselines.linklearn.collection import Index
from harp_jax.baselines.linklearn.links import shared_terms, split
from harp_jax.baselines.linklearn.model import Okapi
from harp_jax.baselines.linklearn.train import Trainer, train
from harp_jax.corpus.trec import read_run
from tests.support.commands import command
from tests.support.linked_topics import TEXTS, paths, small


@pytest.fixture(scope="module", autouse=True)
def small_batches():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("BATCH", 16), ("EVAL_QUERIES", 25)):
            patch.setattr(f"harp_jax.baselines.linklearn.train.{name}", value)
        yield


def linklearn_config(wiki, **changes):
    c = configs.linklearn()
    c.docs, c.language = paths(wiki), ""
    c.negatives, c.steps, c.eval_every = 4, 200, 50
    c.learning_rate = 1e-2
    c.update(changes)
    return c


def random_model(counts) -> f.LinkLearn:
    params = jax.device_get(f.init_params(3, 7))
    params = jax.tree.map(lambda x: np.asarray(3 * x + 0.1, np.float32), params)
    return f.LinkLearn(params, {"tf": [0.9, 0.4], "idf": [2.0, 1.5], "length": [4.0, 0.7]})


def slow_mlp(p, x):
    hidden = [math.tanh(w * x + b) for w, b in zip(p["in"].tolist(), p["in_bias"].tolist())]
    return sum(h * o for h, o in zip(hidden, p["out"].tolist())) + float(p["out_bias"])


def slow_weight(model, tf, idf, length):
    """f_θ(tf, idf, l) of Eq. 3."""
    inputs = {"tf": math.log(1 + tf), "idf": idf, "length": math.log(1 + length)}
    return math.prod(slow_mlp(model.params[n], (x - model.scale[n][0]) / model.scale[n][1]) for n, x in inputs.items())


def slow_similarity(model, a, b, documents):
    """sim_θ over two lists of words, idf over `documents`."""
    ca, cb = Counter(a), Counter(b)
    total = 0.0
    for word in ca.keys() & cb.keys():
        idf = math.log(len(documents) / sum(word in d for d in documents))
        total += slow_weight(model, ca[word], idf, len(a)) * slow_weight(model, cb[word], idf, len(b))
    return total


def test_similarities_in_training_and_ranking_equal_a_loop():
    collection, counts = small()
    model = random_model(counts)
    index = Index(counts).weigh(model)
    pairs = [(a, b) for a in range(5) for b in range(5)]
    a, b = (np.array(side) for side in zip(*pairs))
    shared = shared_terms(counts, a, b)
    batch = {
        "pair": np.append(shared.pair, 25).astype(np.int32),  # one entry of padding
        "tf_a": np.append(model.scaled("tf", shared.tf_a), 1.0),
        "tf_b": np.append(model.scaled("tf", shared.tf_b), 1.0),
        "idf": np.append(model.scaled("idf", index.idf[shared.term]), 1.0),
        "length_a": model.scaled("length", counts.lengths[a]),
        "length_b": model.scaled("length", counts.lengths[b]),
    }
    found = np.asarray(f.similarities(model.params, batch, 25))
    expected = np.array([slow_similarity(model, TEXTS[i], TEXTS[j], TEXTS) for i, j in pairs])
    assert np.std(expected) > 0.1
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    # The query's length is one factor of all its scores; its sign is dropped.
    for i in range(5):
        scores = index.similarities(*counts.of(i))
        sign = np.sign(slow_mlp(model.params["length"], float(batch["length_a"][5 * i])))
        np.testing.assert_allclose(scores, sign * expected[5 * i : 5 * i + 5], atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("k", [1.6, 0.0])  # K = 0, the end of its grid: a word counts once, however often it occurs
def test_okapi_equals_its_formula(k):
    collection, counts = small()
    index = Index(counts).weigh(Okapi(k, 0.4))
    mean = np.mean([len(text) for text in TEXTS])
    scores, matched = index.scores(collection.query("fox owl fox"))
    for text, score, found in zip(TEXTS, scores, matched):
        expected = 0.0
        for word, times in (("fox", 2), ("owl", 1)):
            tf, df = text.count(word), sum(word in t for t in TEXTS)
            norm = k * (0.6 + 0.4 * len(text) / mean)
            expected += times * (k + 1) * tf * math.log(5 / df) / (norm + tf) if tf else 0.0
        assert score == pytest.approx(expected, rel=1e-5) and found == (expected > 0)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_cost_is_the_mean_over_the_constraints(graph, loss, wiki):
    training, _ = split(graph, 0.5, 0)
    trainer = Trainer(training, linklearn_config(wiki, pair_loss=loss))
    batch = trainer.batch()
    sims = np.asarray(f.similarities(trainer.params, batch, trainer.pairs)).reshape(16, 5)
    gaps = [row[0] - other for row in sims for other in row[1:]]
    expected = [max(0.0, 1 - g) if loss == "hinge" else -math.log(1 / (1 + math.exp(-g))) for g in gaps]
    assert float(trainer.cost(trainer.params, batch)[0]) == pytest.approx(np.mean(expected), rel=1e-5)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_learns_what_links_mean_and_carries_it_to_other_words(wiki, tmp_path, loss):
    from harp_jax.checkpoints.recorded import read_metrics

    config = linklearn_config(wiki, pair_loss=loss, ranking_svm_constraints=300 if loss == "hinge" else 0)
    done = train(config, str(tmp_path))
    rows = read_metrics(str(tmp_path))
    assert done["held_out"]["linklearn"] > rows[0]["average_precision"] + 0.05
    assert done["held_out"]["linklearn"] > 0.9 and done["constraints"] <= 200 * 64
    if loss == "hinge":
        assert done["held_out"]["ranking_svm"] > 0.5
    # Another language: the same structure in other words.
    for name in ("docs.tsv", "queries.tsv"):
        lines = []
        for topic in range(20):
            rng = generator("other", name, topic)
            words = [f"sujet{topic}n{i}" for i in range(4)]
            filler = [f"vide{i}" for i in rng.integers(0, 8, 30)]
            own = [*words, *filler] if name == "docs.tsv" else [*words[:2], "vide1", "vide2"]
            lines.append(f"{topic}\t{' '.join(own)}\n")
        (tmp_path / name).write_text("".join(lines))
    given = {"docs": tmp_path / "docs.tsv", "queries": tmp_path / "queries.tsv", "output": tmp_path / "run.trec"}
    for extra in ([], ["--okapi"]):
        command("linklearn-rank", *extra, model=tmp_path, **given)
        run = read_run(str(tmp_path / "run.trec"))
        assert len(run) == 20 and all(ranking.ranked()[0] == qid for qid, ranking in run.items())


def test_training_that_diverges_ends_at_the_step_and_writes_no_model(wiki, tmp_path):
    config = linklearn_config(wiki, learning_rate=1e6, steps=20, eval_every=10)
    with pytest.raises(InputError, match="step 10: the loss or a parameter is not finite; lower learning_rate="):
        train(config, str(tmp_path))
    assert not (tmp_path / "model.json").exists()


def test_ranking_svm_finds_the_words_that_count():
    from scipy import sparse

    rng = generator("svm")
    a, b, c = (rng.random((80, 6)) for _ in range(3))
    b[:, :2] = a[:, :2] + 0.02 * rng.standard_normal((80, 2))  # near in the first two words, and in no other
    weights = f.solve(*(sparse.csr_matrix(x) for x in (a, b, c)), 10.0)
    assert (weights >= 0).all() and weights[:2].min() > 3 * weights[2:].max()

    def near(x, y):
        return (weights * (x - y) ** 2).sum(axis=1)

    assert (near(a, b) < near(a, c)).mean() > 0.9
    found = f.distances(weights, sparse.csr_matrix(a[:1]), sparse.csr_matrix(c))
    np.testing.assert_allclose(found, near(a[:1], c), atol=1e-10)
    # At the minimum of a convex problem under bounds no allowed step descends.
    gaps = (a - c) ** 2 - (a - b) ** 2
    gradient = weights - 20.0 * gaps.T @ np.maximum(0.0, 1 - gaps @ weights)
    descent = np.abs(np.where(weights > 1e-8, gradient, np.minimum(gradient, 0.0)))
    assert (descent < 1e-2 * np.abs(gaps.sum(0)).max()).all()
