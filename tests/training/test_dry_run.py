"""The search for the largest batch, and an interrupted measurement of the rate."""

import pytest

from harp_jax import config as configs
from harp_jax.base.errors import Terminated
from harp_jax.commands import site
from harp_jax.training import dry_run
from harp_jax.training.dry_run import Bytes, search_rows
from harp_jax.training.loop import TrainResult


@pytest.mark.parametrize("most", [0, 1, 5, 7, 8, 9, 64, 500])
@pytest.mark.parametrize("saved", [1.0, 0.7])
def test_finds_the_largest_batch_to_a_sixteenth_in_few_trials(most, saved):
    """`saved`: near the limit, the compiler stores less of each row, so more rows fit than extrapolated."""
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


def test_an_interrupted_measurement_writes_nothing(tmp_path, monkeypatch):
    """Else two steps, one with compilation, would be recorded as 103 s per step."""
    monkeypatch.setattr(dry_run, "train", lambda config, workdir: TrainResult({}, interrupted=True))
    assert dry_run.seconds_per_step(configs.pretrain(), str(tmp_path)) is None
    arguments = site.rate_parser().parse_args(["--config=site", f"--output={tmp_path / 'rate.json'}"])
    with pytest.raises(Terminated):
        site.rate(arguments)
    assert not list(tmp_path.iterdir())
