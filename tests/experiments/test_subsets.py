"""Subsets of training queries: nested, and each draw its own."""

import pytest

from harp_jax.base.errors import InputError
from harp_jax.commands import subsets
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


def test_shares_of_all_queries_are_sizes_too(files, capsys):
    given = [f"--qrels={files / 'qrels'}", "--sizes=4,25%,100%", "--draws=1", f"--output={files / 'out'}"]
    subsets.main(subsets.arguments_parser().parse_args(given))
    assert "1 draws of 4, 25% (10), 100% (40) of 40 queries" in capsys.readouterr().out
    ten = (files / "out" / "draw-00" / "25%.txt").read_text().split()
    assert len(ten) == 10 and (files / "out" / "draw-00" / "4.txt").read_text().split() == ten[:4]
    for wrong in ("0%", "101%", "a%", "%"):
        with pytest.raises(InputError, match="write 1% to 100%"):
            subsets.main(subsets.arguments_parser().parse_args([*given, f"--sizes={wrong}"]))
