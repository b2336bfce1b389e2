"""Weights by judged queries: planted cases, cross-fitting, and judgments of pages and sections."""

import numpy as np
import pytest

from harp_jax.site.search import Settings
from harp_jax.site.tune import best_weights, read_judged
from tests.support.commands import command
from tests.support.look_site import write_site

PARTS = ("BM25", "vectors")
DOCIDS = [f"d{n}" for n in range(10)]


def planted(signal: dict[str, float], queries: int = 60, seed: int = 0):
    """A pool in which a part's score of the relevant document is higher by its `signal`."""
    rng = np.random.default_rng(seed)
    pool, qrels = {}, {}
    for n in range(queries):
        relevant = rng.integers(len(DOCIDS))
        table = rng.random((len(PARTS), len(DOCIDS)))
        table[:, relevant] += [signal[part] for part in PARTS]
        table = (table - table.min(1, keepdims=True)) / np.ptp(table, axis=1, keepdims=True)
        pool[f"q{n}"] = [f"{n}-{docid}" for docid in DOCIDS], table
        qrels[f"q{n}"] = {f"{n}-{DOCIDS[relevant]}": 1}
    return pool, qrels


@pytest.mark.parametrize(("informed", "gain"), [("BM25", 0.2), ("vectors", 0.3)])
def test_the_part_with_the_information_has_the_weight(informed, gain):
    signal = {part: 0.9 * (part == informed) for part in PARTS}
    before = {"BM25": 1.0, "vectors": 2.0} if informed == "BM25" else {"BM25": 1.0}
    tuned = best_weights(*planted(signal), PARTS, before)
    (other,) = {*PARTS} - {informed}
    assert tuned.weights[informed] >= 3 * tuned.weights.get(other, 0.0) and tuned.holds and tuned.gain > gain
    assert informed == "vectors" or tuned.weights == {"BM25": 1.0}


def test_random_judgments_gain_nothing_out_of_fold():
    """Though the weights that are chosen on all queries look better on these."""
    nothing = dict.fromkeys(PARTS, 0.0)
    tuned = [best_weights(*planted(nothing, 100, seed), PARTS, {"BM25": 1.0}) for seed in range(10)]
    assert abs(np.mean([each.gain for each in tuned])) < 0.02
    assert sum(each.holds for each in tuned) <= 3


def test_a_pages_judgment_counts_for_its_sections(tmp_path, capsys):
    site = ["p#one", "p#two", "p", "whole", "other#x"]
    (tmp_path / "labels").write_text("a\tp\t1\na\tp#two\t0\nb\twhole#part\t2\nb\twhole#rest\t1\nc\tgone#x\nd\tother\n")
    queries, qrels = read_judged(str(tmp_path / "labels"), "", site)
    by_text = {queries[qid]: levels for qid, levels in qrels.items()}
    assert by_text == {"a": {"p#one": 1, "p#two": 0, "p": 1}, "b": {"whole": 2}, "d": {"other#x": 1}}
    assert capsys.readouterr().out == "note: 1 judged documents are not in the site\n"
    (tmp_path / "queries.tsv").write_text("q1\tsome text\n")
    (tmp_path / "qrels").write_text("q1 0 other 2\nq2 0 p 1\n")
    by_ids = read_judged(str(tmp_path / "qrels"), str(tmp_path / "queries.tsv"), site)
    assert by_ids == ({"q1": "some text"}, {"q1": {"other#x": 2}})


def test_weights_that_hold_are_written(tmp_path):
    more = {f"n{n}": ("", f"word{n} the mat") for n in range(30)}
    folder = write_site(tmp_path / "site", more, encoder="encoder", weights={"vectors": 1.0}, models={})
    settings = Settings.load(str(folder))
    (tmp_path / "labels.tsv").write_text("".join(f"word{n} mat\tn{n}\t1\n" for n in range(30)))
    command("tune", folder, "--dry_run", labels=tmp_path / "labels.tsv")
    assert Settings.load(str(folder)) == settings
    command("tune", folder, labels=tmp_path / "labels.tsv")
    tuned = Settings.load(str(folder))
    assert tuned.tuned == "RR@10 on 30 queries" and tuned.weights["BM25"] and tuned.weights["vectors"]
