"""Pre-training with selection: keeps the parameters that rank the queries of held-out pages best."""

import os
from pathlib import Path

import jax
import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.huggingface import load_hf
from harp_jax.checkpoints.recorded import best, read_metrics
from harp_jax.training.stages.pretrain import pretrain_stage
from harp_jax.training.train import train
from tests.support.ranking_collection import write_collection
from tests.support.shards_fixture import write_job
from tests.support.tiny_run import tiny_config
from tests.support.training_processes import two_processes


def selecting(directory: Path) -> dict[str, object]:
    """Writes pairs and judged queries to `directory`; returns config fields of pre-training that selects by them."""
    write_collection(directory)
    write_job(str(directory / "pairs"), {"qdm": [400]}, validation=[100])
    files = {"docs": "docs.tsv", "queries": "queries.tsv", "qrels": "qrels.txt", "candidates": "run.trec"}
    # The rate is too high, so the last parameters are not the best.
    options = {"tasks": ("qdm",), "mlm_weight": 0.0, "learning_rate": 3e-2, "schedule": "constant", "steps": 15}
    select = {"data": (str(directory / "pairs"),), "select": "RR@10", "eval_every": 5, "eval_batches": 1}
    return {**options, **select, **{name: str(directory / file) for name, file in files.items()}}


@pytest.mark.real  # a minute of compiling
def test_two_processes_that_share_the_parameters_select_by_all_of_them(tmp_path):
    # Without learning, so the parameters selected at step 0 equal the last ones.
    fields = {**selecting(tmp_path), "steps": 5, "mesh.fsdp": 2, "learning_rate": 0.0}
    for process in two_processes(tmp_path, *(f"{name}={value!r}" for name, value in fields.items()), devices=1):
        _, errors = process.communicate(timeout=480)
        assert process.returncode == 0, errors[-2000:]
    workdir = str(tmp_path / "run")
    _, kept = load_hf(os.path.join(workdir, "selected", best(workdir)["model"]))
    last = load_params(workdir)[0]
    for name, parameters in kept["encoder"].items():  # selected parameters have no vocabulary padding
        jax.tree.map(lambda x, y: np.testing.assert_array_equal(x, y[: len(x)]), parameters, last["encoder"][name])


def test_the_best_of_all_evaluations_is_kept_beside_the_pairs_metrics(tmp_path):
    config = tiny_config(str(tmp_path), **selecting(tmp_path))
    workdir = str(tmp_path / "run")
    train(config, workdir, devices=jax.devices()[:1])
    rows = [row for row in read_metrics(workdir) if row["split"] == "validation"]
    assert [row["step"] for row in rows] == [0, 5, 10, 15] and all("qdm_accuracy" in row for row in rows)
    found = best(workdir)
    assert found["value"] == pytest.approx(max(row["RR@10"] for row in rows), rel=1e-5) and found["queries"] == 40
    config.eval_every = 0
    with pytest.raises(InputError, match="needs evaluations"):
        pretrain_stage(config)
