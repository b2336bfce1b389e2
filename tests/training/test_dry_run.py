"""The search for the largest batch, on devices whose memory is a formula."""

import pytest

from harp_jax import config as configs
from harp_jax.base.errors import InputError
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
    with pytest.raises(InputError, match="a dry run is for BERT"):
        compile_step(configs.neural_ir(), [])
