"""A task that a model solves no better than the length of a document is named."""

from harp_jax.objectives.objective import best_predictor, not_beaten


def test_the_best_predictor_may_be_one_that_is_mostly_wrong():
    assert best_predictor({"overlap": 0.6, "length": 0.2}) == ("length", 0.8)
    assert best_predictor({"overlap": 0.71, "length": 0.5}) == ("overlap", 0.71)


def test_an_accuracy_within_two_standard_errors_is_named_and_a_clear_one_is_not():
    trivial = {"qdm": ("in_links", 0.6)}
    # The standard error at .6 of 600 pairs is .02.
    assert not_beaten({"qdm_accuracy": 0.65, "qdm_pairs": 600.0}, trivial) == []
    (sentence,) = not_beaten({"qdm_accuracy": 0.63, "qdm_pairs": 600.0}, trivial)
    assert sentence == "qdm: 0.63 of 600 held-out pairs are right; the number of in-links alone reaches 0.60"
    assert not_beaten({"qdm_accuracy": 0.4, "qdm_pairs": 600.0}, trivial)


def test_tasks_without_held_out_pairs_are_passed_over():
    assert not_beaten({"qdm_accuracy": 0.5, "qdm_pairs": 0.0}, {"qdm": ("overlap", 0.9)}) == []
    assert not_beaten({}, {"qdm": ("overlap", 0.9)}) == []
