"""Dynamic masking on the device: 15 % of the tokens that may be masked, of these 80 % [MASK], 10 % random, 10 % kept."""

import jax
import jax.numpy as jnp
from jax.extend.random import threefry2x32_p

from harp_jax.objectives.objective import Batch

# What masking adds to a batch:
POSITIONS = "masked_positions"  # [rows, M] int32: where to predict
TARGETS = "masked_targets"  # [rows, M] int32: the tokens that stood there
WEIGHTS = "masked_weights"  # [rows, M] float32: 0 where fewer than M tokens of the row are masked
PREDICTED = (POSITIONS, TARGETS, WEIGHTS)


def token_bits(key: jax.Array, ids: jax.Array, stream: int) -> tuple[jax.Array, jax.Array]:
    """Two words of random bits for each id, shaped as `ids`, uint32.

    A counter-mode cipher on the id itself: the same id gets the same bits wherever it lies, in whatever row and on
    whatever device, so the two sides of a pair hide the same words of a text that they share.
    """
    k = jax.random.key_data(key).astype(jnp.uint32)
    high = jnp.full(ids.shape, stream, jnp.uint32)
    k0, k1 = jnp.broadcast_to(k[0], ids.shape), jnp.broadcast_to(k[1], ids.shape)
    first, second = threefry2x32_p.bind(k0, k1, high, ids.astype(jnp.uint32))
    return first, second


def slots(row_length: int, rate: float) -> int:
    """M, the number of predictions a row: the rate's share of a full row.

    Specials, queries and padding are never masked, so the mean is below M; what exceeds it (about 1 % of the masked
    tokens on real data) stays unmasked.
    """
    return max(1, round(rate * row_length))


def word_ids(tokens: jax.Array, mask_ids: jax.Array, continues: jax.Array) -> jax.Array:
    """`mask_ids` in which every wordpiece of a word has the id of its first: whole words are hidden or shown.

    continues: [vocab] bool, whether a token continues a word (##). A random replacement is then one token for all pieces.
    """
    columns = jax.lax.broadcasted_iota(jnp.int32, tokens.shape, 1)
    first = jax.lax.cummax(jnp.where(continues[tokens], -1, columns), axis=1)
    named = jnp.take_along_axis(mask_ids, jnp.maximum(first, 0), axis=1)
    return jnp.where((mask_ids >= 0) & (named >= 0), named, mask_ids)


def without_marks(batch: Batch, marks: tuple[int, ...]) -> jax.Array:
    """`mask_ids` of the batch with the marks excluded, tokens such as [Q] that say nothing of the text."""
    marked = jnp.isin(batch["tokens"], jnp.asarray(marks, jnp.int32))
    return jnp.where(marked, -1, batch["mask_ids"])


def mask_tokens(
    key: jax.Array, batch: Batch, mask_ids: jax.Array, rate: float, slots: int, mask_token: int, vocab_size: int
) -> Batch:
    """The batch with tokens of each row masked, and what to predict (HARP Eq. 15 and section 4.3.2).

    `mask_ids` [rows, T] int32 identifies the token (equal ids are masked alike), -1 excludes it. `key` is a threefry key
    of this step. M is `slots`.
    """
    tokens = batch["tokens"]
    choice, _ = token_bits(key, mask_ids, 0)
    kind, replacement = token_bits(key, mask_ids, 1)
    chosen = (mask_ids >= 0) & (choice < jnp.uint32(int(rate * 2**32)))
    # The M smallest draws of the row, those not chosen last. A sort rather than top_k: CPU and GPU run top_k as a custom
    # call that the partitioner cannot cut, and would gather all rows on every device.
    draw = jnp.where(chosen, choice, jnp.uint32(0xFFFFFFFF))
    columns = jax.lax.broadcasted_iota(jnp.int32, tokens.shape, 1)
    lowest, positions = (x[:, :slots] for x in jax.lax.sort((draw, columns), num_keys=1))
    weights = (lowest != jnp.uint32(0xFFFFFFFF)).astype(jnp.float32)
    targets = jnp.take_along_axis(tokens, positions, axis=1)
    hidden = chosen & (draw <= lowest[:, -1:])
    random_token = (replacement % jnp.uint32(vocab_size)).astype(jnp.int32)
    replaced = jnp.where(
        kind < jnp.uint32(int(0.8 * 2**32)),
        mask_token,
        jnp.where(kind < jnp.uint32(int(0.9 * 2**32)), random_token, tokens),
    )
    return _masked(batch, jnp.where(hidden, replaced, tokens), positions, targets, weights)


def mask_one_each(key: jax.Array, batch: Batch, mask_ids: jax.Array, sequences: int, mask_token: int) -> Batch:
    """The batch with one token, drawn uniformly, masked in every sequence that has any to mask (SJTF's masked query).

    `mask_ids` as in `mask_tokens`. M is `sequences`, the most that a row holds.
    """
    tokens, segment_ids = batch["tokens"], batch["segment_ids"]
    draw, _ = token_bits(key, mask_ids, 0)
    nobody = jnp.int32(2**31 - 1)
    owner = jnp.where(mask_ids >= 0, segment_ids, nobody)
    columns = jax.lax.broadcasted_iota(jnp.int32, tokens.shape, 1)
    # Sorted by sequence, then by draw: the first of each sequence is its smallest draw. Sorts, as in `mask_tokens`.
    owners, _, places = jax.lax.sort((owner, draw, columns), num_keys=2)
    first = (owners != jnp.roll(owners, 1, axis=1)).at[:, 0].set(True) & (owners != nobody)
    kept, positions = (x[:, :sequences] for x in jax.lax.sort(((~first).astype(jnp.int32), places), num_keys=2))
    weights = (kept == 0).astype(jnp.float32)
    targets = jnp.take_along_axis(tokens, positions, axis=1)
    hidden = (columns[:, None, :] == jnp.where(kept == 0, positions, -1)[:, :, None]).any(axis=1)
    return _masked(batch, jnp.where(hidden, mask_token, tokens), positions, targets, weights)


def _masked(batch: Batch, tokens: jax.Array, *predicted: jax.Array) -> Batch:
    return {**batch, "tokens": tokens, **dict(zip(PREDICTED, predicted, strict=True))}
