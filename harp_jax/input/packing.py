"""Packing: several query-document sequences per row of fixed length, so that at least 95 % of the slots are real tokens.

The unit of packing is a *group* of sequences that one loss compares: the two sides of a pair, a positive with its
negatives, or a single text. All sequences of a group are in the same lane and batch, so comparing scores needs no
communication. Shapes are static; the number of groups per batch varies, and `group_valid` marks the real ones. In this order:
sequences and groups; placing them; the arrays of a batch; the number of rows, which depends on the data's lengths.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.config import needs_scored_pairs

if TYPE_CHECKING:
    from harp_jax.text.tokenizer import Template, Tokenizer

# Number of waiting groups that may fail to fit before a batch is closed. Measured on wiki lengths: 128 fills 97 % of the
# slots, more gains less than half a point.
LOOKAHEAD = 128
SAMPLE = 512  # groups read and packed to estimate how many rows a batch needs

log = logging.getLogger(__name__)

Pair = tuple[np.ndarray, np.ndarray]  # ids of query and document, int32, truncated to a row (`fit`)


class EncodedSequence(NamedTuple):
    """One input of the encoder before packing: query and document, or one text, with the special tokens of `template` around them.
    `query_text` and `document_text` number the texts of a group: sequences that share a text share its number, and therefore its
    mask. A text with number -1 is never masked."""

    query: np.ndarray
    document: np.ndarray | None
    query_text: int
    document_text: int
    template: "Template"

    def __len__(self) -> int:
        if self.document is None:
            return len(self.query) + self.template.around_text
        return len(self.query) + len(self.document) + self.template.around_pair


class Group(NamedTuple):
    """Sequences that one loss compares, the positive first; `task` indexes the run's tasks; `teacher` has a score for each.
    `identities`: int32 numbers by which a loss recognises equal texts of other groups (`contrastive_groups`)."""

    task: int
    sequences: tuple[EncodedSequence, ...]
    teacher: tuple[float, ...] = ()
    identities: tuple[int, ...] = ()


class Reader(Protocol):
    """A source of groups. `sizes` counts the records of each task; streams repeat endlessly."""

    sizes: Mapping[str, int]

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        """Records `start` … `start + count - 1` of the lane's endless stream of a task, as groups; a long text becomes several."""


@dataclass(frozen=True)
class PackedLayout:
    """Static shapes of one lane's share of a batch."""

    rows: int  # per lane
    row_length: int
    sequences: int  # K, maximum per row
    group_size: int  # maximum sequences per group
    pad: int  # the id that fills the rows
    microbatches: int = 1  # of each lane that a step accumulates
    teacher: bool = False  # batches have the scores of a teacher
    identities: int = 0  # of a group; 0: batches have none
    density: float = 0.0  # maximum groups per row; 0: as many as have room for their sequences
    tokens: float = 0.0  # end batches at this many real tokens, ± half a group; 0: when the rows are full
    step_groups: float = 0.0  # groups per step over all lanes and microbatches, estimated from a sample; 0: unknown

    @property
    def groups(self) -> int:
        """Maximum groups in a lane's batch."""
        most = math.ceil(self.rows * self.density) or self.rows * self.sequences // self.group_size
        return max(1, most)


def fit(query: np.ndarray, document: np.ndarray, length: int, template: "Template") -> tuple[np.ndarray, np.ndarray]:
    """Truncate a pair to `length` tokens including its special tokens: the longer of the two, or both to half of the row. Same as
    "longest_first" in transformers and CrossEncoder, so that exports score the same there. A query is truncated only if it takes
    more than half of the row. If both are truncated, the longer one keeps the odd token."""
    room = length - template.around_pair
    if len(query) + len(document) <= room:
        return query, document
    half = room // 2
    if len(query) <= len(document):
        limit = len(query) if 2 * len(query) <= room else half
        return query[:limit], document[: room - limit]
    limit = len(document) if 2 * len(document) <= room else half
    return query[: room - limit], document[:limit]


