"""Free memory: limits of control groups and processes, and a step that exceeds them."""

import resource

import pytest

from harp_jax.training.machine import Free, free_memory
from tests.support.commands import python

GIB = 1 << 30
GROUP = "sys/fs/cgroup/job"
HALF_USED = {
    "proc/self/cgroup": "0::/job/step\n",
    f"{GROUP}/step/memory.max": "max\n",
    # 7 of 8 GiB are used, 2 of them by reclaimable file cache
    f"{GROUP}/memory.max": f"{8 * GIB}\n",
    f"{GROUP}/memory.current": f"{7 * GIB}\n",
    f"{GROUP}/memory.stat": f"anon 1\ninactive_file {GIB}\nactive_file {GIB}\n",
}


@pytest.mark.parametrize(
    "files, expected",
    [
        ({"proc/self/cgroup": "0::/job/step\n"}, Free(40 * GIB, "memory of the machine")),
        (HALF_USED, Free(3 * GIB, "limit of the control group")),
        ({"proc/self/status": f"VmSize:\t{3 << 20} kB\nVmData:\t{1 << 20} kB\n"}, Free(2 * GIB, "ulimit -v")),
    ],
)
def test_the_tightest_limit_counts(tmp_path, monkeypatch, files, expected):
    infinite = resource.RLIM_INFINITY
    given = {resource.RLIMIT_AS: (5 * GIB if "ulimit" in expected.limit else infinite, infinite)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: given.get(kind, (infinite, infinite)))
    meminfo = f"MemTotal: {64 << 20} kB\nMemFree: 1 kB\nMemAvailable: {40 << 20} kB\n"
    for name, content in {"proc/meminfo": meminfo, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert free_memory(tmp_path) == expected


@pytest.mark.faults
def test_a_step_that_exceeds_the_memory_is_refused_before_it_starts(tmp_path):
    options = ("steps=3", "batch_pairs=400", "model.hidden=2048")  # a state of 1.5 GiB, a step of 13
    done = python("-m", "tests.support.tiny_run", tmp_path, *options, status=2, limit="-v 6000000")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "Traceback" not in done.stderr
    assert "a step needs" in errors[0] and "(ulimit -v); lower batch_tokens or batch_pairs" in errors[0]
