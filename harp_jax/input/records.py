"""The records that the generation job writes and training reads; the feature names are defined only here.

Token ids are those of the tokenizer named in the manifest, without special tokens and unmasked: packing adds [CLS] and [SEP],
the step masks. A text that both sides of a pair share is stored once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

DATASET = "harp"
TEXT_TASK = "mlm"  # the name under which running text is stored; every other task has pairs
SPLITS = ("train", "validation")

BYTES_FEATURES = ("task", "key", "page")
PAIR_FEATURES = ("pos_query", "pos_doc", "neg_query", "neg_doc")
TEXT_FEATURES = ("text",)


@dataclass(frozen=True)
class PairRecord:
    """One preference: the positive side should score higher than the negative side.

    `key` is stable across runs; `page` is the source page, by which validation data are split. `neg_query` or `neg_doc` is
    empty if the negative side has the positive's.
    """

    task: str
    key: str
    page: str
    pos_query: Sequence[int]
    pos_doc: Sequence[int]
    neg_query: Sequence[int]
    neg_doc: Sequence[int]


@dataclass(frozen=True)
class TextRecord:
    """Running text for masked language modelling."""

    key: str
    page: str
    text: Sequence[int]


def split_name(task: str, split: str) -> str:
    """The TFDS split of a task's records: `rqp_train`, `mlm_validation`."""
    return f"{task}_{split}"
