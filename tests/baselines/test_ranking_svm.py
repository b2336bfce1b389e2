"""Ranking SVM: its minimum, its distances, its weights on disk, and its ranking, against loops."""

import json
import math

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.baselines.linklearn import model, ranking_svm
from harp_jax.commands import linklearn_rank
from harp_jax.corpus.trec import read_run
from tests.support.linked_topics import TEXTS, small


def test_ranking_svm_finds_the_words_that_count():
    from scipy import sparse

    rng = generator("svm")
    a, b, c = (rng.random((80, 6)) for _ in range(3))
    b[:, :2] = a[:, :2] + 0.02 * rng.standard_normal((80, 2))  # near in the first two words, and in no other
    weights = ranking_svm.solve(*(sparse.csr_matrix(x) for x in (a, b, c)), 10.0)
    assert (weights >= 0).all() and weights[:2].min() > 3 * weights[2:].max()

    def near(x, y):
        return (weights * (x - y) ** 2).sum(axis=1)

    assert (near(a, b) < near(a, c)).mean() > 0.9
    found = ranking_svm.distances(weights, sparse.csr_matrix(a[:1]), sparse.csr_matrix(c))
    np.testing.assert_allclose(found, near(a[:1], c), atol=1e-10)
    # At the minimum of a convex problem under bounds no allowed step descends.
    gaps = (a - c) ** 2 - (a - b) ** 2
    gradient = weights - 20.0 * gaps.T @ np.maximum(0.0, 1 - gaps @ weights)
    assert (
        np.abs(np.where(weights > 1e-8, gradient, np.minimum(gradient, 0.0))) < 1e-2 * np.abs(gaps.sum(0)).max()
    ).all()


def test_ranking_svm_warns_before_its_minimum(caplog):
    from scipy import sparse

    a, b, c = (sparse.csr_matrix(generator("svm", i).random((40, 6))) for i in range(3))
    assert ranking_svm.solve(a, b, c, 10.0).min() >= 0 and not caplog.records
    ranking_svm.solve(a, b, c, 10.0, iterations=1)
    assert "stopped after 1 iterations before its minimum" in caplog.text


def test_ranking_svm_ranks_by_the_saved_weights_of_words(tmp_path):
    collection, counts = small()
    weights = generator("weights").random(counts.vocabulary) + 0.1
    weights[collection.vocabulary["owl"]] = 0.0
    with pytest.raises(InputError, match="ranking_svm.tsv does not exist; train with --config.ranking_svm_constraints"):
        ranking_svm.load(str(tmp_path))
    ranking_svm.save(str(tmp_path), weights, collection.vocabulary)
    # A word that this vocabulary lacks is passed over.
    with open(tmp_path / "ranking_svm.tsv", "a") as file:
        file.write("badger\t3\n")
    again = ranking_svm.of_words(ranking_svm.load(str(tmp_path)), collection.vocabulary)
    words = {word: i for word, i in collection.vocabulary.items() if word}
    np.testing.assert_allclose([again[i] for i in words.values()], [weights[i] for i in words.values()], rtol=1e-8)
    scores, matched = ranking_svm.Metric(counts, again).scores(collection.query("fox owl fox"))

    def unit(text):
        idf = {word: math.log(5 / sum(word in t for t in TEXTS)) for word in words}
        x = np.array([(1 + math.log(text.count(word))) * idf[word] if word in text else 0.0 for word in words])
        return x / np.sqrt((x**2).sum())

    query = unit(["fox", "owl", "fox"])
    expected = [-sum(weights[i] * (q - t) ** 2 for i, q, t in zip(words.values(), query, unit(text))) for text in TEXTS]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)
    assert matched.tolist() == [True, True, True, False, True]


def test_ranking_svm_refuses_a_collection_without_a_word_that_has_a_weight(tmp_path, capsys):
    scale = {name: [0.0, 1.0] for name in model.INPUTS}
    linklearn = model.LinkLearn(model.init_params(0, 2), scale).to_json()
    (tmp_path / "model.json").write_text(json.dumps({"linklearn": linklearn}))
    (tmp_path / "ranking_svm.tsv").write_text("fox\t2\nden\t1\nowl\t0\n")
    (tmp_path / "queries.tsv").write_text("q\tfox rabbit owl\n")
    named = {"model": tmp_path, "queries": tmp_path / "queries.tsv", "docs": tmp_path / "docs.tsv"}
    options = [f"--{n}={v}" for n, v in (named | {"output": tmp_path / "out.trec", "stemmer": ""}).items()]
    arguments = linklearn_rank.arguments_parser().parse_args(["--ranking_svm", *options])
    (tmp_path / "docs.tsv").write_text("a\trabbit owl\nb\tfox rabbit\nc\tother\n")
    linklearn_rank.main(arguments)
    assert read_run(str(tmp_path / "out.trec"))["q"].ranked()[0] == "b"
    assert "1 of 4 words (25%) have a weight above 0" in capsys.readouterr().err
    (tmp_path / "docs.tsv").write_text("a\trabbit\nb\towl rabbit\n")
    with pytest.raises(InputError, match=r"none of the 2 words of .*docs\.tsv has a weight above 0"):
        linklearn_rank.main(arguments)
