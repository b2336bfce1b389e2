"""Subsets of training queries: nested, and each draw its own."""

import pytest

from harp_jax.commands import subsets
from harp_jax.errors import InputError
from harp_jax.experiments.subsets import draw_subsets
from tests.support.judged_queries import QRELS


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


def test_the_command_writes_lists(files):
    given = [f"--qrels={files / 'qrels'}", "--sizes=2,4", "--draws=2", f"--output={files / 'out'}"]
    given += [f"--folds={files / 'folds'}", "--train_folds=a,b", f"--run={files / 'run'}"]
    subsets.main(subsets.arguments_parser().parse_args(given))
    four = (files / "out" / "draw-01" / "4.txt").read_text().split()
    assert (files / "out" / "draw-01" / "2.txt").read_text().split() == four[:2]
    assert all(int(q[1:]) % 3 < 2 for q in four)
    with pytest.raises(InputError, match="--sizes=0"):
        subsets.main(subsets.arguments_parser().parse_args([*given, "--sizes=0"]))
