"""The mix of tasks in the stream: "each pair is uniformly sampled from the four tasks" (HARP, section 4.1.1)."""

import numpy as np
import pytest
from scipy import stats

from harp_jax.input.lanes import Cursor, Lane, mixture
from harp_jax.input.packing import PackedLayout

SIZES = {"rqp": 17_710, "qdm": 1_350, "rdp": 6_490, "acm": 12_640}


@pytest.mark.parametrize("sampling", ["uniform", "proportional"])
def test_tasks_of_a_window_follow_the_mix(sampling):
    shares = mixture(SIZES, sampling)
    expected = dict.fromkeys(SIZES, 0.25) if sampling == "uniform" else {t: n / 38_190 for t, n in SIZES.items()}
    assert shares == pytest.approx(expected)
    layout = PackedLayout(1, 64, 4, 2, 0)
    totals = dict.fromkeys(SIZES, 0)
    spread = []
    for lane in range(2):
        stream = Lane(None, lane, layout, shares, 1024, 7, Cursor())
        for window in range(20):
            counts = stream.counts(window)
            assert sum(counts.values()) == 1024
            totals = {task: totals[task] + counts[task] for task in SIZES}
            spread.append(counts["qdm"])
    observed = np.array([totals[task] for task in SIZES])
    assert stats.chisquare(observed, [40 * 1024 * shares[task] for task in SIZES]).pvalue > 0.01
    assert len(set(spread)) > 10  # drawn at random, not fixed
