"""The documentation's pages: their code blocks, and the commands in them.

Blocks marked `bash` are run (tests/real/test_docs.py); those marked `sh` need other data or hardware, and are only
parsed. Of `python` blocks only the doctests of docs/library.md are run (tests/test_api.py).
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIXED = {"harp_jax.main": "train", "data_pipeline.main": "generate", "harp_jax.export": "export"}


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in these languages."""
    every = re.findall(r"^```(\w+)[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text for language, text in every if language in languages]


def commands(text: str) -> Iterator[list[str]]:
    """Our commands in a block, as words from the command's name on."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["harp"] and words[1:]:
            yield words[1:]
        elif words[:2] == ["python", "-m"]:
            yield [FIXED[words[2]], *words[3:]]
