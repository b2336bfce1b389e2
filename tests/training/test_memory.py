"""Free memory: limits of control groups and processes, and the check of a step."""

import resource
from types import SimpleNamespace

import jax
import pytest

from harp_jax.base import allocator
from harp_jax.base.errors import InputError
from harp_jax.training.machine import Limit, check_memory, tightest
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
MACHINE = Limit("memory of the machine", 64 * GIB, 40 * GIB)


@pytest.mark.parametrize(
    "files, expected",
    [
        ({}, MACHINE),
        (HALF_USED, Limit("limit of the control group", 8 * GIB, 3 * GIB)),
        ({"proc/self/status": f"VmSize:\t{3 << 20} kB\nVmData:\t{1 << 20} kB\n"}, Limit("ulimit -v", 5 * GIB, 2 * GIB)),
        ({"proc/self/cgroup": "0::/job\nx\n", "proc/self/status": "VmSize:x", f"{GROUP}/memory.max": "x"}, MACHINE),
    ],
)  # fmt: skip
def test_the_tightest_limit_counts(tmp_path, monkeypatch, files, expected):
    infinite = resource.RLIM_INFINITY
    given = {resource.RLIMIT_AS: (5 * GIB if "ulimit" in expected.what else infinite, infinite)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: given.get(kind, (infinite, infinite)))
    meminfo = f"MemTotal: {64 << 20} kB\nMemFree: 1 kB\nMemAvailable: {40 << 20} kB\n"
    for name, content in {"proc/meminfo": meminfo, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert tightest(tmp_path) == expected


def test_a_step_that_does_not_fit_is_refused_before_the_first_and_a_tight_one_warned_of(caplog):
    sizes = SimpleNamespace(temp_size_in_bytes=3 * GIB, output_size_in_bytes=GIB, alias_size_in_bytes=GIB)
    program = SimpleNamespace(memory_analysis=lambda: sizes)
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    state = jax.ShapeDtypeStruct((2, GIB), "uint8", sharding=device)  # not allocated
    check_memory(program, state, Limit("memory of the machine", 16 * GIB, 10 * GIB))
    assert "may run out" not in caplog.text
    check_memory(program, state, Limit("ulimit -v", 16 * GIB, 4 * GIB))
    assert "memory may run out: a step and a checkpoint need 5.00 GiB" in caplog.text
    message = r"a step needs 3.00 GiB of memory, but 2.00 GiB of 16.00 GiB are free \(ulimit -v\); lower"
    with pytest.raises(InputError, match=message):
        check_memory(program, state, Limit("ulimit -v", 16 * GIB, 2 * GIB))


@pytest.mark.faults
def test_a_step_that_exceeds_the_memory_is_refused_before_it_starts(tmp_path):
    options = ("steps=3", "batch_pairs=400", "model.hidden=2048")  # a state of 1.5 GiB, a step of 13
    done = python("-m", "tests.support.tiny_run", tmp_path, *options, status=2, limit="-v 6000000")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "a step needs" in errors[0] and "(ulimit -v); lower batch_tokens or batch_pairs" in errors[0]
    assert "Traceback" not in done.stderr


@pytest.mark.faults
def test_packages_that_do_not_fit_are_one_line(tmp_path):
    (tmp_path / "docs.tsv").write_text("d1\tone two\n")
    (tmp_path / "queries.tsv").write_text("q1\tone\n")
    named = [f"--docs={tmp_path}/docs.tsv", f"--queries={tmp_path}/queries.tsv", f"--output={tmp_path}/run"]
    # Python alone needs half of this limit.
    error = python("-m", "harp_jax", "first-stage", *named, status=2, limit="-v 60000").stderr
    assert "Traceback" not in error and "error: out of memory (" in error


def test_free_pages_are_returned_when_the_process_has_grown_by_a_quarter_since_its_first_step(monkeypatch):
    """After that, since the step after the return: memory that stays, such as cached documents, raises the bound."""
    sizes = iter([100, 125, 120, 126, 110, 137, 138, 108, 109])
    returned, seen = [], []
    monkeypatch.setattr(allocator, "_kept", True)
    monkeypatch.setattr(allocator, "resident_pages", lambda: seen.append(next(sizes)) or seen[-1])
    monkeypatch.setattr(allocator, "return_free_pages", lambda: returned.append(seen[-1]))
    growth = allocator.Growth()
    for _ in range(9):
        growth.after_step()
    assert returned == [126, 138]
