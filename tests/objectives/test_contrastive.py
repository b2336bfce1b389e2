"""The contrastive loss of packed texts against loops over queries and pages; gradient caching. A mesh: test_retriever.py."""

import dataclasses
import math
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np

from harp_jax.base.randomness import generator
from harp_jax.input.contrastive_groups import SeparateTexts, signature
from harp_jax.input.lanes import Batches, Source
from harp_jax.input.packing import Group, PackedLayout, fill, plan, text_sequence
from harp_jax.model.encoders.bert import BertShape
from harp_jax.model.encoders.encoder import EncoderConfig
from harp_jax.objectives.contrastive import Contrastive, text_vectors
from harp_jax.training.step import gradients
from tests.support.synthetic import TEMPLATE, VOCAB
from tests.support.tiny_bert import random_params

LENGTH, NEGATIVES, LANES = 40, 2, 4
SHAPE = BertShape(VOCAB, layers=1, hidden=32, heads=4, intermediate=64, max_positions=LENGTH, dropout=0.0)
TEXTS = SeparateTexts(LENGTH, TEMPLATE)
KEY = jax.random.key(0, impl="threefry2x32")


def text(*seed: int | str) -> np.ndarray:
    rng = generator(*seed)
    return rng.integers(5, VOCAB, rng.integers(6, 30)).astype(np.int32)


def groups(count: int) -> list[Group]:
    """Groups of up to NEGATIVES negatives. Group 1 has group 0's source, 3 has group 2's query, 5 nearly group 4's page, and the
    first negative of 6 is its page."""
    found = []
    for i in range(count):
        query, pages = text("query", i), [text("page", i, j) for j in range(1 + i % (NEGATIVES + 1))]
        if i == 3:
            query = text("query", 2)
        if i == 5:
            pages[0] = np.append(text("page", 4, 0), 7)
        if i == 6:
            pages = [pages[0], pages[0], text("page", 6, 9)]
        scores = generator("teacher", i).normal(size=len(pages)).tolist()
        found.append(TEXTS.group(0, f"source {max(i, 1)}", query, pages, NEGATIVES, scores))
    return found


def batch_of(count: int, microbatches: int = 1) -> dict[str, np.ndarray]:
    """`count` groups, in equal parts over lanes and microbatches."""
    every, of_lane, size = groups(count), math.ceil(count / LANES), 2 + NEGATIVES
    rows = size * math.ceil(of_lane / microbatches)
    layout = PackedLayout(rows, LENGTH, 4, size, 0, microbatches, teacher=True, identities=2 * size, density=1 / size)
    reader = SimpleNamespace(read=lambda lane, task, start, count: every[lane * count :][:count])
    return Batches(Source(reader, layout, {"links": 1.0}, of_lane, 0), range(LANES)).make()[0]


def two_encoders(shape: EncoderConfig = SHAPE) -> dict:
    return {"encoder": random_params(shape, 1)["encoder"], "start": {"encoder": random_params(shape, 2)["encoder"]}}


def vectors(encoder: dict, texts: Iterable[np.ndarray]) -> np.ndarray:
    """The unit vectors [texts, hidden] of texts, each alone in a row."""
    every = [Group(0, (text_sequence(ids, LENGTH, TEMPLATE),)) for ids in texts]
    layout = PackedLayout(len(every), LENGTH, 1, 1, 0)
    batch = fill(every, next(plan([(len(group.sequences[0]),) for group in every], layout)), layout, 0)
    return np.asarray(jax.jit(partial(text_vectors, SHAPE))(encoder, batch)[:, 0], np.float64)


