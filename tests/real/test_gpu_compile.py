"""The real steps compiled for NVIDIA GPUs that are not there: they fit, compute in 16 bits, and only gradients travel."""

import os
import re

import pytest

from tests.support.dry_runs import dry_run, kinds, mib

pytestmark = pytest.mark.real
SIXTEEN_BITS = r"^products +([\d.e+]+) FLOPs per device, ([\d.]+)% with 16-bit factors"


@pytest.mark.parametrize("topology", ["h100", "h100:8"])
@pytest.mark.parametrize("config", ["gpu", "finetune_msmarco_doc"])
def test_a_step_of_bert_base_for_one_and_eight_gpus(config, topology):
    report = dry_run(config, topology, platform="gpu")
    gpus = int(topology.partition(":")[2] or 1)
    assert f"{gpus} × NVIDIA H100" in report and "12 × 768" in report and re.search(r"^attention +cudnn$", report, re.M)
    assert kinds(report) == (["all-reduce"] if gpus > 1 else [])
    flops, share = map(float, re.search(SIXTEEN_BITS, report, re.M).groups())
    analytic = float(re.search(r"([\d.e+]+) per device\)", report)[1])
    assert share > 98 and 0.97 < flops / analytic < 1.05
    assert re.search(
        r"^cuDNN attention +11 calls forward, 11 backward$", report, re.M
    )  # the last layer has few queries
    assert mib(report, "total") < 0.75 * 79 * 1024


def test_an_unknown_gpu_count_is_named():
    with pytest.raises(AssertionError, match="not a number of GPUs"):
        dry_run("gpu", "h100:9", platform="gpu")


def test_the_largest_batch_is_found():
    if not os.environ.get("HARP_LARGEST"):
        pytest.skip("several compilations, ten minutes; set HARP_LARGEST=1")
    said = dry_run("gpu", "h100", "--largest", platform="gpu")
    rows, failed = map(int, re.search(r"largest batch +(\d+) rows.*; (\d+) do not", said).groups())
    assert 256 < rows < failed <= 1.1 * rows
