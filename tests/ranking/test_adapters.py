"""The re-ranker in PyTerrier: with the real package if installed, else with a stand-in for its calls."""

import sys
import types

import pandas
import pytest

from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.ranking.adapters import transformer
from tests.support.tiny_bert import CONFIG, random_params, small_tokenizer


@pytest.fixture(scope="module")
def reranker(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("adapters") / "tiny")
    save_hf(path, CONFIG, random_params(CONFIG), small_tokenizer(), "")
    return Reranker.from_pretrained(path)


ROWS = [
    ("1", "the cat", "a", "the cat sat", 3.0, 0, "A"),
    ("1", "the cat", "b", "two dogs", 2.0, 1, "B"),
    ("2", "one dog ?", "a", "the cat sat", 1.0, 0, "A"),
    ("2", "one dog ?", "c", None, 0.5, 1, "C"),
]
RESULTS = pandas.DataFrame(ROWS, columns=["qid", "query", "docno", "text", "score", "rank", "title"])


def add_ranks(frame):
    """Like pt.model.add_ranks: rank 0 is the best score of each query."""
    rank = frame.groupby("qid")["score"].rank(ascending=False, method="first").astype(int) - 1
    return frame.assign(rank=rank).sort_values(["qid", "rank"])


@pytest.fixture(params=["real", "protocol"])
def pyterrier(request, monkeypatch):
    if request.param == "real":
        pytest.importorskip("pyterrier")
    else:
        stand_in = types.ModuleType("pyterrier")
        stand_in.Transformer = object
        stand_in.model = types.SimpleNamespace(add_ranks=add_ranks)
        monkeypatch.setitem(sys.modules, "pyterrier", stand_in)


def test_pyterrier_ranks_by_the_scores(reranker, pyterrier):
    found = transformer(reranker).transform(RESULTS)
    scores = reranker.predict(list(zip(RESULTS["query"], RESULTS["text"].fillna(""))))
    expected = dict(zip(zip(RESULTS["qid"], RESULTS["docno"]), scores))
    assert {(row.qid, row.docno): row.score for row in found.itertuples()} == pytest.approx(expected)
    assert set(found["title"]) == {"A", "B", "C"}
    for _, group in found.groupby("qid"):
        ordered = group.sort_values("rank")
        assert list(ordered["rank"]) == [0, 1] and ordered["score"].is_monotonic_decreasing
    with pytest.raises(InputError, match="have no column text; put pt.text.get_text"):
        transformer(reranker).transform(RESULTS.drop(columns="text"))
    assert len(transformer(reranker).transform(RESULTS[:0])) == 0
