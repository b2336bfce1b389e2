"""Invalid values are rejected by name before anything is read: no traceback, no "done", no endless run."""

import pytest

from data_pipeline.config import generation, plain
from harp_jax import config as defaults
from harp_jax.base.errors import InputError
from harp_jax.training.dry_run import dry_run
from harp_jax.training.train import train

BAD = {
    "learning_rate": (float("nan"), 1e30, float("inf"), -1.0),
    "steps": (-1,), "batch_pairs": (-3, 0), "lanes": (0,), "model.heads": (0, 5), "mesh.data": (0,), "seed": (-1, 10**30),
    "dtype": ("float46", ""), "mlm_side": ("both sides",), "pair_loss": ("l2",),
}  # fmt: skip
RUNS = [lambda config: train(config, "never"), lambda config: dry_run(config, "")]


@pytest.mark.parametrize("run", RUNS)
def test_training_fields_out_of_range(run):
    for field, value in ((field, value) for field, values in BAD.items() for value in values):
        config = defaults.pretrain()
        config.unlock()
        config.update_from_flattened_dict({field: value})
        with pytest.raises(InputError, match=rf"--config\.{field}=|model\.heads={value}"):
            run(config)


@pytest.mark.parametrize(
    ("config", "field", "value", "message"),
    [
        (defaults.finetune(), "epochs", 0.0, r"steps=0 and --config\.epochs=0"),
        (defaults.finetune(), "eval_every", 50, r"eval_every=50: .* --config\.select=RR@10, or eval_every to 0"),
        (defaults.finetune(), "rank_loss", "kl", r"teacher is a run that .* learn from: set both or neither"),
        (defaults.coarse_tune(), "eval_every", 50, r"eval_every=50: coarse-tuning holds nothing out"),
    ],
)
def test_fields_that_need_others(config, field, value, message):
    config[field] = value
    with pytest.raises(InputError, match=r"--config\." + message):
        train(config, "never")


def test_generation_fields_out_of_range():
    for field, value in (("query_length", float("inf")), ("validation_fraction", float("nan")), ("workers", 0)):
        config = generation()
        config.source.paths, config.tokenizer, config.encoder = ("a",), "t", "uniform"
        config[field] = value
        with pytest.raises(InputError, match=rf"--config\.{field}={value} is not allowed; use"):
            plain(config)


def test_a_config_of_another_command_is_refused():
    for run in RUNS:
        for config in (generation(), defaults.linklearn()):
            with pytest.raises(InputError, match="the config's stage is ''"):
                run(config)
    with pytest.raises(InputError, match="it is not a generation config"):
        plain(defaults.pretrain())
