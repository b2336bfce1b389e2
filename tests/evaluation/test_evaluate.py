"""Measures against their definitions, comparisons, rows for chance and blank queries, and notes on missing queries."""

import math
import random
import re
from pathlib import Path

import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.commands.evaluate import name_runs
from harp_jax.corpus.trec import Ranking, read_qrels, read_run, write_run
from harp_jax.evaluation.evaluate import NOT_ABOVE_BLANK, NOT_ABOVE_CHANCE, evaluate, groups_to_resample
from harp_jax.evaluation.report import system_of
from tests.support.shared_data import shared

QRELS = {"q1": {"a": 2, "b": 0, "c": 1}, "q2": {"a": 1}, "q3": {"z": 1}, "q4": {"a": 0}}
RANKINGS = {"q1": ["b", "x", "c", "a"], "q2": ["a", "b"], "q9": ["a"], "q4": ["a"]}
RUNS = {
    "first": {q: Ranking.of(docids, range(len(docids), 0, -1)) for q, docids in RANKINGS.items()},
    "second": {"q2": Ranking.of(["b", "a"], [1, 0])},
}


def slow(ranking: list[str], judged: dict[str, int], k: int) -> dict[str, float]:
    """RR@k, nDCG@k, AP and R@k from their definitions."""
    relevant = {d for d, level in judged.items() if level > 0}
    ranks = [r for r, d in enumerate(ranking, 1) if d in relevant]
    ideal = sorted((level for level in judged.values() if level > 0), reverse=True)[:k]
    dcg = sum(judged.get(d, 0) / math.log2(r + 1) for r, d in enumerate(ranking[:k], 1))
    total = sum(level / math.log2(r + 1) for r, level in enumerate(ideal, 1))
    return {
        f"RR@{k}": next((1 / r for r in ranks if r <= k), 0.0),
        f"nDCG@{k}": dcg / total if total else 0.0,
        "AP": sum(i / r for i, r in enumerate(ranks, 1)) / len(relevant) if relevant else 0.0,
        f"R@{k}": sum(r <= k for r in ranks) / len(relevant) if relevant else 0.0,
    }


def test_measures_follow_their_definitions():
    table = evaluate(QRELS, RUNS, "RR@3 nDCG@3 AP R@3")
    for qid, judged in QRELS.items():
        expected = slow(RANKINGS.get(qid, []), judged, 3)
        assert {m: table.per_query["first"][m][qid] for m in table.measures} == pytest.approx(expected)
    for measure in table.measures:
        values = table.per_query["first"][measure]
        assert table.mean["first"][measure] == pytest.approx(sum(values.values()) / 4)


@pytest.mark.parametrize("tie", [[1.0, 1.0, 1.0], [1.0, 1.0 + 1e-9, 1.0 - 1e-9]])
def test_ties_are_broken_alike_for_all_measures_as_trec_eval_breaks_them(tie):
    """By descending id, with scores in single precision: c, b, a, whatever the order of the file."""
    run = {"q": Ranking.of(["a", "c", "b"], tie)}
    table = evaluate({"q": {"a": 1}}, {"tied": run}, "RR RR@10 P@1 P@3 nDCG@1 AP Success@1 Judged@2")
    found = {name: values["q"] for name, values in table.per_query["tied"].items()}
    third = pytest.approx(1 / 3)
    assert found["RR"] == found["RR@10"] == found["AP"] == found["P@3"] == third
    assert all(found[name] == 0 for name in ("P@1", "nDCG@1", "Success@1", "Judged@2"))


def test_a_row_has_one_name_and_its_path_may_hold_what_separates_them(tmp_path):
    assert [*name_runs(["a/x.trec", "b/x.trec", "c/y.trec.gz"])] == ["a/x.trec", "b/x.trec", "y"]
    path = tmp_path / "k1=1,b=0.trec"
    path.touch()
    assert name_runs([f"new={path}", "both=a,b"]) == {"new": [str(path)], "both": ["a", "b"]}


def test_seeds_are_averaged_per_query():
    table = evaluate(QRELS, {"both": list(RUNS.values())}, "RR@10 AP")
    alone = evaluate(QRELS, RUNS, "RR@10 AP")
    for measure in table.measures:
        first, second = (alone.per_query[name][measure] for name in RUNS)
        assert table.per_query["both"][measure] == pytest.approx({q: (first[q] + second[q]) / 2 for q in QRELS})
    assert table.missing == {"both (1)": ["q3"], "both (2)": ["q1", "q3", "q4"]}


QUERIES, CANDIDATES = 60, 15
ONE_EACH = {f"q{i}": {f"d{i}-3": 1} for i in range(QUERIES)}


def ranked(rank_of_relevant) -> dict[str, Ranking]:
    """A run whose relevant document of query i has rank `rank_of_relevant(i)`."""
    run = {}
    for i in range(QUERIES):
        docids = [f"d{i}-{j}" for j in range(CANDIDATES) if j != 3]
        docids.insert(rank_of_relevant(i) - 1, f"d{i}-3")
        run[f"q{i}"] = Ranking.of(docids, range(CANDIDATES, 0, -1))
    return run