def pair_sequences(
    pos_query: np.ndarray,
    pos_doc: np.ndarray,
    neg_query: np.ndarray,
    neg_doc: np.ndarray,
    length: int,
    template: "Template",
    mask_side: str = "document",
    more_docs: Iterable[np.ndarray] = (),
) -> tuple[EncodedSequence, ...]:
    """The two sides of a pair record, and the positive query with each of `more_docs`, as sequences of at most `length` tokens. An
    empty negative text means the positive's. `mask_side`: the texts that may be masked: "document", "query" or "both"."""
    other_query = (neg_query, 2) if len(neg_query) else (pos_query, 0)
    other_doc = (neg_doc, 3) if len(neg_doc) else (pos_doc, 1)
    sides, every = [], [((pos_query, 0), (pos_doc, 1)), (other_query, other_doc)]
    every += [((pos_query, 0), (document, 2 * number + 5)) for number, document in enumerate(more_docs)]
    for (query, query_text), (document, document_text) in every:
        texts = -1 if mask_side == "document" else query_text, -1 if mask_side == "query" else document_text
        sides.append(EncodedSequence(*fit(query, document, length, template), *texts, template))
    return tuple(sides)


def text_sequence(text: np.ndarray, length: int, template: "Template") -> EncodedSequence:
    """The beginning of a text as a sequence of at most `length` tokens, all of which may be masked."""
    return EncodedSequence(text[: length - template.around_text], None, 0, -1, template)


def text_sequences(text: np.ndarray, length: int, template: "Template") -> list[EncodedSequence]:
    """Running text as the fewest sequences of at most `length` tokens, about equally long; all tokens may be masked."""
    pieces = max(1, math.ceil(len(text) / (length - template.around_text)))
    return [text_sequence(piece, length, template) for piece in np.array_split(text, pieces)]


class Placement(NamedTuple):
    """The position of a group: its index in the window, and (row, start) of each of its sequences."""

    group: int
    slots: tuple[tuple[int, int], ...]


def plan(lengths: list[tuple[int, ...]], layout: PackedLayout) -> Iterator[list[Placement]]:
    """Assign the groups of a window (their sequences' lengths) to batches of `layout.rows` rows, in order. A batch starts with the
    oldest waiting group, then adds the following groups that fit (best fit by row), until LOOKAHEAD groups did not fit or the batch
    has `layout.tokens` real tokens. Raises InputError for a group that fits no empty batch."""
    waiting = list(range(len(lengths)))
    most, longest, sizes = layout.groups, list(map(max, lengths)), list(map(sum, lengths))
    while waiting:
        space = [layout.row_length] * layout.rows
        seats = [layout.sequences] * layout.rows
        # The most room of any row: it rejects most groups that do not fit, without a search.
        widest = layout.row_length
        placed: list[Placement] = []
        left: list[int] = []
        tried, tokens = 0, 0
        for at, index in enumerate(waiting):
            # Stop at the nearer side of the target.
            if layout.tokens and placed and tokens + sizes[index] / 2 > layout.tokens:
                left.extend(waiting[at:])
                break
            slots = _place(lengths[index], space, seats, layout) if longest[index] <= widest else None
            if slots is not None:
                placed.append(Placement(index, slots))
                tokens += sizes[index]
                widest = max(room if left else 0 for room, left in zip(space, seats))
            else:
                if not placed:
                    raise InputError(
                        f"a group of sequences of {lengths[index]} tokens does not fit a batch of {layout.rows} rows of "
                        f"{layout.row_length} tokens per lane; raise batch_pairs (or lower lanes)"
                    )
                left.append(index)
                tried += 1
            if tried >= LOOKAHEAD or len(placed) == most:
                left.extend(waiting[at + 1 :])
                break
        waiting = left
        yield placed


def _place(
    lengths: tuple[int, ...], space: list[int], seats: list[int], layout: PackedLayout
) -> tuple[tuple[int, int], ...] | None:
    """Best-fit rows for every sequence of a group, or None, without side effects, if one does not fit."""
    slots: list[tuple[int, int]] = []
    for length in lengths:
        best, best_room = -1, layout.row_length + 1
        for row, room in enumerate(space):
            if length <= room < best_room and seats[row]:
                best, best_room = row, room
        if best < 0:
            for (row, _), used in zip(slots, lengths):
                space[row] += used
                seats[row] += 1
            return None
        slots.append((best, layout.row_length - best_room))
        space[best] -= length
        seats[best] -= 1
    return tuple(slots)


