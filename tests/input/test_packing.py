from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from harp_jax.base.randomness import generator
from harp_jax.config import pretrain
from harp_jax.input import packing
from harp_jax.input.packing import Group, PackedLayout, fill, pair_sequences, plan, text_sequence
from tests.support.synthetic import EMPTY, TEMPLATE, tokenizer

SMALL = PackedLayout(rows=1, row_length=128, sequences=8, group_size=2, pad=0)
LAYOUT = PackedLayout(rows=6, row_length=512, sequences=32, group_size=2, pad=0)


def wiki_like_groups(count: int) -> list[Group]:
    """Lengths as in real lead sections: log-normal, mean about 100 tokens, a few truncated to the row's length."""
    rng = generator("lengths", 0)
    groups = []
    for _ in range(count):
        sizes = np.clip(np.exp(rng.normal(4.3, 0.7, 2)).astype(int), 5, 600)
        query, *docs = (rng.integers(5, 200, n).astype(np.int32) for n in (rng.integers(2, 7), *sizes))
        groups.append(Group(0, pair_sequences(query, docs[0], EMPTY, docs[1], LAYOUT.row_length, TEMPLATE)))
    return groups


def lengths(groups: list[Group]) -> list[tuple[int, ...]]:
    return [tuple(len(s) for s in g.sequences) for g in groups]


def test_every_group_is_placed_once_in_berts_format_and_95_percent_of_the_slots_are_tokens():
    groups = wiki_like_groups(1024)
    batches = list(plan(lengths(groups), LAYOUT))
    assert sorted(p.group for batch in batches for p in batch) == list(range(1024))
    used = []
    for placements in batches:
        batch = fill(groups, placements, LAYOUT, lane=2)
        for number, placement in enumerate(placements):
            for member, sequence in enumerate(groups[placement.group].sequences):
                row, seat = divmod(int(batch["members"][0, number, member]), LAYOUT.sequences)
                start = batch["cls_offset"][row, seat]
                here = slice(start, start + len(sequence))
                assert batch["tokens"][row, here].tolist() == [2, *sequence.query, 3, *sequence.document, 3]
                assert (batch["segment_ids"][row, here] == seat + 1).all()
                assert batch["position_ids"][row, here].tolist() == list(range(len(sequence)))
                types = [0] * (len(sequence.query) + 2) + [1] * (len(sequence.document) + 1)
                assert batch["token_type_ids"][row, here].tolist() == types
        assert batch["group_valid"].sum() == len(placements)
        assert ((batch["segment_ids"] == 0) <= (batch["tokens"] == 0)).all()
        used.append((batch["segment_ids"] > 0).mean())
    assert np.mean(used) >= 0.95


def test_mask_ids_are_equal_exactly_where_the_text_is_shared():
    query, document, other = np.arange(5, 9), np.arange(20, 60), np.arange(70, 100)
    shared_document = pair_sequences(query, document, query[::-1][:2], EMPTY, 128, TEMPLATE)
    shared_query = pair_sequences(query, document, EMPTY, other, 128, TEMPLATE, mask_side="both")
    groups, layout = [Group(0, shared_document), Group(1, shared_query)], replace(SMALL, rows=2)
    batch = fill(groups, next(plan(lengths(groups), layout)), layout, lane=0)

    def ids(group: int, member: int, kind: int) -> list[int]:
        row, seat = divmod(int(batch["members"][0, group, member]), layout.sequences)
        here = (batch["segment_ids"][row] == seat + 1) & (batch["token_type_ids"][row] == kind)
        here &= ~np.isin(batch["tokens"][row], (2, 3))
        return batch["mask_ids"][row][here].tolist()

    assert ids(0, 0, 1) == ids(0, 1, 1) and min(ids(0, 0, 1)) >= 0
    assert set(ids(0, 0, 0)) == {-1}
    assert ids(1, 0, 0) == ids(1, 1, 0) and min(ids(1, 0, 0)) >= 0
    assert not set(ids(1, 0, 1)) & set(ids(1, 1, 1)) and not set(ids(0, 0, 1)) & set(ids(1, 0, 1))
    assert (batch["mask_ids"][np.isin(batch["tokens"], (0, 2, 3))] == -1).all()


