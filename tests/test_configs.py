"""Every training config of the project loads and names a stage; its docstring has the command that starts it."""

import runpy

import pytest

from harp_jax.training.train import STAGES
from tests.support import ROOT

PATHS = [path for path in sorted((ROOT / "configs").glob("*.py")) if path.name != "__init__.py"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_configs_load_and_start_with_their_command(path):
    assert runpy.run_path(str(path))["get_config"]().stage in STAGES
    assert f"--config=configs/{path.name}" in path.read_text().split('"""')[1]
