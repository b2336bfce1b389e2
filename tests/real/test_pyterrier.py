"""The re-ranker in a pipeline of the real PyTerrier."""

import numpy as np
import pandas
import pytest

from harp_jax.base.errors import InputError
from harp_jax.ranking.adapters import transformer

pytestmark = pytest.mark.real


def test_the_ranker_in_a_pipeline_of_pyterrier():
    pt = pytest.importorskip("pyterrier")

    class SharedWords:
        def predict(self, pairs, windows=None):
            return np.asarray([len({*query.split()} & {*text.split()}) for query, text in pairs], np.float32)

    rows = [("1", "red cat", "a", "a dog"), ("1", "red cat", "b", "a red cat"), ("2", "dog", "a", "a dog")]
    candidates = pandas.DataFrame(rows, columns=["qid", "query", "docno", "text"])
    ranked = (pt.Transformer.from_df(candidates) >> transformer(SharedWords()))(
        candidates[["qid", "query"]].drop_duplicates()
    )
    best = ranked[ranked["rank"] == 0]
    assert dict(zip(best.qid, best.docno)) == {"1": "b", "2": "a"} and len(ranked) == 3
    with pytest.raises(InputError, match="have no column text; put pt.text.get_text"):
        transformer(SharedWords()).transform(candidates.drop(columns="text"))
