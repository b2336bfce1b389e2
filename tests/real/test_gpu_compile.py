"""The real steps, compiled for NVIDIA GPUs that are not attached: they fit, use 16 bits, and send only gradients."""

import os
import re

import pytest

from tests.support.dry_runs import dry_run, kinds, mib

pytestmark = pytest.mark.real
SIXTEEN_BITS = r"^products +([\d.e+]+) FLOPs per device, ([\d.]+)% with 16-bit factors"


LONG = {"model_type": "modernbert", "layers": 22, "max_positions": 8192}
LONG_ROWS = [*(f"--config.model.{name}={value}" for name, value in LONG.items()), "--config.row_length=8192"]


# `most`: ratio of compiled to analytic FLOPs. cuDNN's backward pass recomputes the scores: a hundredth of all products in rows of
# 512 tokens, a fifteenth in rows of 8,192. Blocks of local attention read 192 keys, but a token needs 129.
@pytest.mark.parametrize("topology", ["h100", "h100:8"])
@pytest.mark.parametrize(
    "config, changes, layers, most",
    [
        ("gpu", [], 12, 1.05),
        ("finetune_msmarco_doc", [], 12, 1.05),
        ("finetune_msmarco_doc", [*LONG_ROWS, "--config.batch_pairs=32"], 22, 1.1),
    ],
    ids=["gpu", "finetune_msmarco_doc", "long"],
)
def test_the_step_for_one_and_eight_gpus(config, changes, layers, most, topology):
    report = dry_run(config, topology, *changes, platform="gpu")
    gpus = int(topology.partition(":")[2] or 1)
    assert f"{gpus} × NVIDIA H100" in report and f"{layers} × 768" in report
    assert re.search(r"^attention +cudnn$", report, re.M)
    assert kinds(report) == (["all-reduce"] if gpus > 1 else [])
    flops, share = map(float, re.search(SIXTEEN_BITS, report, re.M).groups())
    analytic = float(re.search(r"([\d.e+]+) per device\)", report)[1])
    assert share > 98 and 0.97 < flops / analytic < most
    # cuBLASLt also adds the bias. Triton's products need a minute of tuning, and make a step of BERT-base 1.05 times slower.
    assert "Triton" not in re.search(r"^ +computed by .*$", report, re.M)[0]
    calls = layers - 1  # the last layer has few queries
    assert re.search(rf"^cuDNN attention +{calls} calls forward, {calls} backward$", report, re.M)
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
