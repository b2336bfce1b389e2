"""Every architecture against transformers in torch; `make real` adds other shapes and 8,192 tokens."""

import jax
import numpy as np
import pytest

from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.model.cross_encoder import Ranker
from tests.support.architectures import ARCHITECTURES, check_parity, close, rows_of, torch_model

KIND = "SequenceClassification"
# In float64; transformers computes rotary positions in float32 only.
EXACT = ("bert", "distilbert", "electra", "roberta", "xlm-roberta")
WIDE = {"hidden_size": 40, "num_attention_heads": 5, "num_hidden_layers": 3, "vocab_size": 131, "intermediate_size": 33}
NARROW = {**WIDE, "hidden_size": 14, "num_attention_heads": 1, "num_hidden_layers": 1}
# One full layer and two local ones, with one head, since a head's 8,192² scores take 256 MiB.
LONG = {"max_position_embeddings": 8192, "global_attn_every_n_layers": 3, "num_attention_heads": 1}
LENGTHS = (5, 127, 128, 129)
REAL = [(name, sizes, (*LENGTHS, 1000)) for name in ARCHITECTURES for sizes in (WIDE, NARROW)]
REAL += [(name, LONG, (129, 8192)) for name in ("modernbert", "modernbert-mean")]


@pytest.mark.parametrize(
    ("name", "sizes", "lengths"),
    [*((name, {}, LENGTHS) for name in ARCHITECTURES), *(pytest.param(*case, marks=pytest.mark.real) for case in REAL)],
)
def test_scores_hidden_states_and_gradients_are_those_of_torch(name, sizes, lengths, tmp_path):
    """In float32, gradients of queries and keys at 1,000 tokens would be off by up to 1.2e-5 (torch: 4e-5)."""
    dtypes = ["float64" if name in EXACT else "float32"]
    if name == "bert" and not sizes:
        dtypes.append("float32")
    check_parity(tmp_path, torch_model(name, KIND, sizes), lengths, dtypes, stride=16 if sizes is LONG else 1)


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
