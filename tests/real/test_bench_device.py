"""benchmarks/device.py at small size on the processor, so that it works on the first try where a device is."""

import re
import subprocess
import sys

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.real


def test_every_part_has_its_row_and_none_fails():
    done = subprocess.run([sys.executable, "benchmarks/device.py", "--small"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stdout)
    rows = dict(re.findall(r"^\| (.*?) \| (.*) \|$", done.stdout, re.M))
    assert not [row for row in rows.items() if "failed" in row[1] or "not installed" in row[1]]
    assert rows["attention xla, float32"].endswith("apart by 0.0e+00")
    assert float(rows["attention xla, bfloat16"].split()[-1]) < 0.05
    assert rows["killed and resumed"].startswith("30 of 30 losses")
    assert float(rows["scores in float32"].split()[-1]) < 1e-5
    for what in ("step, 2 × 64, float32, from TFRecords", "the same step in PyTorch"):
        assert re.match(r"[\d,]+ tokens/s", rows[what])
    assert any(what.startswith("re-ranking, Reranker, jax") for what in rows)
    assert any(what.startswith("re-ranking, CrossEncoder") for what in rows)
