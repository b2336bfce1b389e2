"""Every architecture against transformers in torch; `make real` adds other shapes and 8,192 tokens."""

import contextlib

import jax
import numpy as np
import pytest
import transformers

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.model import attention
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.encoders.table import ENCODERS
from tests.support.architectures import ARCHITECTURES, check_parity, close, rows_of, torch_model

KIND = "SequenceClassification"
# In float64; transformers computes rotary positions in float32 only.
EXACT = ("bert", "distilbert", "electra", "roberta", "xlm-roberta")
SIZES = [
    {"hidden_size": 40, "num_attention_heads": 5, "num_hidden_layers": 3, "vocab_size": 131, "intermediate_size": 33},
    {"hidden_size": 14, "num_attention_heads": 1, "num_hidden_layers": 1, "vocab_size": 57, "intermediate_size": 21},
]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_scores_hidden_states_and_gradients_are_those_of_torch(name, tmp_path):
    dtypes = ("float32",) if name not in EXACT else ("float32", "float64") if name == "bert" else ("float64",)
    check_parity(tmp_path, torch_model(name, KIND), (5, 127, 128, 129), dtypes)


@pytest.mark.real
@pytest.mark.parametrize("sizes", SIZES, ids=["wide", "one layer"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_shapes_and_lengths(name, sizes, tmp_path):
    """In float64 if exact: in float32, gradients of queries and keys at 1,000 tokens are off by up to 1.2e-5 (torch: 4e-5)."""
    dtype = "float64" if name in EXACT else "float32"
    check_parity(tmp_path, torch_model(name, KIND, sizes), (5, 127, 128, 129, 1000), (dtype,))


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta", "xlm-roberta"])
def test_what_a_config_leaves_out_is_read_as_transformers_reads_it(kind):
    """Or rejected, such as a missing size."""
    theirs, read = transformers.AutoConfig.for_model(kind).to_dict(), ENCODERS[kind].from_config
    for name in theirs:
        with contextlib.suppress(InputError):
            assert read({key: value for key, value in theirs.items() if key != name}, "x") == read(theirs, "x"), name


@pytest.mark.real
@pytest.mark.parametrize("name", ["modernbert", "modernbert-mean"])
def test_8192_tokens(name, tmp_path):
    """One full layer and two local ones, with one head, since a head's 8,192² scores take 256 MiB."""
    sizes = {"max_position_embeddings": 8192, "global_attn_every_n_layers": 3, "num_attention_heads": 1}
    check_parity(tmp_path, torch_model(name, KIND, sizes), (129, 8192), ("float32",), stride=16)


@pytest.mark.parametrize("name", [*EXACT, "modernbert"])
def test_predictions_and_attention_are_those_of_torch(name, tmp_path):
    """Attention rows are term weights. The last of ModernBERT's four layers is local, so they come from the third."""
    import torch

    dtype, tolerance = ("float32", 1e-5) if name == "modernbert" else ("float64", 1e-9)
    model = torch_model(name, "MaskedLM", {"num_hidden_layers": 4 if name == "modernbert" else 2})
    model.save_pretrained(tmp_path / "model")
    shape, params = load_hf(str(tmp_path / "model"))
    assert set(params) == {"encoder", "mlm"}
    model = model.to(getattr(torch, dtype))
    model.set_attn_implementation("eager")
    tokens = np.random.default_rng(0).integers(2, shape.vocab_size, 40)
    with torch.no_grad():
        out = model(torch.tensor(tokens)[None], output_attentions=True)
    batch, _ = rows_of([tokens[:9], tokens], 0)
    places = np.tile(np.array([0, 7, 39]), (3, 1))

    def outputs(params):
        network = Ranker(shape.computing_in(dtype))
        apply = lambda *inputs, method: network.apply({"params": params}, *inputs, method=method)  # noqa: E731
        logits = apply(apply(batch, method="encode"), places, method="mlm_logits")
        return logits, apply(batch, places, method="attention_rows")

    with jax.enable_x64(dtype == "float64"):
        wide = jax.tree.map(lambda x: np.asarray(x, dtype), params)
        logits, rows = map(np.asarray, jax.jit(outputs)(wide))
    expected = out.attentions[-2 if name == "modernbert" else -1][0].mean(0).numpy()[places[0]]
    assert expected.all()
    for row in (1, 2):  # alone, and packed before the other sequence
        close(logits[row], out.logits[0, places[0]].numpy(), tolerance, "logits")
        close(rows[row, :, :40], expected, tolerance, "attention")
        assert not rows[row, :, 40:].any()


def test_local_attention_in_blocks_and_in_the_kernel_is_that_of_the_mask(monkeypatch):
    """Values and gradients with packed segments, for lengths that blocks do not divide, and for Splash, interpreted.

    3 blocks use one backward kernel, 7 use two.
    """
    monkeypatch.setattr(attention, "INTERPRET", True)
    rng = np.random.default_rng(0)
    for length, reach in ((250, 5), (384, 70), (896, 70)):
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