def slow_loss(
    params: dict, count: int, temperature: float, weight: float, both: bool, margins: float
) -> tuple[float, float]:
    """The docstring's equation, by dictionaries, and the mean number of negatives; which texts are equal is decided by hand, as
    `groups` makes them."""
    every = groups(count)
    pages = {(i, j): s.query for i, g in enumerate(every) for j, s in enumerate(g.sequences[1:])}
    excluded = {
        *((a, (b, 0)) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2), (4, 5), (5, 4)) if max(a, b) < count), (6, (6, 1)),
    }  # fmt: skip
    asking = {i: g.sequences[0].query for i, g in enumerate(every)}
    (queries, documents), (start_queries, start_documents) = (
        [dict(zip(texts, vectors(encoder, texts.values()))) for texts in (asking, pages)]
        for encoder in (params["encoder"], params["start"]["encoder"])
    )
    total = negatives = 0.0
    for i in range(count):
        allowed = [at for at in pages if (i, at) not in excluded]
        negatives += len(allowed) - 1
        now = {at: math.exp(queries[i] @ documents[at] / temperature) for at in allowed}
        before = {at: math.exp(start_queries[i] @ start_documents[at] / temperature) for at in allowed}
        p, p0 = ({at: x / sum(each.values()) for at, x in each.items()} for each in (now, before))
        one = -math.log(p[i, 0])
        if both:
            asked = [b for b in range(count) if (b, (i, 0)) not in excluded]
            back = {b: math.exp(queries[b] @ documents[i, 0] / temperature) for b in asked}
            one = (one - math.log(back[i] / sum(back.values()))) / 2
        total += one + weight * sum(p0[at] * math.log(p0[at] / p[at]) for at in allowed)
        for _, j in (own := [at for at in pages if at[0] == i and at[1] > 0]):
            ours = (queries[i] @ documents[i, 0] - queries[i] @ documents[i, j]) / temperature
            theirs = every[i].teacher[1] - every[i].teacher[1 + j]
            total += margins * (ours - theirs) ** 2 / len(own)
    return total / count, negatives / count


def test_equals_loops_over_single_texts():
    count, params = 11, two_encoders()
    cases = [(0.0, False, 0.0), (0.5, True, 0.3)]
    objectives = [Contrastive(SHAPE, 0.1, *case) for case in cases]
    compute = jax.jit(lambda p, b: [objective.loss(p, b, None, {}) for objective in objectives])
    for (loss, metrics), case in zip(compute(params, batch_of(count)), cases):
        found = (loss, metrics["mean/negatives"])
        np.testing.assert_allclose(found, slow_loss(params, count, 0.1, *case), rtol=2e-5)
        assert metrics["pairs"] == count and 0.01 < metrics["mean/cosine_spread"] < 1


def test_near_equal_texts_have_near_signatures():
    ids = np.arange(100, 200, dtype=np.int32)

    def off(other: np.ndarray) -> int:
        return sum(((a ^ b) & 0xFFFFFFFF).bit_count() for a, b in zip(signature(ids), signature(other), strict=True))

    assert off(ids[::-1]) == 0
    assert max(off(np.append(ids[k : k + 97], 7)) for k in (0, 1, 2)) <= 8
    assert min(off(np.concatenate([ids[:k], np.arange(300, 400)])) for k in (10, 20, 40)) > 8


def test_gradient_caching_is_exact():
    """Three microbatches have the gradient of one batch with the same texts: in float64, so that rounding hides nothing."""
    shape = dataclasses.replace(SHAPE, dtype="float64")
    with jax.enable_x64(True):
        objective = Contrastive(shape, 0.1, 0.5, both=True)
        params = jax.tree.map(np.float64, two_encoders(shape))
        compute = jax.jit(lambda p, b: gradients(objective, p, b, KEY, None))
        (direct, sums), (cached, again) = (jax.device_get(compute(params, batch_of(24, n))) for n in (1, 3))
    np.testing.assert_allclose(sums["loss"], again["loss"], rtol=1e-9)
    assert not any(np.any(x) for x in jax.tree.leaves(cached["start"]))
    norm = math.sqrt(sum(float(np.square(x, dtype=np.float64).sum()) for x in jax.tree.leaves(direct)))
    off = jax.tree.map(lambda a, b: float(np.square(np.subtract(a, b, dtype=np.float64)).sum()), direct, cached)
    assert norm > 0.1 and math.sqrt(sum(jax.tree.leaves(off))) <= 1e-9 * norm
