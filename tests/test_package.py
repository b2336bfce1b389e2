"""The package: what sdist and wheel contain, that the wheel runs outside the repository, and messages about missing extras."""

import importlib
import json
import shutil
import sys
import tarfile
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from data_pipeline.pipeline import generate
from data_pipeline.text.sentences import sentences
from harp_jax.api import load_config
from harp_jax.base.errors import InputError
from harp_jax.base.version import __version__
from harp_jax.evaluation import render
from harp_jax.ranking.adapters import transformer
from harp_jax.ranking.lexical import Collection
from harp_jax.text.tokenizer import BARE
from harp_jax.text.words import read_stopwords
from tests.support import ROOT
from tests.support.commands import python

BUILD = "import sys, setuptools.build_meta as b; folder = sys.argv[1]; b.build_sdist(folder), b.build_wheel(folder)"
NOT_OURS = ("demo", "build", "node_modules")  # written by make and npm
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with sdist and wheel, built from a copy because building writes next to the sources."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(
        ROOT, folder / "source", ignore=shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", *NOT_OURS)
    )
    done = python("-c", BUILD, folder, cwd=folder / "source")
    warnings = [line for line in done.stderr.splitlines() if "warn" in line.lower() and "byte-compiling" not in line]
    assert not warnings, warnings
    return folder


def found(*folders: str, pattern: str = "*.py") -> set[str]:
    return {str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob(pattern)}


def test_the_wheel_contains_all_modules_and_configs_and_no_tests(built):
    names = set(zipfile.ZipFile(next(built.glob("*.whl"))).namelist())
    expected = found("harp_jax", "data_pipeline") | {f"harp_jax/{name}" for name in found("configs")}
    assert {name for name in names if name.endswith(".py")} == expected
    data = {name for name in found("harp_jax", "data_pipeline", pattern="*.*") if not name.endswith((".py", ".pyc"))}
    assert {"harp_jax/py.typed", "data_pipeline/py.typed"} <= data <= names
    about = f"harp_jax-{__version__}"
    assert {f"{about}.dist-info/licenses/LICENSE", f"{about}.data/data/share/doc/harp_jax/CHANGELOG.md"} <= names


def test_the_sdist_contains_what_tests_and_builds_read(built):
    names = {name.partition("/")[2] for name in tarfile.open(next(built.glob("*.tar.gz"))).getnames()}
    files = found("harp_jax", "data_pipeline", "configs", "tests", "benchmarks") | found("docs", pattern="*.md")
    files |= {"LICENSE", "CHANGELOG.md", "CITATION.cff", "README.md", "Makefile", "constraints.txt", "setup.py"}
    assert files <= names, sorted(files - names)


def test_the_wheel_runs_outside_the_repository(built, tmp_path):
    folder, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder]
    python(*pip, next(built.glob("*.whl")))
    code = """if True:
        import json, harp_jax as hj, harp_jax.__main__ as command
        from harp_jax.config import shipped_file
        configs = ("tpu_v3", "finetune", "baselines/neural", "data/html")
        assert all(hj.load_config(name) for name in configs)
        command.main(["plan", "demo", "--output=demo", "--dry_run"])
        print(json.dumps([hj.__file__, shipped_file("tpu_v3.py")]))
    """
    *plan, files = python("-c", code, cwd=empty, PYTHONPATH=str(folder)).stdout.splitlines()
    assert all(Path(file).is_relative_to(folder) for file in json.loads(files))
    assert any("harp_jax train --config=" in line and "configs/demo.py" in line for line in plan), plan
    version = python(folder / "bin" / "harp", "--version", cwd=empty, PYTHONPATH=str(folder)).stdout
    assert version == f"harp_jax {__version__}\n"
    assert not list(empty.iterdir())


def test_every_dependency_has_a_version_in_the_constraints():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines}
    # Not in constraints.txt: builds for other hardware, and TensorFlow's package for other machines.
    elsewhere = {"harp-jax", "tensorflow", "jax"}
    required = [*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())]
    names = {canonicalize_name(Requirement(requirement).name) for requirement in required}
    assert names - elsewhere <= pinned, sorted(names - elsewhere - pinned)


def calling(module: str, function: str, *arguments: object):
    """A function that imports our module only when called."""
    return lambda: getattr(importlib.import_module(module), function)(*arguments)


UNIFORM = {"source.paths": ("p",), "tokenizer": "t", "encoder": "uniform"}
READER = (("pairs",), ("rqp",), "train", 1, 64, "all", 0, BARE)


@pytest.mark.parametrize(
    "module, package, extra, call",
    [
        ("ir_measures", "ir_measures", "eval", calling("harp_jax.evaluation.measures", "parse_measures", "RR@10")),
        ("matplotlib", "matplotlib", "plots", calling("harp_jax.experiments.curve", "as_svg", [], "RR@10")),
        ("jinja2", "jinja2", "eval", lambda: render.environment.__wrapped__()),
        ("Stemmer", "PyStemmer", "bm25", lambda: Collection([("d", "text")])),
        ("bm25s.stopwords", "bm25s", "bm25", lambda: read_stopwords("english")),
        ("stopwordsiso", "stopwordsiso", "bm25", lambda: Collection([("d", "text")], "de")),
        ("sentencex", "sentencex", "data", lambda: sentences("Ein Satz.", "de")),
        ("pyterrier", "python-terrier", "pyterrier", lambda: transformer(None)),
        ("tensorflow", "tensorflow", "data", calling("harp_jax.input.tfrecords", "RecordReader", *READER)),
        ("tensorflow", "tensorflow", "data", lambda: generate(load_config("data/linked_jsonl", **UNIFORM), "pairs")),
    ],
)
def test_what_needs_an_extra_names_it(module, package, extra, call, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"needs the package {package}; .*: pip install '\.\[{extra}\]'"):
        call()
