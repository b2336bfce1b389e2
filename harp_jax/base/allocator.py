"""Keep freed heap pages: XLA reallocates the step's buffers every call, and glibc would return them to the kernel.

By default glibc unmaps large blocks on free, so every step touches hundreds of megabytes of new pages, 4 KiB at a time, and waits
while the kernel zeroes each. Here glibc keeps them, in one heap with 2 MiB pages. Measured with benchmarks/step.py on 2 cores
(2 × 128, 30,522 words): 12,700 real tokens/s by default, 17,000 with kept pages, 18,600 with kept 2 MiB pages. The cost: malloc is
best-fit, so a small batch may take the hole that the next step needs, which then allocates new memory; `Growth` bounds this.
"""

import ctypes
import mmap
import re

# mallopt's parameters (malloc.h); part of glibc's ABI.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
# Address space of the heap with 2 MiB pages; physical memory is allocated on first use only.
RESERVED = 4 << 30
GROWN = 1.25  # free pages are returned once memory exceeds this multiple of its size after the first step
_kept = False  # whether `keep_pages` has succeeded


def keep_pages() -> None:
    """Make glibc keep freed memory until `return_free_pages`. Call it at the start of a command: existing threads, such as those of
    a JAX backend, have their own heaps. Does nothing without glibc (musl, macOS, Windows)."""
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  musl has a mallopt that does nothing
    except (OSError, AttributeError):
        return
    # Allocate everything from the one heap that brk grows: other arenas consist of pieces of 64 MiB, too small for a step.
    kept = [libc.mallopt(name, value) for name, value in ((_MMAP_MAX, 0), (_ARENA_MAX, 1), (_TRIM_THRESHOLD, -1))]
    _large_pages(libc)
    global _kept
    _kept = all(kept)


def return_free_pages() -> None:
    """Return the heap's free pages to the kernel after work that the next steps do not repeat: a compilation, an evaluation, a
    checkpoint. Else blocks that outlive it scatter the step's blocks over a growing heap. Takes .02 to .2 s for 2 GB. Does nothing
    without `keep_pages`: glibc then returns pages itself."""
    if _kept:
        ctypes.CDLL(None).malloc_trim(0)


class Growth:
    """Bounds the process's memory during a training: above GROWN times its size after the first step, free pages are returned to
    the kernel. Without this, MiniLM with 18 rows of 256 grew from 2.9 to 4.1 GB in about 45 steps."""

    def __init__(self) -> None:
        self._base = 0  # pages after the first step (since pages were returned)

    def after_step(self) -> None:
        """Does nothing without `keep_pages`."""
        if not _kept:
            return
        with open("/proc/self/statm") as sizes:
            pages = int(sizes.read().split()[1])  # in physical memory
        self._base = self._base or pages
        if pages > GROWN * self._base:
            return_free_pages()
            self._base = 0


def _large_pages(libc: ctypes.CDLL) -> None:
    """Grow the heap once without touching it and request 2 MiB pages for it. If the kernel refuses, only speed is lost."""
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
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
