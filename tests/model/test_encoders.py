"""Every architecture against transformers in torch; tests/real/test_encoders_real.py has other shapes and long sequences."""

import jax
import numpy as np
import pytest

from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.model import attention
from harp_jax.model.cross_encoder import Ranker
from tests.support.architectures import ARCHITECTURES, check_parity, close, rows_of, torch_model


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_scores_hidden_states_and_gradients_are_those_of_torch(name, tmp_path):
    exact = name in ("bert", "distilbert", "xlm-roberta")  # transformers computes rotary positions in float32 only
    check_parity(tmp_path, name, {}, (5, 127, 128, 129), ("float32", "float64") if exact else ("float32",))


@pytest.mark.parametrize("name", ["bert", "distilbert", "xlm-roberta", "modernbert"])
def test_predictions_and_attention_are_those_of_torch(name, tmp_path):
    """Attention rows weigh terms; here the last layer of ModernBERT attends to a window."""
    import torch

    model = torch_model(name, "MaskedLM", {"num_hidden_layers": 2})
    model.save_pretrained(tmp_path / "model")
    shape, params = load_hf(str(tmp_path / "model"))
    assert set(params) == {"encoder", "mlm"}
    model.set_attn_implementation("eager")
    tokens = np.random.default_rng(0).integers(2, shape.vocab_size, 40)
    with torch.no_grad():
        out = model(torch.tensor(tokens)[None], output_attentions=True)
    batch, _ = rows_of([tokens[:9], tokens], 0)
    places = np.tile(np.array([0, 7, 39]), (3, 1))
    apply = lambda *inputs, method: Ranker(shape).apply({"params": params}, *inputs, method=method)  # noqa: E731
    outputs = jax.jit(
        lambda b: (
            apply(apply(b, method="encode"), places, method="mlm_logits"),
            apply(b, places, method="attention_rows"),
        )
    )
    logits, rows = map(np.asarray, outputs(batch))
    expected = out.attentions[-1][0].mean(0).numpy()[places[0]]
    for row in (1, 2):  # alone, and packed before the other sequence
        close(logits[row], out.logits[0, places[0]].numpy(), 1e-5, "logits")
        close(rows[row, :, :40], expected, 1e-5, "attention")
        assert not rows[row, :, 40:].any()


def test_local_attention_in_blocks_and_in_the_kernel_is_that_of_the_mask(monkeypatch):
    """Values and gradients of rows whose length no block divides, and of Splash, interpreted; segments are packed."""
    monkeypatch.setattr(attention, "INTERPRET", True)
    rng = np.random.default_rng(0)
    for length, reach in ((250, 5), (384, 70)):
        q, k, v, direction = (rng.normal(size=(2, length, 2, 16)).astype(np.float32) for _ in range(4))
        segments = np.sort(rng.integers(0, 4, (2, length)), axis=1).astype(np.int32)
        every = np.tile(np.arange(length), (2, 1))

        def both(name, at):
            def loss(q, k, v):
                mixed = attention.attend(q, k, v, segments, segments, name, reach=reach, at=at)  # noqa: B023
                return (mixed * direction).sum(), mixed  # noqa: B023

            (_, mixed), grads = jax.jit(jax.value_and_grad(loss, (0, 1, 2), has_aux=True))(q, k, v)  # noqa: B023
            return (mixed, *grads)

        expected = both("xla", every)
        for found in (both("xla", None), *([both("splash", None)] if length % 128 == 0 else [])):
            for mine, theirs in zip(found, expected):
                close(mine, theirs, 3e-6, f"{length} {reach}")
