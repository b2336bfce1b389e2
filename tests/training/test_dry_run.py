"""The search for the largest batch, on devices whose memory is a formula; the measured rate of a training."""

import tempfile

import jax
import pytest

from harp_jax import config as configs
from harp_jax.base.cli import TERMINATED
from harp_jax.base.errors import InputError
from harp_jax.commands import site
from harp_jax.training import dry_run
from harp_jax.training.dry_run import Bytes, compile_step, search_rows


@pytest.mark.parametrize("most", [0, 1, 5, 7, 8, 9, 64, 500])
@pytest.mark.parametrize("saved", [1.0, 0.7])
def test_finds_the_largest_batch_to_a_sixteenth_in_few_trials(most, saved):
    """`saved`: near the limit the compiler stores less of each row, so that more rows fit than extrapolated."""
    tried = []

    def needed(rows: int) -> Bytes | None:
        tried.append(rows)
        if rows > most:
            return None
        return Bytes(1000.0, 100.0 * rows * (saved if rows > most // 2 else 1.0))

    limit = 1000.0 + 100.0 * saved * (most + 0.5)
    fits, used, fails = search_rows(needed, limit)
    assert fits <= most < fails and fails - fits <= max(1, fits // 16)
    assert used == (0 if not fits else sum(needed(fits)))
    assert len(set(tried)) <= 9 and len(tried) - 1 <= 9


def test_neural_rankers_have_no_dry_run():
    with pytest.raises(InputError, match="a dry run is for encoders"):
        compile_step(configs.neural_ir(), [])


def test_the_stand_in_for_a_vocabulary_is_removed(tmp_path, monkeypatch):
    """Each dry run left a folder of 600 kB."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    config = configs.pretrain()
    config.model.update(layers=1, hidden=16, heads=1)
    config.update(batch_pairs=2, row_length=64, tasks=("adp",))
    assert compile_step(config, jax.devices()[:1]).shape.layers == 1
    assert not list(tmp_path.iterdir())


def test_an_interrupted_measurement_writes_nothing(tmp_path, monkeypatch):
    """Two steps, of which the first compiled, were written as 103 s a step."""
    monkeypatch.setattr(dry_run, "train", lambda config, workdir: {"interrupted": 1.0})
    assert dry_run.seconds_per_step(configs.pretrain(), str(tmp_path)) is None
    arguments = site.rate_parser().parse_args(["--config=site", f"--output={tmp_path / 'rate.json'}"])
    with pytest.raises(SystemExit) as stopped:
        site.rate(arguments)
    assert stopped.value.code == TERMINATED and not list(tmp_path.iterdir())
