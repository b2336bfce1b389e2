"""What a model must learn, it learns: planted signals in pairs, through the whole loop, measured on held-out pairs."""

from functools import partial

import pytest

from tests.support.planted_pairs import TASK, exact_match, from_scratch, held_out_accuracy


@pytest.mark.parametrize("sample, document", [(0, 10), (1, 20)])
def test_a_small_encoder_from_scratch_learns_exact_matches(tmp_path, sample, document):
    config = from_scratch(str(tmp_path))
    config.model.initialisation, config.model.dropout, config.steps = "matching", 0.0, 15 * document
    config.eval_every = config.steps
    assert held_out_accuracy(config, str(tmp_path), partial(exact_match, sample, document))[TASK] >= 0.95


@pytest.mark.real
def test_with_berts_parameters_it_stays_near_chance(tmp_path):
    """The reason for the option: if the default learns this too one day, the option can go."""
    found = held_out_accuracy(from_scratch(str(tmp_path)), str(tmp_path), partial(exact_match, 0, 10))
    assert found[TASK] < 0.7
