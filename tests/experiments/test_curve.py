"""Learning curves: the points against means over runs, their intervals, and a reproducible picture."""

import re

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import write_run
from tests.support.commands import command

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
    rows.append(row(files, "MLM@10", 4, [0, 1]))
    run(files, *rows, runs_per_draw=2)
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    found = {tuple(line[:2]): line[2:] for line in lines if len(line) == 6}
    ranks = [[int(generator("rank", 4, draw, i).integers(4)) + 1 for i in range(QUERIES)] for draw in range(4)]
    assert found["HARP", "10"][:2] == ["4", f"{np.mean(1 / np.array(ranks)):.4f}"]
    assert found["HARP", "100"] == ["4", "1.0000", "1.0000", "1.0000"] and found["first", "-"][0] == "1"
    mean, low, high = map(float, found["MLM", "10"][1:])
    assert low < mean < high and 0.05 < high - low < 0.5
    picture = (files / "curve.svg").read_text()
    assert picture.startswith("<?xml") and not re.search("<dc:date>", picture)
    run(files, *rows, runs_per_draw=2)
    assert (files / "curve.svg").read_text() == picture


@pytest.mark.parametrize(
    "names, more, message",
    [
        (["HARP@ten"], {}, "'ten' is not a number of queries"),
        (["HARP@10", "HARP@25%"], {}, "all sizes numbers of queries, or all shares"),
        (["HARP@10"], {"runs_per_draw": 3}, "4 runs are not a whole number of draws of 3"),
        (["HARP@10"], {"fold": "1"}, "go together"),
        (["HARP@10"], {"per_query": "values.tsv"}, "--per_query cannot be used with --curve"),
        (["HARP@10"], {"baseline": "HARP@10", "format": "json"}, "--baseline cannot be used with --curve"),
    ],
)
def test_wrong_options_are_named(files, names, more, message):
    with pytest.raises(InputError, match=message):
        run(files, *(row(files, name, 2) for name in names), **more)
    assert not (files / "curve.svg").exists()


def test_dollars_are_not_mathematics_and_a_name_that_begins_with_an_underscore_is_in_the_legend(files):
    run(files, row(files, "costs $5^$@10", 4, [0]), row(files, "_A@10", 1, [0]))
    picture = (files / "curve.svg").read_text().replace("<!--  ", "<!-- ")
    assert "<!-- costs $5^$ -->" in picture and "<!-- _A -->" in picture
