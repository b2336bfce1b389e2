"""Every extra resolves with our constraints on every supported Python that is installed here; the adapter in real PyTerrier."""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tests.support import ROOT

pytestmark = pytest.mark.real
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def interpreter(version: str) -> str:
    """A working Python of this version, on the PATH or from pyenv."""
    found = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for path in filter(None, found):
        if subprocess.run([path, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return str(path)
    pytest.skip(f"no Python {version} with pip here")


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_all_extras_together_resolve_with_our_constraints(version, tmp_path):
    report = tmp_path / "report.json"
    command = [interpreter(version), "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    wanted = [f"--report={report}", "--constraint=constraints.txt", f"{ROOT}[{','.join(EXTRAS)}]"]
    done = subprocess.run([*command, *wanted], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = {each["metadata"]["name"].lower() for each in json.loads(report.read_text())["install"]}
    assert {"jax", "jax-cuda13-plugin", "jax-cuda12-plugin", "libtpu"} <= found


def test_the_ranker_in_a_pipeline_of_pyterrier():
    pt = pytest.importorskip("pyterrier")
    import pandas

    from harp_jax.ranking.adapters import transformer

    class SharedWords:
        def predict(self, pairs, windows=None):
            return np.asarray([len({*query.split()} & {*text.split()}) for query, text in pairs], np.float32)

    rows = [("1", "red cat", "a", "a dog"), ("1", "red cat", "b", "a red cat"), ("2", "dog", "a", "a dog")]
    found = pandas.DataFrame(rows, columns=["qid", "query", "docno", "text"])
    ranked = (pt.Transformer.from_df(found) >> transformer(SharedWords()))(found[["qid", "query"]].drop_duplicates())
    best = ranked[ranked["rank"] == 0]
    assert dict(zip(best.qid, best.docno)) == {"1": "b", "2": "a"} and len(ranked) == 3
