"""What a training starts from."""

import jax
import numpy as np

from harp_jax.checkpoints.start import starting_params
from tests.support.tiny_bert import CONFIG, random_params


def test_heads_are_drawn_alike_with_and_without_an_encoder():
    """Only what is not loaded is drawn."""
    loaded, key = random_params(CONFIG), jax.random.key(3)
    fresh = starting_params(None, (), CONFIG.vocab_size)(CONFIG, key)
    found = starting_params(loaded, ("score",), CONFIG.vocab_size)(CONFIG, key)
    assert found.keys() == fresh.keys()
    for name, tree in found.items():
        expected = loaded[name] if name in loaded and name != "score" else fresh[name]
        jax.tree.map(np.testing.assert_array_equal, tree, dict(expected))
