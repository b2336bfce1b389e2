"""Dynamic masking against its definition: rates (chi-square), same mask for shared texts, independence of layout."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from harp_jax.objectives.masking import POSITIONS, TARGETS, WEIGHTS, mask_tokens, max_predictions, token_bits, word_ids

KEY = jax.random.key(7, impl="threefry2x32")
VOCAB, MASK = 1000, 4


def tokens_and_ids(rows: int = 64, length: int = 512) -> tuple[jax.Array, jax.Array]:
    ids = np.arange(rows * length, dtype=np.int32).reshape(rows, length)
    ids[:, ::10] = -1  # specials
    tokens = np.random.default_rng(0).integers(5, VOCAB, (rows, length)).astype(np.int32)
    return jnp.asarray(tokens), jnp.asarray(ids)


def masked(key: jax.Array = KEY):
    tokens, ids = tokens_and_ids()
    out = mask_tokens(key, {"tokens": tokens}, ids, max_predictions(512), MASK, VOCAB)
    return np.asarray(tokens), np.asarray(ids), jax.tree.map(np.asarray, out)


def test_rates_are_15_percent_and_80_10_10():
    tokens, ids, out = masked()
    rows, columns = np.nonzero(out[WEIGHTS])
    at, targets = out[POSITIONS][rows, columns], out[TARGETS][rows, columns]
    new, chosen = out["tokens"][rows, at], len(rows)
    assert (targets == tokens[rows, at]).all() and (ids[rows, at] >= 0).all()
    unmasked = np.ones_like(tokens, bool)
    unmasked[rows, at] = False
    np.testing.assert_array_equal(out["tokens"][unmasked], tokens[unmasked])
    assert (out["tokens"] != masked(jax.random.fold_in(KEY, 1))[2]["tokens"]).any()
    # Each row masks a binomial number of its 460 candidates, at most M.
    support = np.arange(461)
    probability, capped = stats.binom.pmf(support, 460, 0.15), np.minimum(support, max_predictions(512))
    mean = (capped * probability).sum()
    variance = (capped**2 * probability).sum() - mean**2
    assert ((ids >= 0).sum(axis=1) == 460).all() and mean > 0.99 * 0.15 * 460
    assert abs(chosen - len(ids) * mean) < 3 * (len(ids) * variance) ** 0.5
    kinds = [(new == MASK).sum(), ((new != MASK) & (new != targets)).sum(), ((new != MASK) & (new == targets)).sum()]
    assert stats.chisquare(kinds, chosen * np.array([0.8, 0.1, 0.1])).pvalue > 0.001


def test_random_replacements_and_bits_are_uniform():
    tokens, _, out = masked()
    new = out["tokens"][(out["tokens"] != tokens) & (out["tokens"] != MASK)]
    assert stats.chisquare(np.bincount(new // 100, minlength=10)).pvalue > 0.001
    for word in token_bits(KEY, jnp.arange(100_000), 0):  # for consecutive ids
        assert stats.chisquare(np.bincount(np.asarray(word) >> 27, minlength=32)).pvalue > 0.001


def test_the_same_text_is_masked_alike_at_any_position():
    tokens, ids = tokens_and_ids(4, 128)
    mask = jax.jit(lambda tokens, ids: mask_tokens(KEY, {"tokens": tokens}, ids, 40, MASK, VOCAB)["tokens"])
    move = lambda x: jnp.roll(x[jnp.asarray([2, 0, 3, 1])], 17, axis=1)  # noqa: E731
    np.testing.assert_array_equal(move(mask(tokens, ids)), mask(move(tokens), move(ids)))


def test_wordpieces_of_a_word_are_masked_together():
    tokens, ids = tokens_and_ids()
    tokens = jnp.where(ids < 0, 1, tokens)  # special tokens neither begin nor continue a word
    continues = np.arange(VOCAB) % 3 == 0
    named = np.asarray(word_ids(tokens, ids, jnp.asarray(continues)))
    for row in range(4):
        expected, word = [], -1
        for token, own in zip(np.asarray(tokens)[row].tolist(), np.asarray(ids)[row].tolist()):
            word = word if continues[token] else own
            expected.append(word if word >= 0 else own)  # pieces without a beginning of a word are words
        assert named[row].tolist() == expected
    out = mask_tokens(KEY, {"tokens": tokens}, jnp.asarray(named), max_predictions(512), MASK, VOCAB)
    positions, weights = np.asarray(out[POSITIONS]), np.asarray(out[WEIGHTS])
    whole = split = 0
    for row in range(len(positions)):
        chosen = set(positions[row][weights[row] > 0].tolist())
        if len(chosen) < max_predictions(512):  # a row without free slots may split its last word
            for name in set(named[row][list(chosen)].tolist()):
                pieces = set(np.flatnonzero(named[row] == name).tolist())
                whole, split = whole + (pieces <= chosen), split + (not pieces <= chosen)
    assert whole > 1000 and split == 0
