"""The documentation: commands parse, links are valid, and fast commands run."""

import ast
import re
import shutil

import pytest

from harp_jax import __main__ as command_line
from harp_jax.commands.table import load
from tests.support import ROOT
from tests.support.pages import PAGES, blocks, commands
from tests.support.ranking_collection import write_collection

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_have_the_options_that_pages_give_them(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for text in blocks(page, "bash", "sh"):
        for name, *words in commands(text):
            if name in ("--help", "--version") or "--help" in words or not words:
                continue
            _, parser = load(name)
            if "…" not in words:
                assert parser.parse_args(words), (name, words)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_to_files(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)|src(?:set)?=\"([^\"]+)", text):
        assert "://" in "".join(target) or (page.parent / "".join(target)).exists(), target
    for file in re.findall(r"`((?:harp_jax|data_pipeline|configs|tests|benchmarks)/[\w/]+\.py)`", text):
        assert (ROOT / file).exists(), file


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_blocks_compile(page):
    for text in blocks(page, "python"):
        if ">>>" not in text:  # docs/library.md runs as doctests
            ast.parse(text)


def test_the_commands_of_evaluation_run(tmp_path, monkeypatch, capsys):
    write_collection(tmp_path)
    shutil.copy(tmp_path / "run.trec", tmp_path / "a.trec")
    (tmp_path / "run.trec").rename(tmp_path / "b.trec")
    monkeypatch.chdir(tmp_path)
    for text in blocks(ROOT / "docs" / "evaluate.md", "bash"):
        for words in commands(text):
            command_line.main(words)
    said = capsys.readouterr().out
    assert "fused" in said and (tmp_path / "values.tsv").stat().st_size
