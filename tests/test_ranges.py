"""Values that no run can use are refused by name before anything is read: none ends in a traceback, "done" or never."""

import pytest

from data_pipeline.config import generation, limits, plain
from harp_jax import config as defaults
from harp_jax.base.errors import InputError
from harp_jax.config import TRAINING, check_training, fields
from harp_jax.training.dry_run import dry_run
from harp_jax.training.train import train

STAGES = (defaults.pretrain, defaults.finetune, defaults.coarse_tune, defaults.neural_ir)
BAD = {
    "steps": (-1,),
    "batch_pairs": (-3, 0),
    "learning_rate": (float("nan"), 1e30, float("inf"), -1.0),
    "lanes": (0, 10**9),
    "window": (0,),
    "log_every": (0,),
    "accumulate": (0,),
    "model.heads": (0, 5),
    "mlm_rate": (0.0, float("nan"), 2.0),
    "dtype": ("float46", ""),
    "clip_norm": (float("nan"), -1.0),
    "warmup": (float("nan"), 2.0),
    "beta1": (1.0,),
    "keep_checkpoints": (0,),
    "mesh.data": (0,),
    "row_length": (0,),
    "seed": (-1, 10**30),
}


def numbers(config) -> dict[str, float]:
    return {n: v for n, v in fields(config) if isinstance(v, int | float) and not isinstance(v, bool)}


def test_every_number_of_every_default_has_a_range_and_lies_in_it():
    for make in STAGES:
        for name, value in numbers(make()).items():
            low, high = TRAINING.get(name, (0, 1e6) if name.startswith("task_weights.") else (1, 0))
            assert low <= value <= high, name
        check_training(make())
    for name, value in numbers(generation()).items():
        low, high = limits()[1].get(name, (0, 1) if name == "source.boilerplate_share" else (1, 0))
        assert low <= value <= high, name


@pytest.mark.parametrize("field", BAD)
@pytest.mark.parametrize("run", [lambda config: train(config, "never"), lambda config: dry_run(config, "")])
def test_training_fields_out_of_range(field, run):
    for value in BAD[field]:
        config = defaults.pretrain()
        config.unlock()
        config.update_from_flattened_dict({field: value})
        with pytest.raises(InputError, match=rf"--config\.{field}=|model\.heads={value}"):
            run(config)


@pytest.mark.parametrize("field", ["query_length", "temperature", "prop_mu", "attention_scale"])
def test_generation_fields_out_of_range(field):
    for value in (float("inf"), float("nan"), -1.0):
        config = generation()
        config.source.paths, config.tokenizer, config.encoder = ("a",), "t", "uniform"
        config[field] = value
        with pytest.raises(InputError, match=rf"--config\.{field}="):
            plain(config)


def test_draws_without_end_are_refused():
    for field in ("acm_draws", "wlp_draws", "prop_pairs"):
        config = generation()
        config.source.paths, config.tokenizer, config.encoder = ("a",), "t", "uniform"
        config[field] = 10**9
        with pytest.raises(InputError, match=rf"--config\.{field}=1000000000 is out of range; use 1 to 1000"):
            plain(config)


def test_a_config_of_another_command_is_refused():
    for run in (lambda config: train(config, "never"), lambda config: dry_run(config, "")):
        with pytest.raises(InputError, match="it is no training config"):
            run(generation())
        with pytest.raises(InputError, match="it is no training config"):
            run(defaults.linklearn())
    with pytest.raises(InputError, match="it is no generation config"):
        plain(defaults.pretrain())