def test_a_baseline_brings_tests_marks_and_intervals():
    runs = {"old": ranked(lambda i: 3), "new": ranked(lambda i: 1 if i else 4), "same": ranked(lambda i: 3)}
    table = evaluate(ONE_EACH, runs, "RR@10 Judged@10", "old", rounds=500, intervals=True)
    new, same = table.comparisons
    assert table.intervals["new"][0] < table.mean["new"]["RR@10"] < table.intervals["new"][1]
    assert [(c.run, c.measure) for c in table.comparisons] == [("new", "RR@10"), ("same", "RR@10")]
    assert new.difference == pytest.approx(table.mean["new"]["RR@10"] - table.mean["old"]["RR@10"])
    assert new.interval[0] < new.difference < new.interval[1] and new.verdict == "better"
    assert new.t_test_holm == pytest.approx(2 * new.t_test) and new.t_test < 1e-6 and new.randomisation < 0.01
    assert (same.t_test, same.randomisation, same.interval, same.verdict) == (1.0, 1.0, (0.0, 0.0), "inconclusive")
    assert table.marked == {("new", "RR@10")} and "†" in str(table)
    again = evaluate(ONE_EACH, {name: runs[name] for name in ("same", "old", "new")}, "RR@10", "old", rounds=500)
    assert [*reversed(again.comparisons)] == table.comparisons
    assert "new\tRR@10\tq0\t0.250000\t0" in table.per_query_lines()
    # Runs of one draw are not independent.
    ranks = (1, 1, 2, 2, 3, 3, 9, 9, 5, 5, 1, 1)
    drawn = {"old": runs["old"], "new": [ranked(lambda i, rank=rank: rank) for rank in ranks]}
    (low, high), (lower, higher) = (
        evaluate(ONE_EACH, drawn, "RR@10 AP", "old", confirm="AP", rounds=2000, runs_per_draw=count)
        .comparisons[0]
        .interval
        for count in (1, 2)
    )
    assert higher - lower > 1.2 * (high - low)


