"""Dynamic masking on the device: 15 % of the maskable tokens; of these 80 % become [MASK], 10 % random, 10 % unchanged."""

import jax
import jax.numpy as jnp

from harp_jax.model.layers import threefry
from harp_jax.objectives.objective import Batch

MLM_RATE = 0.15  # share of the tokens that are predicted

# Arrays that masking adds to a batch
POSITIONS = "masked_positions"  # [rows, M] int32: positions to predict
TARGETS = "masked_targets"  # [rows, M] int32: the original tokens
WEIGHTS = "masked_weights"  # [rows, M] float32: 0 where fewer than M tokens of the row are masked
PREDICTED = (POSITIONS, TARGETS, WEIGHTS)


def token_bits(key: jax.Array, ids: jax.Array, stream: int) -> tuple[jax.Array, jax.Array]:
    """Two random words (uint32, in the shape of `ids`) for each id. The id is the counter of a counter-mode cipher. Equal ids get
    equal bits in every row and on every device, so both sides of a pair mask the same words of a shared text."""
    return threefry(key, jnp.full(ids.shape, stream, jnp.uint32), ids.astype(jnp.uint32))


def max_predictions(row_length: int) -> int:
    """M, the maximum number of predictions per row: MLM_RATE times the row length. Special tokens, padding and usually queries are
    never masked, so the mean is below M; tokens drawn beyond M (about 1 % on real data) stay unmasked."""
    return max(1, round(MLM_RATE * row_length))


def ids_of_slots(mask_ids: jax.Array) -> jax.Array:
    """`mask_ids` with an id for each slot of the batch, so that the sides of a pair mask a text that they share independently."""
    rows, columns = (jax.lax.broadcasted_iota(jnp.int32, mask_ids.shape, axis) for axis in (0, 1))
    return jnp.where(mask_ids >= 0, rows * mask_ids.shape[1] + columns, -1)


def word_ids(tokens: jax.Array, mask_ids: jax.Array, continues: jax.Array) -> jax.Array:
    """`mask_ids` with the id of each word's first token for all its tokens, so that whole words are masked. continues: [vocab]
    bool, whether a token continues a word. All tokens of a word get the same random replacement."""
    columns = jax.lax.broadcasted_iota(jnp.int32, tokens.shape, 1)
    first = jax.lax.cummax(jnp.where(continues[tokens], -1, columns), axis=1)
    named = jnp.take_along_axis(mask_ids, jnp.maximum(first, 0), axis=1)
    return jnp.where((mask_ids >= 0) & (named >= 0), named, mask_ids)


def without_marks(batch: Batch, marks: tuple[int, ...]) -> jax.Array:
    """`mask_ids` of the batch without the marks, tokens such as [Q] that are not part of the text."""
    marked = jnp.isin(batch["tokens"], jnp.asarray(marks, jnp.int32))
    return jnp.where(marked, -1, batch["mask_ids"])


def mask_tokens(
    key: jax.Array, batch: Batch, mask_ids: jax.Array, predictions: int, mask_token: int, vocab_size: int, always: bool = False
) -> Batch:  # fmt: skip
    """The batch with tokens of each row masked, and the arrays PREDICTED (HARP Eq. 15 and section 4.3.2). `mask_ids` [rows, T]
    int32 identifies the token (tokens with the same id are masked the same way), -1 excludes it. `key` is this step's threefry key.
    M is `predictions`. `always`: all masked tokens become [MASK]."""
    tokens = batch["tokens"]
    choice, _ = token_bits(key, mask_ids, 0)
    kind, replacement = token_bits(key, mask_ids, 1)
    chosen = (mask_ids >= 0) & (choice < jnp.uint32(int(MLM_RATE * 2**32)))
    # The M smallest draws of the row; unchosen tokens come last. Not top_k: on CPU and GPU it is a custom call that the
    # partitioner cannot shard, so every device would gather all rows.
    draw = jnp.where(chosen, choice, jnp.uint32(0xFFFFFFFF))
    columns = jax.lax.broadcasted_iota(jnp.int32, tokens.shape, 1)
    lowest, positions = (x[:, :predictions] for x in jax.lax.sort((draw, columns), num_keys=1))
    weights = (lowest != jnp.uint32(0xFFFFFFFF)).astype(jnp.float32)
    targets = jnp.take_along_axis(tokens, positions, axis=1)
    hidden = chosen & (draw <= lowest[:, -1:])
    random_token = (replacement % jnp.uint32(vocab_size)).astype(jnp.int32)
    as_mask, as_random = (kind < jnp.uint32(int(share * 2**32)) for share in (0.8, 0.9))
    replaced = jnp.where(as_mask | always, mask_token, jnp.where(as_random, random_token, tokens))
    return _masked(batch, jnp.where(hidden, replaced, tokens), positions, targets, weights)


def mask_one_each(key: jax.Array, batch: Batch, mask_ids: jax.Array, sequences: int, mask_token: int) -> Batch:
    """The batch with one uniformly drawn token masked in every sequence that has maskable tokens (SJTF's masked query). `mask_ids`
    as in `mask_tokens`. M is `sequences`, the maximum number per row."""
    tokens, segment_ids = batch["tokens"], batch["segment_ids"]
    draw, _ = token_bits(key, mask_ids, 0)
    excluded = jnp.int32(2**31 - 1)
    owner = jnp.where(mask_ids >= 0, segment_ids, excluded)
    columns = jax.lax.broadcasted_iota(jnp.int32, tokens.shape, 1)
    # Sort by sequence, then by draw: the first of each sequence is its smallest draw. Not top_k, as in `mask_tokens`.
    owners, _, places = jax.lax.sort((owner, draw, columns), num_keys=2)
    first = (owners != jnp.roll(owners, 1, axis=1)).at[:, 0].set(True) & (owners != excluded)
    kept, positions = (x[:, :sequences] for x in jax.lax.sort(((~first).astype(jnp.int32), places), num_keys=2))
    weights = (kept == 0).astype(jnp.float32)
    targets = jnp.take_along_axis(tokens, positions, axis=1)
    hidden = (columns[:, None, :] == jnp.where(kept == 0, positions, -1)[:, :, None]).any(axis=1)
    return _masked(batch, jnp.where(hidden, mask_token, tokens), positions, targets, weights)


def _masked(batch: Batch, tokens: jax.Array, *predicted: jax.Array) -> Batch:
    return {**batch, "tokens": tokens, **dict(zip(PREDICTED, predicted, strict=True))}
