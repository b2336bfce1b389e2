"""The plan behind `harp site`, killed again and again: what it hands over is that of an undisturbed run, byte for byte."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import ROOT, site_pages

pytestmark = pytest.mark.real

KILLS = 8
# With a given number of steps: `harp site` measures how many fit into its minutes.
PLAN = """
from harp_jax.experiments.site_plan import site_plan

def get_plan():
    pages = dict(format="html", base_url="https://x.org/", max_queries=60)
    return site_plan(({pages!r},), **pages, steps=12, depth=5, tasks=("adp",))
"""


def start(pages: Path, output: Path) -> subprocess.Popen:
    plan = pages.parent / "plan.py"
    plan.write_text(PLAN.format(pages=str(pages)))
    command = [sys.executable, "-m", "harp_jax", "plan", str(plan), f"--output={output}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def handed_over(output: Path) -> dict[str, object]:
    """Name → content of what counts: documents, shards, runs, weights, and the verdict."""
    kinds = ("*.jsonl", "*.tfrecord-*", "*.trec", "model.safetensors", "vocab.txt", "queries.tsv", "qrels.txt")
    files = [path for kind in kinds for path in output.rglob(kind) if path.name != "metrics.jsonl"]
    files = [path for path in files if "/." not in str(path.relative_to(output.parent))]  # of a killed measurement
    found: dict[str, object] = {str(path.relative_to(output)): path.read_bytes() for path in files}
    verdict = next(output.glob("verdict-*"))
    return found | {"verdict": json.loads((verdict / "verdict.json" if verdict.is_dir() else verdict).read_text())}


def test_a_site_that_was_killed_hands_over_the_same_bytes(tmp_path):
    pages = site_pages.write(tmp_path / "pages")
    began = time.monotonic()
    whole = start(pages, tmp_path / "whole")
    said = whole.communicate()[0]
    assert whole.returncode == 0, said[-3000:]
    duration = time.monotonic() - began
    killed = 0
    for _ in range(KILLS):
        running = start(pages, tmp_path / "x")
        try:
            running.wait(timeout=duration / KILLS + 4)  # 4 seconds until the first unfinished step begins
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            killed += 1
        running.communicate()
        time.sleep(2)  # the running step follows
    assert killed >= KILLS // 2
    last = start(pages, tmp_path / "x")
    said = last.communicate()[0]
    assert last.returncode == 0, said[-3000:]
    expected, found = handed_over(tmp_path / "whole"), handed_over(tmp_path / "x")
    assert found.keys() == expected.keys() and len(expected) > 10
    assert [name for name in expected if found[name] != expected[name]] == []