def test_intervals_of_few_groups_draw_single_queries_and_the_table_says_so():
    """Thirty queries chained by their documents are one group: resampling it would show no variance."""
    qrels = {f"q{i}": {f"d{i}": 1, f"d{i + 1}": 1} for i in range(30)}
    old = {q: Ranking.of(["x", *judged], [3, 2, 1]) for q, judged in qrels.items()}
    new = old | {"q0": Ranking.of(["d0", "x"], [2, 1])}
    table = evaluate(qrels, {"old": old, "new": new}, "RR@10", "old", rounds=500)
    (found,) = table.comparisons
    assert found.interval[0] == 0 < found.difference < found.interval[1] and found.verdict == "inconclusive"
    assert any("an effective 1.0 groups, too few to resample" in note for note in table.notes())
    assert groups_to_resample({f"q{i}": {f"d{i // 2}": 1} for i in range(20)}) == ([i // 2 for i in range(20)], 0.0)


def test_queries_whose_levels_are_all_negative_count_as_zero():
    """Passed to pytrec-eval, such queries end in a segmentation fault."""
    rng = random.Random(1)
    for _ in range(30):
        levels = {f"q{i}": rng.choice(([-2], [-1, -2], [-2, 0], [-2, 0, 1, 2])) for i in range(20)}
        qrels = {q: {f"d{j}": rng.choice(some) for j in range(rng.randint(1, 100))} for q, some in levels.items()}
        found = {q: [f"d{j}" for j in rng.sample(range(200), rng.randint(1, 100))] for q in qrels}
        run = {q: Ranking.of(docids, [rng.random() for _ in docids]) for q, docids in found.items()}
        table = evaluate(qrels, {"a": run}, "RR@10 nDCG@10 AP P@5 R@100 Rprec Bpref infAP")
        without = [q for q in qrels if max(qrels[q].values()) <= 0]
        assert all(values[q] == 0 for values in table.per_query["a"].values() for q in without)


ONE = {"1": {"a": 1}}


@pytest.mark.parametrize(
    "qrels, measures, options, said",
    [
        *((ONE, name, {}, "unknown measure") for name in ("RR@x", "RR@1_0", "AP(zz=1)", "")),
        *((ONE, name, {}, "use a cutoff of 1 to 1,000,000") for name in ("RR@0", "ERR@99999999999")),
        # TREC's script would read "a-1" as "1".
        ({"q1": {"a": 1}}, "RR@10 ERR@20", {}, "the query id 'q1' is not a number, which TREC's script"),
        # Every measure would be .0000, as if the run were bad.
        ({"1": {"a": -1}, "2": {"b": 0}, "3": {}}, "AP", {}, "none of the . judged queries has a relevant document"),
        ({"1": {"a": 1, "b": 2**31}}, "AP", {}, "query 1, document b: relevance .* is not an integer within ±10000"),
        ({"1": {"a": 1, "b": 5}}, "ERR@20", {}, "a level of query 1 is above 4"),
        (ONE, "AP", {"chance": "none"}, "no run is named 'none' for --chance; the runs are x"),
        (ONE, "AP", {"blank": {"x": "x"}}, "--blank=x=x: x is both a system and a run of blank queries"),
    ],
)
def test_what_cannot_be_computed_is_refused(qrels, measures, options, said):
    with pytest.raises(InputError, match=said):
        evaluate(qrels, {"x": {"1": Ranking.of(["a"], [1.0])}}, measures, **options)


def at_random(name: str) -> dict[str, Ranking]:
    return ranked(lambda i: int(generator("rank", name, i).integers(1, CANDIDATES + 1)))


def test_the_chance_row_is_the_expectation_over_random_orders():
    table = evaluate(ONE_EACH, {"first": ranked(lambda i: 1)}, "RR@10 P@1", chance="first")
    expected = sum(1 / rank for rank in range(1, 11)) / CANDIDATES
    assert table.mean["chance"]["RR@10"] == pytest.approx(expected, abs=0.01)
    assert table.mean["chance"]["P@1"] == pytest.approx(1 / CANDIDATES, abs=0.01)


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
    table = evaluate(ONE_EACH, runs, "RR@10 AP", "BM25", confirm="RR@10", rounds=400, chance="BM25", blank=blank)
    assert table.verdicts == {"random": [NOT_ABOVE_CHANCE], "popular": [NOT_ABOVE_BLANK]} and table.judged_by == "RR@10"
    assert all(NOT_ABOVE_BLANK in text for text in (str(table), table._repr_html_(), table.json()))
    assert {c.run for c in table.comparisons} == {"random", "popular", "good"}  # Holm's correction counts only systems


def test_a_constant_scorer_that_keeps_the_order_of_its_candidates_is_flagged(tmp_path):
    first = ranked(lambda i: 1 + i % 2)
    write_run(str(tmp_path / "same.trec"), [(qid, run.ranked(), [2.5] * len(run)) for qid, run in first.items()])
    table = evaluate(ONE_EACH, {"BM25": first, "same": read_run(str(tmp_path / "same.trec"))}, "RR@10")
    assert table.mean["same"] == table.mean["BM25"] and list(table.verdicts) == ["same"]
    assert f"equal scores in {len(first)} of {len(first)} rankings" in str(table) and table.notes() == []
    assert system_of(table, "same").sentence.startswith("same does not rank: equal scores in")


def test_the_row_of_best_orders_is_the_limit_of_re_ranking():
    qrels = {"1": {"a": 1, "b": 2}, "2": {"c": 1}, "3": {"absent": 1}}
    run = {qid: Ranking.of(["x", "a", "b", "c"], [4, 3, 2, 1]) for qid in qrels}
    table = evaluate(qrels, {"bm25": run}, "RR@10 nDCG@10", baseline="bm25", oracle="bm25", chance="bm25")
    assert table.per_query["oracle"] == {
        "RR@10": {"1": 1.0, "2": 1.0, "3": 0.0}, "nDCG@10": pytest.approx({"1": 1.0, "2": 1.0, "3": 0.0})
    }  # fmt: skip
    assert not table.comparisons and "oracle" not in table.verdicts


PLAIN = {"map": "AP", "recip_rank": "RR", "Rprec": "Rprec", "ndcg": "nDCG"}
AT_RANK = {"ndcg_cut": "nDCG@{}", "P": "P@{}", "recall": "R@{}"}


@pytest.mark.real
@pytest.mark.parametrize(
    "qrels, run, output, relevant",
    [
        ("qrels.test", "results.test", "out.test.aq", 1), ("qrels.test", "results.trunc", "out.test.aqc", 1),
        ("qrels.rel_level", "results.test", "out.test.aql", 2),
    ],
)  # fmt: skip
def test_equals_trec_eval(qrels, run, output, relevant):
    expected = {}
    for line in Path(shared("trec_eval", output)).read_text().splitlines():
        measure, qid, value = line.split()
        at = re.fullmatch(r"(ndcg_cut|P|recall)_(\d+)", measure)
        if name := AT_RANK[at[1]].format(at[2]) if at else PLAIN.get(measure):
            expected[name, qid] = float(value)
    measures = sorted({measure for measure, _ in expected})
    assert len(measures) >= 4 + 9 + 9 + 9
    names = {}
    for measure in measures:
        level = "" if relevant == 1 or measure.startswith("nDCG") else f"(rel={relevant})"
        names[measure] = measure.replace("@", f"{level}@") if "@" in measure else measure + level
    judged, ranked = read_qrels(shared("trec_eval", qrels)), read_run(shared("trec_eval", run))
    table = evaluate(judged, {"run": ranked}, list(names.values()))
    parsed = dict(zip(names, table.measures))
    for (measure, qid), value in expected.items():
        ours = table.mean["run"] if qid == "all" else {m: v[qid] for m, v in table.per_query["run"].items()}
        assert math.isclose(ours[parsed[measure]], value, abs_tol=5.001e-5), (measure, qid)
