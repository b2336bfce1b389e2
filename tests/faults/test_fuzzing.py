"""Ten thousand mutated inputs to every reader, and inputs that repeat a part ever more often."""

import contextlib
import os
import random
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from harp_jax.base.errors import InputError
from tests.support.fuzzing import INSERTED, NESTED, attempt, replace
from tests.support.readers import READERS
from tests.support.steps import steps

pytestmark = pytest.mark.faults

INPUTS = 10_000


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The results of all readers, in as many processes as there are cores."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("spawn")) as pool:
        yield {name: pool.submit(attempt, name, str(tmp_path_factory.mktemp("input")), INPUTS) for name in READERS}


@pytest.mark.parametrize("name", READERS)
def test_ten_thousand_mutated_inputs_are_read_or_refused(name: str, running: dict[str, Future[str]]):
    assert running[name].result() == ""


@pytest.mark.parametrize("name", READERS)
def test_repeating_a_part_of_the_input_costs_in_proportion(name, tmp_path):
    """A quadratic reader needs four times the steps for the second half of the growth, a linear one twice."""
    reader, directory = READERS[name], tmp_path / "input"
    directory.mkdir()
    valid = reader.write(directory)
    reader.read(directory)  # imports

    def read() -> None:
        with contextlib.suppress(InputError):
            reader.read(directory)

    draw = random.Random(name)
    for _ in range(12):
        file = draw.choice(sorted(valid))
        data = valid[file]
        at = draw.randrange(len(data) + 1)
        unit = draw.choice(
            [*NESTED, draw.choice(INSERTED), data[at : at + draw.choice([3, 20])], data.split(b"\n")[0] + b"\n"]
        )
        counts = []
        for times in (100, 200, 400):
            replace(directory / file, data[:at] + unit * times + data[at:])
            counts.append(steps(read))
        replace(directory / file, data)
        assert counts[2] - counts[1] <= 3 * max(counts[1] - counts[0], 0) + 3000, (file, at, unit, counts)
