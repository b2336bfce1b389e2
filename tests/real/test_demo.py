"""The claims of `make demo` with another seed, and the control with uninformative links. Eight minutes."""

import numpy as np
import pytest

from harp_jax.corpus.trec import read_qrels, read_run
from tests.support.commands import python
from tests.support.shared_data import minilm

pytestmark = pytest.mark.real


def demo(folder, *settings: str) -> dict[str, np.ndarray]:
    """Step → reciprocal ranks at 10 of all test questions."""
    sets = [word for setting in (f"encoder={minilm()}", *settings) for word in ("--set", setting)]
    python("-m", "harp_jax", "plan", "demo", f"--output={folder}", *sets)
    (wiki,) = folder.glob("wiki-*")
    qrels = read_qrels(str(wiki / "qrels.txt"))
    asked = [line.split("\t")[0] for line in (wiki / "test.queries.tsv").read_text().splitlines()]
    found = {}
    for path in folder.glob("*.trec"):
        run = read_run(str(path))
        ranked = [(run[qid].docids[:10] if qid in run else [], qrels[qid]) for qid in asked]
        hits = [[1 / rank for rank, docid in enumerate(ids, 1) if judged.get(docid, 0) > 0] for ids, judged in ranked]
        found[path.name.rpartition("-")[0]] = np.array([max(each, default=0.0) for each in hits])
    return found


def is_above(more: np.ndarray, less: np.ndarray) -> bool:
    """Whether the mean difference exceeds twice its paired standard error."""
    difference = more - less
    return difference.mean() > 2 * difference.std(ddof=1) / len(difference) ** 0.5


def test_links_teach_to_rank_and_save_labels(tmp_path):
    found = demo(tmp_path, "seed=1")
    assert is_above(found["run_harp_alone"], found["bm25_test"])
    assert is_above(found["run_harp_alone"], found["run_blank_alone"])
    for other in ("run_mlm", "run_random", "bm25_test"):
        assert is_above(found["run_harp"], found[other])
    assert is_above(found["run_mlm"], found["run_random"])


def test_links_that_say_nothing_teach_nothing(tmp_path):
    found = demo(tmp_path, "informative=False", "fine_tune=False")
    assert not is_above(found["run_harp_alone"], found["bm25_test"])
    assert is_above(found["run_cosine"], found["run_harp_alone"])  # training lost what the encoder knew
