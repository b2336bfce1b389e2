"""The table of faults in docs/reliability.md: every row names a test that exists."""

import ast
import re

from tests.support import ROOT

ROW = re.compile(r"^\| (?P<fault>.+) \| (?P<outcome>.+) \| `(?P<path>tests/[\w/]+\.py)::(?P<name>\w+)` \|$")


def rows() -> list[re.Match[str]]:
    lines = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("|") and not line.startswith(("|---", "| fault |"))]
    found = [ROW.match(line) for line in table]
    assert all(found), [line for line, row in zip(table, found) if row is None]
    return [row for row in found if row]


def test_every_test_of_the_table_exists():
    missing = []
    for path in {row["path"] for row in rows()}:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        there = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        missing += [f"{path}::{row['name']}" for row in rows() if row["path"] == path and row["name"] not in there]
    assert not missing


def test_every_row_says_whether_the_fault_is_survived_or_refused_and_none_is_there_twice():
    faults = [row["fault"] for row in rows()]
    assert len(faults) == len(set(faults)) >= 60
