"""Folds, nested subsets of queries, and learning curves: means over runs, intervals."""

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.made import forget
from harp_jax.base.randomness import generator
from harp_jax.corpus.query_sets import draw_subsets, make_folds
from harp_jax.corpus.trec import read_folds, write_run
from tests.support.commands import command
from tests.support.ranking_collection import QRELS

QUERIES = 40


@pytest.fixture
def files(tmp_path):
    """Runs that find the relevant document at a random rank of 1 to N, for N in the name."""
    (tmp_path / "qrels").write_text("".join(f"q{i} 0 d{i} 1\n" for i in range(QUERIES)))
    for worst in (1, 2, 4):
        for draw in range(4):
            rows = []
            for i in range(QUERIES):
                docids = [f"x{j}" for j in range(5)]
                docids.insert(int(generator("rank", worst, draw, i).integers(worst)), f"d{i}")
                rows.append((f"q{i}", docids, np.arange(6.0)[::-1]))
            write_run(str(tmp_path / f"{worst}-{draw}.trec"), rows)
    return tmp_path


def run(files, *rows, **more):
    command("evaluate", *rows, qrels=files / "qrels", measures="RR@10", curve=files / "curve.svg", **more)


def row(files, name, worst, draws=range(4)):
    return f"{name}=" + ",".join(str(files / f"{worst}-{draw}.trec") for draw in draws)


def test_a_point_is_the_mean_of_its_runs_with_an_interval(files, capsys):
    rows = [row(files, "first", 2, [0]), row(files, "HARP@10", 4), row(files, "HARP@100", 1)]
    rows += [row(files, "MLM@10", 4, [0, 1])]
    run(files, *rows, runs_per_draw=2)
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    found = {tuple(line[:2]): line[2:] for line in lines if len(line) == 6}
    ranks = [[int(generator("rank", 4, draw, i).integers(4)) + 1 for i in range(QUERIES)] for draw in range(4)]
    assert found["HARP", "10"][:2] == ["4", f"{np.mean(1 / np.array(ranks)):.4f}"]
    assert found["HARP", "100"] == ["4", "1.0000", "1.0000", "1.0000"] and found["first", "-"][0] == "1"
    mean, low, high = map(float, found["MLM", "10"][1:])
    assert low < mean < high and 0.05 < high - low < 0.5
    assert (files / "curve.svg").read_text().startswith("<?xml")
    with pytest.raises(InputError, match="all sizes numbers of queries, or all shares"):
        run(files, row(files, "HARP@10", 4), row(files, "HARP@25%", 1))


def folds_of(path, *more):
    forget(str(path / "folds.tsv"))
    command("queries", "folds", *more, queries=path / "queries.tsv", output=path / "folds.tsv")
    return read_folds(str(path / "folds.tsv"))


def test_folds_are_even_and_keep_groups_together(tmp_path):
    (tmp_path / "queries.tsv").write_text("".join(f"q{i}\ttext\n" for i in range(23)))
    # q0, q1 and q2 share d0 and d1; q3 … q20 have one document each; q21 and q22 are not judged.
    rows = ["q0 0 d0 1", "q1 0 d0 1", "q1 0 d1 2", "q2 0 d1 1", "q2 0 d3 0", *(f"q{i} 0 d{i} 1" for i in range(3, 21))]
    (tmp_path / "qrels.txt").write_text("\n".join(rows) + "\n")
    folds = folds_of(tmp_path, f"--qrels={tmp_path}/qrels.txt")
    assert folds["q0"] == folds["q1"] == folds["q2"]
    sizes = [list(folds.values()).count(str(n)) for n in range(5)]
    assert sum(sizes) == 23 and max(sizes) - min(sizes) <= 1
    assert folds_of(tmp_path, "--seed=1") != folds_of(tmp_path)
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


def test_the_command_writes_lists_of_the_training_folds(tmp_path):
    judged = [f"{q} 0 {d} {level}\n" for q, levels in QRELS.items() for d, level in levels.items()]
    (tmp_path / "qrels").write_text("".join(judged))
    (tmp_path / "run").write_text("".join(f"q{i} d{i} 1\n" for i in range(40)))
    (tmp_path / "folds").write_text("".join(f"q{i}\t{'abc'[i % 3]}\n" for i in range(40)))
    given = {name: tmp_path / name for name in ("qrels", "run", "folds")}
    command("queries", "subsets", "--sizes=2,50%", "--draws=2", **given, train_folds="a,b", output=tmp_path / "out")
    two, half = ((tmp_path / "out" / "draw-00" / f"{size}.txt").read_text().split() for size in ("2", "50%"))
    assert two == half[:2] and len(half) == 14 and all(int(q[1:]) % 3 < 2 for q in half)
    assert (tmp_path / "out" / "draw-01" / "50%.txt").exists()
