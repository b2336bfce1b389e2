"""Parity on real weights: all-MiniLM-L6-v2, a BERT of 6 layers with the 30,522-word vocabulary.

HARP_MINILM names its Hugging Face directory (default: minilm in the user's cache, under harp_jax).
"""

import jax
import numpy as np
import pytest

from harp_jax.checkpoints.huggingface import load_hf
from tests.support.architectures import check_parity
from tests.support.shared_data import minilm

pytestmark = pytest.mark.real


def test_hidden_states_and_gradients_are_those_of_torch(tmp_path):
    """With a random head for the scores; each architecture's attention weights are compared in tests/model/test_encoders.py."""
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(minilm(), num_labels=1)
    check_parity(tmp_path, model.eval(), (3, 17, 60, 256), ("float64", "float32"))
    published, params = load_hf(minilm())
    assert set(params) == {"encoder", "pooler"}
    shape, saved = load_hf(str(tmp_path / "model"))
    assert shape == published
    jax.tree.map(np.testing.assert_array_equal, params, {name: saved[name] for name in params})
