"""Of the dry run: an interrupted measurement of the rate. Reports: test_retriever.py, tests/model, tests/real/test_compile.py."""

import pytest

from harp_jax import config as configs
from harp_jax.base.errors import Terminated
from harp_jax.site.ranker import measure_rate
from harp_jax.training import dry_run
from harp_jax.training.train import TrainResult


def test_an_interrupted_measurement_writes_nothing(tmp_path, monkeypatch):
    """Else two steps, one with compilation, would be recorded as 103 s per step."""
    monkeypatch.setattr(dry_run, "train", lambda config, workdir: TrainResult({}, interrupted=True))
    with pytest.raises(Terminated):
        measure_rate(configs.pretrain(), str(tmp_path / "rate.json"))
    assert not list(tmp_path.iterdir())
