"""Freed memory stays with the process, so that the next step finds its pages there."""

import subprocess
import sys
import textwrap

import pytest

from harp_jax.base import allocator

PROGRAM = """
    import ctypes, resource, statistics, sys
    if sys.argv[1] == "small":
        ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE: as on a machine whose memory is too fragmented for 2 MiB
    import jax, jax.numpy as jnp
    from harp_jax.base.allocator import keep_pages

    assert keep_pages(), "mallopt refused"
    double = jax.jit(lambda x: (2 * x, x.sum()))
    x = jnp.ones((64, 1 << 18))  # 64 MiB: 16,384 pages of 4 KiB
    touched = []
    for _ in range(32):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        jax.block_until_ready(double(x))
        touched.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    print(statistics.median(touched[16:]), float(double(x)[0].sum()))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
@pytest.mark.parametrize("pages", ["large", "small"])
def test_a_warm_step_touches_no_fresh_pages(pages):
    """The median of 16 calls that write 64 MiB each. Single calls may still find a place in the heap not used before."""
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), pages]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    median, total = map(float, result.stdout.split())
    assert total == 2 * 64 * (1 << 18)
    assert median < 200  # 16,384 where the memory comes fresh from the kernel, page by page


RETURNING = """
    import numpy as np, re
    from harp_jax.base.allocator import keep_pages, return_free_pages

    def resident():  # MiB
        return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10

    assert keep_pages()
    before = resident()
    blocks = [np.ones(1 << 20, np.uint8) for _ in range(256)]
    last = np.ones(1 << 10, np.uint8)  # above them in the heap
    used, blocks = resident(), None
    freed = resident()
    return_free_pages()
    print(before, used, freed, resident(), last.sum())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
def test_free_pages_stay_until_they_are_returned():
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(RETURNING)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    before, used, freed, after, _ = map(int, result.stdout.split())
    assert used - before >= 250 and freed >= used - 8
    assert after < before + 16


def test_free_pages_are_returned_when_the_process_has_grown_by_a_quarter_since_its_first_step(monkeypatch):
    """And then since the step after: what lives on, such as cached documents, raises the bound."""
    sizes = iter([100, 125, 120, 126, 110, 137, 138, 108, 109])
    returned, seen = [], []
    monkeypatch.setattr(allocator, "_kept", True)
    monkeypatch.setattr(allocator, "resident_pages", lambda: seen.append(next(sizes)) or seen[-1])
    monkeypatch.setattr(allocator, "return_free_pages", lambda: returned.append(seen[-1]))
    growth = allocator.Growth()
    for _ in range(9):
        growth.after_step()
    assert returned == [126, 138]
