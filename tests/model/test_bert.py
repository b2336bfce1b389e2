"""BERT in bfloat16 and with dropout; tests/model/test_encoders.py compares it with torch."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders import bert
from harp_jax.model.encoders.bert import BertShape
from tests.support import tiny_bert
from tests.support.tiny_bert import PAIRS, pair_batch, random_params, small_tokenizer

Arrays = dict[str, np.ndarray]
SIZE = 46
ROWS, LENGTH = 6, 24


CONFIG = replace(tiny_bert.CONFIG, vocab_size=SIZE)
PARAMS = random_params(CONFIG)


def unpacked_batch() -> Arrays:
    """Sequences of 5 to 24 tokens, one per row, padded with token 0."""
    rng = np.random.default_rng(0)
    batch = {name: np.zeros((ROWS, LENGTH), np.int32) for name in pair_batch(small_tokenizer(), PAIRS)}
    for row in range(ROWS):
        n = LENGTH if row == 0 else int(rng.integers(5, LENGTH))
        batch["tokens"][row, :n] = rng.integers(0, SIZE, n)
        batch["segment_ids"][row, :n] = 1
        batch["position_ids"][row, :n] = np.arange(n)
        batch["token_type_ids"][row, n // 2 : n] = 1
    return batch


def ours(config: BertShape, batch) -> Arrays:
    """Scores of every sequence; MLM logits, attention and hidden states of every position."""
    offsets, positions = np.zeros((ROWS, 1), np.int32), np.tile(np.arange(LENGTH, dtype=np.int32), (ROWS, 1))

    def outputs(params, batch):
        apply = lambda *inputs, method: Ranker(config).apply({"params": params}, *inputs, method=method)  # noqa: E731
        hidden = apply(batch, method="encode")
        return {
            "scores": apply({**batch, "cls_offset": offsets}, method="scored")[0],
            "mlm": apply(hidden, positions, method="mlm_logits"),
            "attention": apply(batch, positions, method="attention_rows"),
            "hidden": hidden,
        }

    return jax.tree.map(np.asarray, jax.jit(outputs)(PARAMS, batch))


def test_bfloat16_is_finite_and_close():
    batch = unpacked_batch()
    exact, outputs = ours(CONFIG, batch), ours(CONFIG.computing_in("bfloat16"), batch)
    assert outputs["scores"].dtype == np.float32
    assert all(np.isfinite(np.asarray(x, np.float32)).all() for x in outputs.values())
    # bfloat16 has 8 bits of mantissa: about two digits remain after two layers.
    np.testing.assert_allclose(outputs["scores"], exact["scores"], rtol=0, atol=0.1 * np.abs(exact["scores"]).max())


def test_dropout_unless_deterministic():
    batch = unpacked_batch()

    @jax.jit
    def apply(key):
        rngs = {"dropout": jax.random.key(key)}
        return Ranker(CONFIG).apply({"params": PARAMS}, batch, False, method="encode", rngs=rngs)

    assert np.abs(apply(0) - apply(1)).max() > 0.1
    np.testing.assert_array_equal(apply(0), apply(0))


def test_attention_dropout_off_and_on():
    """The code path with dropout of attention weights computes the same attention: a rate near 0 changes nothing."""
    batch = unpacked_batch()
    near = replace(CONFIG, dropout=0.0, attention_dropout=1e-9)
    rngs = {"dropout": jax.random.key(0)}
    outputs = jax.jit(lambda x: Ranker(near).apply({"params": PARAMS}, x, False, method="encode", rngs=rngs))(batch)
    real = batch["segment_ids"] > 0
    np.testing.assert_allclose(outputs[real], ours(CONFIG, batch)["hidden"][real], rtol=0, atol=1e-5)


def test_inconsistent_shapes_are_rejected():
    with pytest.raises(InputError, match=r"model\.hidden=30 is not a multiple of model\.heads=4"):
        BertShape(vocab_size=10, layers=1, hidden=30, heads=4, intermediate=8)
    with pytest.raises(InputError, match="has no dropout of attention weights"):
        replace(CONFIG, attention="cudnn", attention_dropout=0.1)


def test_bfloat16_sums_the_gradient_of_a_frequent_word_in_float32():
    rng = np.random.default_rng(0)
    tokens, positions = np.full((64, 64), 7, np.int32), np.tile(np.arange(64), (64, 1))
    direction = rng.normal(1, 1, (64, 64, CONFIG.hidden)).astype(np.float32)
    grads = {}
    for dtype in ("float32", "bfloat16"):
        layer = bert.Embeddings(replace(CONFIG.computing_in(dtype), max_positions=64))
        params = layer.init(jax.random.key(0), tokens, positions, tokens * 0, True)
        loss = lambda p, layer=layer: (layer.apply(p, tokens, positions, tokens * 0, True) * direction).sum()  # noqa: E731
        grads[dtype] = np.asarray(jax.grad(loss)(params)["params"]["word"]["embedding"][7])
    np.testing.assert_allclose(grads["bfloat16"], grads["float32"], rtol=0, atol=0.01 * np.abs(grads["float32"]).max())
