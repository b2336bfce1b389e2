"""Folds: of like size, and never cutting queries apart that share a relevant document."""

import pytest

from harp_jax.base.errors import InputError
from harp_jax.commands.make_folds import arguments_parser, main
from harp_jax.corpus.folds import read_folds
from harp_jax.experiments.make_folds import make_folds


def run(path, *more):
    main(arguments_parser().parse_args([f"--queries={path}/queries.tsv", f"--output={path}/folds.tsv", *more]))
    return read_folds(str(path / "folds.tsv"))


def test_folds_are_even_and_keep_groups_together(tmp_path):
    (tmp_path / "queries.tsv").write_text("".join(f"q{i}\ttext\n" for i in range(23)))
    # q0, q1 and q2 hang together through d0 and d1; q3 … q20 have a document each; q21 and q22 are not judged.
    rows = ["q0 0 d0 1", "q1 0 d0 1", "q1 0 d1 2", "q2 0 d1 1", "q2 0 d3 0", *(f"q{i} 0 d{i} 1" for i in range(3, 21))]
    (tmp_path / "qrels.txt").write_text("\n".join(rows) + "\n")
    folds = run(tmp_path, f"--qrels={tmp_path}/qrels.txt")
    assert folds["q0"] == folds["q1"] == folds["q2"]
    sizes = [list(folds.values()).count(str(n)) for n in range(5)]
    assert sum(sizes) == 23 and max(sizes) - min(sizes) <= 1
    assert run(tmp_path, "--seed=1") != run(tmp_path)


def test_too_few_groups_are_refused():
    with pytest.raises(InputError, match="1 groups of queries fill no 3 folds"):
        make_folds([["a", "b", "c"]], 3, 0)
    with pytest.raises(InputError, match="2 groups of queries fill no 1000000000000 folds"):
        make_folds([["a"], ["b"]], 10**12, 0)
