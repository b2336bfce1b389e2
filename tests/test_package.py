"""The package: what the wheel contains, that it runs outside the repository, and messages about missing extras."""

import shutil
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harp_jax.base.errors import InputError
from harp_jax.base.version import __version__
from harp_jax.evaluation.measures import parse_measures
from harp_jax.experiments.figure4 import as_svg
from harp_jax.input.tfrecords import require_tensorflow
from harp_jax.ranking.adapters import transformer
from harp_jax.ranking.lexical import InvertedIndex
from tests.support import ROOT
from tests.support.commands import python

BUILD = "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from a copy because building writes next to the sources."""
    folder = tmp_path_factory.mktemp("package")
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "demo", "build")
    shutil.copytree(ROOT, folder / "source", ignore=unwanted)
    done = python("-c", BUILD, folder, cwd=folder / "source")
    warnings = [line for line in done.stderr.splitlines() if "warn" in line.lower() and "byte-compiling" not in line]
    assert not warnings, warnings
    return next(folder.glob("*.whl"))


def test_the_wheel_contains_all_modules_and_configs_and_no_tests(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {
        str(path.relative_to(ROOT)) for folder in ("harp_jax", "data_pipeline") for path in (ROOT / folder).rglob("*.*")
    }
    ours |= {f"harp_jax/{path.relative_to(ROOT)}" for path in (ROOT / "configs").rglob("*.py")}
    ours = {name for name in ours if not name.endswith(".pyc")}
    assert {name for name in names if name.endswith(".py")} == {name for name in ours if name.endswith(".py")}
    assert {"harp_jax/py.typed", "data_pipeline/py.typed"} <= ours <= names
    about = f"harp_jax-{__version__}"
    assert {f"{about}.dist-info/licenses/LICENSE", f"{about}.data/data/share/doc/harp_jax/CHANGELOG.md"} <= names


def test_the_wheel_runs_outside_the_repository(wheel, tmp_path):
    folder, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    python("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder, wheel)
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


def test_every_dependency_has_a_version_in_the_constraints():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines}
    # Not in constraints.txt: builds for other hardware, and TensorFlow's package for other machines.
    elsewhere = {"harp-jax", "tensorflow", "jax"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {canonicalize_name(Requirement(requirement).name) for requirement in required}
    assert names - elsewhere <= pinned, sorted(names - elsewhere - pinned)


@pytest.mark.parametrize(
    "module, package, extra, call",
    [
        ("ir_measures", "ir_measures", "eval", lambda: parse_measures("RR@10")),
        ("matplotlib", "matplotlib", "plots", lambda: as_svg([], "RR@10")),
        ("Stemmer", "PyStemmer", "bm25", lambda: InvertedIndex([("d", "text")])),
        ("pyterrier", "pyterrier", "pyterrier", lambda: transformer(None)),
        ("tensorflow", "tensorflow", "data", require_tensorflow),
    ],
)
def test_what_needs_an_extra_names_it(module, package, extra, call, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"needs the package {package}; .*: pip install '\.\[{extra}\]'"):
        call()
