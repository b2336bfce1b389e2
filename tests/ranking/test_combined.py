"""The weighted sum that `harp site` recommends: every part scores the union of the first stages' candidates."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.ranking.combined import CombinedSearch, Settings
from harp_jax.ranking.rerank import load_scorer, predict
from harp_jax.ranking.scorers import BiEncoderScorer
from tests.support.commands import command
from tests.support.look_site import DOCS, QUERIES, write_site
from tests.support.tiny_bert import WORDS, save_encoder, small_tokenizer

RNG = np.random.default_rng(0)
WHOLE = [word for word in WORDS.split() if not word.startswith("##")]
WEIGHTS = {"BM25": 1.0, "anchor texts (BM25F)": 2.0, "in-links": 0.5, "vectors": 0.7, "ranker": 0.3}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    found = write_site(tmp_path_factory.mktemp("combined") / "site")
    settings = Settings.load(str(found))
    dataclasses.replace(settings, weights=WEIGHTS, encoder="ranker", depth=2).save(str(found))
    return found


def test_the_best_by_the_sum(site):
    search = CombinedSearch(str(site))
    docids, parts, _ = found = search.scores("the dog")
    total = dict(zip(docids, found.total(WEIGHTS)))
    best = search.search("the dog", k=2)
    assert [docid for docid, _ in best] == sorted(total, key=total.get, reverse=True)[:2] and len(parts) == 5
    np.testing.assert_allclose([score for _, score in best], sorted(total.values(), reverse=True)[:2], rtol=1e-6)
    assert CombinedSearch(str(site), ["BM25"]).search("unknownword") == []


def test_every_part_scores_the_candidates_of_all_first_stages(site):
    docids, parts, _ = found = CombinedSearch(str(site)).scores("the dog")
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


def test_the_passage_that_a_ranker_scored_best_is_named(site, tmp_path):
    shutil.copytree(site, tmp_path / "site")
    changes = {"weights": {"BM25": 1.0, "ranker": 1.0}, "windows": 3, "max_length": 10}
    dataclasses.replace(Settings.load(str(site)), **changes).save(str(tmp_path / "site"))
    combined = CombinedSearch(str(tmp_path / "site"))
    docids, parts, windows = combined.scores("red cat")
    best = dict(zip(docids, windows["ranker"].tolist()))
    read = {docid: combined.passage("ranker", "red cat", docid, window) for docid, window in best.items()}
    assert {*read} == {"d1", "d4"} and all(read.values())  # both are longer than the ranker's rows
    assert all(text in " ".join(DOCS[docid]) for docid, text in read.items())
    alone = predict(load_scorer(str(site / "ranker"), max_length=10), [("red cat", text) for text in read.values()])
    np.testing.assert_allclose(alone, [parts["ranker"][docids.index(docid)] for docid in read], atol=1e-5)


def test_the_passage_whose_vector_is_nearest_is_named(site, tmp_path):
    """The encoder's prompt is not part of the passage."""
    shutil.copytree(site, tmp_path / "site")
    rows = [{"id": f"e{n}", "text": " ".join(RNG.choice(WHOLE, size))} for n, size in enumerate((70, 50, 90, 5))]
    (tmp_path / "site" / "survey" / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    prompts = {"prompts": {"query": "", "document": "the dog "}, "default_prompt_name": None}
    encoder = save_encoder(str(tmp_path / "encoder"), small_tokenizer(), 24)
    (tmp_path / "encoder" / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    changes = {"weights": {"BM25": 1.0, "vectors": 1.0}, "encoder": encoder, "depth": 4, "passages": 9}
    dataclasses.replace(Settings.load(str(site)), **changes).save(str(tmp_path / "site"))
    combined = CombinedSearch(str(tmp_path / "site"))
    query = " ".join(WHOLE[:3])
    docids, parts, windows = combined.scores(query)
    best = dict(zip(docids, windows["vectors"].tolist()))
    read = {docid: combined.passage("vectors", query, docid, window) for docid, window in best.items()}
    assert read.pop("e3") == "" and len(docids) == 4 and len({*best.values()}) > 1
    assert all(text in row["text"] for row in rows for docid, text in read.items() if docid == row["id"])
    scorer = BiEncoderScorer.load(encoder)
    alone = predict(scorer, [(query, text) for text in read.values()])
    expected = [parts["vectors"][docids.index(docid)] for docid in read]
    np.testing.assert_allclose(alone, expected, atol=2e-3)  # stored in 16 bits


def test_what_is_barred_is_no_candidate_and_a_query_of_unknown_words_has_vectors(site):
    combined = CombinedSearch(str(site))
    assert "d2" not in combined.scores("the dog", {"d2"}).docids
    assert len(combined.scores("of unknownword").docids) == 2
    assert CombinedSearch(str(site), ["BM25"]).scores("unknownword").docids == []
    # "pet" is only in an anchor text: BM25F finds candidates even if its weight is 0.
    assert "d1" in CombinedSearch(str(site), ["BM25"]).scores("pet").docids


def test_own_queries_are_ranked_by_each_part_and_by_the_sum(site, tmp_path, capsys):
    (tmp_path / "queries.tsv").write_text("".join(f"q{n}\t{query}\n" for n, query in enumerate(QUERIES)))
    (tmp_path / "qrels.txt").write_text("q0 0 d1 1\nq1 0 d3 1\n")
    given = {"queries": tmp_path / "queries.tsv", "qrels": tmp_path / "qrels.txt", "output": tmp_path / "runs"}
    command("search", site, **given)
    names = {"bm25", "anchor_texts_bm25f", "in_links", "vectors", "ranker", "recommended"}
    assert {path.stem for path in (tmp_path / "runs").iterdir()} == names
    printed = capsys.readouterr().out
    summed = "BM25 + 2 × anchor texts (BM25F) + 0.5 × in-links + 0.7 × vectors + 0.3 × ranker"
    assert f"recommended: {summed}\n" in printed and "against BM25" in printed
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
    (tmp_path / "qrels.txt").write_text("q0 0 d1 1\n")
    with pytest.raises(InputError, match="unknown measure 'nothing'"):
        command("search", site, **given | {"measures": "nothing", "output": tmp_path / "never"})
    assert not (tmp_path / "never").exists()  # before anything is ranked
