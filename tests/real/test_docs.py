"""The documentation's commands as a reader runs them, page by page, with tiny numbers instead of large ones."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, corpus, site_pages
from tests.support.commands import python
from tests.support.pages import PAGES, blocks
from tests.support.ranking_collection import write_collection
from tests.support.shared_data import minilm

pytestmark = pytest.mark.real

INSTALLED = os.environ.get("HARP_INSTALLED")  # bin/ of an environment that has the package: `make package`
SMALLER = ((r"--pages=\d+", "--pages=40"), (r"--config\.steps=\d+", "--config.steps=2"))
BIN = INSTALLED or Path(sys.executable).parent
RUN = [page for page in PAGES[1:] if blocks(page, "bash") and "lab" not in str(page)]


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """A folder with everything that pages assume: a collection, pages with links, an encoder, and `harp` on the PATH."""
    write_collection(tmp_path)
    for name in ("a.trec", "b.trec"):
        shutil.copy(tmp_path / "run.trec", tmp_path / name)
    (corpus.write(tmp_path / "wiki-pages", files=1) / "pages-0.jsonl").rename(tmp_path / "pages.jsonl")
    with open(tmp_path / "docs.tsv", "a") as docs:
        for page in map(json.loads, (tmp_path / "pages.jsonl").read_text().splitlines()):
            docs.write(f"{page['id']}\t\t{page['title']}\t{' '.join(page['text'].split())}\n")
    site_pages.write(tmp_path / "site", pages=3)
    os.symlink(minilm(), tmp_path / "all-MiniLM-L6-v2")
    if INSTALLED:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def succeeds(*command: str, **options: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command[-1]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page, place):
    for text in blocks(page, "bash"):
        for pattern, smaller in SMALLER:
            text = re.sub(pattern, smaller, text)
        succeeds("bash", "-euc", text)


def test_the_notebook_runs(place):
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    (place / "notebook.py").write_text("\n\n".join(cells))
    succeeds(f"{BIN}/python", "notebook.py")


def test_the_benchmark_of_docs_accelerators_runs_on_a_cpu():
    """So that it works on the first try on a device."""
    printed = python("benchmarks/device.py", "--small").stdout
    for row in (
        "from TFRecords",
        "in PyTorch, compiled",
        "ModernBERT, rows of 1024",
        "30 of 30 losses",
        "re-ranking, ",
    ):
        assert row in printed
    assert not re.search("failed|not installed", printed)


def test_the_site_builds_without_warnings(tmp_path):
    pytest.importorskip("mkdocstrings")
    succeeds(sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", f"--site-dir={tmp_path}", cwd=ROOT)
    assert "Reranker" in (tmp_path / "library.html").read_text()
