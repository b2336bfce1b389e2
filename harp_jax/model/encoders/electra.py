"""ELECTRA's base and large discriminators: BERT's layers; the heads have other names, and the pooler GELU. The MLM head is that of
a generator, which discriminators lack."""

from dataclasses import dataclass, replace

from harp_jax.model.encoders import bert
from harp_jax.model.encoders.encoder import HeadNames
from harp_jax.model.layers import gelu


@dataclass(frozen=True)
class ElectraShape(bert.BertShape):
    model_type: str = "electra"


NAMES = HeadNames(
    "classifier.dense", "classifier.out_proj", "generator_predictions.dense", "generator_predictions.LayerNorm",
    "generator_lm_head", "generator_lm_head.bias",
)  # fmt: skip
ENCODER = replace(
    bert.encoder(ElectraShape, "electra", "Electra", NAMES, activation=("GELU", gelu)),
    to_config=lambda shape: {**bert.to_config(shape), "embedding_size": shape.hidden},
)
