"""An answer far from a document's beginning: an encoder with long rows learns it, end to end; one with short rows cannot."""

import numpy as np
import pytest

from harp_jax.api import Reranker
from harp_jax.base.randomness import generator
from harp_jax.ranking.scorers import Windows
from harp_jax.text.tokenizer import load_tokenizer
from tests.support.planted_pairs import FarAnswers, from_scratch, trained

QUERIES = 60  # with three candidates each, one of which answers the query


def learned(folder, length: int, layers: int, pairs: FarAnswers) -> str:
    """The workdir of a ModernBERT trained in rows of `length` tokens."""
    folder.mkdir()
    c = from_scratch(str(folder))
    c.model.model_type, c.model.initialisation, c.model.dropout = "modernbert", "matching", 0.0
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = layers, 32, 1, length
    c.row_length, c.batch_pairs, c.window = length, 12, 48
    c.steps, c.learning_rate, c.eval_every, c.dtype = 100, 3e-3, 0, "float32"
    return trained(c, str(folder), pairs)


def right(workdir: str, pairs: FarAnswers, max_length: int | None = None, windows: Windows | None = None) -> float:
    """The share of queries for which the answer has the highest score."""
    decode, rng = load_tokenizer(f"{workdir}/tokenizer").decode, generator("candidates")
    numbers = [(i % 3, n) for i in range(QUERIES) for n in range(3)]
    texts = [(decode(pairs.query(asked)), decode(pairs.document(told, rng))) for asked, told in numbers]
    scores = Reranker.from_pretrained(workdir, max_length=max_length).predict(texts, windows).reshape(QUERIES, 3)
    return float((scores.argmax(1) == np.arange(QUERIES) % 3).mean())


# With one layer, only [CLS] attends, at linear cost in the length; with two, the second attends only to its window.
@pytest.mark.real
@pytest.mark.parametrize(
    "depth, long, short, layers, windows", [(210, 288, 128, 2, None), (3000, 4096, 512, 1, Windows(16))]
)
def test_a_far_answer_is_learned_in_long_rows_and_missed_in_short_ones(tmp_path, depth, long, short, layers, windows):
    pairs = FarAnswers(depth)
    workdirs = {length: learned(tmp_path / str(length), length, layers, pairs) for length in (long, short)}
    found = {length: right(workdir, pairs) for length, workdir in workdirs.items()}
    assert found[long] >= 0.95
    assert found[short] < 0.55  # 1/3 is chance, with a deviation of .06
    for length in workdirs if windows else ():  # MaxP with either, for docs/lab/encoders.md
        share = right(workdirs[length], pairs, short, windows)
        print(f"trained in rows of {length} tokens, ranked by windows of {short}: {share:.2f}")
