"""Checkpoints are restored exactly or rejected; never with other values."""

import errno
import os
import shutil
import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.checkpoint import Checkpoints, digests, leaf_digest
from tests.support.commands import python
from tests.support.tiny_run import end, launch, losses

MESH = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Checkpoints that cannot be read are read again at once, not after the two seconds that an outage may need."""
    monkeypatch.setattr("harp_jax.checkpoints.checkpoint.RETRY_SECONDS", 0.0)


def slow_digest(x: np.ndarray) -> list[int]:
    words = []
    for multiplier in (0x9E3779B1, 0x85EBCA77):
        total = 0
        for i, bits in enumerate(x.ravel().view({2: np.uint16, 4: np.uint32}[x.dtype.itemsize]).tolist()):
            odd = ((i * multiplier) % 2**32 << 1) % 2**32 | 1
            total += bits * (odd ^ (odd >> 16) | 1)
        words.append(total % 2**32)
    return words


def test_digest_equals_its_slow_version_sees_every_bit_and_does_not_depend_on_the_sharding():
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    assert leaf_digest(jnp.asarray(x)).tolist() == slow_digest(x)
    for bit in (0, 13, 31):
        y = x.copy()
        y.view(np.uint32)[3, 2] ^= np.uint32(1 << bit)
        assert leaf_digest(jnp.asarray(y)).tolist() != slow_digest(x)
    assert leaf_digest(jnp.asarray(x[::-1].copy())).tolist() != slow_digest(x)
    x = state()["params"]["kernel"]
    sharded = jax.device_put(x, NamedSharding(MESH, P("data", None)))
    assert digests(sharded) == digests(x) == {"": slow_digest(np.asarray(x))}


def test_an_empty_directory_and_a_damaged_array_are_passed_over(tmp_path):
    save_two(tmp_path).close()
    os.makedirs(tmp_path / "checkpoints" / "3")
    data = [path for path in (tmp_path / "checkpoints/2/state").rglob("d/*") if path.stat().st_size > 500]
    for path in data:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0x10
        path.write_bytes(content)
    checkpoints = Checkpoints(str(tmp_path))
    step, restored, _ = checkpoints.restore(abstract(state()))
    np.testing.assert_array_equal(restored["params"]["kernel"], state(step)["params"]["kernel"])
    assert step == 1 and data
    assert sorted(os.listdir(tmp_path / "checkpoints_damaged")) == ["2", "3"]
    checkpoints.save(2, state(2), {})
    checkpoints.wait()
    assert checkpoints.restore(abstract(state()))[0] == 2
    # Nothing that verifies is an error, not a fresh start.
    for path in (tmp_path / "checkpoints").glob("*/meta/*"):
        path.write_text("{}")
    with pytest.raises(InputError, match="none of the checkpoints"):
        Checkpoints(str(tmp_path)).restore(abstract(state()))


def test_storage_that_does_not_answer_is_no_damage(tmp_path, monkeypatch):
    checkpoints = save_two(tmp_path)
    read, failures = ocp.CheckpointManager.restore, [1]

    def reading(*arguments, **named):
        if failures:
            failures.pop()
            raise OSError(errno.EIO, "Input/output error")
        return read(*arguments, **named)

    monkeypatch.setattr(ocp.CheckpointManager, "restore", reading)
    assert checkpoints.restore(abstract(state()))[0] == 2 and not failures
    failures.extend([1] * 99)
    with pytest.raises(InputError, match=r"cannot read checkpoint 2 .*Input/output error; nothing was changed"):
        checkpoints.restore(abstract(state()))
    assert checkpoints.steps() == [1, 2] and not os.path.exists(tmp_path / "checkpoints_damaged")


def state(seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    return {
        "params": {"kernel": jnp.asarray(rng.normal(size=(16, 24)), jnp.float32), "half": jnp.ones(8, jnp.bfloat16)},
        "step": jnp.asarray(seed, jnp.int32),
    }


def abstract(tree: dict) -> dict:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), tree)


def save_two(directory) -> Checkpoints:
    checkpoints = Checkpoints(str(directory))
    for step in (1, 2):
        checkpoints.save(step, state(step), {"cursors": {"0": {"window": step}}})
    checkpoints.wait()
    return checkpoints


@pytest.mark.faults
def test_a_flipped_byte_in_any_file_gives_the_same_values_or_the_checkpoint_before(tmp_path):
    whole = tmp_path / "whole"
    save_two(whole).close()
    files = sorted(path for path in (whole / "checkpoints" / "2").rglob("*") if path.is_file() and path.stat().st_size)
    assert len(files) > 8
    rng, passed_over = np.random.default_rng(0), 0
    for number, file in enumerate(3 * files):
        place = tmp_path / str(number)
        shutil.copytree(whole, place)
        content = bytearray(file.read_bytes())
        content[rng.integers(len(content))] ^= int(rng.integers(1, 256))
        (place / file.relative_to(whole)).write_bytes(content)
        damaged = Checkpoints(str(place))
        step, found, meta = damaged.restore(abstract(state()))
        damaged.close()
        assert meta["cursors"] == {"0": {"window": step}}, file
        jax.tree.map(np.testing.assert_array_equal, found, state(step))
        passed_over += step == 1
        shutil.rmtree(place)
    assert passed_over >= 9  # metadata, arrays and their index are always read, some other files never


@pytest.mark.faults
def test_a_full_disk_stops_the_run_and_keeps_the_checkpoint_before(tmp_path):
    options = ("steps=300", "checkpoint_every=20")
    workdir = str(tmp_path / "run")
    started = launch(tmp_path, *options)
    while started.poll() is None and len(losses(workdir)) < 30:
        time.sleep(0.02)
    started.send_signal(signal.SIGTERM)
    end([started])
    before = Checkpoints(workdir).steps()
    # Limit files to 16 KiB: writing arrays then fails as on a full disk.
    limited = python("-m", "tests.support.tiny_run", tmp_path, *options, status=2, limit="-f 16")
    errors = [line for line in limited.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "run the same command again" in errors[0], limited.stderr[-2000:]
    assert Checkpoints(workdir).steps() == before
    assert not [name for name in os.listdir(workdir + "/checkpoints") if "tmp" in name]
    end([launch(tmp_path, *options)])
    assert len(losses(workdir)) == 300
