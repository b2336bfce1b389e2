"""ELECTRA's base and large discriminators: BERT's layers; the heads have other names, and the pooler GELU."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax

from harp_jax.model.encoders import bert
from harp_jax.model.encoders.encoder import Leaf, Tensors, class_of, one_label, read_fields, tied
from harp_jax.model.layers import gelu, initializer


@dataclass(frozen=True)
class ElectraShape(bert.BertShape):
    model_type: str = "electra"


def from_config(config: Mapping[str, Any], where: str) -> ElectraShape:
    """See `bert.from_config`; InputError for narrower embeddings (the small discriminator, generators)."""
    read_fields(config, {}, {"embedding_size": config.get("hidden_size")}, where)
    return ElectraShape(**{**vars(bert.from_config(config, where)), "model_type": "electra"})


def to_config(shape: ElectraShape) -> dict[str, Any]:
    """The inverse of `from_config`."""
    return {**bert.to_config(shape), "model_type": "electra", "embedding_size": shape.hidden}


class Pooler(bert.Pooler):
    """A dense layer with GELU."""

    def __call__(self, pooled: jax.Array) -> jax.Array:  # type: ignore[override]
        return gelu(super(bert.Pooler, self).__call__(pooled))


def leaves(c: ElectraShape) -> dict[str, list[Leaf]]:
    """See `bert.leaves`; the MLM head is that of a generator, which discriminators lack."""
    mlm = "generator_predictions"
    return {
        "encoder": list(bert.encoder_leaves(c, "electra")),
        "pooler": bert.dense_leaves("pooler", "classifier.dense", c.hidden, c.hidden),
        "score": bert.dense_leaves("score", "classifier.out_proj", c.hidden, 1),
        "mlm": [
            *bert.dense_leaves("mlm/transform", f"{mlm}.dense", c.hidden, c.hidden),
            *bert.norm_leaves("mlm/norm", f"{mlm}.LayerNorm", c.hidden),
            Leaf(("mlm", "bias"), "generator_lm_head.bias", (c.vocab_size,), (c.vocab_size,)),
        ],
    }


def read(tensors: Tensors, where: str) -> Tensors:
    """A bare ElectraModel lacks the prefix; a classifier of several labels is not a score."""
    bare = ("embeddings.", "encoder.")
    state = {f"electra.{name}" if name.startswith(bare) else name: tensor for name, tensor in tensors.items()}
    state = one_label(state, "classifier.out_proj.weight")
    words = "electra.embeddings.word_embeddings.weight"
    return tied(state, "generator_lm_head", words, "generator_lm_head.bias", where)


ENCODER = replace(
    bert.ENCODER,
    shape=ElectraShape,
    from_config=from_config,
    to_config=to_config,
    leaves=leaves,
    read=read,
    written=lambda tensors: tensors,
    exported_as=partial(class_of, "Electra"),
    last_attention="electra.encoder.layer.{}.attention",
    pooler=lambda c: Pooler(c.hidden, dtype=c.dtype, kernel_init=initializer(c)),
    modules=("GELU",),
)
