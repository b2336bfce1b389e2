"""Checkpoints that cannot be read are read again at once, not after the two seconds that an outage may need."""

import pytest

from harp_jax.checkpoints import checkpoint


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(checkpoint, "RETRY_SECONDS", 0.0)
