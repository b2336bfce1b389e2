"""RoBERTa and XLM-RoBERTa: BERT's layers; positions begin after the padding token's id, and the heads have other names.

A multilingual BERT with XLM-R's tokenizer (multilingual-e5-small) is a BERT, see bert.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from harp_jax.model.encoders import bert
from harp_jax.model.encoders.encoder import Encoder, Leaf, Tensors, class_of, one_label, read_fields, tied


@dataclass(frozen=True)
class RobertaShape(bert.BertShape):
    type_vocab: int = 1
    layer_norm_eps: float = 1e-5
    pad: int = 1
    model_type: str = "roberta"

    @property
    def first_position(self) -> int:
        return self.pad + 1


@dataclass(frozen=True)
class XlmRobertaShape(RobertaShape):
    model_type: str = "xlm-roberta"


FIELDS = {**bert.FIELDS, "pad_token_id": ("pad", 0, 1 << 24)}


def from_config(kind: type[RobertaShape], config: Mapping[str, Any], where: str) -> RobertaShape:
    """See `bert.from_config`; config.json also counts the first rows of the position table, which are never read."""
    shape = read_fields(config, FIELDS, {**bert.FIXED, **bert.DECODER}, where)
    positions = {"max_position_embeddings": shape["max_positions"] - shape["pad"] - 1}
    shape |= read_fields({**config, **positions}, FIELDS, {}, where)
    return kind(**{**shape, "attention_dropout": 0.0})


def to_config(shape: RobertaShape) -> dict[str, Any]:
    """The inverse of `from_config`."""
    fields = {field: getattr(shape, ours) for field, (ours, *_) in FIELDS.items()}
    fields["max_position_embeddings"] += shape.first_position
    return {"model_type": shape.model_type, **fields, **bert.FIXED}


def leaves(c: RobertaShape) -> dict[str, list[Leaf]]:
    """See `bert.leaves`; the classifier's dense layer is the pooler."""
    return {
        "encoder": list(bert.encoder_leaves(c, "roberta")),
        "pooler": bert.dense_leaves("pooler", "classifier.dense", c.hidden, c.hidden),
        "score": bert.dense_leaves("score", "classifier.out_proj", c.hidden, 1),
        "mlm": [
            *bert.dense_leaves("mlm/transform", "lm_head.dense", c.hidden, c.hidden),
            *bert.norm_leaves("mlm/norm", "lm_head.layer_norm", c.hidden),
            Leaf(("mlm", "bias"), "lm_head.bias", (c.vocab_size,), (c.vocab_size,)),
        ],
    }


def read(tensors: Tensors, where: str) -> Tensors:
    """A bare RobertaModel lacks the prefix; a classifier of several labels is not a score."""
    bare = ("embeddings.", "encoder.", "pooler.")
    state = {f"roberta.{name}" if name.startswith(bare) else name: tensor for name, tensor in tensors.items()}
    state = one_label(state, "classifier.out_proj.weight")
    return tied(state, "lm_head.decoder", "roberta.embeddings.word_embeddings.weight", "lm_head.bias", where)


def encoder(kind: type[RobertaShape], prefix: str) -> Encoder:
    """The record of an architecture whose classes in transformers begin with `prefix`."""
    return Encoder(
        shape=kind,
        from_config=partial(from_config, kind),
        to_config=to_config,
        module=bert.Bert,
        rules=bert.RULES,
        flops=bert.flops,
        leaves=leaves,
        read=read,
        written=lambda tensors: tensors,
        exported_as=partial(class_of, prefix),
        last_attention="roberta.encoder.layer.{}.attention",
        vocabulary=50265 if kind is RobertaShape else 250002,
        pooler=bert.pooler,
        modules=("Tanh",),
    )


ROBERTA, XLM_ROBERTA = encoder(RobertaShape, "Roberta"), encoder(XlmRobertaShape, "XLMRoberta")
