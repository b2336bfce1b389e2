"""Pre-training that stops early: the parameters that rank the queries of held-out pages best are kept."""

import jax
import pytest

from harp_jax.base.errors import InputError
from harp_jax.checkpoints.recorded import best, read_metrics
from harp_jax.training.stages.pretrain import pretrain_stage
from harp_jax.training.train import train
from tests.support.ranking_collection import write_collection
from tests.support.shards_fixture import write_job
from tests.support.tiny_run import tiny_config


def test_the_best_of_all_evaluations_is_kept_beside_the_pairs_metrics(tmp_path):
    write_collection(tmp_path)
    write_job(str(tmp_path / "pairs"), {"qdm": [400]}, validation=[100])
    files = {"docs": "docs.tsv", "queries": "queries.tsv", "qrels": "qrels.txt", "candidates": "run.trec"}
    # A ruinous rate at the end: the last parameters are not the best.
    options = {"tasks": ("qdm",), "mlm_weight": 0.0, "learning_rate": 3e-2, "schedule": "constant", "steps": 15}
    config = tiny_config(
        str(tmp_path),
        data=(str(tmp_path / "pairs"),),
        select="RR@10",
        eval_every=5,
        eval_batches=1,
        **{name: str(tmp_path / file) for name, file in files.items()},
        **options,
    )
    workdir = str(tmp_path / "run")
    train(config, workdir, devices=jax.devices()[:1])
    rows = [row for row in read_metrics(workdir) if row["split"] == "validation"]
    assert [row["step"] for row in rows] == [0, 5, 10, 15] and all("qdm_accuracy" in row for row in rows)
    found = best(workdir)
    assert found["value"] == pytest.approx(max(row["RR@10"] for row in rows), rel=1e-5) and found["queries"] == 40
    config.eval_every = 0
    with pytest.raises(InputError, match="needs evaluations"):
        pretrain_stage(config)
