"""Folds: similar sizes, and queries that share a relevant document stay together. Subsets: nested, draws differ."""

import pytest

from harp_jax.base.errors import InputError
from harp_jax.commands.queries import draw_subsets, make_folds
from harp_jax.corpus.trec import read_folds
from tests.support.commands import command
from tests.support.ranking_collection import QRELS


def run(path, *more):
    command("queries", "folds", *more, queries=path / "queries.tsv", output=path / "folds.tsv")
    return read_folds(str(path / "folds.tsv"))


def test_folds_are_even_and_keep_groups_together(tmp_path):
    (tmp_path / "queries.tsv").write_text("".join(f"q{i}\ttext\n" for i in range(23)))
    # q0, q1 and q2 share d0 and d1; q3 … q20 have one document each; q21 and q22 are not judged.
    rows = ["q0 0 d0 1", "q1 0 d0 1", "q1 0 d1 2", "q2 0 d1 1", "q2 0 d3 0", *(f"q{i} 0 d{i} 1" for i in range(3, 21))]
    (tmp_path / "qrels.txt").write_text("\n".join(rows) + "\n")
    folds = run(tmp_path, f"--qrels={tmp_path}/qrels.txt")
    assert folds["q0"] == folds["q1"] == folds["q2"]
    sizes = [list(folds.values()).count(str(n)) for n in range(5)]
    assert sum(sizes) == 23 and max(sizes) - min(sizes) <= 1
    assert run(tmp_path, "--seed=1") != run(tmp_path)
    with pytest.raises(InputError, match="2 groups of queries cannot fill 1000000000000 folds"):  # immediately
        make_folds([["a"], ["b"]], 10**12, 0)


def test_draws_are_nested_and_their_own():
    drawn = draw_subsets(QRELS, [5, 20, 10], 6, 0)
    for one in drawn:
        assert one[5] == one[10][:5] and one[10] == one[20][:10] and len(set(one[20])) == 20
        assert "none" not in one[20]
    assert len({tuple(one[10]) for one in drawn}) == 6
    assert draw_subsets(dict(reversed(QRELS.items())), [10], 2, 0) == [{10: one[10]} for one in drawn[:2]]
    assert draw_subsets(QRELS, [10], 1, 1) != draw_subsets(QRELS, [10], 1, 0)
    with pytest.raises(InputError, match="40 queries can be trained on, fewer than 41"):
        draw_subsets(QRELS, [41], 1, 0)


def subsets(path, *more):
    (path / "qrels").write_text("".join(f"{q} 0 {d} {level}\n" for q, j in QRELS.items() for d, level in j.items()))
    command("queries", "subsets", *more, qrels=path / "qrels", output=path / "out")
    return {file.stem: file.read_text().split() for file in (path / "out").glob("draw-00/*.txt")}


def test_the_command_writes_lists_of_the_training_folds(tmp_path):
    (tmp_path / "run").write_text("".join(f"q{i} d{i} 1\n" for i in range(40)))
    (tmp_path / "folds").write_text("".join(f"q{i}\t{'abc'[i % 3]}\n" for i in range(40)))
    folds = [f"--folds={tmp_path / 'folds'}", "--train_folds=a,b", f"--run={tmp_path / 'run'}"]
    found = subsets(tmp_path, "--sizes=2,4", "--draws=2", *folds)
    assert found["2"] == found["4"][:2] and all(int(q[1:]) % 3 < 2 for q in found["4"])
    assert (tmp_path / "out" / "draw-01" / "4.txt").exists()


def test_shares_of_all_queries_are_sizes_too(tmp_path, capsys):
    found = subsets(tmp_path, "--sizes=4,25%,100%", "--draws=1")
    assert "1 draws of 4, 25% (10), 100% (40) of 40 queries" in capsys.readouterr().out
    assert len(found["25%"]) == 10 and found["4"] == found["25%"][:4]
    with pytest.raises(SystemExit):
        subsets(tmp_path, "--sizes=101%", "--draws=1")
