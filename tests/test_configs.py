"""Every training config of the project loads, and says what its paper says."""

import runpy

import pytest

from harp_jax.training.train import STAGES
from tests.support import ROOT

CONFIGS = ROOT / "configs"


def loaded(name: str):
    return runpy.run_path(str(CONFIGS / name))["get_config"]()


@pytest.mark.parametrize("name", sorted(path.name for path in CONFIGS.glob("*.py") if path.name != "__init__.py"))
def test_configs_load_and_start_with_their_command(name):
    assert loaded(name).stage in STAGES
    assert f"--config=configs/{name}" in (CONFIGS / name).read_text().split('"""')[1]


def test_msmarco_follows_harp():
    c = loaded("finetune_msmarco_doc.py")
    recipe = (c.batch_pairs, c.row_length, c.epochs, c.learning_rate, c.warmup, c.rank_loss, c.negatives)
    assert recipe == (128, 512, 2.0, 1e-5, 0.1, "bce", 7)
    assert c.fields == ("title", "url", "body") and c.init_head == "fresh" and c.select and c.eval_every


def test_orcas_follows_coarse_tuning():
    c = loaded("coarse_tune_orcas.py")
    recipe = (c.batch_pairs, c.row_length, c.epochs, c.learning_rate, c.sample)
    assert recipe == (80, 256, 4.0, 1e-3, 0.08)
    assert (c.query_mark, c.document_mark) == ("[unused0]", "[unused1]")