def fill(groups: list[Group], placements: list[Placement], layout: PackedLayout, lane: int) -> dict[str, np.ndarray]:
    """The arrays of one lane's batch:

    tokens, segment_ids (0: padding), position_ids, token_type_ids: [rows, T] int32
    mask_ids: [rows, T] int32, equal for the same token of the same text, -1 for tokens that are never masked
    cls_offset: [rows, K] int32, the position of each sequence's first token, which is scored
    members: [1, groups, group_size] int32, indices into this lane's scores [rows·K], -1 for absent members
    group_task: [1, groups] int32
    group_valid: [1, groups] bool, whether the group has sequences to compare
    teacher: [1, groups, group_size] float32, with `layout.teacher`: its scores, 0 for absent members
    identities: [1, groups, layout.identities] int32, if there are any
    """
    shapes = batch_shapes(replace(layout, microbatches=1), 1)
    batch: dict[str, np.ndarray] = {name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}
    for name, empty in (("tokens", layout.pad), ("mask_ids", -1), ("members", -1)):
        batch[name].fill(empty)
    filled = [0] * layout.rows
    counting = np.arange(layout.row_length, dtype=np.int32)
    texts_per_group = 2 * layout.group_size
    for number, placement in enumerate(placements):
        group = groups[placement.group]
        # Modulo, to fit int32: texts this far apart may share a mask.
        first_text = (lane * layout.groups + number) * texts_per_group % (2**31 // layout.row_length - texts_per_group)
        for member, (sequence, (row, start)) in enumerate(zip(group.sequences, placement.slots)):
            seat, end = filled[row], start + len(sequence)
            filled[row] += 1
            template, query, document = sequence.template, sequence.query, sequence.document
            texts = [(sequence.query_text, query, start + len(template.start))]
            line: tuple[Sequence[int] | np.ndarray, ...] = (template.start, query, template.alone)
            if document is not None:
                line = (template.start, query, template.between, document, template.end)
                at = end - len(template.end) - len(document)
                texts.append((sequence.document_text, document, at))
                batch["token_type_ids"][row, at:end] = template.second_type
            batch["tokens"][row, start:end] = np.concatenate(line)
            for text, ids, at in texts:
                if text >= 0:
                    base = (first_text + text) * layout.row_length
                    batch["mask_ids"][row, at : at + len(ids)] = base + counting[: len(ids)]
            batch["segment_ids"][row, start:end] = seat + 1
            batch["position_ids"][row, start:end] = counting[: end - start]
            batch["cls_offset"][row, seat] = start
            batch["members"][0, number, member] = row * layout.sequences + seat
        batch["group_task"][0, number] = group.task
        batch["group_valid"][0, number] = len(group.sequences) > 1
        if layout.teacher:
            batch["teacher"][0, number, : len(group.teacher)] = group.teacher
        if layout.identities:
            batch["identities"][0, number, : len(group.identities)] = group.identities
    return batch


def batch_shapes(layout: PackedLayout, lanes: int) -> dict[str, tuple[tuple[int, ...], type]]:
    """Shape and dtype of every array of a batch of `lanes` lanes, without creating one. Several microbatches are the first axis of
    all arrays."""
    stack = (layout.microbatches,) if layout.microbatches > 1 else ()
    rows = (*stack, layout.rows * lanes, layout.row_length)
    groups = (*stack, lanes, layout.groups)
    shapes: dict[str, tuple[tuple[int, ...], type]] = {
        name: (rows, np.int32) for name in ("tokens", "segment_ids", "position_ids", "token_type_ids", "mask_ids")
    }
    shapes["cls_offset"] = ((*rows[:-1], layout.sequences), np.int32)
    shapes["members"] = ((*groups, layout.group_size), np.int32)
    shapes["group_task"] = (groups, np.int32)
    shapes["group_valid"] = (groups, np.bool_)
    if layout.teacher:
        shapes["teacher"] = shapes["members"][0], np.float32
    if layout.identities:
        shapes["identities"] = ((*groups, layout.identities), np.int32)
    return shapes


def pair_rows(
    pairs: list[Pair], rows: int, length: int, tokenizer: "Tokenizer"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One pair per row: (tokens [rows, length], start of token type 1 [rows], end of the sequence [rows]) int32. `length` 0: the
    longest pair's. Spare rows end at 0."""
    template = tokenizer.template
    length = length or max(len(query) + len(document) + template.around_pair for query, document in pairs)
    tokens = np.full((rows, length), tokenizer.pad, np.int32)
    second, end = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    for row, (query, document) in enumerate(pairs):
        line = (template.start, query, template.between, document, template.end)
        n = sum(map(len, line))
        tokens[row, :n] = np.concatenate(line)
        second[row] = sum(map(len, line[:3])) if template.second_type else n
        end[row] = n
    return tokens, second, end


def make_layout(
    config: ConfigDict,
    tokenizer: "Tokenizer",
    reader: Reader,
    shares: Mapping[str, float],
    group_size: int,
    sequences: int,
    window: int = 0,
) -> PackedLayout:
    """The static shapes of a lane: as many rows as hold its share of a (micro)batch's `sequences` on average. How well sequences
    pack depends on their lengths, so a sample of the data is packed, in windows of `window` groups like those of the lanes (0:
    config.window)."""
    window, parts = window or config.window, config.lanes * config.accumulate
    layout = PackedLayout(
        rows=1,
        row_length=config.row_length,
        sequences=max(2, config.row_length // 16),  # rows of 512 hold up to 25 on Wikipedia
        group_size=group_size,
        pad=tokenizer.pad,
        microbatches=config.accumulate,
        teacher=bool(config.get("teacher", "")) or needs_scored_pairs(config),
    )
    lengths = [
        tuple(len(s) for s in group.sequences)
        for task, share in shares.items()
        for group in reader.read(0, task, 0, max(1, round(SAMPLE * share)))
    ]
    order = generator(config.seed, "layout").permutation(len(lengths))
    lengths = [lengths[i] for i in order]
    tokens = config.get("batch_tokens", 0) / parts
    if tokens:
        return enough_rows(replace(layout, tokens=tokens), lengths)
    wanted = sequences / parts
    if not lengths:
        return replace(layout, rows=max(1, round(wanted / 4)))  # a dry run without data: 4 sequences a row

    # Start from perfect packing, with at least a row for each sequence of a group: every group then fits a batch, even if longer
    # than those of the sample. Add rows: the first number that suffices, or the one before if that is closer.
    size = sum(map(len, lengths)) / len(lengths)
    rows = max(int(wanted / size * sum(map(sum, lengths)) / len(lengths) / layout.row_length), group_size)
    # Packed in windows; the last batch of a window, which holds the few remaining groups, counts too.
    repeated = lengths * max(1, math.ceil(window / len(lengths)))
    windows = [repeated[start : start + window] for start in range(0, len(repeated) - window + 1, window)]

    def groups_of_batch(rows: int) -> float:
        batches = sum(len(list(plan(some, replace(layout, rows=rows)))) for some in windows)
        return window * len(windows) / batches

    groups, before = groups_of_batch(rows), -math.inf
    while groups * size < wanted and groups < window:
        rows, before, groups = rows + 1, groups, groups_of_batch(rows + 1)
    if abs(before * size - wanted) <= abs(groups * size - wanted):
        rows, groups = rows - 1, before
    layout = replace(layout, rows=rows, step_groups=groups * parts)

    expected = layout.step_groups * size
    if not 0.8 * sequences <= expected <= 1.25 * sequences:
        why = (
            f"a lane shuffles and packs {window} groups at a time; lower `batch_pairs`, or raise `window` (an epoch at most)"
            if 4 * wanted > size * window
            else f"each of the {config.lanes} lanes needs a row for every sequence of a group; lower `lanes` (the number of "
            "devices suffices) or `accumulate`"
        )
        log.warning("a batch has %.0f sequences instead of the configured %d: %s", expected, sequences, why)
    return layout


def enough_rows(layout: PackedLayout, lengths: list[tuple[int, ...]]) -> PackedLayout:
    """The layout with the fewest rows at which the batches of a sample reach 99 % of `layout.tokens` on average. If few groups fill
    a batch, which ends at the nearer side of the target: 99 % of what it reaches with any number of rows. Packing depends on the
    lengths: tasks that train on the same number of real tokens need different numbers of rows."""
    rows = max(layout.group_size, math.ceil(layout.tokens / layout.row_length))
    if not lengths:
        return replace(layout, rows=math.ceil(rows / 0.95))
    # Repeat a sample of fewer than three batches.
    lengths = lengths * max(math.ceil(3 * layout.tokens / sum(map(sum, lengths))), math.ceil(3 / len(lengths)))
    # Mean tokens of `plan`'s batches with unlimited rows, except the last, partial one.
    held, batches = 0, []
    for size in map(sum, lengths):
        if held and held + size / 2 > layout.tokens:
            batches.append(held)
            held = 0
        held += size
    most = sum(batches) / len(batches)
    wanted = 0.99 * (layout.tokens if most >= 0.99 * layout.tokens else most)
    while True:
        placed = list(plan(lengths, replace(layout, rows=rows)))[:-1]  # the last one is partial
        mean = sum(sum(lengths[placement.group]) for batch in placed for placement in batch) / len(placed)
        if mean >= wanted:
            return replace(layout, rows=rows)
        rows = max(rows + 1, int(rows * wanted / mean))
