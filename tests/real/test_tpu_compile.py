"""The paper's setting compiled for a TPU v3-8 that is not there: it fits, and only gradients and scalars travel."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.real
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBTPU = os.environ.get("HARP_LIBTPU", "")


def dry_run(*changes: str) -> str:
    if not os.path.isdir(LIBTPU):
        pytest.skip("HARP_LIBTPU names no directory with libtpu; run make real")
    # libtpu lies outside the environment, or every import of jax would look for a TPU.
    path = os.pathsep.join([ROOT, LIBTPU])
    environment = {**os.environ, "PYTHONPATH": path, "TPU_SKIP_MDS_QUERY": "1", "JAX_NUM_CPU_DEVICES": "1"}
    command = [sys.executable, "-m", "harp_jax.main", "--config=configs/tpu_v3.py", "--dry_run", "--topology=v3:2x2"]
    result = subprocess.run(
        [*command, *changes], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    )
    assert result.returncode == 0, result.stderr[-2000:]
    print(result.stdout)
    return result.stdout


def mib(report: str, name: str) -> float:
    return float(re.search(rf"^{name} +([\d,.]+) MiB", report, re.M).group(1).replace(",", ""))


def test_the_papers_batch_fits_a_v3_core_and_only_all_reduces():
    report = dry_run()
    assert "8 × TPU v3" in report and "12 × 768" in report
    assert mib(report, "together") < 16 * 1024
    kinds = re.findall(r"^  ([a-z-]+) +\d+ ×", report, re.M)
    assert kinds == ["all-reduce"]


def test_2048_pairs_fit_with_accumulation():
    report = dry_run("--config.batch_pairs=2048", "--config.accumulate=8")
    assert mib(report, "together") < 16 * 1024 and "in 8 microbatches" in report
    assert re.findall(r"^  ([a-z-]+) +\d+ ×", report, re.M) == ["all-reduce"]


def test_an_unknown_topology_is_named():
    if not os.path.isdir(LIBTPU):
        pytest.skip("HARP_LIBTPU names no directory with libtpu; run make real")
    with pytest.raises(AssertionError, match="no topology 'v9:1x1'"):
        dry_run("--topology=v9:1x1")
