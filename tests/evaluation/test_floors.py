"""The rows for chance and blank queries: their values, and the systems flagged as no better."""

import json

import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import Ranking
from harp_jax.evaluation.evaluate import NOT_ABOVE_BLANK, NOT_ABOVE_CHANCE, ORDERS, evaluate

QUERIES, CANDIDATES = 60, 15
QRELS = {f"q{i}": {f"d{i}-3": 1} for i in range(QUERIES)}


def ranked(rank_of_relevant) -> dict[str, Ranking]:
    """A run whose relevant document of query i has rank `rank_of_relevant(i)`."""
    run = {}
    for i in range(QUERIES):
        docids = [f"d{i}-{j}" for j in range(CANDIDATES) if j != 3]
        docids.insert(rank_of_relevant(i) - 1, f"d{i}-3")
        run[f"q{i}"] = Ranking.of(docids, range(CANDIDATES, 0, -1))
    return run


def at_random(name: str) -> dict[str, Ranking]:
    return ranked(lambda i: int(generator("rank", name, i).integers(1, CANDIDATES + 1)))


def test_the_chance_row_is_the_expectation_over_random_orders():
    table = evaluate(QRELS, {"first": ranked(lambda i: 1)}, "RR@10 P@1", chance="first")
    expected = sum(1 / rank for rank in range(1, 11)) / CANDIDATES
    assert table.mean["chance"]["RR@10"] == pytest.approx(expected, abs=0.01)
    assert table.mean["chance"]["P@1"] == pytest.approx(1 / CANDIDATES, abs=0.01)
    assert f"chance (mean of {table.seeds['chance']})" in table.text() and table.seeds["chance"] >= ORDERS[0]
    again = evaluate(QRELS, {"first": ranked(lambda i: 5)}, "RR@10", chance="first")
    assert again.mean["chance"]["RR@10"] == pytest.approx(expected, abs=0.01)
    assert again.per_query["chance"] != table.per_query["chance"]  # random orders depend on the candidate list


def test_a_system_is_said_not_to_beat_what_it_does_not_beat():
    runs = {
        "BM25": ranked(lambda i: 1 + i % 4),
        "random": at_random("a"),
        "popular": ranked(lambda i: 1 + i % 3),
        "popular_blank": ranked(lambda i: 1 + (i + 1) % 3),
        "good": [ranked(lambda i: 1), ranked(lambda i: 1 + i % 2)],
        "good_blank": [at_random("b"), at_random("c")],
    }
    blank = {"popular": "popular_blank", "good": "good_blank"}
    table = evaluate(QRELS, runs, "RR@10 AP", "BM25", confirm="RR@10", rounds=400, chance="BM25", blank=blank)
    assert table.verdicts == {"random": [NOT_ABOVE_CHANCE], "popular": [NOT_ABOVE_BLANK]} and table.judged_by == "RR@10"
    assert NOT_ABOVE_BLANK in table.text() and NOT_ABOVE_BLANK in table._repr_html_()
    assert json.loads(table.json())["verdicts"] == table.verdicts
    assert {c.run for c in table.comparisons} == {"random", "popular", "good"}  # Holm's correction counts only systems
    assert any("verdicts by RR@10" in note for note in table.notes())


@pytest.mark.parametrize(
    "given, message",
    [
        ({"chance": "none"}, "no run is named 'none' for --chance"),
        ({"blank": {"none": "a"}}, "no run is named 'none' for --blank"),
        ({"oracle": "none"}, "no run is named 'none' for --oracle"),
        ({"blank": {"a": "a"}}, "--blank=a=a: a is both a system and a run of blank queries"),
    ],
)
def test_wrong_names_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        evaluate(QRELS, {"a": ranked(lambda i: 1)}, "RR@10", **given)
    with pytest.raises(InputError, match="named 'chance'"):
        evaluate(QRELS, {"chance": ranked(lambda i: 1)}, "RR@10", chance="chance")


def test_the_row_of_best_orders_is_the_limit_of_re_ranking():
    qrels = {"1": {"a": 1, "b": 2}, "2": {"c": 1}, "3": {"absent": 1}}
    run = {qid: Ranking.of(["x", "a", "b", "c"], [4, 3, 2, 1]) for qid in qrels}
    table = evaluate(qrels, {"bm25": run}, "RR@10 nDCG@10", baseline="bm25", oracle="bm25", chance="bm25")
    assert table.per_query["oracle"] == {
        "RR@10": {"1": 1.0, "2": 1.0, "3": 0.0}, "nDCG@10": pytest.approx({"1": 1.0, "2": 1.0, "3": 0.0})
    }  # fmt: skip
    assert not table.comparisons and "oracle" not in table.verdicts
