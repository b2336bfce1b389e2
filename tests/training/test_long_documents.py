"""An answer far from a document's beginning: an encoder with long rows learns it, end to end; one with short rows cannot."""

import pytest

from harp_jax.base.randomness import generator
from harp_jax.corpus.trec import read_run, write_run
from harp_jax.text.tokenizer import load_tokenizer
from tests.support.commands import command
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


def right(folder, workdir: str, pairs: FarAnswers, *options: str) -> float:
    """The share of queries for which `harp rerank` ranks the answer first."""
    tokenizer, rng = load_tokenizer(f"{workdir}/tokenizer"), generator("candidates")
    texts = {
        "queries": {f"q{i}": pairs.query(i % 3) for i in range(QUERIES)},
        "docs": {f"d{i}-{n}": pairs.document(n, rng) for i in range(QUERIES) for n in range(3)},
    }
    for name, ids in texts.items():
        lines = (f"{key}\t{tokenizer.decode(words)}\n" for key, words in ids.items())
        (folder / f"{name}.tsv").write_text("".join(lines))
    orders = [(f"q{i}", [f"d{i}-{n}" for n in rng.permutation(3)], [3.0, 2.0, 1.0]) for i in range(QUERIES)]
    write_run(str(folder / "first.trec"), orders)
    places = {"docs": "docs.tsv", "queries": "queries.tsv", "run": "first.trec", "output": "out.trec"}
    command("rerank", f"--model={workdir}", *(f"--{name}={folder / file}" for name, file in places.items()), *options)
    ranked = read_run(str(folder / "out.trec"))
    return sum(ranked[f"q{i}"].ranked()[0] == f"d{i}-{i % 3}" for i in range(QUERIES)) / QUERIES


# With one layer, only [CLS] attends, at linear cost in the length; with two, the second attends only to its window.
@pytest.mark.real
@pytest.mark.parametrize(
    "depth, long, short, layers, windows", [(210, 288, 128, 2, ()), (3000, 4096, 512, 1, ("--windows=16",))]
)
def test_a_far_answer_is_learned_in_long_rows_and_missed_in_short_ones(tmp_path, depth, long, short, layers, windows):
    pairs = FarAnswers(depth)
    workdirs = {length: learned(tmp_path / str(length), length, layers, pairs) for length in (long, short)}
    found = {length: right(tmp_path, workdir, pairs) for length, workdir in workdirs.items()}
    assert found[long] >= 0.95
    assert found[short] < 0.55  # 1/3 is chance, with a deviation of .06
    for length in workdirs if windows else ():  # MaxP with either, for docs/encoders.md
        share = right(tmp_path, workdirs[length], pairs, f"--max_length={short}", *windows)
        print(f"trained in rows of {length} tokens, ranked by windows of {short}: {share:.2f}")
