"""Training configs: each loads and its docstring has its command; the controls differ from HARP only in data and task weights."""

import runpy

import pytest
from harp_jax.configs.baselines import harp

from data_pipeline.config import generation
from data_pipeline.tasks.table import TASKS
from harp_jax import config as configs
from tests.support import ROOT

PATHS = [path for path in sorted((ROOT / "configs").glob("*.py")) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
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
