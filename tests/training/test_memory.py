"""What is free of the memory: limits of control groups and processes, and the check of a step."""

import resource
from types import SimpleNamespace

import jax
import pytest

from harp_jax.base.errors import InputError
from harp_jax.training.memory import Limit, check_step, limits, tightest

GIB = 1 << 30


def write(root, **files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return str(root)


def machine(root, total=64, free=40):
    return write(
        root, **{"proc/meminfo": f"MemTotal: {total << 20} kB\nMemFree: 1 kB\nMemAvailable: {free << 20} kB\n"}
    )


def test_the_tightest_limit_of_the_control_groups_counts(tmp_path):
    root = machine(tmp_path)
    assert limits(root) == [Limit("memory of the machine", 64 * GIB, 40 * GIB)]
    group = {
        "memory.max": f"{8 * GIB}\n",
        "memory.current": f"{7 * GIB}\n",
        "memory.stat": f"anon 1\ninactive_file {2 * GIB}\n",
    }
    write(tmp_path, **{"proc/self/cgroup": "0::/job/step\n", "sys/fs/cgroup/job/step/memory.max": "max\n"})
    write(tmp_path, **{f"sys/fs/cgroup/job/{name}": content for name, content in group.items()})
    assert tightest(root) == Limit("limit of the control group", 8 * GIB, 3 * GIB)


def test_control_groups_of_version_1(tmp_path):
    root = machine(tmp_path)
    write(tmp_path, **{"proc/self/cgroup": "9:cpu:/x\n4:memory:/job\n0::/\n"})
    names = {"limit_in_bytes": f"{4 * GIB}", "usage_in_bytes": f"{GIB}", "stat": "total_inactive_file 0\n"}
    write(tmp_path, **{f"sys/fs/cgroup/memory/job/memory.{name}": content for name, content in names.items()})
    write(
        tmp_path,
        **{
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "1",
        },
    )
    assert tightest(root) == Limit("limit of the control group", 4 * GIB, 3 * GIB)


def test_the_limit_of_the_process(tmp_path, monkeypatch):
    root = machine(tmp_path)
    write(tmp_path, **{"proc/self/status": f"VmSize:\t{3 << 20} kB\nVmData:\t{1 << 20} kB\n"})
    infinite = resource.RLIM_INFINITY
    given = {resource.RLIMIT_AS: (5 * GIB, infinite), resource.RLIMIT_DATA: (infinite, infinite)}
    monkeypatch.setattr(resource, "getrlimit", given.__getitem__)
    assert tightest(root) == Limit("ulimit -v", 5 * GIB, 2 * GIB)


@pytest.mark.parametrize("content", ["", "max", "-1", "nonsense", "9" * 30])
def test_files_of_another_form_are_no_limit(tmp_path, content):
    root = write(
        tmp_path, **{"proc/self/cgroup": "0::/\nx\n", "proc/meminfo": content, "proc/self/status": f"VmSize:{content}"}
    )
    write(tmp_path, **{"sys/fs/cgroup/memory.max": content, "sys/fs/cgroup/memory.current": content})
    assert all(limit.free > GIB for limit in limits(root) if limit.what != "ulimit -v")


def test_a_step_that_does_not_fit_is_refused_before_the_first_and_a_tight_one_warned_of(caplog):
    sizes = SimpleNamespace(temp_size_in_bytes=3 * GIB, output_size_in_bytes=GIB, alias_size_in_bytes=GIB)
    program = SimpleNamespace(memory_analysis=lambda: sizes)
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    state = jax.ShapeDtypeStruct((2, GIB), "uint8", sharding=device)  # described, not allocated
    caplog.set_level("INFO", "harp_jax")
    check_step(program, state, Limit("memory of the machine", 16 * GIB, 10 * GIB))
    assert (
        "a step needs 3.00 GiB" in caplog.text
        and "10.00 GiB of 16.00 GiB are free (memory of the machine)" in caplog.text
    )
    assert "may run out" not in caplog.text
    check_step(program, state, Limit("ulimit -v", 16 * GIB, 4 * GIB))
    assert "memory may run out: a step and a checkpoint need 5.00 GiB" in caplog.text
    with pytest.raises(
        InputError, match=r"a step needs 3.00 GiB of memory, but 2.00 GiB of 16.00 GiB are free \(ulimit -v\); lower"
    ):
        check_step(program, state, Limit("ulimit -v", 16 * GIB, 2 * GIB))
