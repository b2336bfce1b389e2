"""Freed memory stays with the process, so that the next step finds its pages there."""

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import resource, sys
    import jax, jax.numpy as jnp
    from harp_jax.allocator import keep_pages

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    if sys.argv[1] == "keep":
        assert keep_pages(), "mallopt refused"
    double = jax.jit(lambda x: (2 * x, x.sum()))
    x = jnp.ones((64, 1 << 18))  # 64 MiB: 16,384 pages of 4 KiB
    for _ in range(3):
        jax.block_until_ready(double(x))
    before = faults()
    for _ in range(5):
        jax.block_until_ready(double(x))
    print((faults() - before) // 5, float(double(x)[0].sum()))
"""


def faults(how: str) -> int:
    """Page faults of a call that writes 64 MiB, after a few such calls."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), how]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    count, total = result.stdout.split()
    assert float(total) == 2 * 64 * (1 << 18)
    return int(count)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
def test_a_warm_step_touches_no_fresh_pages():
    assert faults("keep") < 200  # 16,384 where the memory comes fresh from the kernel, page by page
