"""Too little memory: one line before the first step, no traceback, and nothing that the next run cannot use."""

import os
import subprocess
import sys

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.faults


def limited(kib: int, *words: str) -> subprocess.CompletedProcess[str]:
    """A command under `ulimit -v`."""
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "1", "PYTHONPATH": str(ROOT)}
    script = f'ulimit -v {kib} && exec "$0" "$@"'
    return subprocess.run(
        ["bash", "-c", script, sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500
    )  # fmt: skip


def test_a_step_that_exceeds_the_memory_is_refused_before_it_starts(tmp_path):
    options = ("steps=3", "batch_pairs=400", "model.hidden=2048")  # a state of 1.5 GiB, a step of 13
    done = limited(6_000_000, "-m", "tests.support.tiny_run", str(tmp_path), *options)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 2 and len(errors) == 1, done.stderr[-2000:]
    assert "a step needs" in errors[0] and "(ulimit -v); lower batch_tokens or batch_pairs" in errors[0]
    assert "Traceback" not in done.stderr


def test_packages_that_do_not_fit_are_one_line(tmp_path):
    (tmp_path / "docs.tsv").write_text("d1\tone two\n")
    (tmp_path / "queries.tsv").write_text("q1\tone\n")
    named = [
        f"--{name}={tmp_path / file}"
        for name, file in (("docs", "docs.tsv"), ("queries", "queries.tsv"), ("output", "run"))
    ]
    done = limited(60_000, "-m", "harp_jax", "first-stage", *named)  # Python needs half of it
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr[-2000:]
    assert "error: out of memory (" in done.stderr
