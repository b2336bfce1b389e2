"""Keep freed heap pages: XLA reallocates the step's buffers every call, and glibc would return them to the kernel.

By default glibc maps large blocks and unmaps them on free, so every step touches hundreds of megabytes of new pages, 4 KiB at a
time, and waits while the kernel zeroes each. Here glibc keeps the pages, in one heap with 2 MiB pages. Measured with
benchmarks/step.py on 2 cores (2 × 128, 30,522 words): 12,700 real tokens/s by default, 17,000 with kept pages, 18,600 with kept
2 MiB pages; writing 85 MB of exponentials takes 32, 10 and 8 ms.

One heap for all has a cost. malloc is best-fit: a small batch may take the hole that the next step needs, which then takes new
memory. `Growth` bounds what that adds.
"""

import ctypes
import mmap
import re

# mallopt's parameters (malloc.h); part of glibc's ABI.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
# Address space of the heap with 2 MiB pages; physical memory is allocated on first use only.
RESERVED = 4 << 30
GROWN = 1.25  # times what the process took after its first step: more of it is free pages between blocks that stay
_kept = False  # whether this process keeps its pages


def keep_pages() -> bool:
    """Make glibc keep freed memory for the next step; returns whether that succeeded.

    Call it at the start of a command: existing threads, such as those of a JAX backend, have their own heaps, which this does
    not affect. The process's memory then stays at its peak, until `return_free_pages`. Does nothing without glibc (musl, macOS,
    Windows), and nothing about an accelerator's memory.
    """
    try:
        libc = _libc()
        libc.gnu_get_libc_version  # noqa: B018  musl has a mallopt that does nothing
    except (OSError, AttributeError):
        return False
    # Allocate everything from the one heap that brk grows: other arenas consist of pieces of 64 MiB, too small for a step.
    kept = [libc.mallopt(name, value) for name, value in ((_MMAP_MAX, 0), (_ARENA_MAX, 1), (_TRIM_THRESHOLD, -1))]
    _large_pages(libc)
    global _kept
    _kept = all(kept)
    return _kept


def return_free_pages() -> None:
    """Give the heap's free pages back to the kernel, which `keep_pages` otherwise never does.

    Call it after work that the next steps do not repeat: a compilation, an evaluation, a checkpoint. Their memory would stay with
    the process, and blocks that outlive them would scatter the step's over an ever larger heap. Takes .02 to .2 s for 2 GB. Does
    nothing where `keep_pages` was not called: there glibc returns pages itself.
    """
    if _kept:
        ctypes.CDLL(None).malloc_trim(0)


class Growth:
    """Bounds the process's memory during a training: call `after_step` between steps.

    Where it has grown by GROWN since the first step, its free pages go back to the kernel, which the next step pays for with
    fresh ones. That holds whichever holes malloc chooses: MiniLM, 18 rows of 256, took 2.9 GB and after some 45 steps 4.1.
    """

    def __init__(self) -> None:
        self._base = 0  # pages after the first step, and after the first one since pages were returned

    def after_step(self) -> None:
        """Does nothing where `keep_pages` was not called: there glibc returns pages itself."""
        if not _kept:
            return
        pages = resident_pages()
        self._base = self._base or pages
        if pages > GROWN * self._base:
            return_free_pages()
            self._base = 0


def resident_pages() -> int:
    """Pages of physical memory that this process has."""
    with open("/proc/self/statm") as sizes:
        return int(sizes.read().split()[1])


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    return libc


def _large_pages(libc: ctypes.CDLL) -> None:
    """Grow the heap once without touching it and request 2 MiB pages for it. If the kernel refuses, only speed is lost."""
    block = libc.malloc(RESERVED)
    if not block:
        return
    try:
        with open("/proc/self/maps") as maps:
            heap = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*\[heap\]$", maps.read(), re.MULTILINE)
    except OSError:
        heap = None
    if heap:
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        start, end = (int(address, 16) for address in heap.groups())
        libc.madvise(start, end - start, mmap.MADV_HUGEPAGE)
    libc.free(block)
