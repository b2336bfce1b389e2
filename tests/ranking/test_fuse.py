"""Fusion: runs and priors against slow versions, no fold fits its own weights; the sum that `harp site` recommends."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.made import forget
from harp_jax.corpus.trec import Ranking, ordered, read_run, write_run
from harp_jax.evaluation.evaluate import evaluate
from harp_jax.ranking.combined import CombinedSearch, Settings
from harp_jax.ranking.first_stage import settings_of
from harp_jax.ranking.fuse import joined, normalised, pooled, reciprocal_ranks, weighted
from harp_jax.ranking.rerank import load_scorer, predict
from tests.support.commands import command
from tests.support.look_site import DOCS, QUERIES, write_site
from tests.support.tiny_bert import WORDS

FIRST = {"q1": Ranking.of(["a", "b", "c"], [9.0, 5.0, 1.0]), "q2": Ranking.of(["x"], [3.0])}
SECOND = {"q1": Ranking.of(["c", "d", "a"], [0.2, 0.6, 0.4]), "q3": Ranking.of(["y", "z"], [1.0, 2.0])}


def scores(rankings) -> dict[str, dict[str, float]]:
    return {qid: dict(zip(docids, map(float, values))) for qid, docids, values in rankings}


def test_mean_of_normalised_scores():
    found = scores(weighted(pooled([FIRST, SECOND], "minmax"), [0.5, 0.5]))
    # a: (1 + .5)/2, b: (.5 + 0)/2 (missing counts as the lowest), c: 0, d: (0 + 1)/2
    assert found["q1"] == pytest.approx({"a": 0.75, "b": 0.25, "c": 0.0, "d": 0.5})
    assert found["q2"] == {"x": 0.5} and found["q3"] == {"z": 0.5, "y": 0.0}
    assert normalised(np.array([2.0, 2.0]), "minmax").tolist() == [1, 1]
    assert normalised(np.array([2.0, 3.0]), "none").tolist() == [2, 3]
    for tied in (0.0, 0.3, -7.0):  # in written runs no two scores are equal
        run = dict(ordered([("q", list("abcde"), np.full(5, tied))]))
        assert pooled([run], "minmax")["q"][1].tolist() == [[1] * 5]


def test_reciprocal_rank_fusion():
    found = scores(reciprocal_ranks([FIRST, SECOND]))
    assert found["q1"] == pytest.approx({"a": 1 / 61 + 1 / 62, "b": 1 / 62, "c": 1 / 63 + 1 / 63, "d": 1 / 61})
    assert found["q3"] == pytest.approx({"z": 1 / 61, "y": 1 / 62})


def test_join_is_for_different_queries():
    assert list(scores(joined([FIRST, {"q9": SECOND["q3"]}]))) == ["q1", "q2", "q9"]
    with pytest.raises(InputError, match="query q1 is in two"):
        list(joined([FIRST, SECOND]))


@pytest.fixture
def files(tmp_path):
    """Queries of fold a are answered by the first run, those of fold b by the second."""
    qids = [f"{fold}{i}" for fold in "ab" for i in range(6)]
    for name, good in (("first", "a"), ("second", "b")):
        scores = {qid: [3.0, 2.0, 1.0] if qid[0] == good else [1.0, 3.0, 2.0] for qid in qids}
        write_run(str(tmp_path / f"{name}.trec"), [(qid, ["x", "y", "z"], scores[qid]) for qid in qids])
    (tmp_path / "qrels").write_text("".join(f"{qid} 0 x 1\n" for qid in qids))
    (tmp_path / "folds").write_text("".join(f"{qid}\t{qid[0]}\n" for qid in qids))
    return tmp_path


def fused(files, *options):
    forget(str(files / "out.trec"))
    command("fuse", files / "first.trec", files / "second.trec", *options, output=files / "out.trec")
    return {qid: ranking.ranked()[0] for qid, ranking in read_run(str(files / "out.trec")).items()}


def test_weights_of_a_fold_come_from_the_others(files, capsys):
    given = ["--method=weights", f"--qrels={files / 'qrels'}", f"--folds={files / 'folds'}"]
    best = fused(files, *given, "--measure=RR@10")
    # Fold a uses the run that is best for b, the second, which ranks a's documents wrongly; and vice versa.
    assert best == {f"{fold}{i}": "y" for fold in "ab" for i in range(6)}
    said = capsys.readouterr().err
    assert "fold a: weights 1, 2" in said or ("fold a: weights 1, 3" in said and "fold b: weights 1, 0" in said)
    with pytest.raises(InputError, match="name one measure of the ranking"):
        fused(files, *given, "--measure=NumRet")
    (files / "folds").write_text("a0\ta\nb0\tb\n")
    with pytest.raises(InputError, match="query a1 of the runs is in no fold"):
        fused(files, *given)


def test_given_weights_are_applied_to_the_runs_in_their_order(files):
    best = fused(files, "--method=weights", "--weights=1,0.35")
    assert best == {f"{fold}{i}": "x" if fold == "a" else "y" for fold in "ab" for i in range(6)}
    assert read_run(str(files / "out.trec"))["a0"].scores == pytest.approx([1.0, 0.85, 0.175])
    verdict = {"first": "A", "rungs": [{"part": "B"}], "weights": {"B": 1.0}}  # A is left out
    (files / "verdict.json").write_text(json.dumps(verdict))
    decided = fused(files, "--method=weights", f"--verdict={files / 'verdict.json'}")
    assert decided == fused(files, "--method=weights", "--weights=0,1") != best
    for options in (["--method=rrf", "--weights=1,2"], ["--method=weights", "--weights=1"]):
        with pytest.raises(InputError, match="one number for each of the 2 runs"):
            fused(files, *options)


def prior(files, *options):
    forget(str(files / "prior.trec"))
    command("priors", *options, run=files / "first.trec", output=files / "prior.trec")
    return read_run(str(files / "prior.trec"))["a0"]


@pytest.mark.parametrize(
    ("feature", "option", "text"),
    [
        ("inlinks", "anchors", "y\twhy\t2\nelsewhere\tthere\t7\nz\tzed\t1\ny\tyes\t1\n"),
        ("length", "docs", "x\t\t\t\ny\t\t\tone two three\nz\t\t\tone\n"),
    ],
)
def test_priors_are_counts_of_anchors_and_of_words(files, feature, option, text):
    (files / "given.tsv").write_text(text)
    ranking = prior(files, f"--feature={feature}", f"--{option}={files / 'given.tsv'}")
    assert ranking.ranked() == ["y", "z", "x"]
    np.testing.assert_allclose(ranking.scores, np.log1p([3, 1, 0]), atol=1e-6)
    with pytest.raises(InputError, match=f"--feature={feature} needs --{option}"):
        prior(files, f"--feature={feature}")


def test_a_run_with_ties_is_no_better_than_itself(tmp_path, monkeypatch):
    """Sums break ties as evaluation does. Ties in file order, which has relevant documents first, would look perfect."""
    qrels = {f"q{n}": {f"d{n}a": 1} for n in range(40)}
    lines = [f"q{n} Q0 d{n}{c} 1 7.5 t\n" for n in range(40) for c in "abcdef"]
    (tmp_path / "tie.trec").write_text("".join(lines))
    run = read_run(str(tmp_path / "tie.trec"))
    expected = evaluate(qrels, {"": [run]}, "RR@10").mean[""]["RR@10"]
    assert expected == pytest.approx(1 / 6)
    pool = pooled([run], "minmax")
    sums = weighted(pool, (1.0,)), weighted(pooled([run, run], "none"), (1.0, 1.0)), reciprocal_ranks([run])
    for found in (*sums, joined([run])):
        assert evaluate(qrels, {"": [dict(ordered(found))]}, "RR@10").mean[""]["RR@10"] == pytest.approx(expected)


WEIGHTS = {"BM25": 1.0, "anchor texts (BM25F)": 2.0, "in-links": 0.5, "vectors": 0.7, "ranker": 0.3}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    found = write_site(tmp_path_factory.mktemp("combined") / "site")
    settings = Settings.load(str(found))
    dataclasses.replace(settings, weights=WEIGHTS, encoder="ranker", depth=2).save(str(found))
    return found


def test_every_part_scores_the_candidates_of_all_first_stages(site):
    combined = CombinedSearch(str(site))
    docids, parts, _ = found = combined.scores("the dog")
    assert {"d1", "d2"} <= {*docids} and len(docids) > 2  # BM25 finds "dog" in two documents; vectors find more
    texts = [("the dog", " ".join(DOCS[docid]).strip()) for docid in docids]
    for part, cosine in (("vectors", True), ("ranker", False)):
        expected = predict(load_scorer(str(site / "ranker"), cosine=cosine), texts)
        np.testing.assert_allclose(parts[part], expected, atol=1e-3 if cosine else 1e-5)  # stored in 16 bits
    np.testing.assert_allclose(parts["in-links"], np.log1p([{"d1": 4, "d2": 2}.get(docid, 0) for docid in docids]))
    anchored, text = (dict(zip(docids, parts[part])) for part in ("anchor texts (BM25F)", "BM25"))
    assert anchored["d2"] > text["d2"] > 0  # another page's anchor text for it is "the dog"
    assert all((score > 0) == ("dog" in " ".join(DOCS[docid]).lower()) for docid, score in text.items())
    scaled = [weight * (x - x.min()) / (np.ptp(x) or 1) for weight, x in zip(WEIGHTS.values(), parts.values())]
    np.testing.assert_allclose(found.total(WEIGHTS), np.sum(scaled, 0))
    total = dict(zip(docids, np.sum(scaled, 0)))
    best = combined.search("the dog", k=2)
    assert [docid for docid, _ in best] == sorted(total, key=total.get, reverse=True)[:2]
    assert [score for _, score in best] == pytest.approx(sorted(total.values(), reverse=True)[:2])


@pytest.mark.parametrize("part", ["ranker", "vectors"])
def test_the_passage_that_a_model_scored_best_is_named(site, tmp_path, part):
    shutil.copytree(site, tmp_path / "site")
    words, rng = WORDS.replace("##", "").split(), np.random.default_rng(0)
    texts = {f"long{n}": " ".join(rng.choice(words, 120)) for n in range(4)}
    with open(tmp_path / "site" / "survey" / "docs.jsonl", "a") as docs:
        docs.writelines(json.dumps({"id": docid, "text": text}) + "\n" for docid, text in texts.items())
    changes = {"weights": {"BM25": 1.0, part: 1.0}, "windows": 9, "passages": 9, "depth": 9}
    dataclasses.replace(Settings.load(str(site)), **changes).save(str(tmp_path / "site"))
    combined = CombinedSearch(str(tmp_path / "site"))
    docids, parts, windows = combined.scores("red cat")
    best = dict(zip(docids, windows[part].tolist()))
    passages = {docid: combined.passage(part, "red cat", docid, window) for docid, window in best.items()}
    assert passages["d1"] == "" and max(best.values()) > 0  # d1 is read whole
    assert all(passages[docid] in text for docid, text in texts.items())
    scorer = load_scorer(str(site / "ranker"), cosine=part == "vectors")
    expected = predict(scorer, [("red cat", passages[docid]) for docid in texts])
    found = [parts[part][docids.index(docid)] for docid in texts]
    assert found == pytest.approx(expected, abs=1e-3 if part == "vectors" else 1e-5)  # vectors are stored in 16 bits


@pytest.mark.parametrize(
    "change, said",
    [
        ({"docs": "../secret.jsonl"}, "names '../secret.jsonl', which is not below"),
        ({"anchors": "/etc/passwd"}, "names '/etc/passwd', which is not below"),
        ({"models": {"ranker": "../../model"}}, "names '../../model', which is not below"),
        ({"weights": ["BM25"]}, "weights is .* not of the type dict"),
        ({"weights": {"BM25": None}}, "weights.BM25 is 'None', not of the type float"),
        ({"weights": {"magic": 1.0}}, "the weight of 'magic', which is not among its parts"),
        ({"fields": "body"}, "fields is 'body', not of the type tuple"),
        ({"fields": ["abstract"]}, "unknown document field"),
        ({"parameters": {"bm25": {}}}, "parameters of bm25f"),
        ({"parameters": {"bm25": {"k1": "high"}, "bm25f": {}}}, "parameters.bm25.k1 is 'high'"),
        ({"depth": 0}, "depth is 0; .* 1 or more"), ({"depth": "20"}, "depth is '20', not of the type int"),
        ({"windows": -1}, "windows is -1"), ({"language": None}, "language is 'None'"), ({"docs": 3}, "docs is '3'"),
    ],
)  # fmt: skip
def test_edited_settings_are_refused_when_they_are_read(site, tmp_path, change, said):
    shutil.copytree(site, tmp_path / "site")
    path = tmp_path / "site" / "search.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=said):
        CombinedSearch(str(tmp_path / "site"))


@pytest.mark.parametrize(
    "text", ['{"model": "bm25", "parameters": 3}', '{"model": "bm25"}', '{"parameters": {"k1": "x"}}',
             '{"model": "bm25", "folds": {"a": 1}}', '{"model": "bm25", "parameters": {"k1": null}}'],
)  # fmt: skip
def test_edited_parameters_are_refused_when_they_are_read(tmp_path, text):
    (tmp_path / "bm25.json").write_text(text)
    with pytest.raises(InputError, match="bm25.json .*tune again"):
        settings_of("bm25", {}, str(tmp_path / "bm25.json"), "", {"q": "text"})


def test_what_is_barred_is_no_candidate_and_a_query_of_unknown_words_has_vectors(site):
    combined, lexical = CombinedSearch(str(site)), CombinedSearch(str(site), ["BM25"])
    assert "d2" not in combined.scores("the dog", {"d2"}).docids
    assert len(combined.scores("of unknownword").docids) == 2
    assert lexical.scores("unknownword").docids == lexical.search("unknownword") == []
    # "pet" is only in an anchor text: BM25F finds candidates even if its weight is 0.
    assert "d1" in lexical.scores("pet").docids


def test_own_queries_are_ranked_by_each_part_and_by_the_sum(site, tmp_path, capsys):
    (tmp_path / "queries.tsv").write_text("".join(f"q{n}\t{query}\n" for n, query in enumerate(QUERIES)))
    (tmp_path / "qrels.txt").write_text("q0 0 d1 1\nq1 0 d3 1\n")
    given = {"queries": tmp_path / "queries.tsv", "qrels": tmp_path / "qrels.txt", "output": tmp_path / "runs"}
    command("search", site, **given)
    names = {"bm25", "anchor_texts_bm25f", "in_links", "vectors", "ranker", "recommended"}
    assert {path.stem for path in (tmp_path / "runs").iterdir()} == names
    counted = {path.stem: len(path.read_text().splitlines()) for path in (tmp_path / "runs").iterdir()}
    assert len({*counted.values()}) == 1  # the same candidates
    (tmp_path / "qrels.txt").write_text("q0 0 d1 1\nq1 0 /d3.html 1\n")
    command("search", site, **given)
    assert "note: 1 of 2 judged documents are not in the site, such as /d3.html" in capsys.readouterr().out
    for judged, said in (
        ("q0 0 /d1.html 1\nq1 0 /d3.html 1\n", "none of its 2 judged documents is in the site, such as /d1.html"),
        ("1 0 d1 1\n", r"qrels.txt judges none of the 6 queries of .*queries.tsv; check"),
    ):
        (tmp_path / "qrels.txt").write_text(judged)
        with pytest.raises(InputError, match=said):
            command("search", site, **given)
