"""The re-ranker in PyTerrier: the real package where it is installed, its calls where it is not."""

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


RESULTS = pandas.DataFrame(
    {
        "qid": ["1", "1", "2", "2"],
        "query": ["the cat", "the cat", "one dog ?", "one dog ?"],
        "docno": ["a", "b", "a", "c"],
        "text": ["the cat sat", "two dogs", "the cat sat", None],
        "score": [3.0, 2.0, 1.0, 0.5],
        "rank": [0, 1, 0, 1],
        "title": ["A", "B", "A", "C"],
    }
)


def add_ranks(frame):
    """What pt.model.add_ranks does: rank 0 for the best score of each query, in order."""
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


def test_a_pyterrier_pipeline_runs(reranker):
    pt = pytest.importorskip("pyterrier")
    pipeline = pt.Transformer.from_df(RESULTS) >> transformer(reranker) % 1
    assert len(pipeline(RESULTS[["qid", "query"]].drop_duplicates())) == 2
