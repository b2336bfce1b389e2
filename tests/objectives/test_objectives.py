"""The loss of a packed batch against a slow loop over groups; gradients of microbatches, and loss spikes."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harp_jax.input.lanes import Batches
from harp_jax.input.packing import Group, fill, pair_sequences, plan
from harp_jax.model.cross_encoder import Ranker
from harp_jax.objectives.masking import POSITIONS, TARGETS, WEIGHTS
from harp_jax.objectives.objective import best_predictor, not_beaten
from harp_jax.training.step import LOSS_WINDOW, gradients, initial, make_eval, make_step
from harp_jax.training.train import make_optimizer
from tests.support.synthetic import EMPTY, TEMPLATE, VOCAB
from tests.support.tiny_run import tiny_config, tiny_stage

KEY = jax.random.key(0, impl="threefry2x32")


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    config = tiny_config(str(tmp_path_factory.mktemp("objective")), pair_weight=0.7, mlm_weight=0.0)
    stage = tiny_stage(config)
    params = stage.start(stage.encoder.padded, jax.random.key(1))
    params["score"]["kernel"] = params["score"]["kernel"] * 2e4  # otherwise all pairs are at the margin
    return config, stage, params


@pytest.mark.parametrize(("name", "reduction"), [("hinge", "mean"), ("lce_kl", "sum")])
def test_eq_16_with_several_negatives_and_a_teacher_equals_a_loop(setting, name, reduction):
    """Groups of one, two and three negatives of two tasks, and empty places, as in batches."""
    _, stage, params = setting
    changes = {"pair_loss": name, "mlm_weight": 0.5, "predictions": 19, "pair_reduction": reduction}
    objective = dataclasses.replace(stage.objective, **changes)
    layout = dataclasses.replace(stage.source.layout, group_size=4, rows=6, teacher=True)
    rng = np.random.default_rng(0)
    teacher = [tuple(rng.normal(0, 2, size)) for size in (2, 3, 4, 4, 2)]
    every = []
    for number, taught in enumerate(teacher):
        query, *docs = (rng.integers(5, VOCAB, int(rng.integers(4, 30))).astype(np.int32) for _ in (0, *taught))
        sequences = pair_sequences(query, docs[0], EMPTY, docs[1], 128, TEMPLATE, more_docs=docs[2:])
        every.append(Group(number % 2, sequences, taught))
    lengths = [tuple(map(len, group.sequences)) for group in every]
    batch = fill(every, next(plan(lengths, layout)), layout, 0)
    assert batch["group_valid"].sum() == 5 < batch["group_valid"].size
    masked = objective.mask(batch, KEY)

    @jax.jit
    def outputs(params):
        """Metrics, and scores and logits without the objective's shortcuts."""
        apply = lambda *inputs, method: objective.ranker.apply({"params": params}, *inputs, method=method)  # noqa: E731
        logits = apply(apply(masked, method="encode"), masked[POSITIONS], method="mlm_logits")
        return make_eval(objective, 0)(params, batch), apply(masked, method="scored")[0], logits

    sums, scores, logits = jax.device_get(outputs(params))
    expected, right = {0: [], 1: []}, []
    for members, task, taught in zip(batch["members"][0], batch["group_task"][0], teacher):
        own = scores.reshape(-1)[members[members >= 0]].astype(np.float64)
        p, q = (np.exp(x) / np.exp(x).sum() for x in (np.array(taught), own))
        hinges = [max(0, 1 - own[0] + other) for other in own[1:]]
        expected[task].append(np.mean(hinges) if name == "hinge" else (p * np.log(p / q)).sum() - np.log(q[0]))
        right.append((own[0] > own[1:]).mean())
    assert np.std(expected[0] + expected[1]) > 0.05
    pairs = np.mean(expected[0] + expected[1]) if reduction == "mean" else np.mean(expected[0]) + np.mean(expected[1])
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    predicted = -np.take_along_axis(log_p, np.asarray(masked[TARGETS])[..., None], -1)[np.asarray(masked[WEIGHTS]) > 0]
    assert len(predicted) > 20
    assert float(sums["loss"]) == pytest.approx(0.7 * pairs + 0.5 * np.mean(predicted), rel=1e-5)
    assert sums["right/rqp"] + sums["right/qdm"] == pytest.approx(sum(right), rel=1e-6) and sums["pairs"] == 5


