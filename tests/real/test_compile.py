"""The real steps, compiled for TPUs and GPUs that are not attached: they fit, use 16 bits, and send only gradients and scalars."""

import functools
import os
import re

import pytest

from tests.support.commands import python

pytestmark = pytest.mark.real

V3_CORE = 16 * 1024  # MiB
SPLASH, CUDNN, XLA = r"(?m)^attention +splash$", r"(?m)^attention +cudnn$", r"(?m)^attention +xla$"
TWO_LAYERS = "--config.model.layers=2"  # the last layer does not use the kernel, and all others are the same


@functools.cache
def dry_run(config: str, topology: str, *changes: str) -> str:
    """The report of `harp train --dry_run`; skips the test without JAX's packages for the platform."""
    package = "HARP_CUDA" if topology.startswith("h100") else "HARP_LIBTPU"
    if not os.path.isdir(os.environ.get(package, "")):
        pytest.skip(f"{package} names no directory with JAX's packages for it; run make real")
    flags = ("--dry_run", f"--topology={topology}", *changes)
    report = python("-m", "harp_jax.main", f"--config=configs/{config}.py", *flags).stdout
    print(report)
    return report


def mib(report: str, name: str) -> float:
    return float(re.search(rf"^{name} +([\d,.]+) MiB", report, re.M).group(1).replace(",", ""))


def collectives(report: str) -> list[str]:
    return re.findall(r"^  ([a-z-]+) +\d+ ×", report, re.M)


def modernbert(layers: int, pairs: int) -> list[str]:
    """Changes to ModernBERT-base with rows of 8,192 tokens."""
    shape = ("model.model_type=modernbert", f"model.layers={layers}", "model.max_positions=8192")
    return [f"--config.{field}" for field in (*shape, "row_length=8192", f"batch_pairs={pairs}")]


# Four layers of ModernBERT: one full, two local and the last; local layers have two backward kernels here.
LONG_ROWS = [*modernbert(4, 8), "--config.mesh.data=-1", "--config.tokenizer="]


@pytest.mark.parametrize(
    "topology, changes, said",
    [
        ("v3:2x2", [], ["8 × TPU v3", "12 × 768"]),  # the paper's batch
        ("v3:2x2", ["--config.batch_pairs=2048", "--config.accumulate=8"], ["in 8 microbatches"]),
        ("v4:2x2x1", [TWO_LAYERS, "--config.mesh.data=-1"], [SPLASH]),
        ("v3:2x2", LONG_ROWS, [SPLASH, "× 8192 tokens"]),
    ],
)
def test_the_step_fits_a_tpu_core_and_only_all_reduces(topology, changes, said):
    report = dry_run("tpu_v3", topology, *changes)
    assert all(re.search(each, report) for each in said)
    assert mib(report, "total") < V3_CORE
    assert collectives(report) == ["all-reduce"]
    if not changes:
        # 110 M gradients, each sent once: word embeddings in float32, all others in bfloat16.
        assert float(re.search(r"all-reduce +\d+ ×, ([\d.]+) MiB in total", report).group(1)) < 260


def test_two_dry_runs_on_one_machine_do_not_exclude_each_other():
    """libtpu's lock refused the second one, as if its topology did not exist."""
    dry_run("tpu_v3", "v3:2x2")  # or skips the test
    count = "from harp_jax.training.dry_run import topology_devices as devices; print(len(devices('v3:2x2')))"
    inner = f"import sys; sys.path.append({os.environ['HARP_LIBTPU']!r}); {count}"
    outer = f"{inner}; import subprocess; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    assert sorted(python("-c", outer).stdout.split()) == ["8", "8"]


def test_the_kernel_runs_where_heads_are_sharded_and_keeps_less_than_the_products():
    sharded = dry_run("tpu_v3", "v3:2x2", TWO_LAYERS, "--config.mesh.data=4", "--config.mesh.model=2")
    assert re.search(SPLASH, sharded)
    products = dry_run("tpu_v3", "v3:2x2", "--config.model.attention=xla")
    assert re.search(XLA, products)
    assert mib(dry_run("tpu_v3", "v3:2x2"), "temporaries") < mib(products, "temporaries")


@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize("config, changes", [("gpu", []), ("finetune_msmarco_doc", modernbert(22, 32))])
def test_the_step_for_one_and_eight_gpus(config, changes, gpus):
    report = dry_run(config, f"h100:{gpus}", *changes)
    assert f"{gpus} × NVIDIA H100" in report and f"{22 if changes else 12} × 768" in report
    assert re.search(CUDNN, report)
    assert collectives(report) == (["all-reduce"] if gpus > 1 else [])
    assert mib(report, "total") < 0.75 * 79 * 1024


@pytest.mark.parametrize("topology", ["v3:2x2", "h100:8"])
def test_vectors_of_8192_pairs_fit_with_gradient_caching(topology):
    changes = ("batch_pairs=8192", "accumulate=64", "lanes=8", "dtype=bfloat16", "mesh.data=8", "init=MiniLM")
    shape = ("model.layers=6", "model.hidden=384", "model.heads=12")
    report = dry_run("retriever", topology, *(f"--config.{field}" for field in (*changes, *shape)))
    assert "in 64 microbatches" in report and mib(report, "total") < V3_CORE / 4
