"""DistilBERT: BERT's layers without token types, under other names; the score's dense layer has ReLU (Sanh et al. 2019)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import flax.linen as nn
import jax

from harp_jax.model.encoders import bert
from harp_jax.model.encoders.encoder import Leaf, Tensors, class_of, one_label, read_fields, tied
from harp_jax.model.layers import initializer


@dataclass(frozen=True)
class DistilBertShape(bert.BertShape):
    type_vocab: int = 0
    model_type: str = "distilbert"


RENAMED = {
    "num_hidden_layers": "n_layers", "hidden_size": "dim", "num_attention_heads": "n_heads", "intermediate_size": "hidden_dim",
    "hidden_dropout_prob": "dropout", "attention_probs_dropout_prob": "attention_dropout",
}  # fmt: skip
FIELDS = {
    RENAMED.get(name, name): field
    for name, field in bert.FIELDS.items()
    if name not in ("type_vocab_size", "layer_norm_eps")
}
FIXED = {"activation": "gelu"}
# Parts of BERT's names and their replacements, in this order.
NAMES = (
    ("encoder.layer", "transformer.layer"), ("self.query", "q_lin"), ("self.key", "k_lin"), ("self.value", "v_lin"),
    ("attention.output.dense", "attention.out_lin"), ("attention.output.LayerNorm", "sa_layer_norm"),
    ("intermediate.dense", "ffn.lin1"), ("output.dense", "ffn.lin2"), ("output.LayerNorm", "output_layer_norm"),
)  # fmt: skip


def from_config(config: Mapping[str, Any], where: str) -> DistilBertShape:
    """See `bert.from_config`."""
    return replace(DistilBertShape(**read_fields(config, FIELDS, FIXED, where)), attention_dropout=0.0)


def to_config(shape: DistilBertShape) -> dict[str, Any]:
    """The inverse of `from_config`."""
    return {
        "model_type": "distilbert",
        **{field: getattr(shape, ours) for field, (ours, *_) in FIELDS.items()},
        **FIXED,
    }


def leaves(c: DistilBertShape) -> dict[str, list[Leaf]]:
    """See `bert.leaves`."""

    def renamed(leaf: Leaf) -> Leaf:
        name = leaf.name
        for theirs, ours in NAMES:
            name = name.replace(theirs, ours)
        return leaf._replace(name=name)

    return {
        "encoder": [renamed(leaf) for leaf in bert.encoder_leaves(c, "distilbert")],
        "pooler": bert.dense_leaves("pooler", "pre_classifier", c.hidden, c.hidden),
        "score": bert.dense_leaves("score", "classifier", c.hidden, 1),
        "mlm": [
            *bert.dense_leaves("mlm/transform", "vocab_transform", c.hidden, c.hidden),
            *bert.norm_leaves("mlm/norm", "vocab_layer_norm", c.hidden),
            Leaf(("mlm", "bias"), "vocab_projector.bias", (c.vocab_size,), (c.vocab_size,)),
        ],
    }


def read(tensors: Tensors, where: str) -> Tensors:
    """A bare DistilBertModel lacks the prefix; a classifier of several labels is not a score."""
    bare = ("embeddings.", "transformer.")
    state = {f"distilbert.{name}" if name.startswith(bare) else name: tensor for name, tensor in tensors.items()}
    labelled = one_label(state, "classifier.weight")
    if len(labelled) < len(state):
        labelled = {name: tensor for name, tensor in labelled.items() if not name.startswith("pre_classifier.")}
    words = "distilbert.embeddings.word_embeddings.weight"
    return tied(labelled, "vocab_projector", words, "vocab_projector.bias", where)


class Pooler(nn.Dense):
    """A dense layer with ReLU."""

    def __call__(self, pooled: jax.Array) -> jax.Array:  # type: ignore[override]
        return nn.relu(super().__call__(pooled))


ENCODER = replace(
    bert.ENCODER,
    shape=DistilBertShape,
    from_config=from_config,
    to_config=to_config,
    leaves=leaves,
    read=read,
    written=lambda tensors: tensors,
    exported_as=partial(class_of, "DistilBert"),
    last_attention="",
    pooler=lambda c: Pooler(c.hidden, dtype=c.dtype, kernel_init=initializer(c)),
    modules=("ReLU",),
)
