"""Every extra resolves with our constraints, on every supported Python that is installed here."""

import json
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.real
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# JAX's version for each Python, and the only libtpu that its extra accepts.
EXPECTED = {"3.11": ("0.10.2", "0.0.42.1"), "3.12": ("0.11.2", "0.0.48.1"), "3.13": ("0.11.2", "0.0.48.1")}


def interpreter(version: str) -> str:
    """A working Python of this version, on the PATH or from pyenv."""
    found = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}.*/bin/python")]
    for path in filter(None, found):
        if subprocess.run([path, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return str(path)
    pytest.skip(f"no Python {version} with pip here")


@pytest.mark.parametrize("version", EXPECTED)
def test_every_extra_resolves_with_our_constraints(version, tmp_path):
    """All extras together: each alone is a subset."""
    report = tmp_path / "report.json"
    command = [interpreter(version), "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    wanted = [f"--report={report}", "--constraint=constraints.txt", f"{ROOT}[{','.join(EXTRAS)}]"]
    done = subprocess.run([*command, *wanted], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [each["metadata"] for each in json.loads(report.read_text())["install"]]
    versions = {each["name"].lower(): each["version"] for each in found}
    jax, libtpu = EXPECTED[version]
    assert versions["jax"] == versions["jaxlib"] == jax
    assert versions["jax-cuda13-plugin"] == versions["jax-cuda12-plugin"] == jax and versions["libtpu"] == libtpu
    print(f"Python {version}: {len(versions)} packages, JAX {jax}, libtpu {libtpu}")
