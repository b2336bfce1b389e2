"""The memory that a run may use here, compared with what a step needs before the first one.

The kernel ends a process that exceeds its memory without a word. The limits are those of the control groups (containers, Slurm,
systemd), of the process (`ulimit -v`, `ulimit -d`), and the machine's memory; only Linux reports them.
"""

import logging
import math
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from harp_jax.base.errors import InputError

log = logging.getLogger(__name__)

NONE = 1 << 60  # bytes: control groups of version 1 without a limit report a number above it


class Limit(NamedTuple):
    """A limit in bytes, and how much of it is free."""

    what: str
    total: int
    free: int

    def __str__(self) -> str:
        return f"{gib(self.free)} of {gib(self.total)} are free ({self.what})"


def gib(size: float) -> str:
    return f"{size / 2**30:.2f} GiB"


def limits(root: str = "/") -> list[Limit]:
    """Every limit that applies to this process; none on systems that do not report them. `root`: of /proc and /sys."""
    return [*_groups(Path(root)), *_process(Path(root)), *_machine(Path(root))]


def tightest(root: str = "/") -> Limit | None:
    """The limit of which the least is free."""
    return min(limits(root), key=lambda limit: limit.free, default=None)


def _groups(root: Path) -> Iterator[Limit]:
    """Limits of the control groups of this process and of those around them, of versions 2 and 1."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("memory" if controllers else "")
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        group = mount / path.strip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(mount):
                break
            total, used = (_number(_read(folder / name)) for name in names)
            if total is not None and used is not None and total < NONE:
                # Files that were read and are not in use are given up first.
                stat = dict(line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines() if " " in line)
                unused = _number(stat.get("total_inactive_file" if controllers else "inactive_file", "")) or 0
                yield Limit("limit of the control group", total, max(0, total - max(0, used - unused)))


def _process(root: Path) -> Iterator[Limit]:
    used = {}
    for line in _read(root / "proc/self/status").splitlines():
        name, _, value = line.partition(":")
        if name in ("VmSize", "VmData"):
            used[name] = 1024 * (_number(value.split()[0] if value.split() else "") or 0)
    for name, kind, what in (
        ("VmSize", resource.RLIMIT_AS, "ulimit -v"),
        ("VmData", resource.RLIMIT_DATA, "ulimit -d"),
    ):
        total = resource.getrlimit(kind)[0]
        if total != resource.RLIM_INFINITY and name in used:
            yield Limit(what, total, max(0, total - used[name]))


def _machine(root: Path) -> Iterator[Limit]:
    lines = (line.split() for line in _read(root / "proc/meminfo").splitlines())
    sizes = {words[0]: 1024 * (_number(words[1]) or 0) for words in lines if len(words) > 1}
    if "MemTotal:" in sizes and "MemAvailable:" in sizes:
        yield Limit("memory of the machine", sizes["MemTotal:"], sizes["MemAvailable:"])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number(text: str) -> int | None:
    """None for "max" and for anything else that is no number."""
    return int(text) if text.strip().isascii() and text.strip().isdigit() else None


def size_of(tree: Any) -> int:
    """Bytes of the arrays of a tree on this process's devices."""
    return sum(math.prod(x.sharding.shard_shape(x.shape)) * x.dtype.itemsize * len(x.sharding.addressable_devices)
               for x in jax.tree.leaves(tree))  # fmt: skip


def check_step(program: jax.stages.Compiled, state: Any, free: Limit | None = None) -> None:
    """Logs what a step needs and what is free on this machine. Raises InputError if a single step does not fit.

    For CPUs: accelerators have memory of their own, whose shortage XLA reports. `state` is already allocated; saving a
    checkpoint copies it. One step runs at a time (`loop.AHEAD_ON_CPU`).
    """
    found = program.memory_analysis()
    free = free or tightest()
    if found is None or free is None:
        return
    step = found.temp_size_in_bytes + max(0, found.output_size_in_bytes - found.alias_size_in_bytes)
    kept = size_of(state)
    log.info("memory: a step needs %s, with %s of parameters and optimizer allocated; %s", gib(step), gib(kept), free)
    advice = "lower batch_tokens or batch_pairs (and rows), raise accumulate, or set model.remat='layer'"
    if step > free.free:
        raise InputError(f"a step needs {gib(step)} of memory, but {free}; {advice}")
    if step + kept > free.free:
        log.warning("memory may run out: a step and a checkpoint need %s, %s; %s", gib(step + kept), free, advice)
