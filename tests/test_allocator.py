"""Freed memory stays with the process, so that the next step finds its pages there."""

import subprocess
import sys
import textwrap

import pytest

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


SCATTERING = """
    import numpy as np, re, sys
    from harp_jax.base.allocator import keep_pages, leave_hole, return_free_pages

    def resident():  # MiB
        return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10

    assert keep_pages()
    if sys.argv[1] == "hole":
        leave_hole()
    before = resident()
    kept = []
    for _ in range(6):
        step = np.ones(256 << 20, np.uint8)  # its temporaries
        kept.append(np.ones(1 << 17, np.uint8))
        del step
        kept.append(np.ones(1 << 17, np.uint8))
    print(resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of glibc")
@pytest.mark.parametrize(("how", "low", "high"), [("none", 450, 4000), ("hole", 250, 300)])
def test_blocks_that_stay_do_not_take_the_place_of_the_next_step(how, low, high):
    """Six steps of 256 MiB; a block of 128 kB is allocated, and kept, during each and after it."""
    command = [sys.executable, "-c", textwrap.dedent(SCATTERING), how]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    assert low <= int(result.stdout) <= high
