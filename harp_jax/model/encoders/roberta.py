"""RoBERTa and XLM-RoBERTa: BERT's layers; positions begin after the padding token's id, and the heads have other names: the
classifier's dense layer is the pooler.

A multilingual BERT with XLM-R's tokenizer (multilingual-e5-small) is a BERT, see bert.py.
"""

from dataclasses import dataclass

from harp_jax.model.encoders import bert
from harp_jax.model.encoders.encoder import HeadNames


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
NAMES = HeadNames(
    "classifier.dense", "classifier.out_proj", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias"
)
ROBERTA = bert.encoder(RobertaShape, "roberta", "Roberta", NAMES, fields=FIELDS, vocabulary=50265)
XLM_ROBERTA = bert.encoder(XlmRobertaShape, "roberta", "XLMRoberta", NAMES, fields=FIELDS, vocabulary=250002)
