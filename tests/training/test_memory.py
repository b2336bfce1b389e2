"""What is free of the memory: limits of control groups and processes, the check of a step, and saving before memory ends."""

import resource
from types import SimpleNamespace

import jax
import pytest

from harp_jax.base.errors import InputError
from harp_jax.config import pretrain
from harp_jax.model.sharding import make_mesh
from harp_jax.training import loop as training_loop
from harp_jax.training.memory import Limit, Watch, check_step, limits, tightest

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


def run_with(free, monkeypatch, steps=8):
    """Runs the loop while the free GiB follow `free`; returns the saved steps and the error."""
    clock, saved = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(training_loop.sharding, "put", lambda batch, mesh: batch)
    monkeypatch.setattr(training_loop, "summarise", lambda sums, tasks: {"loss": 0.0})

    def step(state, batch):
        clock.now += 2.0
        return state, {"tokens": 1.0, "gradient_norm": 1.0}

    checkpoints = SimpleNamespace(steps=lambda: saved, save=lambda number, *_: saved.append(number), wait=lambda: None)
    config = pretrain()
    stage = SimpleNamespace(steps=steps, tasks=(), trivial={})
    loop = training_loop.Loop(
        config, stage, make_mesh(config), step, None, checkpoints, SimpleNamespace(write=lambda *_: None)
    )
    amounts = iter(free)
    loop.memory = Watch(
        GIB, lambda: Limit("memory of the machine", 32 * GIB, int(next(amounts) * GIB)), lambda: clock.now
    )
    try:
        loop.run({"params": {}, "skipped": 0}, 0, (({}, {}) for _ in range(steps)))
    except InputError as error:
        return saved, str(error)
    return saved, ""


def test_a_checkpoint_is_saved_before_memory_ends_and_the_run_stops(monkeypatch):
    """Of 32 GiB and a state of 1 GiB, less than 3 GiB free is little, and less than 1.5 too little."""
    assert run_with([9] * 8, monkeypatch) == ([8], "")
    assert run_with([9, 2.5, 2.4, 2.3, 9, 9, 2.5, 9], monkeypatch) == ([2, 7, 8], "")
    saved, error = run_with([9, 9, 2.5, 2, 1.2], monkeypatch)
    assert (
        saved == [3, 5]
        and "memory runs out: 1.20 GiB of 32.00 GiB are free (memory of the machine); saved step 5" in error
    )
    assert "run the same command again: it resumes" in error
