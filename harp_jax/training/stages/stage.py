"""What differs between stages: the `Stage` record, and the two families of models.

Mesh, state, step, loop and checkpoints belong to `training/` and are the same for every stage.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import jax
from jax.sharding import PartitionSpec as P
from ml_collections import ConfigDict

from harp_jax.base.errors import InputError
from harp_jax.baselines.neural_ir import models, ranker
from harp_jax.baselines.neural_ir.models import NeuralConfig
from harp_jax.input.lanes import Layout
from harp_jax.input.packing import Group, Reader
from harp_jax.input.ranking_groups import Judged
from harp_jax.model import cross_encoder
from harp_jax.model.encoders.encoder import EncoderShape
from harp_jax.objectives.objective import Objective
from harp_jax.ranking.scorers import JaxScorer
from harp_jax.ranking.selection import Selection
from harp_jax.text.tokenizer import Tokenizer, marks_of
from harp_jax.text.words import WordVocabulary

Shape = TypeVar("Shape", EncoderShape, NeuralConfig)
Vocabulary = Tokenizer | WordVocabulary


@dataclass(frozen=True, kw_only=True)
class Family(Generic[Shape]):
    """Sharding rules, initialisation, FLOPs, and scoring and saving for selection.

    `init_params(shape, key)` returns a new float32 tree. `scorer(shape, params, vocabulary, config)` returns a `JaxScorer`.
    `save(directory, shape, params, vocabulary, config)` writes the selected parameters (numpy).
    """

    name: str  # key of the shape in config.json
    rules: Callable[[Shape], tuple[tuple[str, P], ...]]
    init_params: Callable[[Shape, jax.Array], dict]
    flops: Callable[[Shape, int, int, int, int], float] | None  # see `cross_encoder.step_flops`; None: not counted
    scorer: Callable[[Shape, dict, Any, ConfigDict], JaxScorer]
    save: Callable[[str, Shape, dict[str, Any], Any, ConfigDict], None]


def _cross_encoder(shape: EncoderShape, params: dict, tokenizer: Tokenizer, config: ConfigDict) -> JaxScorer:
    from harp_jax.ranking.scorers import CrossEncoderScorer

    marks = marks_of(tokenizer, config.get("marks", ()))
    return CrossEncoderScorer(shape, params, tokenizer, config.row_length, marks=marks)


def _save_cross_encoder(
    directory: str, shape: EncoderShape, params: dict[str, Any], tokenizer: Tokenizer, config: ConfigDict
) -> None:
    from harp_jax.checkpoints.huggingface import save_hf
    from harp_jax.ranking.scorers import PARTS

    marks = marks_of(tokenizer, config.get("marks", ()))
    save_hf(directory, shape, {name: params[name] for name in PARTS}, tokenizer, "", marks)


def _neural_ranker(shape: NeuralConfig, params: dict, words: WordVocabulary, config: ConfigDict) -> JaxScorer:
    from harp_jax.ranking.scorers import NeuralScorer

    return NeuralScorer(shape, params, words)


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
    init_params=models.init_params,
    flops=None,
    scorer=_neural_ranker,
    save=lambda directory, shape, params, words, config: ranker.save_selected(directory, params),
)


@dataclass(frozen=True, kw_only=True)
class Stage(Generic[Shape]):
    """A stage: its model, objective, data and schedule."""

    family: Family[Shape]
    shape: Shape  # of the model, with the vocabulary's size
    vocabulary: Vocabulary
    tasks: tuple[str, ...]
    objective: Callable[[Shape], Objective]  # from a shape whose vocabulary is padded for the mesh
    reader: Reader
    held_out: Reader | None = None
    layout: Layout
    shares: Mapping[str, float]  # fraction of each of the reader's tasks in the stream
    steps: int
    start: Callable[[Shape, jax.Array], dict]  # initial parameters (numpy) from a padded shape and a key
    selection: Callable[[Shape, str], Selection] | None = None  # from padded shape and workdir
    # Task → (best trivial predictor, its accuracy), see `objectives/objective.py`; empty if unknown.
    trivial: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    untrained: tuple[str, ...] = ()  # heads that the checkpoint of `config.init` lacks
    spike: float = 8.0  # skip an update whose loss is this many standard deviations above the running mean; 0: never
    window: int = 0  # groups per window of a lane; 0: config.window
    check: Callable[[int, Mapping[str, float]], None] | None = (
        None  # InputError for metrics at which training should stop
    )


class NoReader:
    """Replaces the data in a dry run: it has task names but no groups."""

    def __init__(self, tasks: tuple[str, ...]) -> None:
        self.sizes: Mapping[str, int] = dict.fromkeys(tasks, 1)

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        return []


def selecting(
    config: ConfigDict, family: Family[Shape], vocabulary: Vocabulary, held_out: Judged
) -> Callable[[Shape, str], Selection]:
    """A `Stage.selection` that evaluates on the judgments `held_out`; InputError for a config that never evaluates."""
    if not config.eval_every:
        raise InputError(f"select={config.select!r} needs evaluations; set --config.eval_every to a number of steps")

    def make(shape: Shape, workdir: str) -> Selection:
        return Selection(
            config,
            held_out,
            workdir,
            lambda params: family.scorer(shape, params, vocabulary, config),
            lambda directory, params: family.save(directory, shape, params, vocabulary, config),
        )

    return make
