"""The number of rows per batch, where few groups fill a batch."""

import pytest

from harp_jax.input.packing import PackedLayout, enough_rows, plan


@pytest.mark.parametrize(
    "tokens, lengths",
    [
        (300, [(64, 64)]),  # two groups are nearer to the target than three: no number of rows reaches 99 % of it
        (100, [(64, 64), (64, 60)]),
        (50, [(40, 40)]),  # a group is more than a batch
        (600, [(50, 61), (33, 40), (64, 64), (12, 20)]),
        (600, [(64, 64)] * 3 + [(4, 5)]),
    ],
)
def test_rows_are_found_for_groups_of_any_size(tokens, lengths):
    layout = enough_rows(PackedLayout(1, 64, 4, 2, 0, tokens=tokens), lengths)
    assert layout.rows <= 2 * tokens / 64 + 4
    windows = list(plan(lengths * 60, layout))
    held = [sum(sum(lengths[placed.group % len(lengths)]) for placed in batch) for batch in windows[:-1]]
    assert abs(sum(held) / len(held) - tokens) <= max(map(sum, lengths)) / 2
