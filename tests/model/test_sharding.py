"""The lanes that a host reads."""

from types import SimpleNamespace

import pytest

from harp_jax.model import sharding


@pytest.mark.parametrize("lanes", [[0, 1, 6, 15], [2, 3, 4, 5]])
def test_a_host_reads_the_lanes_of_its_devices_only(monkeypatch, lanes):
    """As on v5e:4x4, where a host's devices are not adjacent in the ring; two devices of the model axis share a lane."""
    index = {device: (slice(lane, lane + 1),) for device, lane in enumerate([*lanes[::-1], lanes[0]])}
    of_host = SimpleNamespace(addressable_devices_indices_map=lambda shape: index)
    monkeypatch.setattr(sharding, "batch_sharding", lambda mesh: of_host)
    assert sharding.host_lanes(None, 16) == lanes
