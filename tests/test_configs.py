"""Every training config of the project loads, and has its paper's values."""

import runpy

import pytest

from harp_jax.training.train import STAGES
from tests.support import ROOT

CONFIGS = ROOT / "configs"


def loaded(name: str):
    return runpy.run_path(str(CONFIGS / name))["get_config"]()


@pytest.mark.parametrize("name", sorted(path.name for path in CONFIGS.glob("*.py") if path.name != "__init__.py"))
def test_configs_load_and_start_with_their_command(name):
    assert loaded(name).stage in STAGES
    assert f"--config=configs/{name}" in (CONFIGS / name).read_text().split('"""')[1]
