"""Mutated inputs to every reader, and those for which fuzzing found a traceback; `make faults`: ten thousand per reader."""

import contextlib
import gzip
import logging
import os
import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from harp_jax.base.errors import InputError
from tests.support.fuzzing import INSERTED, NESTED, fuzz, replace
from tests.support.readers import READERS
from tests.support.steps import steps

INPUTS, MANY = 20, 10_000
MANY_DIGITS = b"9" * 5000  # more digits than Python converts to an integer


@pytest.mark.parametrize("name", READERS)
def test_mutated_inputs_are_read_or_refused(name, tmp_path):
    fuzz(name, tmp_path, INPUTS)


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "message"),
    [
        ("documents.gz", "docs.jsonl.gz", gzip.compress(b"")[:4], b"\x1f\x8b\x08\x00\x00\x00", "is damaged after line"),
        ("vocabulary", "tokenizer_config.json", b'"strip_accents": null', b'"strip_accents": 1', "true, false or null"),
        ("tokenizer.json", "tokenizer.json", b'"cat"', b'"\\ud800"', "is not a tokenizer"),
        ("labels", "labels.tsv", b"\t1\n", "\t²\n".encode(), "line 2: level '²' is not a small integer"),
        ("config.json", "config.json", b'"vocab_size": 46', b'"vocab_size": "a"', "vocab_size is 'a', not a whole number"),
        ("config.json", "config.json", b'"num_hidden_layers": 1', b'"num_hidden_layers": 1000000000', "from 1 to 1000"),
        ("config.json", "config.json", b'"layer_norm_eps": 1e-12', b'"layer_norm_eps": NaN', "not a number from 0.0 to 1.0"),
        ("config.json", "config.json", b'"model_type": "bert"', b'"model_type": []', "model_type"),
        ("multistream", "index.txt", b":1:", b":" + MANY_DIGITS + b":", "expected 'byte:page:title'"),
    ],
)  # fmt: skip
def test_what_fuzzing_found(name, file, old, new, message, tmp_path):
    reader = READERS[name]
    valid = reader.write(tmp_path)[file]
    assert old in valid
    replace(tmp_path / file, valid.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        reader.read(tmp_path)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """Reader → future of its fuzzing, in one process per core."""
    cores, silent = len(os.sched_getaffinity(0)), (logging.CRITICAL,)
    with ProcessPoolExecutor(cores, get_context("spawn"), logging.disable, silent) as pool:
        yield {name: pool.submit(fuzz, name, tmp_path_factory.mktemp("input"), MANY) for name in READERS}


@pytest.mark.faults
@pytest.mark.parametrize("name", READERS)
def test_ten_thousand_mutated_inputs_are_read_or_refused(name, running):
    running[name].result()


@pytest.mark.faults
@pytest.mark.parametrize("name", READERS)
def test_repeating_a_part_of_the_input_costs_in_proportion(name, tmp_path):
    """From 200 to 400 repeats, a quadratic reader needs four times the steps of 100 to 200, a linear one twice."""
    reader = READERS[name]
    valid = reader.write(tmp_path)
    reader.read(tmp_path)  # warm-up: imports

    def read() -> None:
        with contextlib.suppress(InputError):
            reader.read(tmp_path)

    draw = random.Random(name)
    for _ in range(12):
        file = draw.choice(sorted(valid))
        data = valid[file]
        at = draw.randrange(len(data) + 1)
        inserted, excerpt = draw.choice(INSERTED), data[at : at + draw.choice([3, 20])]
        unit = draw.choice([*NESTED, inserted, excerpt, data.split(b"\n")[0] + b"\n"])
        counts = []
        for times in (100, 200, 400):
            replace(tmp_path / file, data[:at] + unit * times + data[at:])
            counts.append(steps(read))
        replace(tmp_path / file, data)
        assert counts[2] - counts[1] <= 3 * max(counts[1] - counts[0], 0) + 3000, (file, at, unit, counts)
