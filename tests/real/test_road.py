"""The whole pipeline on real text, links and questions. The figures are printed, not asserted: see wiki_plan.py."""

import os
import subprocess
import sys

import pytest

from tests.support import ROOT
from tests.support.shared_data import MINILM, shared

pytestmark = pytest.mark.real


def test_wiki_from_links_to_a_table(tmp_path):
    queries, folds = shared("wiki", "wikipassageqa.queries.tsv"), shared("wiki", "wikipassageqa.folds.tsv")
    if not os.path.isdir(MINILM):
        pytest.skip(f"no MiniLM at {MINILM}; make real fetches it")
    output = os.path.join(ROOT, "real")
    os.makedirs(output, exist_ok=True)
    fold = dict(line.split() for line in open(folds))
    test_queries = os.path.join(output, "test.queries.tsv")
    with open(test_queries, "w") as file:
        file.writelines(line for line in open(queries) if fold[line.split("\t")[0]] == "0")
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "1"}
    command = [sys.executable, "-m", "harp_jax", "plan", "tests/real/wiki_plan.py", f"--output={output}"]
    command += ["--set", f"test_queries={test_queries}"]
    result = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, timeout=3000)
    print(result.stdout)
    assert result.returncode == 0
    for name in ("BM25", "after MLM", "after HARP"):
        assert name in result.stdout
