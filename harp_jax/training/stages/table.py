"""The stages by the name in `config.stage`, and what each reads: every missing input of a training in one message."""

import os
from collections.abc import Callable, Iterator

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.corpus.paths import is_irds
from harp_jax.training.stages.base import Stage
from harp_jax.training.stages.coarse_tune import coarse_tune_stage
from harp_jax.training.stages.finetune import finetune_stage
from harp_jax.training.stages.neural_ir import neural_ir_stage
from harp_jax.training.stages.pretrain import pretrain_stage

STAGES: dict[str, Callable[..., Stage]] = {
    "pretrain": pretrain_stage,
    "finetune": finetune_stage,
    "coarse_tune": coarse_tune_stage,
    "neural_ir": neural_ir_stage,
}
JUDGED = ("docs", "queries", "qrels", "candidates")
REQUIRED = {"pretrain": ("data",), "finetune": JUDGED, "coarse_tune": ("docs", "clicks"), "neural_ir": JUDGED}
OPTIONAL = ("init", "tokenizer", "vectors", "folds", "train_queries")  # read where they are set
MODELS = ("init", "tokenizer")


def check_inputs(config: ConfigDict) -> None:
    """Raises InputError with all inputs that are not set or do not exist, if there are several.

    A single one is named by what reads it, which knows more about it.
    """
    found = dict(_missing(config))
    if len(found) > 1:
        hint = next((hint for name in MODELS if name in found and (hint := how_to_fetch(str(config[name])))), "")
        raise InputError(
            f"missing inputs: {', '.join(f'{name} {what}' for name, what in found.items())}; "
            f"set each as --config.FIELD=PATH{hint}"
        )


def _missing(config: ConfigDict) -> Iterator[tuple[str, str]]:
    required = REQUIRED[config.stage]
    for name in (*required, *(name for name in OPTIONAL if config.get(name))):
        paths = [config[name]] if isinstance(config[name], str) else list(config[name])
        if not any(paths):
            yield name, "is not set"
        absent = [
            path for path in paths if path and not os.path.exists(path) and not is_irds(path) and "://" not in path
        ]
        if absent:
            yield name, f"does not exist ({', '.join(absent)})"
    if config.stage != "neural_ir" and not config.init and not config.tokenizer:
        yield "init", "and tokenizer are not set"
