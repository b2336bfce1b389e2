"""The order of training: a function of (seed, position), seekable, independent of hosts, in the configured mixture."""

import collections
import contextlib
import multiprocessing
from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from scipy import stats

from harp_jax.base.errors import InputError
from harp_jax.input.lanes import Batches, Cursor, Lane, Source, mixture
from harp_jax.input.packing import PackedLayout
from harp_jax.training.stages.finetune import finetune_stage
from tests.support.ranking_collection import ranking_config, write_collection
from tests.support.synthetic import SyntheticReader

LAYOUT = PackedLayout(rows=2, row_length=128, sequences=8, group_size=2, pad=0)
READER = SyntheticReader()
SOURCE = Source(READER, LAYOUT, mixture(READER.sizes, "uniform"), window=32, seed=1)


def assert_same(expected, found) -> None:
    """Compares batches and cursors up to the end of `expected`."""
    for (batch, cursor), (other, other_cursor) in zip(expected, found):
        jax.tree.map(np.testing.assert_array_equal, batch, other)
        assert cursor == other_cursor


def test_the_mixture_is_uniform_or_proportional():
    sizes = {"rqp": 900, "qdm": 100}
    for sampling, expected in (("uniform", [0.5, 0.5]), ("proportional", [0.9, 0.1])):
        shares = mixture(sizes, sampling)
        lane = Lane(replace(SOURCE, shares=shares, window=1024, seed=0), 0, Cursor())
        totals = np.sum([list(lane.counts(window).values()) for window in range(50)], axis=0)
        assert stats.chisquare(totals, totals.sum() * np.array(expected)).pvalue > 0.001
        while lane.cursor.window < 3:
            lane.next()
        assert lane.cursor.consumed == {task: sum(lane.counts(w)[task] for w in range(3)) for task in sizes}


@pytest.mark.parametrize(("workers", "microbatches"), [(0, 1), (0, 2), (3, 2)])
def test_a_thread_and_processes_make_the_same_batches_also_when_resumed(workers, microbatches):
    source = replace(SOURCE, layout=replace(LAYOUT, microbatches=microbatches))
    make = partial(Batches, source, range(4))
    alone = make(None, 0)
    whole = [alone.make() for _ in range(20)]
    for start in (0, 1, 5, 16) if workers == 0 else (0, 16):  # a window has about ten batches
        cursors = whole[start - 1][1] if start else None
        with contextlib.closing(iter(make(cursors, workers))) as stream:
            assert_same(whole[start:], stream)


def test_errors_of_a_thread_or_process_are_raised_and_a_killed_one_is_one_line():
    for workers in (0, 2):
        with pytest.raises(InputError, match="does not fit a batch .*; raise batch_pairs"):
            next(iter(Batches(replace(SOURCE, layout=replace(LAYOUT, row_length=30)), range(2), workers=workers)))
    with contextlib.closing(iter(Batches(SOURCE, range(2), workers=2))) as stream:
        next(stream)
        multiprocessing.active_children()[-1].kill()
        with pytest.raises(InputError, match="has ended"):
            collections.deque(stream, maxlen=0)


def test_judgments_and_documents_are_read_in_processes_that_import_nothing_from_the_working_folder(
    tmp_path, monkeypatch
):
    stage = finetune_stage(ranking_config(write_collection(tmp_path)))
    alone, several = (Batches(stage.source, range(2), workers=n) for n in (0, 2))
    (tmp_path / "numpy.py").write_text("open('ran', 'w'); raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with contextlib.closing(iter(several)) as stream:
        assert_same([alone.make() for _ in range(3)], stream)
    assert not (tmp_path / "ran").exists()
