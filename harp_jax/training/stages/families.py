"""The two families of models that the loop trains: everything that depends on the kind of model and not on the stage."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from jax.sharding import PartitionSpec as P
from ml_collections import ConfigDict

from harp_jax.baselines.neural_ir import ranker
from harp_jax.baselines.neural_ir.interaction import NeuralConfig
from harp_jax.model import cross_encoder
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.ranking.scorers import Scorer
from harp_jax.text.tokenizer import Tokenizer, marks_of
from harp_jax.text.words import WordVocabulary

Shape = TypeVar("Shape", EncoderShape, NeuralConfig)
Vocabulary = Tokenizer | WordVocabulary


@dataclass(frozen=True, kw_only=True)
class Family(Generic[Shape]):
    """Sharding rules, initialisation, FLOPs, and scoring and saving for selection.

    `init_params(shape, key)` returns a new float32 tree. `scorer(shape, params, vocabulary, config)` returns a `Scorer`.
    `save(directory, shape, params, vocabulary, config)` writes the selected parameters (numpy).
    """

    name: str  # under which config.json holds the shape
    rules: Callable[[Shape], tuple[tuple[str, P], ...]]
    init_params: Callable[[Shape, jax.Array], dict]
    flops: (
        Callable[[Shape, int, int, int, int], float] | None
    )  # per step, see `cross_encoder.step_flops`; None: not counted
    scorer: Callable[[Shape, dict, Any, ConfigDict], Scorer]
    save: Callable[[str, Shape, dict[str, Any], Any, ConfigDict], None]


def _cross_encoder(shape: EncoderShape, params: dict, tokenizer: Tokenizer, config: ConfigDict) -> Scorer:
    from harp_jax.ranking.scorers import CrossEncoderScorer

    marks = marks_of(tokenizer, config.query_mark, config.document_mark)
    return CrossEncoderScorer(shape, params, tokenizer, config.row_length, marks=marks)


def _save_cross_encoder(
    directory: str, shape: EncoderShape, params: dict[str, Any], tokenizer: Tokenizer, config: ConfigDict
) -> None:
    from harp_jax.checkpoints.huggingface import save_hf
    from harp_jax.ranking.scorers import PARTS

    marks = marks_of(tokenizer, config.query_mark, config.document_mark)
    save_hf(directory, shape, {name: params[name] for name in PARTS}, tokenizer, "", marks)


def _neural_ranker(shape: NeuralConfig, params: dict, words: WordVocabulary, config: ConfigDict) -> Scorer:
    from harp_jax.ranking.scorers import NeuralScorer

    return NeuralScorer(shape, params, words)


def _save_neural_ranker(
    directory: str, shape: NeuralConfig, params: dict[str, np.ndarray], words: WordVocabulary, config: ConfigDict
) -> None:
    ranker.save_selected(directory, params)


CROSS_ENCODER: Family[EncoderShape] = Family(
    name="encoder",
    rules=cross_encoder.rules,
    init_params=cross_encoder.init_params,
    flops=cross_encoder.step_flops,
    scorer=_cross_encoder,
    save=_save_cross_encoder,
)
NEURAL_IR: Family[NeuralConfig] = Family(
    name="neural_ir",
    rules=lambda shape: ((r".", P()),),  # small, therefore replicated
    init_params=ranker.init_params,
    flops=None,
    scorer=_neural_ranker,
    save=_save_neural_ranker,
)
