"""Initial parameters of a training run."""

import jax
import numpy as np

from harp_jax.checkpoints.start import encoder_and_tokenizer, starting_params
from tests.support.tiny_bert import CONFIG, random_params
from tests.support.tiny_run import tiny_config


def test_heads_are_drawn_alike_with_and_without_an_encoder():
    loaded, key = random_params(CONFIG), jax.random.key(3)
    fresh = starting_params(None, (), CONFIG.vocab_size)(CONFIG, key)
    found = starting_params(loaded, ("score",), CONFIG.vocab_size)(CONFIG, key)
    assert found.keys() == fresh.keys()
    for name, tree in found.items():
        expected = loaded[name] if name in loaded and name != "score" else fresh[name]
        jax.tree.map(np.testing.assert_array_equal, tree, dict(expected))


def test_from_scratch_an_encoder_has_the_token_types_of_its_tokenizer(tmp_path):
    """RoBERTa has one; with BERT's template, the second type would have no row and the export would fail."""
    found = {
        name: encoder_and_tokenizer(tiny_config(str(tmp_path), **{"model.model_type": name}))[0].type_vocab
        for name in ("bert", "roberta", "distilbert")
    }
    assert found == {"bert": 2, "roberta": 2, "distilbert": 0}
