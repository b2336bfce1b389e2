"""The package: what the wheel contains, and that it runs outside the repository."""

import shutil
from pathlib import Path

from harp_jax.base.version import __version__
from tests.support import ROOT
from tests.support.commands import python

BUILD = "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])"


def files(folder: Path) -> set[str]:
    """The files of both packages, but compiled ones."""
    paths = [path for package in ("harp_jax", "data_pipeline") for path in (folder / package).rglob("*.*")]
    return {str(path.relative_to(folder)) for path in paths if path.suffix != ".pyc"}


def test_the_wheel_has_all_modules_and_configs_and_runs_outside_the_repository(tmp_path):
    # Built from a copy because building writes next to the sources.
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "demo", "build")
    shutil.copytree(ROOT, tmp_path / "source", ignore=unwanted)
    python("-c", BUILD, tmp_path, cwd=tmp_path / "source")
    folder, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    python("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder, *tmp_path.glob("*.whl"))
    configs = {f"harp_jax/{path.relative_to(ROOT)}" for path in (ROOT / "configs").rglob("*.py")}
    assert files(folder) == files(ROOT) | configs
    code = """if True:
        import harp_jax as hj, harp_jax.__main__ as command
        from harp_jax.config import config_file
        assert all(map(hj.load_config, ("tpu_v3", "finetune", "baselines/neural", "data/html")))
        command.main(["plan"])
        print(hj.__file__, config_file("tpu_v3"), sep="\\n")
    """
    *plan, package, config = python("-c", code, cwd=empty, PYTHONPATH=str(folder)).stdout.splitlines()
    assert Path(package).is_relative_to(folder) and Path(config).is_relative_to(folder)
    assert any(line.startswith("demo ") for line in plan), plan
    version = python(folder / "bin" / "harp", "--version", cwd=empty, PYTHONPATH=str(folder)).stdout
    assert version == f"harp_jax {__version__}\n"
    assert not list(empty.iterdir())
