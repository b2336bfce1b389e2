"""LinkLearn: links as constraints, the equations against loops, and a planted signal that also ranks text in other words."""

import json
import math
from pathlib import Path

import ir_measures
import jax
import numpy as np
import pytest
from scipy import sparse
from scipy.stats import chisquare

from harp_jax import config as configs
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.baselines.linklearn import model as f
from harp_jax.baselines.linklearn.links import Graph, GraphSplit, read_graph, shared_terms, split
from harp_jax.baselines.linklearn.model import Index, Okapi, count, lengths_of, rank_linklearn, words_of
from harp_jax.baselines.linklearn.train import Task, cost, distances, solve, train
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.corpus.trec import read_run
from harp_jax.ranking.lexical import InvertedIndex

TOPICS, PAGES = 30, 120


def jsonl(path: Path, records: list[dict]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.fixture(scope="module")
def wiki(tmp_path_factory):
    """Pages of a topic link to leads of the same topic; only rare words matter, frequent filler words do not."""
    path = tmp_path_factory.mktemp("linklearn")
    records = []
    for number in range(2 * PAGES):
        rng = generator("linklearn wiki", number)
        topic, page = number % TOPICS, number < PAGES
        own, filler = rng.integers(0, 6, 5 if page else 3), rng.integers(0, 12, rng.integers(20, 60))
        words = [*(f"topic{topic}x{i}" for i in own), *(f"filler{i}" for i in filler)]
        record = {"id": f"{'page' if page else 'lead'}{number}", "title": "", "text": " ".join(rng.permutation(words))}
        if page:
            leads = (n for n in range(PAGES, 2 * PAGES) if n % TOPICS == topic)
            record["links"] = [{"target": target} for target in (*(f"lead{n}" for n in leads), "alias")]
        records.append(record)
    (path / "redirects.tsv").write_text("alias\tlead120\n")
    return jsonl(path / "pages.jsonl", records[:PAGES]), jsonl(path / "leads.jsonl", records[PAGES:])


@pytest.fixture(scope="module")
def graph(wiki):
    return read_graph(wiki, (str(Path(wiki[0]).parent / "redirects.tsv"),), "")


def whole(graph: Graph) -> GraphSplit:
    """Both sides as one."""
    return GraphSplit(graph, np.arange(len(graph.docids)))


def test_links_go_both_ways_follow_redirects_and_stay_within_a_side(graph):
    numbers, linked = {docid: n for n, docid in enumerate(graph.docids)}, whole(graph).linked
    assert set(linked(numbers["page31"])) == {numbers[f"lead{n}"] for n in (121, 151, 181, 211, 120)}
    assert len(linked(numbers["lead120"])) == PAGES
    sides = split(graph, 0.5, 0)
    assert sorted(np.concatenate([side.documents for side in sides])) == list(range(2 * PAGES))
    for side in sides:
        assert np.isin(side.edges, side.documents).all() and len(side.edges)
        for d in side.queries[:20]:
            assert set(side.linked(d)) == set(linked(d)) & set(side.documents)


@pytest.mark.parametrize("source", ["uniform", "linked"])
def test_negatives_follow_their_distribution(graph, source):
    training, _ = split(graph, 0.5, 0)
    draws = [training.draw(generator("draw", i), 4000, 3, source) for i in range(4)]
    d, positive, negative = (np.concatenate(parts) for parts in zip(*draws))
    for q, p, n in zip(d[:300], positive, negative):
        linked = set(training.linked(q))
        assert p in linked and not linked & set(n) and q not in n
        assert (graph.source[n] == graph.source[p]).all()
    # d is uniform over documents with links; the negatives of one d follow their pool's distribution.
    counts = np.bincount(np.searchsorted(training.queries, d), minlength=len(training.queries))
    assert chisquare(counts).pvalue > 1e-3
    q = d[0]
    kind = graph.source[training.linked(q)[0]]
    allowed = [n for n in training.documents if graph.source[n] == kind and n != q and n not in set(training.linked(q))]
    weight = np.array([len(training.linked(n)) if source == "linked" else 1 for n in allowed], float)
    chosen = [n for a, ns in zip(d, negative) for n in ns if a == q and graph.source[n] == kind]
    drawn = np.array([chosen.count(n) for n in allowed], float)
    expected = weight / weight.sum() * drawn.sum()
    assert chisquare(drawn[expected > 0], expected[expected > 0]).pvalue > 1e-3 and drawn[expected == 0].sum() == 0


def test_an_article_keeps_to_one_side_and_is_no_negative_of_itself(tmp_path):
    """Pages with their leads and two rows each; page n links to the leads of n, n + 1 and n + 2."""
    pages, leads, size = [], [], 200
    for n in range(size):
        links = [{"target": f"lead{(n + step) % size}"} for step in range(3)]
        pages += [{"id": f"page{n}#{i}", "title": f"Title {n}", "text": f"a{n}", "links": links} for i in range(3)]
        leads.append({"id": f"lead{n}", "title": f"Title {n} ", "text": f"c{n}"})
    graph = read_graph((jsonl(tmp_path / "pages.jsonl", pages), jsonl(tmp_path / "leads.jsonl", leads)), (), "")
    number = np.array([*np.repeat(np.arange(size), 3), *range(size)])
    assert sorted(number[whole(graph).linked(0)]) == [1, 2]
    training, validation = split(graph, 0.5, 0)
    assert not set(number[training.documents]) & set(number[validation.documents])
    d, _, negative = training.draw(generator("articles"), 3000, 3)
    assert (number[d][:, None] != number[negative]).all()
    task = Task(validation, 50, 10_000, 0)
    for d in task.queries.tolist():
        # The article's own documents score above the relevant ones, but are not among the candidates.
        own = number[task.rows] == number[d]
        scores = np.where(own, 2.0, np.isin(task.rows, validation.linked(d)).astype(float))
        assert task.precision(d, scores) == 1.0


def test_average_precision_of_the_task_equals_ir_measures(graph):
    _, validation = split(graph, 0.5, 0)
    task = Task(validation, 10, 10_000, 0)
    scores = generator("scores").standard_normal(len(task.rows)).astype(np.float32)
    for d in task.queries.tolist():
        linked = validation.linked(d)
        rivals = [d, *np.flatnonzero(~np.isin(graph.source, graph.source[linked]))]
        run = {str(n): float(s) for n, s in zip(task.rows, scores) if n not in rivals}
        expected = ir_measures.calc_aggregate([ir_measures.AP], {"q": {str(n): 1 for n in linked}}, {"q": run})
        assert task.precision(d, scores) == pytest.approx(expected[ir_measures.AP])


def test_bad_links_are_named(tmp_path):
    row = {"id": "a", "text": "x", "links": [{"target": "b"}]}
    for more, message in (
        ([], "none of 1 links leads to another"),
        ([{"id": "b", "text": None}], "line 2: text is null"),
    ):
        with pytest.raises(InputError, match=message):
            read_graph((jsonl(tmp_path / "docs.jsonl", [row, *more]),))


TEXTS = [["red", "fox", "fox", "den"], ["fox", "owl"], ["owl", "owl", "owl", "red", "moon"], ["moon"], ["fox", "red"]]
SMALL = InvertedIndex(((f"d{i}", " ".join(text)) for i, text in enumerate(TEXTS)), "")


def random_model() -> f.LinkLearn:
    params = jax.tree.map(lambda x: np.asarray(3 * x + 0.1, np.float32), jax.device_get(f.init_params(3, 7)))
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
    total = 0.0
    for word in {*a} & {*b}:
        idf = math.log(len(documents) / sum(word in d for d in documents))
        total += math.prod(slow_weight(model, text.count(word), idf, len(text)) for text in (a, b))
    return total


def test_similarities_in_training_and_ranking_equal_a_loop():
    counts, model = count(SMALL), random_model()
    index = Index(counts).weigh(model)
    a, b = np.repeat(range(5), 5), np.tile(range(5), 5)
    pair, term, tf_a, tf_b = shared_terms(counts, a, b)
    words = {
        "tf_a": model.scaled("tf", tf_a),
        "tf_b": model.scaled("tf", tf_b),
        "idf": model.scaled("idf", index.idf[term]),
    }
    batch = {name: np.append(x, 1.0) for name, x in words.items()}
    batch["pair"] = np.append(pair, 25).astype(np.int32)  # one entry of padding
    batch |= {f"length_{side}": model.scaled("length", lengths_of(counts)[of]) for side, of in (("a", a), ("b", b))}
    expected = np.array([slow_similarity(model, TEXTS[i], TEXTS[j], TEXTS) for i, j in zip(a, b)])
    close = {"rtol": 0, "atol": 1e-5 * np.abs(expected).max()}
    assert np.std(expected) > 0.1
    np.testing.assert_allclose(f.similarities(model.params, batch), expected, **close)
    # The query's length is a factor of all its scores; ranking drops its sign.
    for i in range(5):
        sign = np.sign(slow_mlp(model.params["length"], float(batch["length_a"][5 * i])))
        scores = index.similarities(*words_of(counts, i))
        np.testing.assert_allclose(scores, sign * expected[5 * i : 5 * i + 5], **close)


@pytest.mark.parametrize("k", [1.6, 0.0])  # K = 0, the end of its grid: each word counts once
def test_okapi_equals_its_formula(k):
    scores, matched = Index(count(SMALL)).weigh(Okapi(k, 0.4)).scores(SMALL.query("fox owl fox"))
    mean = np.mean([len(text) for text in TEXTS])
    for text, score, matches in zip(TEXTS, scores, matched):
        expected, norm = 0.0, k * (0.6 + 0.4 * len(text) / mean)
        for word, times in (("fox", 2), ("owl", 1)):
            if tf := text.count(word):
                expected += times * (k + 1) * tf * math.log(5 / sum(word in t for t in TEXTS)) / (norm + tf)
        assert score == pytest.approx(expected, rel=1e-5) and matches == (expected > 0)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_cost_is_the_mean_over_the_constraints(loss):
    rng, pairs, words = generator("cost"), 20, 60
    batch = {name: rng.standard_normal(words).astype(np.float32) for name in ("tf_a", "tf_b", "idf")}
    batch["pair"] = np.sort(rng.integers(0, pairs, words)).astype(np.int32)
    batch |= {name: rng.standard_normal(pairs).astype(np.float32) for name in ("length_a", "length_b")}
    params = random_model().params
    sims = np.asarray(f.similarities(params, batch)).reshape(4, 5)  # of each document the linked one comes first
    gaps = np.array([row[0] - other for row in sims for other in row[1:]])
    expected = np.maximum(0, 1 - gaps) if loss == "hinge" else np.logaddexp(0, -gaps)
    value, right = cost(params, batch, 4, loss)
    assert float(value) == pytest.approx(np.mean(expected), rel=1e-5)
    assert float(right) == pytest.approx(np.mean(gaps > 0))


def linklearn_config(wiki, monkeypatch, **changes):
    for name, value in (("BATCH", 16), ("EVAL_QUERIES", 25), ("K_GRID", (0.0, 1.2)), ("B_GRID", (0.0, 0.75))):
        monkeypatch.setattr(f"harp_jax.baselines.linklearn.train.{name}", value)
    c = configs.linklearn()
    c.docs, c.language, c.negatives, c.steps, c.eval_every, c.learning_rates = wiki, "", 4, 200, 50, (1e-2,)
    c.update(changes)
    return c


def test_learns_what_links_mean_and_carries_it_to_other_words(wiki, tmp_path, monkeypatch):
    done = train(linklearn_config(wiki, monkeypatch, ranking_svm_constraints=300), str(tmp_path / "run"))
    assert done["held_out"]["linklearn"] > read_metrics(str(tmp_path / "run"))[0]["average_precision"] + 0.05
    assert done["held_out"]["linklearn"] > 0.9 and done["held_out"]["ranking_svm"] > 0.5
    # Another language: the same structure in other words.
    docs, queries, output = (str(tmp_path / name) for name in ("docs.tsv", "queries.tsv", "run.trec"))
    with open(docs, "w") as docs_file, open(queries, "w") as queries_file:
        for topic in range(20):
            words = " ".join(f"sujet{topic}n{i}" for i in range(4))
            filler = " ".join(f"vide{i}" for i in generator("other", topic).integers(0, 8, 30))
            docs_file.write(f"{topic}\t{words} {filler}\n")
            queries_file.write(f"{topic}\tsujet{topic}n0 sujet{topic}n1 vide1 vide2\n")
    for okapi in (False, True):
        rank_linklearn(str(tmp_path / "run"), docs, queries, f"{output}{okapi}", okapi=okapi)
        run = read_run(f"{output}{okapi}")
        assert len(run) == 20 and all(ranking.ranked()[0] == qid for qid, ranking in run.items())


def test_hidden_units_and_rate_are_selected_and_a_diverging_rate_is_left_out(wiki, tmp_path, monkeypatch):
    few = {"steps": 20, "eval_every": 10, "pair_loss": "logistic"}
    config = linklearn_config(wiki, monkeypatch, learning_rates=(1e6,), hidden=(2,), **few)
    with pytest.raises(InputError, match="step 10: the loss or a parameter is not finite; lower learning_rates="):
        train(config, str(tmp_path / "run"))
    config.learning_rates, config.hidden = (1e6, 3e-2), (2, 10)
    done = train(config, str(tmp_path / "run"))
    rows = [row for row in read_metrics(str(tmp_path / "run")) if row["learning_rate"] < 1]
    assert {row["hidden"] for row in rows} == {2, 10}
    best = max(rows, key=lambda row: row["average_precision"])
    assert done["held_out"]["linklearn"] == pytest.approx(best["average_precision"], rel=1e-5)
    assert [done[name] for name in ("hidden", "step")] == [best[name] for name in ("hidden", "step")]


def test_ranking_svm_finds_the_words_that_count():
    rng = generator("svm")
    a, b, c = (rng.random((80, 6)) for _ in range(3))
    b[:, :2] = a[:, :2] + 0.02 * rng.standard_normal((80, 2))  # near only in the first two words
    weights = solve(*(sparse.csr_array(x) for x in (a, b, c)), 10.0)
    assert (weights >= 0).all() and weights[:2].min() > 3 * weights[2:].max()
    expected = (weights * (a[:1] - c) ** 2).sum(axis=1)
    np.testing.assert_allclose(distances(weights, sparse.csr_array(a[:1]), sparse.csr_array(c)), expected, atol=1e-10)
    # At the minimum of a convex problem with bounds, no allowed step descends.
    gaps = (a - c) ** 2 - (a - b) ** 2
    gradient = weights - 20.0 * gaps.T @ np.maximum(0.0, 1 - gaps @ weights)
    descent = np.abs(np.where(weights > 1e-8, gradient, np.minimum(gradient, 0.0)))
    assert (descent < 1e-2 * np.abs(gaps.sum(0)).max()).all()
