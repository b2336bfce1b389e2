"""The claims of `make demo` with another seed, and the control with uninformative links. Eight minutes."""

import numpy as np
import pytest

from harp_jax.corpus.trec import read_qrels, read_queries, read_run
from harp_jax.evaluation.evaluate import evaluate
from tests.support.commands import python
from tests.support.shared_data import minilm

pytestmark = pytest.mark.real


def demo(folder, *settings: str) -> dict[str, np.ndarray]:
    """Run → reciprocal ranks at 10 of all test questions."""
    sets = [word for setting in (f"encoder={minilm()}", *settings) for word in ("--set", setting)]
    python("-m", "harp_jax", "plan", "demo", f"--output={folder}", *sets)
    qrels = read_qrels(str(folder / "wiki" / "qrels.txt"))
    asked = read_queries(str(folder / "wiki" / "test.queries.tsv"))
    runs = {path.stem: read_run(str(path)) for path in folder.glob("*.trec")}
    values = evaluate({qid: qrels[qid] for qid in asked}, runs, "RR@10").per_query
    return {name: np.array([*values[name]["RR@10"].values()]) for name in runs}


def is_above(more: np.ndarray, less: np.ndarray) -> bool:
    """Whether the mean difference exceeds twice its paired standard error."""
    difference = more - less
    return difference.mean() > 2 * difference.std(ddof=1) / len(difference) ** 0.5


def test_links_teach_to_rank_and_save_labels(tmp_path):
    ranks = demo(tmp_path, "seed=1")
    assert is_above(ranks["harp"], ranks["bm25"])
    assert is_above(ranks["harp"], ranks["harp_blank"])
    for other in ("mlm_tuned", "random_tuned", "bm25"):
        assert is_above(ranks["harp_tuned"], ranks[other])
    assert is_above(ranks["mlm_tuned"], ranks["random_tuned"])


def test_links_that_say_nothing_teach_nothing(tmp_path):
    ranks = demo(tmp_path, "informative=False", "fine_tune=False")
    assert not is_above(ranks["harp"], ranks["bm25"])
    assert is_above(ranks["cosine"], ranks["harp"])  # training lost what the encoder knew
