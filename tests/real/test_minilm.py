"""Parity on real weights: all-MiniLM-L6-v2, a BERT of 6 layers with the 30,522-word vocabulary.

HARP_MINILM names its Hugging Face directory (default: minilm in the user's cache, under harp_jax).
"""

import jax
import numpy as np
import pytest

from harp_jax.checkpoints.huggingface import check_vocabulary, load_hf
from harp_jax.model.cross_encoder import Ranker
from harp_jax.text.tokenizer import load_tokenizer
from tests.support.shared_data import minilm

pytestmark = pytest.mark.real
TEXTS = [
    ("who wrote the iliad", "The Iliad is an ancient Greek epic poem, traditionally attributed to Homer. " * 4),
    ("café zürich", "Zürich – naïve façades; 北京 and Αθήνα are cities, too (see § 3.1.4)."),
    ("x", "y"),
    ("how do aircraft wings create lift?", "Lift follows from the deflection of air by the wing. " * 30),
]


@pytest.fixture(scope="module")
def directory() -> str:
    return minilm()


def batch_of(directory: str) -> tuple[dict[str, np.ndarray], dict]:
    """The same token ids for us (packed arrays) and for torch, by transformers' own tokenizer."""
    import transformers

    encoded = transformers.AutoTokenizer.from_pretrained(directory)(
        *map(list, zip(*TEXTS)), padding=True, truncation="only_second", max_length=256, return_tensors="pt"
    )
    arrays = {name: tensor.numpy().astype(np.int32) for name, tensor in encoded.items()}
    positions = np.broadcast_to(np.arange(arrays["input_ids"].shape[1], dtype=np.int32), arrays["input_ids"].shape)
    batch = {
        "tokens": arrays["input_ids"],
        "segment_ids": arrays["attention_mask"],
        "position_ids": positions,
        "token_type_ids": arrays["token_type_ids"],
    }
    return batch, encoded


def outputs(config, params, batch) -> dict[str, np.ndarray]:
    model = Ranker(config)

    def compute(params):
        apply = lambda *inputs, method: model.apply({"params": params}, *inputs, method=method)  # noqa: E731
        return {
            "hidden": apply(batch, method="encode"),
            "attention": apply(batch, batch["position_ids"], method="attention_rows"),
        }

    return jax.tree.map(np.asarray, jax.jit(compute)(params))


@pytest.mark.parametrize("dtype, relative", [("float64", None), ("float32", 1e-5)])
def test_hidden_states_and_attention_are_those_of_torch(directory, dtype, relative):
    import torch
    import transformers

    batch, encoded = batch_of(directory)
    network, info = transformers.AutoModel.from_pretrained(
        directory, attn_implementation="eager", output_loading_info=True, dtype=getattr(torch, dtype)
    )
    assert not info["missing_keys"]
    with torch.no_grad():
        out = network.eval()(**encoded, output_attentions=True)
    expected = {"hidden": out.last_hidden_state.numpy(), "attention": out.attentions[-1].mean(1).numpy()}
    config, params = load_hf(directory)
    assert set(params) == {"encoder", "pooler"}
    with jax.enable_x64(dtype == "float64"):
        params = {"encoder": jax.tree.map(lambda x: np.asarray(x, dtype), params["encoder"])}
        found = outputs(config.computing_in(dtype), params, batch)
    real = batch["segment_ids"] > 0
    for name, values in expected.items():
        tolerance = 1e-9 if relative is None else relative * np.abs(values[real]).max()
        assert np.abs(found[name] - values)[real].max() <= tolerance, name


def test_tokenizer_is_transformers(directory):
    import transformers

    theirs, ours = transformers.AutoTokenizer.from_pretrained(directory), load_tokenizer(directory)
    check_vocabulary(ours, load_hf(directory)[0], directory)
    assert len(theirs) == ours.size
    for text in [text for pair in TEXTS for text in pair]:
        assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
