"""Where the real data lies, and the reason given where it does not."""

import os

import pytest

ROOT = os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "data")


def shared(*parts: str) -> str:
    """Path of a file below the shared data; skips the test where it is absent."""
    path = os.path.normpath(os.path.join(ROOT, *parts))
    if not os.path.exists(path):
        pytest.skip(f"real data absent: {os.path.join('../shared/data', *parts)}")
    return path
