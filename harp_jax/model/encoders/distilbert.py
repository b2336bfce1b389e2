"""DistilBERT: BERT's layers without token types, under other names; the score's dense layer has ReLU (Sanh et al. 2019)."""

from dataclasses import dataclass, replace

import flax.linen as nn

from harp_jax.model.encoders import bert
from harp_jax.model.encoders.encoder import HeadNames, Leaf


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
# Parts of BERT's names and their replacements, in this order.
NAMES = (
    ("encoder.layer", "transformer.layer"), ("self.query", "q_lin"), ("self.key", "k_lin"), ("self.value", "v_lin"),
    ("attention.output.dense", "attention.out_lin"), ("attention.output.LayerNorm", "sa_layer_norm"),
    ("intermediate.dense", "ffn.lin1"), ("output.dense", "ffn.lin2"), ("output.LayerNorm", "output_layer_norm"),
)  # fmt: skip
HEADS = HeadNames(
    "pre_classifier", "classifier", "vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias"
)


def leaves(c: DistilBertShape) -> dict[str, list[Leaf]]:
    """As `bert.leaves`, under DistilBERT's names."""
    groups = bert.leaves("distilbert", HEADS, c)
    for n, leaf in enumerate(groups["encoder"]):
        name = leaf.name
        for theirs, ours in NAMES:
            name = name.replace(theirs, ours)
        groups["encoder"][n] = leaf._replace(name=name)
    return groups


ENCODER = replace(
    bert.encoder(
        DistilBertShape, "distilbert", "DistilBert", HEADS, fields=FIELDS, fixed={"activation": "gelu"},
        activation=("ReLU", nn.relu),
    ),
    leaves=leaves,
    last_attention="",
)  # fmt: skip