def test_mask_ids_of_many_long_rows_are_within_int32():
    groups = [Group(0, pair_sequences(np.arange(4), np.arange(90), EMPTY, np.arange(41), 8192, TEMPLATE, "both"))]
    layout = PackedLayout(rows=64, row_length=8192, sequences=8, group_size=2, pad=0)
    batch = fill(groups, next(plan(lengths(groups), layout)), layout, lane=7)
    assert len(set(batch["mask_ids"][batch["mask_ids"] >= 0].tolist())) == 4 + 90 + 41


def test_the_longer_text_is_truncated_as_by_longest_first_of_transformers():
    """Against the truncation of `tokenizers`, which CrossEncoder uses, for all lengths around half a row."""
    reference = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, "[UNK]"))
    reference.pre_tokenizer = pre_tokenizers.Whitespace()
    for length in (11, 12):
        reference.enable_truncation(length - 3, strategy="longest_first")
        for query, document in np.ndindex(30, 30):
            expected = reference.encode("a " * query, "b " * document).ids
            found = packing.fit(np.zeros(query), np.ones(document), length, TEMPLATE)
            assert [len(side) for side in found] == [expected.count(0), expected.count(1)], (query, document)


def test_all_tokens_of_a_text_alone_may_be_masked():
    sequence = text_sequence(np.arange(5, 300), 128, TEMPLATE)
    assert len(sequence) == 128
    batch = fill([Group(0, (sequence,))], next(plan([(128,)], SMALL)), SMALL, 0)
    assert not batch["group_valid"].any() and (batch["mask_ids"] >= 0).sum() == 126


@pytest.mark.parametrize(("pairs", "lanes"), [(128, 8), (48, 4)])
def test_the_mean_number_of_pairs_is_the_configured_one(pairs, lanes, caplog):
    groups = wiki_like_groups(4000)
    reader = SimpleNamespace(read=lambda lane, task, start, count: groups[start : start + count])
    config = pretrain()
    config.batch_pairs, config.lanes = pairs, lanes
    layout = packing.make_layout(config, tokenizer(), reader, {"qdm": 1.0}, 2, 2 * pairs)
    batches = sum(1 for at in range(0, 4000, 1000) for _ in plan(lengths(groups)[at : at + 1000], layout))
    found = lanes * len(groups) / batches
    # A lane has whole rows, so the mean is off by up to half a row.
    half_a_row = 0.5 * lanes * layout.row_length / np.mean([sum(pair) for pair in lengths(groups)])
    assert abs(found - pairs) <= half_a_row + 0.03 * pairs and not caplog.text


def lengths_between(low: int, high: int) -> list[tuple[int, ...]]:
    return [tuple(pair) for pair in generator("lengths", low, high).integers(low, high, (3000, 2)) + 3]


# Two groups of 128 are nearer to 300 tokens than three, so no number of rows reaches 99 % of them; or a group is more than a batch.
@pytest.mark.parametrize(
    "row_length, tokens, pairs, apart",
    [
        *((512, 4000, lengths_between(*spread), 60) for spread in ((20, 90), (30, 505))),
        (256, 4000, lengths_between(120, 250), 60), (64, 300, [(64, 64)] * 60, 64), (64, 100, [(64, 64), (64, 60)] * 60, 64),
        (64, 50, [(40, 40)] * 60, 40), (64, 600, [(50, 61), (33, 40), (64, 64), (12, 20)] * 60, 64),
    ],
)  # fmt: skip
def test_batches_hold_the_same_real_tokens_however_long_a_tasks_pairs_are(row_length, tokens, pairs, apart):
    """On average over 40 batches, although rows are between two thirds full and full."""
    layout = PackedLayout(1, row_length, row_length // 16, 2, pad=0, tokens=tokens)
    layout = packing.enough_rows(layout, pairs[: packing.SAMPLE])
    assert tokens / row_length <= layout.rows <= 2 * tokens / row_length + 4
    batches = list(plan(pairs, layout))[:-1][:40]
    assert abs(np.mean([sum(sum(pairs[placed.group]) for placed in batch) for batch in batches]) - tokens) <= apart