def test_four_microbatches_give_the_gradients_of_one_batch(setting):
    config, stage, params = setting
    ranker = Ranker(stage.encoder.padded.computing_in("float64"))
    changes = {"mlm_weight": 1.0, "predictions": 19, "pair_reduction": "sum"}
    objective = dataclasses.replace(stage.objective, ranker=ranker, **changes)
    layout = dataclasses.replace(stage.source.layout, microbatches=4)
    parts, _ = Batches(dataclasses.replace(stage.source, layout=layout), range(config.lanes)).make()
    whole = {name: x.reshape(-1, *x.shape[2:]) for name, x in parts.items()}
    with jax.enable_x64(True):  # otherwise rounding of these large scores would hide a difference
        params = jax.tree.map(lambda x: np.asarray(x, np.float64), params)
        compute = jax.jit(lambda params, batch: gradients(objective, params, batch, KEY, None))
        (found, sums), (expected, whole_sums) = compute(params, parts), compute(params, whole)
    assert parts["tokens"].ndim == 3 and sums["mlm_tokens"] == whole_sums["mlm_tokens"] > 100
    for name in sums:
        np.testing.assert_allclose(sums[name], whole_sums[name], rtol=1e-6, err_msg=name)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * float(np.abs(b).max()) + 1e-15)


def test_a_loss_spike_changes_nothing_but_the_count(setting):
    """A spike is above 1 and 8 standard deviations above the mean of LOSS_WINDOW losses."""

    def loss(params, batch, *_):
        distance = jnp.abs(params["x"] - batch["tokens"]).sum()
        return distance, {"loss": distance}

    objective = SimpleNamespace(mask=lambda batch, key: batch, counts=lambda batch: {}, loss=loss)
    optimizer = make_optimizer(setting[0], 10)
    state = initial({"x": np.float32(0)}, optimizer)
    step = jax.jit(make_step(objective, optimizer, 0, "threefry", False, spike=8.0))
    for mean, variance, seen, value, skipped in (
        (3.0, 0.01, LOSS_WINDOW, 3.6, 0), (3.0, 0.01, LOSS_WINDOW, 4.1, 1), (3.0, 0.01, LOSS_WINDOW - 1, 4.1, 0),
        (0.0, 1e-8, LOSS_WINDOW, 0.9, 0), (0.0, 1e-8, LOSS_WINDOW, 1.1, 1),
    ):  # fmt: skip
        running = {"mean": np.float32(mean), "variance": np.float32(variance), "seen": np.int32(seen)}
        after, _ = step({**state, "loss": running}, {"tokens": np.full((1, 1), value, np.float32)})
        assert after["step"] == 1 and after["skipped"] == skipped and (after["loss"]["mean"] == mean) == skipped
        if skipped:
            assert after["params"]["x"] == 0 and after["loss"] == running
            jax.tree.map(np.testing.assert_array_equal, after["opt_state"], state["opt_state"])


def test_an_accuracy_within_two_standard_errors_of_a_trivial_predictor_is_named():
    assert best_predictor({"overlap": 0.6, "length": 0.2}) == ("length", 0.8)  # reversed if mostly wrong
    assert best_predictor({"overlap": 0.71, "length": 0.5}) == ("overlap", 0.71)
    trivial = {"qdm": ("in_links", 0.6)}
    # The standard error of .6 over 600 pairs is .02.
    for accuracy, pairs, named in ((0.65, 600.0, 0), (0.63, 600.0, 1), (0.4, 600.0, 1), (0.5, 0.0, 0)):
        assert len(not_beaten({"qdm_accuracy": accuracy, "qdm_pairs": pairs}, trivial)) == named
