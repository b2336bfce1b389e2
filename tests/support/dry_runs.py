"""Dry runs for devices that are not attached, in separate processes, and the figures of their reports."""

import functools
import os
import re

import pytest

from tests.support.commands import python

PACKAGES = {"tpu": "HARP_LIBTPU", "gpu": "HARP_CUDA"}


@functools.cache
def dry_run(config: str, topology: str, *changes: str, platform: str = "tpu") -> str:
    """The report of `harp train --dry_run`; skips the test without the platform's packages."""
    if not os.path.isdir(os.environ.get(PACKAGES[platform], "")):
        pytest.skip(f"{PACKAGES[platform]} names no directory with JAX's packages for it; run make real")
    flags = ("--dry_run", f"--topology={topology}", *changes)
    report = python("-m", "harp_jax.main", f"--config=configs/{config}.py", *flags).stdout
    print(report)
    return report


def mib(report: str, name: str) -> float:
    return float(re.search(rf"^{name} +([\d,.]+) MiB", report, re.M).group(1).replace(",", ""))


def kinds(report: str) -> list[str]:
    """Kinds of collectives in a report."""
    return re.findall(r"^  ([a-z-]+) +\d+ ×", report, re.M)
