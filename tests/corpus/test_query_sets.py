"""Folds, and nested subsets of queries."""

import pytest

from harp_jax.base.errors import InputError
from harp_jax.corpus.query_sets import fold_queries, make_folds, subset_queries
from harp_jax.corpus.trec import read_folds


def test_folds_are_even_and_keep_groups_together(tmp_path):
    (tmp_path / "queries.tsv").write_text("".join(f"q{i}\ttext\n" for i in range(23)))
    # q0, q1 and q2 share d0 and d1; q3 … q20 have one document each; q21 and q22 are not judged.
    rows = ["q0 0 d0 1", "q1 0 d0 1", "q1 0 d1 2", "q2 0 d1 1", "q2 0 d3 0", *(f"q{i} 0 d{i} 1" for i in range(3, 21))]
    (tmp_path / "qrels.txt").write_text("\n".join(rows) + "\n")
    fold_queries(*(str(tmp_path / name) for name in ("queries.tsv", "folds", "qrels.txt")))
    folds = read_folds(str(tmp_path / "folds"))
    assert folds["q0"] == folds["q1"] == folds["q2"]
    sizes = [[*folds.values()].count(str(n)) for n in range(5)]
    assert sum(sizes) == 23 and max(sizes) - min(sizes) <= 1
    with pytest.raises(InputError, match="2 groups of queries cannot fill 1000000000000 folds"):  # immediately
        make_folds([["a"], ["b"]], 10**12, 0)


def test_draws_are_nested_lists_of_the_training_folds(tmp_path):
    (tmp_path / "qrels").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(40)) + "none 0 d1 0\n")
    (tmp_path / "run").write_text("".join(f"q{i} d{i} 1\n" for i in range(40)) + "none d1 1\n")
    (tmp_path / "folds").write_text("".join(f"q{i}\t{'abc'[i % 3]}\n" for i in range(40)) + "none\ta\n")
    given = {name: str(tmp_path / name) for name in ("qrels", "run", "folds")} | {"train_folds": ("a", "b")}
    subset_queries(**given, output=str(tmp_path / "out"), sizes=("2", "50%"), draws=3)
    halves = set()
    for draw in (tmp_path / "out").glob("draw-*"):
        two, half = ((draw / f"{size}.txt").read_text().split() for size in ("2", "50%"))
        halves.add(tuple(half))
        assert two == half[:2] and len({*half}) == 14 and all(int(q[1:]) % 3 < 2 for q in half)  # without "none"
    assert len(halves) == 3
    with pytest.raises(InputError, match="27 queries can be trained on, fewer than 41"):
        subset_queries(**given, output=str(tmp_path / "none"), sizes=("41",), draws=1)
