"""The paper's setting, compiled for a TPU v3-8 that is not attached: it fits, and sends only gradients and scalars."""

import os
import re

import pytest

from tests.support import dry_runs
from tests.support.dry_runs import kinds, mib

pytestmark = pytest.mark.real


def dry_run(*changes: str, topology: str = "v3:2x2") -> str:
    return dry_runs.dry_run("tpu_v3", topology, *changes)


def test_the_papers_batch_fits_a_v3_core_and_only_all_reduces():
    report = dry_run()
    assert "8 × TPU v3" in report and "12 × 768" in report
    assert mib(report, "total") < 16 * 1024
    assert kinds(report) == ["all-reduce"]
    # 110 M gradients, each sent once: word embeddings in float32, all others in bfloat16.
    assert float(re.search(r"all-reduce +\d+ ×, ([\d.]+) MiB in total", report).group(1)) < 260


def test_2048_pairs_fit_with_accumulation():
    report = dry_run("--config.batch_pairs=2048", "--config.accumulate=8")
    assert mib(report, "total") < 16 * 1024 and "in 8 microbatches" in report
    assert kinds(report) == ["all-reduce"]


def test_a_step_that_does_not_fit_is_one_line():
    with pytest.raises(AssertionError, match="error: the step does not fit in the memory of 8 × TPU v3"):
        dry_run("--config.model.layers=1", "--config.batch_pairs=100000")


def test_an_unknown_topology_is_named():
    with pytest.raises(AssertionError, match="no such topology"):
        dry_run(topology="v9:1x1")


@pytest.mark.parametrize("topology", ["v3:2x2", "v4:2x2x1", "v5e:2x4"])
def test_the_attention_kernel_compiles_for_every_generation(topology):
    """Two layers suffice: the last one does not use the kernel, and all others are the same."""
    report = dry_run("--config.model.layers=2", "--config.mesh.data=-1", topology=topology)
    assert re.search(r"^attention +splash$", report, re.M)
    assert kinds(report) == ["all-reduce"]


@pytest.mark.parametrize("topology", ["v3:2x2", "v5e:2x4"])
def test_long_rows_of_local_attention(topology):
    """ModernBERT-base's width; one full, two local and the last layer. Local layers have two backward kernels here."""
    shape = ("model_type=modernbert", "layers=4", "max_positions=8192")
    changes = (*(f"--config.model.{field}" for field in shape), "--config.row_length=8192", "--config.batch_pairs=8")
    report = dry_run(*changes, "--config.mesh.data=-1", "--config.tokenizer=", topology=topology)
    assert re.search(r"^attention +splash$", report, re.M) and "× 8192 tokens" in report
    assert kinds(report) == ["all-reduce"]
    assert mib(report, "total") < 16 * 1024


def test_the_kernel_runs_where_heads_are_cut():
    changes = ("--config.model.layers=2", "--config.mesh.data=4", "--config.mesh.model=2")
    assert re.search(r"^attention +splash$", dry_run(*changes), re.M)


def test_the_kernel_keeps_less_than_the_products():
    products = dry_run("--config.model.attention=xla")
    assert re.search(r"^attention +xla$", products, re.M)
    assert mib(dry_run(), "temporaries") < mib(products, "temporaries")


def test_the_largest_batch_is_found():
    if not os.environ.get("HARP_LARGEST"):
        pytest.skip("eight compilations, six minutes; set HARP_LARGEST=1")
    said = dry_run("--largest")
    rows, used, failed = re.search(
        r"largest batch +(\d+) rows.*: ([\d,.]+) MiB of 16,384.0 MiB each; (\d+) do not", said
    ).groups()
    assert 512 < int(rows) < int(failed) <= 1.1 * int(rows)
    assert 12 * 1024 < float(used.replace(",", "")) <= 16 * 1024
