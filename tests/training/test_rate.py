"""The measured rate of a training that is interrupted is no rate."""

import pytest

from harp_jax.base.cli import TERMINATED
from harp_jax.commands import site as command
from harp_jax.config import pretrain
from harp_jax.training import dry_run as rate


def test_an_interrupted_measurement_writes_nothing(tmp_path, monkeypatch):
    """Two steps, of which the first compiled, were written as 103 s a step."""
    monkeypatch.setattr(rate, "train", lambda config, workdir: {"interrupted": 1.0})
    assert rate.seconds_per_step(pretrain(), str(tmp_path)) is None
    arguments = command.rate_parser().parse_args(["--config=site", f"--output={tmp_path / 'rate.json'}"])
    with pytest.raises(SystemExit) as stopped:
        command.rate(arguments)
    assert stopped.value.code == TERMINATED and not list(tmp_path.iterdir())
