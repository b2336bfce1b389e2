"""Losses of a packed batch against a slow loop over its pairs; the compiled step's collectives."""

import dataclasses

import jax
import numpy as np
import pytest
from synthetic import SyntheticReader
from tiny_run import tiny_config, tiny_stage

from harp_jax import sharding
from harp_jax.dry_run import collectives, compile_step, step_flops
from harp_jax.lanes import Batches
from harp_jax.objectives import summarise
from harp_jax.packing import fill, plan


@pytest.fixture(scope="module")
def setting(tmp_path_factory):
    config = tiny_config(str(tmp_path_factory.mktemp("objective")), **{"task_weights.qdm": 0.5, "mlm_weight": 0.0})
    stage = tiny_stage(config)
    params = stage.start(stage.bert, jax.random.key(1))
    params["score"]["kernel"] = params["score"]["kernel"] * 2e4  # or all pairs sit at the margin
    return config, stage, params


def test_packed_pair_losses_equal_a_loop_over_single_sequences(setting):
    config, stage, params = setting
    objective = dataclasses.replace(stage.objective(stage.bert), mlm_rate=0.0)
    batch, _ = Batches(stage.reader, stage.layout, range(config.lanes), stage.shares, 64, 0).make()
    loss, sums = jax.jit(objective, static_argnums=3)(params, batch, jax.random.key(0, impl="threefry2x32"), None)

    single = dataclasses.replace(stage.layout, rows=1, group_size=1)
    hinges, weights = [], []

    @jax.jit
    def first_score(one):
        hidden = objective.ranker.apply({"params": params}, one, method="encode")
        return objective.ranker.apply({"params": params}, hidden, one["cls_offset"], method="scores")[0, 0]

    for lane in range(config.lanes):
        lane_batches = Batches(stage.reader, stage.layout, range(lane, lane + 1), stage.shares, 64, 0)
        lane_batches.make()
        owner = lane_batches._lanes[0]
        for placement in owner._plans[0]:
            group = owner._groups[placement.group]
            scores = []
            for sequence in group.sequences:
                alone = group._replace(sequences=(sequence,))
                one = fill([alone], next(plan([(len(sequence),)], single)), single, 0)
                scores.append(float(first_score(one)))
            hinges.append(max(0.0, 1 - scores[0] + scores[1]))
            weights.append(objective.task_weights[group.task])
    assert sums["pairs"] == len(hinges)
    assert np.std(hinges) > 0.1
    assert float(loss) == pytest.approx(np.dot(hinges, weights) / len(hinges), rel=1e-5)


def test_summaries_divide_by_what_was_there(setting):
    config, stage, params = setting
    objective = stage.objective(stage.bert)
    batch, _ = Batches(stage.reader, stage.layout, range(config.lanes), stage.shares, 64, 0).make()
    _, sums = jax.jit(objective, static_argnums=3)(params, batch, jax.random.key(0, impl="threefry2x32"), None)
    out = summarise({k: float(v) for k, v in sums.items()}, stage.tasks)
    assert out["fill"] == pytest.approx((batch["segment_ids"] > 0).mean())
    assert 4.0 < out["mlm_loss"] < 7.0 and 0 <= out["rqp_accuracy"] <= 1
    assert out["pairs_per_step"] == batch["group_valid"].sum()


def test_data_parallel_step_only_reduces_gradients_and_scalars(setting):
    config, stage, _ = setting
    config = config.copy_and_resolve_references()
    config.mesh.data = 8
    compiled, shape, _, _ = compile_step(config, jax.devices(), rows=16)
    found = collectives(compiled.as_text())
    assert found and {kind for kind, _ in found} == {"all-reduce"}
    total = sum(size for _, size in found)
    params = stage.start(shape, jax.random.key(0))
    parameters = 4 * sum(int(np.prod(x.shape)) for x in jax.tree.leaves(params))
    # The tied word embeddings get two gradients (lookup and decoder), which the partitioner reduces one by one; the rest
    # is every gradient once, and some dozens of scalars (counts, metrics, the norm).
    tied = 4 * params["bert"]["embeddings"]["word"]["embedding"].size
    assert parameters <= total <= parameters + tied + 4 * 200


def test_analytic_flops_agree_with_xla_on_an_unrolled_model(tmp_path):
    config = tiny_config(str(tmp_path), **{"model.hidden": 256, "model.heads": 4, "model.dropout": 0.0})
    config.mesh.data = 1
    compiled, shape, layout, _ = compile_step(config, jax.devices()[:1], rows=32)
    counted = compiled.cost_analysis()["flops"]
    rows = layout.rows * config.lanes
    assert step_flops(shape, rows, config.row_length, layout.sequences, 19) == pytest.approx(counted, rel=0.15)


def test_rules_without_parameter_and_parameters_without_rule_are_errors(setting, monkeypatch):
    from harp_jax.errors import InputError

    _, stage, params = setting
    mesh = sharding.make_mesh(tiny_mesh(8))
    shapes = jax.eval_shape(lambda: params)
    sharding.param_shardings(mesh, shapes)
    with pytest.raises(InputError, match="no sharding rule for parameter new/kernel"):
        sharding.param_shardings(mesh, {**shapes, "new": {"kernel": jax.ShapeDtypeStruct((4, 4), np.float32)}})
    monkeypatch.setattr(sharding, "RULES", (*sharding.RULES, (r"decoder/kernel$", sharding.P())))
    with pytest.raises(InputError, match="match no parameter.*decoder"):
        sharding.param_shardings(mesh, shapes)


def tiny_mesh(data: int):
    from harp_jax.config import pretrain

    config = pretrain()
    config.mesh.data = data
    return config


def test_a_mesh_that_does_not_fit_the_devices_says_so():
    from harp_jax.errors import InputError

    with pytest.raises(InputError, match="needs 3 devices, there are 8"):
        sharding.make_mesh(tiny_mesh(3))
    config = tiny_mesh(8)
    config.lanes = 6
    with pytest.raises(InputError, match="lanes=6 is not a multiple"):
        sharding.make_mesh(config)
    assert SyntheticReader().sizes
