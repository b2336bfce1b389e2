"""What a GPU recomputes or computes in another way: less memory, and the loss and gradients of the CPU's way."""

import re

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_leaves

from harp_jax.model import cross_encoder, layers
from harp_jax.model.attention import Place
from harp_jax.model.cross_encoder import Ranker
from harp_jax.model.cross_encoder import vocabulary_cross_entropy as cross_entropy
from tests.support.tiny_bert import CONFIG, PAIRS, pair_batch, random_params, small_tokenizer


def test_a_gpu_stores_less_and_computes_the_same(monkeypatch):
    batch = {name: jnp.asarray(x) for name, x in pair_batch(small_tokenizer(CONFIG.vocab_size), PAIRS).items()}
    batch["cls_offset"] = jnp.zeros((len(PAIRS), 1), jnp.int32)
    positions = jnp.asarray([[1, 3, 5]] * len(PAIRS))
    targets = jnp.take_along_axis(batch["tokens"], positions, axis=1)
    model, params = Ranker(CONFIG), jax.tree.map(jnp.asarray, random_params(CONFIG))

    def loss(params):
        def both(ranker):
            scores, picked = ranker.scored(batch, positions)
            return ranker.mlm_losses(picked, targets)[0].mean() + scores.mean()

        return model.apply({"params": params}, method=both)

    def measured():
        stored = sum(x.nbytes for x in tree_leaves(jax.vjp(loss, params)[1]))
        return stored, *jax.jit(jax.value_and_grad(loss))(params)

    stored, value, slopes = measured()
    for module in (layers, cross_encoder):
        monkeypatch.setattr(module, "place_of", lambda x: Place(None, "gpu", "NVIDIA H100"))
    less, same, gradients = measured()
    assert less < 0.8 * stored
    np.testing.assert_allclose(same, value, rtol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), gradients, slopes)


def test_the_gradient_of_the_words_copies_no_logits():
    hidden, targets, bias = jnp.ones((3, 8, 16)), jnp.zeros((3, 8), jnp.int32), jnp.zeros(500)
    loss = lambda words: cross_entropy(hidden, words, bias, targets)[0].sum()  # noqa: E731
    program = jax.jit(jax.grad(loss)).lower(jnp.ones((500, 16))).compile().as_text()
    assert not re.search(r"f32\[\d+,\d+,500\]\S* (copy|transpose)\(", program)
