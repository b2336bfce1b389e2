"""Term weights that have no effect are visible in the manifest."""

import numpy as np
import pytest

from data_pipeline.output.report import as_text, report
from data_pipeline.pairs.sharpness import bits_from_uniform
from data_pipeline.pipeline import generate
from tests.support import corpus
from tests.support.in_process import InProcessEngine


def test_bits_from_uniform():
    assert bits_from_uniform(np.full(8, 1 / 8)) == pytest.approx(0)
    assert bits_from_uniform(np.array([1.0, 0, 0, 0])) == pytest.approx(2)
    p = np.array([0.5, 0.25, 0.25])
    assert bits_from_uniform(p) == pytest.approx(np.log2(3) - 1.5)


def test_a_softmax_over_shares_is_uniform_and_normalised_weights_are_not(tmp_path):
    folder = corpus.write(tmp_path)
    found = {}
    for weighting in ("softmax", "normalised"):
        config = corpus.config(folder, tasks=("qdm",), encoder="idf", workers=1, weighting=weighting)
        found[weighting] = generate(config, str(tmp_path / weighting), InProcessEngine)["bits_from_uniform"]
    for source in ("sentence", "page"):
        assert 0 <= found["softmax"][source] < 0.01 < found["normalised"][source]
    assert "bits from uniform" in as_text(report(str(tmp_path / "softmax"), 1))
