"""The encoder and its heads against torch's BERT, in float64 so that a wrong constant shows."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders import bert
from harp_jax.model.encoders.bert import BertShape
from tests.support.tiny_bert import CONFIG, PAIRS, pair_batch, random_params, small_tokenizer

Arrays = dict[str, np.ndarray]
SIZE = 46
ROWS, LENGTH = 6, 24


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """(directory, parameters) of a model with random biases and norms."""
    config, params = replace(CONFIG, vocab_size=SIZE), random_params(replace(CONFIG, vocab_size=SIZE))
    directory = str(tmp_path_factory.mktemp("bert") / "model")
    save_hf(directory, config, params, small_tokenizer(SIZE), "")
    return directory, config, params


def unpacked_batch(seed: int = 0) -> Arrays:
    """Sequences of 5 to 24 tokens, one per row, padded with token 0."""
    rng = np.random.default_rng(seed)
    batch = {name: np.zeros((ROWS, LENGTH), np.int32) for name in pair_batch(small_tokenizer(), PAIRS)}
    for row in range(ROWS):
        n = LENGTH if row == 0 else int(rng.integers(5, LENGTH))
        batch["tokens"][row, :n] = rng.integers(0, SIZE, n)
        batch["segment_ids"][row, :n] = 1
        batch["position_ids"][row, :n] = np.arange(n)
        batch["token_type_ids"][row, n // 2 : n] = 1
    return batch


def packed(batch: Arrays, rows: list[list[int]], length: int) -> tuple[Arrays, np.ndarray]:
    """The same sequences packed as `rows` lists them, and the start of each one: [rows, K]."""
    out = {name: np.zeros((len(rows), length), np.int32) for name in batch}
    starts = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for row, sequences in enumerate(rows):
        at = 0
        for k, sequence in enumerate(sequences):
            n = int(batch["segment_ids"][sequence].sum())
            for name in batch:
                out[name][row, at : at + n] = batch[name][sequence, :n]
            out["segment_ids"][row, at : at + n] = k + 1
            starts[row, k] = at
            at += n
    return out, starts


def ours(config: BertShape, params, batch, offsets=None) -> Arrays:
    """Scores of every sequence; MLM logits, attention and hidden states of every position."""
    rows, length = batch["tokens"].shape
    offsets = np.zeros((rows, 1), np.int32) if offsets is None else offsets
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), (rows, length))

    def outputs(params, batch):
        apply = lambda *inputs, method: Ranker(config).apply({"params": params}, *inputs, method=method)  # noqa: E731
        hidden = apply(batch, method="encode")
        return {
            "scores": apply({**batch, "cls_offset": offsets}, method="scored")[0],
            "mlm": apply(hidden, positions, method="mlm_logits"),
            "attention": apply(batch, positions, method="attention_rows"),
            "hidden": hidden,
        }

    return jax.tree.map(np.asarray, jax.jit(outputs)(params, batch))


def theirs(directory: str, batch) -> Arrays:
    """The same from torch, with padding masked; the scores are row 1 of the NSP head."""
    import torch
    import transformers

    network = transformers.BertForPreTraining.from_pretrained(directory, attn_implementation="eager").eval().double()
    names = {"input_ids": "tokens", "attention_mask": "segment_ids", "token_type_ids": "token_type_ids"}
    inputs = {name: torch.tensor(batch[ours], dtype=torch.long) for name, ours in names.items()}
    with torch.no_grad():
        out = network(**inputs, output_attentions=True, output_hidden_states=True)
    return {
        "scores": out.seq_relationship_logits[:, 1:].numpy(),
        "mlm": out.prediction_logits.numpy(),
        "attention": out.attentions[-1].mean(1).numpy(),
        "hidden": out.hidden_states[-1].numpy(),
    }


def in_float64(config: BertShape, params, *inputs) -> Arrays:
    with jax.enable_x64(True):
        params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
        return ours(config.computing_in("float64"), params, *inputs)


def test_equals_torch_in_float64(model):
    directory, config, params = model
    batch = unpacked_batch()
    expected, outputs = theirs(directory, batch), in_float64(config, params, batch)
    assert outputs["mlm"].dtype == np.float64
    for name, found in outputs.items():
        real = slice(None) if name == "scores" else batch["segment_ids"] > 0
        np.testing.assert_allclose(found[real], expected[name][real], rtol=0, atol=1e-9, err_msg=name)


def test_packed_equals_unpacked_in_float64(model):
    _, config, params = model
    batch = unpacked_batch()
    alone = in_float64(config, params, batch)
    rows = [[2, 0], [1, 3, 4], [5]]
    together, starts = packed(batch, rows, 64)
    outputs = in_float64(config, params, together, starts)
    for row, sequences in enumerate(rows):
        for k, sequence in enumerate(sequences):
            n, at = int(batch["segment_ids"][sequence].sum()), starts[row, k]
            np.testing.assert_allclose(outputs["scores"][row, k], alone["scores"][sequence, 0], rtol=0, atol=1e-12)
            np.testing.assert_allclose(outputs["mlm"][row, at : at + n], alone["mlm"][sequence, :n], rtol=0, atol=1e-11)
            attention = outputs["attention"][row, at : at + n]
            np.testing.assert_allclose(
                attention[:, at : at + n], alone["attention"][sequence, :n, :n], rtol=0, atol=1e-12
            )
            np.testing.assert_allclose(attention.sum(1) - attention[:, at : at + n].sum(1), 0, rtol=0, atol=1e-12)


def test_attention_rows_are_those_of_the_given_positions(model):
    _, config, params = model
    batch = unpacked_batch()
    every = ours(config, params, batch)["attention"]
    positions = np.tile(np.array([[0, 3, 2]], np.int32), (ROWS, 1))
    rows = jax.jit(lambda *x: Ranker(config).apply({"params": params}, *x, method="attention_rows"))(batch, positions)
    assert rows.dtype == np.float32 and rows.shape == (ROWS, 3, LENGTH)
    np.testing.assert_allclose(rows, every[:, [0, 3, 2]], rtol=0, atol=1e-6)
    np.testing.assert_allclose(rows.sum(-1), 1, rtol=0, atol=1e-5)


def test_hidden_states_at_positions_only(model):
    """What the last layer skips does not change the result in float64, with packed rows and padding."""
    _, config, params = model
    batch, starts = packed(unpacked_batch(), [[2, 0], [1, 3, 4], [5]], 64)
    positions = np.concatenate([starts, starts[:, ::-1] + 2, np.full((3, 1), 63, np.int32)], axis=1)
    with jax.enable_x64(True):
        params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
        encode = lambda *more: Ranker(config.computing_in("float64")).apply(  # noqa: E731
            {"params": params}, batch, True, *more, method="encode"
        )
        some, every = jax.jit(lambda: (encode(positions), encode()))()
    expected = np.take_along_axis(np.asarray(every), positions[:, :, None], 1)
    np.testing.assert_allclose(some, expected, rtol=0, atol=1e-12)


def test_bfloat16_is_finite_and_close(model):
    _, config, params = model
    batch = unpacked_batch()
    exact, outputs = ours(config, params, batch), ours(config.computing_in("bfloat16"), params, batch)
    assert outputs["scores"].dtype == np.float32
    assert all(np.isfinite(np.asarray(x, np.float32)).all() for x in outputs.values())
    # bfloat16 has 8 bits of mantissa: about two digits remain after two layers.
    np.testing.assert_allclose(outputs["scores"], exact["scores"], rtol=0, atol=0.1 * np.abs(exact["scores"]).max())


def test_dropout_unless_deterministic(model):
    _, config, params = model
    batch = unpacked_batch()

    @jax.jit
    def apply(key):
        rngs = {"dropout": jax.random.key(key)}
        return Ranker(config).apply({"params": params}, batch, False, method="encode", rngs=rngs)

    assert np.abs(apply(0) - apply(1)).max() > 0.1
    np.testing.assert_array_equal(apply(0), apply(0))


def test_attention_dropout_off_and_on(model):
    """The code path with dropout of attention weights computes the same attention: a rate near 0 changes nothing."""
    _, config, params = model
    batch = unpacked_batch()
    near = replace(config, dropout=0.0, attention_dropout=1e-9)
    rngs = {"dropout": jax.random.key(0)}
    outputs = jax.jit(lambda x: Ranker(near).apply({"params": params}, x, False, method="encode", rngs=rngs))(batch)
    real = batch["segment_ids"] > 0
    np.testing.assert_allclose(outputs[real], ours(config, params, batch)["hidden"][real], rtol=0, atol=1e-5)


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
