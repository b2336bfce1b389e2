"""benchmarks/device.py at small size on the CPU, so that it works on the first try on a device."""

import re

import pytest

from tests.support.commands import python

pytestmark = pytest.mark.real


def test_every_part_has_its_row_and_none_fails():
    printed = python("benchmarks/device.py", "--small").stdout
    print(printed)
    rows = dict(re.findall(r"^\| (.*?) \| (.*) \|$", printed, re.M))
    assert not [row for row in rows.items() if "failed" in row[1] or "not installed" in row[1]]
    assert rows["attention xla, float32"].endswith("apart by 0.0e+00")
    assert rows["killed and resumed"].startswith("30 of 30 losses")
    assert float(rows["scores in float32"].split()[-1]) < 1e-5
    assert rows.keys() >= {
        "step, 2 × 64, float32, from TFRecords", "the same step in PyTorch", "the same step in PyTorch, compiled",
        "attention xla, bfloat16, ModernBERT, rows of 1024",
    }  # fmt: skip
