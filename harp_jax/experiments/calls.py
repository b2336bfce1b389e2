"""Training as a step of experiments, and configs whose fields come from Python and from texts such as "steps=2000"."""

from collections.abc import Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from harp_jax.config import check_names, read_config
from harp_jax.training.recorded import last_metrics, recorded


def configured(path: str, fields: Mapping[str, Any], texts: Sequence[str] = ()) -> ConfigDict:
    """The config `path`, such as "baselines/harp:mlm", with fields set: by name, then by texts "name=value", which win."""
    config = read_config(path, [f"--config.{text}" for text in texts])
    own = {text.partition("=")[0] for text in texts}
    changes = {name: value for name, value in fields.items() if name not in own}
    check_names(config, changes, path)
    config.update_from_flattened_dict(changes)
    return config


@recorded
def train(config: ConfigDict, output: str) -> dict[str, float]:
    """Trains a stage or a neural ranker in the workdir `output`, or resumes it; returns the last metrics."""
    from harp_jax.baselines.neural_ir.train import train as train_neural
    from harp_jax.training.train import train as train_encoder

    return last_metrics(train_neural if config.stage == "neural_ir" else train_encoder, config, output)
