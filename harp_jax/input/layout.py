"""The number of rows per batch: shapes are static, and how many packed rows hold a batch depends on the data's lengths."""

import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ml_collections import ConfigDict

from harp_jax.base.randomness import generator
from harp_jax.input.lanes import Reader
from harp_jax.input.packing import PackedLayout, plan
from harp_jax.text.tokenizer import Tokenizer

log = logging.getLogger(__name__)

SAMPLE = 512  # groups read and packed to estimate how many rows a batch needs


def make_layout(
    config: ConfigDict,
    tokenizer: Tokenizer,
    reader: Reader,
    shares: Mapping[str, float],
    group_size: int,
    sequences: int,
    window: int = 0,
) -> PackedLayout:
    """The static shapes of a lane: as many rows as hold its share of a (micro)batch's `sequences` on average.

    How well sequences pack depends on their lengths, so a sample of the data is packed, in windows of `window` groups like
    those of the lanes (0: config.window).
    """
    window = window or config.window
    seats = max(2, config.row_length // 16)  # rows of 512 hold up to 25 sequences on Wikipedia
    layout = PackedLayout(1, config.row_length, seats, group_size, tokenizer.pad)
    layout = replace(layout, microbatches=config.accumulate)
    parts = config.lanes * config.accumulate
    lengths = [
        tuple(len(s) for s in group.sequences)
        for task, share in shares.items()
        for group in reader.read(0, task, 0, max(1, round(SAMPLE * share)))
    ]
    order = generator(config.seed, "layout").permutation(len(lengths))
    lengths = [lengths[i] for i in order]
    tokens = config.get("batch_tokens", 0) / parts
    if tokens and not config.rows:
        return enough_rows(replace(layout, tokens=tokens), lengths)
    wanted = sequences / parts
    if config.rows:
        layout = replace(layout, rows=max(1, round(config.rows / parts)))
    elif lengths:
        layout = replace(layout, rows=rows_that_hold(layout, lengths, window, wanted))
    else:
        layout = replace(layout, rows=max(1, round(wanted / 4)))  # a dry run without data: 4 sequences a row
    if not lengths:
        return layout
    layout = replace(layout, step_groups=batch_groups(layout, lengths, window) * parts)
    found = layout.step_groups * sum(map(len, lengths)) / len(lengths)
    if not config.rows and found > 1.25 * sequences:
        log.warning(
            "a batch has %.0f sequences instead of the configured %d: each of the %d lanes needs a row for every sequence of "
            "a group; lower `lanes` (the number of devices suffices) or `accumulate`",
            found,
            sequences,
            config.lanes,
        )
    return layout


def batch_groups(layout: PackedLayout, lengths: list[tuple[int, ...]], window: int) -> float:
    """Mean number of groups in a lane's batch, from a sample (`lengths` of their sequences) packed in windows.

    The last batch of a window holds the remaining groups, fewer than the others; it counts.
    """
    if len(lengths) < window:
        lengths = lengths * math.ceil(window / len(lengths))
    windows = [lengths[start : start + window] for start in range(0, len(lengths) - window + 1, window)]
    return window * len(windows) / sum(len(list(plan(groups, layout))) for groups in windows)


def rows_that_hold(layout: PackedLayout, lengths: list[tuple[int, ...]], window: int, wanted: float) -> int:
    """The number of rows whose batches hold closest to `wanted` sequences, on average over a sample."""
    size = sum(map(len, lengths)) / len(lengths)
    # At least a row for each sequence of a group: every group then fits a batch, even if longer than those of the sample.
    rows = max(int(wanted / size * sum(map(sum, lengths)) / len(lengths) / layout.row_length), layout.group_size)
    before: tuple[float, int] | None = None
    # Start from perfect packing and increase: the first number that suffices, or the one before if that is closer.
    while True:
        groups = batch_groups(replace(layout, rows=rows), lengths, window)
        if groups * size >= wanted or groups >= window:
            closer = before is not None and abs(before[0] - wanted) <= abs(groups * size - wanted)
            return before[1] if before is not None and closer else rows
        before = (groups * size, rows)
        rows += 1


def enough_rows(layout: PackedLayout, lengths: list[tuple[int, ...]]) -> PackedLayout:
    """The layout with the fewest rows at which the batches of a sample reach 99 % of `layout.tokens` on average, or of what any
    number of rows reaches where few groups fill a batch: it ends at the nearer side of the target.

    Packing depends on the lengths: tasks that train on equally many real tokens need different numbers of rows.
    """
    rows = max(layout.group_size, math.ceil(layout.tokens / layout.row_length))
    if not lengths:
        return replace(layout, rows=math.ceil(rows / 0.95))
    # Repeat a sample of fewer than three batches.
    lengths = lengths * max(math.ceil(3 * layout.tokens / sum(map(sum, lengths))), math.ceil(3 / len(lengths)))
    most = held_without_limit(layout.tokens, map(sum, lengths))
    wanted = 0.99 * (layout.tokens if most >= 0.99 * layout.tokens else most)
    while True:
        batches = list(plan(lengths, replace(layout, rows=rows)))[:-1]  # the last one is partial
        held = sum(sum(lengths[placement.group]) for batch in batches for placement in batch) / len(batches)
        if held >= wanted:
            return replace(layout, rows=rows)
        rows = max(rows + 1, int(rows * wanted / held))


def held_without_limit(tokens: float, groups: Iterable[int]) -> float:
    """Mean tokens of the batches that `plan` makes of groups of so many tokens where every group has room; the last is partial."""
    batches, held = [], 0
    for size in groups:
        if held and held + size / 2 > tokens:
            batches.append(held)
            held = 0
        held += size
    return sum(batches) / len(batches)
