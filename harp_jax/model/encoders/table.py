"""The encoders by Hugging Face's `model_type`. Defined here: those with BERT's layers, whose tensors and heads have other names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from harp_jax.base.errors import InputError
from harp_jax.model.encoders.bert import BertShape
from harp_jax.model.encoders.encoder import Encoder, EncoderConfig, Field, HeadNames
from harp_jax.model.encoders.modernbert import ModernBertShape


@dataclass(frozen=True)
class RobertaShape(BertShape):
    """Positions begin after the padding token's id. The classifier has a dense layer, which is the pooler."""

    type_vocab: int = 1
    layer_norm_eps: float = 1e-5
    pad: int = 1
    model_type: str = "roberta"

    vocabulary = 50265
    prefix = "Roberta"
    pretraining = ""
    last_attention = "roberta.encoder.layer.{}.attention"
    root = "roberta"
    names = HeadNames(
        "classifier.dense", "classifier.out_proj", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"
    )  # fmt: skip
    fields: ClassVar[Mapping[str, Field]] = {**BertShape.fields, "pad_token_id": ("pad", 0, 1 << 24)}

    @property
    def first_position(self) -> int:
        return self.pad + 1


@dataclass(frozen=True)
class XlmRobertaShape(RobertaShape):
    """A multilingual BERT with XLM-R's tokenizer (multilingual-e5-small) is a BERT."""

    model_type: str = "xlm-roberta"

    vocabulary = 250002
    prefix = "XLMRoberta"


@dataclass(frozen=True)
class ElectraShape(BertShape):
    """The base and large discriminators. Their MLM head is that of a generator, which discriminators lack."""

    model_type: str = "electra"

    prefix = "Electra"
    pretraining = ""
    last_attention = "electra.encoder.layer.{}.attention"
    modules = ("GELU",)
    root = "electra"
    names = HeadNames(
        "classifier.dense", "classifier.out_proj", "generator_predictions.dense", "generator_predictions.LayerNorm",
        "generator_lm_head", "generator_lm_head.bias",
    )  # fmt: skip

    def to_config(self) -> dict[str, Any]:
        return {**super().to_config(), "embedding_size": self.hidden}


DISTILBERT_NAMES = {
    "num_hidden_layers": "n_layers", "hidden_size": "dim", "num_attention_heads": "n_heads", "intermediate_size": "hidden_dim",
    "hidden_dropout_prob": "dropout", "attention_probs_dropout_prob": "attention_dropout",
}  # fmt: skip


@dataclass(frozen=True)
class DistilBertShape(BertShape):
    """No token types (Sanh et al. 2019)."""

    type_vocab: int = 0
    model_type: str = "distilbert"

    prefix = "DistilBert"
    pretraining = ""
    last_attention = ""
    modules = ("ReLU",)
    root = "distilbert"
    names = HeadNames(
        "pre_classifier", "classifier", "vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias"
    )
    renamed = (
        ("encoder.layer", "transformer.layer"), ("self.query", "q_lin"), ("self.key", "k_lin"), ("self.value", "v_lin"),
        ("attention.output.dense", "attention.out_lin"), ("attention.output.LayerNorm", "sa_layer_norm"),
        ("intermediate.dense", "ffn.lin1"), ("output.dense", "ffn.lin2"), ("output.LayerNorm", "output_layer_norm"),
    )  # fmt: skip
    fields: ClassVar[Mapping[str, Field]] = {
        DISTILBERT_NAMES.get(name, name): field
        for name, field in BertShape.fields.items()
        if name not in ("type_vocab_size", "layer_norm_eps")
    }
    fixed: ClassVar[Mapping[str, Any]] = {"activation": "gelu"}


KINDS: tuple[Encoder, ...] = (BertShape, DistilBertShape, RobertaShape, XlmRobertaShape, ModernBertShape, ElectraShape)
ENCODERS: dict[str, Encoder] = {kind.model_type: kind for kind in KINDS}


def encoder_of(model_type: Any, where: str) -> Encoder:
    """The encoder of a `model_type`; InputError, which begins with `where`, if ENCODERS lacks it."""
    if str(model_type) not in ENCODERS:
        raise InputError(
            f"{where}: its model_type is {model_type!r}, not one of {', '.join(ENCODERS)}; use another model"
        )
    return ENCODERS[model_type]


def recorded_shape(config: Mapping[str, Any], workdir: str) -> EncoderConfig:
    """The shape that a workdir's config records. InputError for a workdir of another kind of model."""
    record = config.get("encoder", {})
    return encoder_of(record.get("model_type"), workdir)(**record)
