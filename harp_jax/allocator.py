"""Memory that a CPU has once is kept: XLA asks for the step's buffers anew in every call and gives them back after it.

glibc takes large blocks from the kernel and returns them at once, so every step touches hundreds of megabytes of fresh pages,
4 KiB at a time, and waits while each is zeroed. Here glibc keeps them, in one heap that asks for 2 MiB pages. Measured with
benchmarks/step.py on 2 cores (2 × 128, 30,522 words): 12,700 real tokens a second as it was, 17,000 with the pages kept, 18,600
with large ones; writing 85 MB of exponentials 32, 10 and 8 ms.
"""

import ctypes
import mmap
import re

# mallopt's parameters (malloc.h): they are part of glibc's ABI.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8
# Address space of the heap that large pages are asked for; nothing of it is taken before it is used.
RESERVED = 4 << 30


def keep_pages() -> bool:
    """Makes glibc keep freed memory for the next step; whether it could.

    For commands, at their start: threads that are there already, such as those of a JAX backend, keep heaps of their own that
    this does not reach. The process then holds the most that it ever needed at once. Does nothing without glibc (musl, macOS,
    Windows); an accelerator's memory is another.
    """
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018  musl has a mallopt that does nothing
    except (OSError, AttributeError):
        return False
    # All from the heap, which one arena grows by brk: other arenas are cut into pieces of 64 MiB, too small for a step.
    kept = [libc.mallopt(name, value) for name, value in ((_MMAP_MAX, 0), (_ARENA_MAX, 1), (_TRIM_THRESHOLD, -1))]
    _large_pages(libc)
    return all(kept)


def _large_pages(libc: ctypes.CDLL) -> None:
    """Grows the heap once, untouched, and asks for 2 MiB pages in it. Refusals change nothing but the speed."""
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    block = libc.malloc(RESERVED)
    if not block:
        return
    try:
        with open("/proc/self/maps") as maps:
            heap = re.search(r"^([0-9a-f]+)-([0-9a-f]+) .*\[heap\]$", maps.read(), re.MULTILINE)
    except OSError:
        heap = None
    if heap:
        start, end = (int(address, 16) for address in heap.groups())
        libc.madvise(start, end - start, mmap.MADV_HUGEPAGE)
    libc.free(block)
