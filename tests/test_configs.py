"""Configs: each loads, the controls differ from HARP only in data and task weights, and invalid values are rejected by name."""

import runpy

import pytest
from harp_jax.configs.baselines import harp

from data_pipeline.config import generation, validated_dict
from data_pipeline.tasks.table import TASKS
from harp_jax import config as configs
from harp_jax.base.errors import InputError
from harp_jax.training.dry_run import dry_run
from harp_jax.training.train import train
from tests.support import ROOT


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("[!_]*.py")), ids=lambda path: path.name)
def test_configs_load_and_start_with_their_command(path):
    assert runpy.run_path(str(path))["get_config"]().stage in configs.OWN
    assert f"--config=configs/{path.name}" in path.read_text().split('"""')[1]


CONTROLS = [(control, {"data", "tasks", "pair_weight"}) for control in ("mlm", "ict", "wlp", "prop")]


@pytest.mark.parametrize("control, may_differ", [*CONTROLS, ("recommended", {"tasks", "mlm_weight", "model"})])
def test_controls_share_the_budget_of_harp(control, may_differ):
    mine, theirs = harp.get_config(control).to_dict(), harp.get_config().to_dict()
    differing = {name for name in theirs if mine[name] != theirs[name]}
    assert differing and differing <= may_differ and mine.keys() == theirs.keys()
    assert mine["batch_tokens"] > 0  # not batch_pairs: pairs of other tasks are longer or shorter
    assert set(mine["tasks"]) <= set(TASKS)
    if control == "recommended":
        assert mine["model"] | {"dropout": 0.1} == theirs["model"]
        assert configs.pretrain("recommended").tasks == generation("recommended").tasks == mine["tasks"]


@pytest.mark.parametrize(
    ("config", "field", "value", "message"),
    [
        *((configs.pretrain(), "learning_rate", rate, "learning_rate=") for rate in (float("nan"), 1e30, -1.0)),
        (configs.pretrain(), "seed", 10**30, "seed="),
        (configs.pretrain(), "model.heads", 5, "model.hidden=768 must be a multiple of model.heads=5"),
        (configs.pretrain(), "mesh.data", 0, "mesh.data=0"),
        (configs.pretrain(), "dtype", "float46", "dtype='float46' is not allowed; use one of auto, float32"),
        (configs.finetune(), "epochs", 0.0, r"steps=0 and --config\.epochs=0"),
        (configs.finetune(), "eval_every", 50, r"eval_every=50: .* --config\.select=RR@10, or eval_every to 0"),
        (configs.finetune(), "rank_loss", "kl", r"teacher is a run that .* learn from: set both or neither"),
        (configs.coarse_tune(), "eval_every", 50, r"eval_every=50: coarse-tuning holds nothing out"),
    ],
)
def test_what_no_training_can_use_is_refused_before_anything_is_read(config, field, value, message):
    config.unlock()
    config.update_from_flattened_dict({field: value})
    with pytest.raises(InputError, match=r"--config\." + message):
        train(config, "never")


def test_a_config_of_another_command_and_ranges_of_a_generation_job():
    for run in (lambda config: train(config, "never"), dry_run):
        with pytest.raises(InputError, match="the config's stage is ''"):
            run(generation())
    with pytest.raises(InputError, match="it is not a generation config"):
        validated_dict(configs.pretrain())
    config = generation()
    config.source.paths, config.tokenizer, config.encoder = ("a",), "t", "uniform"
    config.validation_fraction = float("nan")
    with pytest.raises(InputError, match=r"--config\.validation_fraction=nan is not allowed; use"):
        validated_dict(config)
