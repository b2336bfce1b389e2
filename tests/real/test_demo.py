"""The claims of `make demo` with another seed, and the control with uninformative links. Eight minutes."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest

from harp_jax.corpus.trec import read_qrels, read_run
from tests.support import ROOT
from tests.support.commands import python
from tests.support.shared_data import minilm

pytestmark = pytest.mark.real


def demo(folder, *settings: str) -> dict[str, np.ndarray]:
    """Run → reciprocal ranks at 10 of all test questions."""
    sets = [word for setting in (f"encoder={minilm()}", *settings) for word in ("--set", setting)]
    python("-m", "harp_jax", "plan", "demo", f"--output={folder}", *sets)
    qrels = read_qrels(str(folder / "wiki" / "qrels.txt"))
    asked = [line.split("\t")[0] for line in (folder / "wiki" / "test.queries.tsv").read_text().splitlines()]
    found = {}
    for path in folder.glob("*.trec"):
        run = read_run(str(path))
        ranked = [(run[qid].docids[:10] if qid in run else [], qrels[qid]) for qid in asked]
        hits = [[1 / rank for rank, docid in enumerate(ids, 1) if judged.get(docid, 0) > 0] for ids, judged in ranked]
        found[path.stem] = np.array([max(each, default=0.0) for each in hits])
    return found


def is_above(more: np.ndarray, less: np.ndarray) -> bool:
    """Whether the mean difference exceeds twice its paired standard error."""
    difference = more - less
    return difference.mean() > 2 * difference.std(ddof=1) / len(difference) ** 0.5


def test_links_teach_to_rank_and_save_labels(tmp_path):
    found = demo(tmp_path, "seed=1")
    assert is_above(found["harp"], found["bm25"])
    assert is_above(found["harp"], found["harp_blank"])
    for other in ("mlm_tuned", "random_tuned", "bm25"):
        assert is_above(found["harp_tuned"], found[other])
    assert is_above(found["mlm_tuned"], found["random_tuned"])


def test_links_that_say_nothing_teach_nothing(tmp_path):
    found = demo(tmp_path, "informative=False", "fine_tune=False")
    assert not is_above(found["harp"], found["bm25"])
    assert is_above(found["cosine"], found["harp"])  # training lost what the encoder knew


def test_a_killed_demo_resumes_and_another_option_is_named(tmp_path):
    settings = ["encoder=" + minilm(), "pages=40", "fine_tune=False"]

    def words(steps: int) -> list[str]:
        sets = [f"--set={one}" for one in (*settings, f"steps={steps}")]
        return ["-m", "harp_jax", "plan", "demo", f"--output={tmp_path}/demo", *sets]

    with subprocess.Popen([sys.executable, *words(12)], cwd=ROOT, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        for line in killed.stdout:
            if "Train on links" in line:  # it has begun
                break
        os.kill(killed.pid, signal.SIGKILL)
    said = python(*words(12)).stdout
    assert "3 of 7 · Make pairs of its links · already done" in said
    assert re.search(r"4 of 7 · Train on links · \d+:\d\d", said)
    assert "links, no labels" in said.splitlines()[-4] and said.splitlines()[-1].strip().startswith("harp site PAGES")
    refused = python(*words(13), status=2).stderr
    assert "demo/harp was made with config.steps=12, now 13; choose another output, or --force" in refused
    assert re.search(r"4 of 7 · Train on links · \d+:\d\d", python(*words(13), "--force").stdout)
