"""The sum that `harp site` recommends, against each part alone."""

import json

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.ranking.rerank import load_scorer, predict
from harp_jax.site.search import CombinedSearch, Settings
from tests.support.commands import command
from tests.support.look_site import DOCS, QUERIES, write_site
from tests.support.tiny_bert import WORDS

WEIGHTS = {"BM25": 1.0, "anchor texts (BM25F)": 2.0, "in-links": 0.5, "vectors": 0.7, "ranker": 0.3}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return write_site(tmp_path_factory.mktemp("combined") / "site", weights=WEIGHTS, encoder="encoder", depth=2)


def test_every_part_scores_the_candidates_of_all_first_stages(site):
    combined = CombinedSearch(str(site))
    docids, parts, _ = found = combined.scores("the dog")
    assert {"d1", "d2"} < {*docids}  # BM25 finds "dog" in two documents; vectors find more
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
    best = sorted(total.items(), key=lambda item: -item[1])[:2]
    assert combined.search("the dog", k=2) == [(docid, pytest.approx(score)) for docid, score in best]


@pytest.mark.parametrize("part", ["ranker", "vectors"])
def test_the_passage_that_a_model_scored_best_is_named(tmp_path, part):
    words, rng = WORDS.replace("##", "").split(), np.random.default_rng(0)
    texts = {f"long{n}": " ".join(rng.choice(words, 120)) for n in range(4)}
    long = {docid: ("", text) for docid, text in texts.items()}
    changes = {"weights": {"BM25": 1.0, part: 1.0}, "windows": 9, "depth": 9, "encoder": "encoder"}
    site = write_site(tmp_path / "site", long, **changes)
    combined = CombinedSearch(str(site))
    docids, parts, windows = combined.scores("red cat")
    best = dict(zip(docids, windows[part].tolist()))
    passages = {docid: combined.passage(part, "red cat", docid, window) for docid, window in best.items()}
    assert passages["d1"] == "" and max(best.values()) > 0  # d1 is read whole
    assert all(passages[docid] in text for docid, text in texts.items())
    scorer = load_scorer(str(site / "ranker"), cosine=part == "vectors")
    expected = predict(scorer, [("red cat", passages[docid]) for docid in texts])
    found = [parts[part][docids.index(docid)] for docid in texts]
    assert found == pytest.approx(expected, abs=1e-3 if part == "vectors" else 1e-5)  # vectors are stored in 16 bits


def test_what_is_barred_is_no_candidate_and_a_query_of_unknown_words_has_vectors(site):
    combined, lexical = CombinedSearch(str(site)), CombinedSearch(str(site), ["BM25"])
    assert "d2" not in combined.scores("the dog", {"d2"}).docids
    assert len(combined.scores("of unknownword").docids) == 2
    assert lexical.scores("unknownword").docids == lexical.search("unknownword") == []
    assert lexical.search("the dog")  # by the weights of what is loaded
    # No word of the collection, and no vector nearer than random letters: nothing is found. A known word is.
    combined.vectors.noise = 1.1
    assert combined.scores("of unknownword").docids == combined.search("unknownword") == []
    assert len(combined.scores("the dog").docids) > 2
    # "pet" is only in an anchor text: BM25F finds candidates even if its weight is 0.
    assert "d1" in lexical.scores("pet").docids
    for load, search in (({"only": ["foo"]}, {}), ({"backend": "zzz"}, {}), ({}, {"k": -1}), ({}, {"query": None})):
        with pytest.raises(InputError):
            CombinedSearch(str(site), **load).search(**{"query": "pet"} | search)


def test_own_queries_are_ranked_by_each_part_and_by_the_sum(site, tmp_path, capsys, monkeypatch):
    (tmp_path / "queries.tsv").write_text("".join(f"q{n}\t{query}\n" for n, query in enumerate(QUERIES)))
    (tmp_path / "qrels.txt").write_text("q0 0 d1 1\nq1 0 /d3.html 1\n")
    command("search", site, queries=tmp_path / "queries.tsv", qrels=tmp_path / "qrels.txt", output=tmp_path / "runs")
    counted = {path.stem: len(path.read_text().splitlines()) for path in (tmp_path / "runs").iterdir()}
    assert counted.keys() == {"bm25", "anchor_texts_bm25f", "in_links", "vectors", "ranker", "recommended"}
    assert len({*counted.values()}) == 1  # the same candidates
    assert "note: 1 judged documents are not in the site" in capsys.readouterr().out
    (tmp_path / "queries.tsv").write_text("q0\tof unknownword\n")
    monkeypatch.setattr("harp_jax.ranking.vectors.PassageVectors.noise", 1.1)
    with pytest.raises(InputError, match="no query of .*/queries.tsv has a word of .*/site, and no vector is near one"):
        command("search", site, queries=tmp_path / "queries.tsv", output=tmp_path / "none")


def test_edited_settings_are_refused_when_they_are_read(site, tmp_path):
    for change, said in (
        ({"models": {"ranker": "../../model"}}, "names '../../model', which is not below"),
        ({"weights": {"magic": 1.0}}, "the weight of 'magic', which is not among its parts"),
        ({"weights": {"BM25": 1.0, "vectors": -1.0}}, "weights are 0 or more"),
        ({"parameters": {"bm25": {"b": 1.5}, "bm25f": {}}}, "search.json: b=1.5: use"),
    ):
        (tmp_path / "search.json").write_text(json.dumps(json.loads((site / "search.json").read_text()) | change))
        with pytest.raises(InputError, match=said):
            Settings.load(str(tmp_path))
