"""A collection of forty queries as files, for plans of trainings."""

import pytest

from tests.support.ranking_collection import QRELS


@pytest.fixture
def files(tmp_path):
    (tmp_path / "qrels").write_text("".join(f"{q} 0 {d} {level}\n" for q, j in QRELS.items() for d, level in j.items()))
    (tmp_path / "run").write_text("".join(f"q{i} d{i} 1\n" for i in range(40)))
    (tmp_path / "folds").write_text("".join(f"q{i}\t{'abc'[i % 3]}\n" for i in range(40)))
    (tmp_path / "test").write_text("q1\tits text\nq2\n")
    (tmp_path / "queries").write_text("".join(f"q{i}\ttext {i}\n" for i in range(40)))
    (tmp_path / "docs").write_text("")
    (tmp_path / "config.py").write_text("from harp_jax.config import finetune as get_config\n")
    return tmp_path
