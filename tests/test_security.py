"""The claims of SECURITY.md: no input is executed, asserts do not check input, markup in names from data is escaped."""

import json
import re

import pytest

from harp_jax.checkpoints.export import model_card
from tests.support import ROOT
from tests.support.commands import python


@pytest.mark.parametrize("package", ["harp_jax", "data_pipeline"])
def test_asserts_check_no_input_and_files_run_no_code(package):
    """What ruff does not check: `python -O` removes asserts, numpy's files may hold pickles, runpy runs a file."""
    wrong = re.compile(r"^ *assert (?!isinstance\(|.* is not None$).*|allow_pickle|runpy", re.MULTILINE)
    assert not [
        (path, wrong.findall(text)) for path in (ROOT / package).rglob("*.py") if wrong.search(text := path.read_text())
    ]


def test_a_model_card_shows_names_of_data_as_text(tmp_path):
    hostile = "<script>x</script>| [a](javascript:x) `b`\n# c\n---\n```"
    row = {"step": 1, "split": "train", "a|b<i>": 0.5}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    config = {"encoder": {"model_type": "bert", "layers": 2, "hidden": 8}, "docs": hostile, "queries": "a_b.tsv"}
    card = model_card(str(tmp_path), config, str(tmp_path / 'a"b'), 1)
    body = card.split("\n---\n", 1)[1]
    fences = re.findall(r"^(`{3,})[a-z]*\n.*?^\1$", body, re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(`{3,})[a-z]*\n.*?^\1$", "", body, flags=re.MULTILINE | re.DOTALL)
    assert len(fences) == 2 and "```" not in text.replace("\\`", "")
    assert r"- docs: \<script\>x\</script\>\|" in text and "- queries: a_b.tsv" in text and "\n# c" not in text
    assert "| a\\|b\\<i\\> | 0.5 |" in text
    assert '"a\\"b"' in card


PAGE = "<html><body><main><h1>Fish</h1><p>Red <a href=b.html>cat</a>.</p></main></body></html>"
PLAN = """from harp_jax.base.steps import Steps
from harp_jax.baselines.neural_ir.words import write_words
def plan(output): Steps(output)("words", write_words, "docs.tsv", f"{output}/words", epochs=0)
"""


# SMALL = 0: pools start for any size. Only `main` sets the environment, so the others test -P.
START = """import sys
import data_pipeline.output.collection
from harp_jax.__main__ import main
from harp_jax.base.cli import run
from harp_jax.commands.table import load
if __name__ == "__main__":
    data_pipeline.output.collection.SMALL = 0
    main() if sys.argv[1] == "documents" else run(*load(sys.argv.pop(1)))
"""


@pytest.mark.parametrize("command", ["plan plan.py --output=out", "documents site --output=d"])
def test_no_module_beside_the_data_is_imported(command, tmp_path):
    """Neither child processes of a command nor its pool workers may have the working folder on their path."""
    for folder in ("site", "bin"):
        (tmp_path / folder).mkdir()
    for name, text in {
        "site/a.html": PAGE, "site/b.html": PAGE, "queries.tsv": "1\tfish\n", "docs.tsv": "d\tu\tt\tb\n", "plan.py": PLAN,
        **{f"{name}.py": "open('ran', 'w'); raise SystemExit(7)" for name in ("duckdb", "numpy", "pyarrow", "pickle")},
        "bin/start.py": START,
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    python(tmp_path / "bin" / "start.py", *command.split(), cwd=tmp_path)
    assert not (tmp_path / "ran").exists()
