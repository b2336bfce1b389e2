"""The documentation: commands parse, links are valid, and docs/formats.md has every config field with its meaning."""

import re
import runpy

import pytest

from harp_jax.commands.table import load
from tests.support import ROOT
from tests.support.pages import PAGES, blocks, commands

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_have_the_options_that_pages_give_them(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for text in blocks(page, "bash", "sh"):
        for name, *words in commands(text):
            if words and not name.startswith("--") and not {"--help", "…"} & {*words}:
                assert load(name)[1].parse_args(words), (name, words)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_to_files(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)|src(?:set)?=\"([^\"]+)", text):
        assert "://" in "".join(target) or (page.parent / "".join(target)).exists(), target
    for file in re.findall(r"`((?:harp_jax|data_pipeline|configs|tests|benchmarks)/[\w/]+\.py)`", text):
        assert (ROOT / file).exists(), file


def test_the_fields_are_up_to_date_and_explained():
    page = runpy.run_path(str(ROOT / "docs" / "write_fields.py"))["page"]()
    assert page == (ROOT / "docs" / "formats.md").read_text(encoding="utf-8"), "run python docs/write_fields.py"
    assert not [line for line in page.splitlines() if line.endswith("|  |")]
