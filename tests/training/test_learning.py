"""Pre-training learns: it memorises a few pairs, and learns from scratch which document has the query's words."""

import dataclasses
from functools import partial

import pytest

from harp_jax.checkpoints.recorded import read_metrics
from tests.support.planted_pairs import TASK, exact_match, from_scratch, held_out_accuracy
from tests.support.tiny_run import run_tiny


def test_overfits_a_few_pairs(tmp_path):
    def few(stage):
        return dataclasses.replace(stage, reader=dataclasses.replace(stage.reader, records=16))

    changes = {"steps": 150, "log_every": 10, "learning_rate": 5e-3, "mlm_weight": 0.0, "model.dropout": 0.0}
    last = read_metrics(run_tiny(tmp_path, change=few, **changes))[-1]
    assert last["rqp_accuracy"] > 0.95 and last["qdm_accuracy"] > 0.95


@pytest.mark.parametrize("sample, document", [(0, 10), pytest.param(1, 20, marks=pytest.mark.real)])
def test_a_small_encoder_from_scratch_learns_exact_matches(tmp_path, sample, document):
    config = from_scratch(str(tmp_path))
    config.model.initialisation, config.model.dropout, config.steps = "matching", 0.0, 15 * document
    config.eval_every = config.steps
    assert held_out_accuracy(config, str(tmp_path), partial(exact_match, sample, document))[TASK] >= 0.95


@pytest.mark.real
def test_with_berts_parameters_it_stays_near_chance(tmp_path):
    """The reason for the option `initialisation`: if the default also learns this, the option can be removed."""
    found = held_out_accuracy(from_scratch(str(tmp_path)), str(tmp_path), partial(exact_match, 0, 10))
    assert found[TASK] < 0.7
