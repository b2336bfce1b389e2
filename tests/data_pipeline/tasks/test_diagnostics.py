import numpy as np
import pytest

from data_pipeline.engine import tables
from data_pipeline.engine.job import Job
from data_pipeline.engine.store import write
from data_pipeline.engine.tables import pack
from data_pipeline.tasks.diagnostics import predict, save_tables
from data_pipeline.weights.word_counts import FREQUENCY, WordCounts
from harp_jax.base.randomness import signed64
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer


def test_tables_have_the_log_odds_of_counted_tokens(tmp_path):
    counts = (("pos_doc", 0, 3), ("pos_doc", 2, 1), ("neg_doc", 1, 2), ("neg_doc", 2, 1), ("pos_query", 0, 1))
    save_tables(str(tmp_path / "odds.npz"), 3, [("a", *each) for each in counts])
    odds = np.load(tmp_path / "odds.npz")
    assert odds.files == ["a/doc"]
    np.testing.assert_allclose(odds["a/doc"], np.log([4 / 7, 1 / 7, 2 / 7]) - np.log([1 / 6, 3 / 6, 2 / 6]))


@pytest.fixture
def job(tmp_path):
    """A vocabulary of four words, ids 5 to 8, and ##b; of 3 passages, 3 have "a" and the token ##b, 1 has "b"."""
    tokenizer = Tokenizer.of_words((*SPECIAL_TOKENS, *"abcd", "##b"))
    tokenizer.save(str(tmp_path / "tokenizer"))
    words = {"word": [signed64("word", word) for word in ("a", "b", "##b")], "n": [3, 1, 3]}
    WordCounts.save(str(tmp_path / FREQUENCY), tables.WORD_TOTALS.of(words), 3)
    save_tables(str(tmp_path / "predictors.npz"), tokenizer.size, [("qdm", "pos_doc", 5, 5), ("qdm", "neg_doc", 6, 5)])
    config = {"tokenizer": str(tmp_path / "tokenizer"), "stopwords": "", "unit": "words", "language": "en"}
    return Job(config, str(tmp_path))


def points_of(job, *pairs):
    """Predictor → points, for (query, positive, negative, in-links of both)."""
    rows = []
    for i, (query, positive, negative, *in_links) in enumerate(pairs):
        sides = dict(pos_query=pack(query), pos_doc=pack(positive), neg_query=pack(query), neg_doc=pack(negative))
        rows.append(dict(task="qdm", key=str(i), **sides, pos_in_links=in_links[0], neg_in_links=in_links[1]))
    write(job, tables.VALIDATION, 0, "pairs", 0, rows)
    predictions = predict(job, 0, None)[tables.PREDICTIONS]
    assert {row["n"] for row in predictions} == {len(pairs)}
    return {row["predictor"]: row["points"] for row in predictions}


def test_ties_count_one_half(job):
    pairs = ([5], [5, 7], [6, 8], 5, 2), ([5], [5, 6], [6, 5], 1, 1), ([7], [6, 7, 8], [5, 6], 1, 4)
    # Twice the wins plus the ties: pair 1 is a win, pair 2 a tie, and pair 3 depends on the predictor.
    points = {"overlap": 5, "length": 4, "query_only": 3, "document_only": 3, "in_links": 3, "idf": 5}
    assert points_of(job, *pairs) == points


def test_idf_counts_in_the_unit_of_the_job(job):
    """No passage has the word "ab", but all have its tokens; none has "c"."""
    for unit, points in (("words", 1), ("tokens", 2)):
        job.config["unit"] = unit
        assert points_of(job, ([5, 9, 7], [7], [5, 9], 1, 1))["idf"] == points
