"""Meshes, the lanes that a host reads, and sharding rules for every parameter of every encoder."""

from types import SimpleNamespace

import jax
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from harp_jax.base.errors import InputError
from harp_jax.config import pretrain
from harp_jax.model import cross_encoder, sharding
from harp_jax.model.encoders.table import ENCODERS


def test_a_host_reads_the_lanes_of_its_devices_only(monkeypatch):
    """As on v5e:4x4, where a host's devices are not adjacent in the ring; two devices of the model axis share a lane."""
    lanes = [0, 1, 6, 15]
    index = {device: (slice(lane, lane + 1),) for device, lane in enumerate([*lanes[::-1], lanes[0]])}
    of_host = SimpleNamespace(addressable_devices_indices_map=lambda shape: index)
    monkeypatch.setattr(sharding, "batch_sharding", lambda mesh: of_host)
    assert sharding.host_lanes(None, 16) == lanes


def mesh_of(data: int, fsdp: int, model: int, lanes: int = 8) -> Mesh:
    config = pretrain()
    config.lanes = lanes
    config.mesh.update(data=data, fsdp=fsdp, model=model)
    return sharding.make_mesh(config, jax.devices()[:8])


@pytest.mark.parametrize(("lanes", "fsdp", "data"), [(2, 1, 2), (6, 1, 6), (16, 1, 8), (1, 1, 1), (4, 2, 2)])
def test_a_mesh_has_the_devices_that_share_the_lanes_or_is_refused(lanes, fsdp, data):
    assert dict(mesh_of(-1, fsdp, 1, lanes).shape) == {"data": data, "fsdp": fsdp, "model": 1}
    with pytest.raises(InputError, match="needs 3 devices, but there are 8"):
        mesh_of(3, 1, 1)
    with pytest.raises(InputError, match="lanes=6 is not a multiple"):
        mesh_of(8, 1, 1, lanes=6)


@pytest.mark.parametrize("kind", ENCODERS)
def test_each_parameter_has_a_rule_and_each_rule_a_parameter(kind):
    mesh, shape = mesh_of(2, 2, 2), ENCODERS[kind](128, 2, 32, 2, 64, 96)
    tree = jax.eval_shape(lambda key: cross_encoder.init_params(shape, key), jax.random.key(0))
    shardings = sharding.param_shardings(mesh, tree, cross_encoder.rules(shape))
    large = {sharded.spec for x, sharded in zip(*map(jax.tree.leaves, (tree, shardings))) if x.size >= 32 * 32}
    assert P() not in large  # every matrix is sharded
    encoder = {"encoder": tree["encoder"]}
    assert sharding.param_shardings(mesh, encoder, ENCODERS[kind].rules)["encoder"] == shardings["encoder"]
