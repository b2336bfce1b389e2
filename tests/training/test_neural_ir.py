"""Neural rankers in the shared loop: each learns the signal that it is designed for, tested on held-out queries."""

import os
import shutil

import jax
import numpy as np
import pytest

from harp_jax import config as configs
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.start import load_encoder
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_queries, read_run
from harp_jax.input.lanes import Batches
from harp_jax.ranking.rerank import load_scorer, rankings
from harp_jax.text.words import count_words, load_words
from harp_jax.training.stages.neural_ir import neural_ir_stage
from harp_jax.training.train import train
from tests.support.commands import command
from tests.support.objective import loss_of
from tests.support.training_processes import same_parameters

NEGATIVES, LENGTH, TRAINED, HELD_OUT = 4, 12, 400, 60
SIZES = {
    "drmm": {"dimension": 32},
    "knrm": {"dimension": 32},
    "conv_knrm": {"dimension": 32, "filters": 32},
    "duet": {"filters": 24, "hidden": 24, "pool": 4, "graphs": 120, "dropout": 0.1},
}
LETTERS = np.array(list("bcdfghklmnprstvz"))


@pytest.fixture(scope="module", autouse=True)
def small_models():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harp_jax.training.stages.neural_ir.SIZES", SIZES)
        yield


def word(number: int) -> str:
    """A word with its own letters, so that n-graphs distinguish words."""
    return "".join(LETTERS[[number % 16, number // 16 % 16]]) + "a" + LETTERS[(7 * number + 3) % 16]


def exact_matches(rng: np.random.Generator) -> tuple[list[int], list[list[int]]]:
    """Three query words; the relevant document contains all of them, the others at most one."""
    query = rng.choice(200, 3, replace=False)
    rest = np.setdiff1d(np.arange(200), query)
    documents = [rng.permutation([*query, *rng.choice(rest, LENGTH - 3)])]
    for _ in range(NEGATIVES):
        documents.append(rng.permutation([rng.choice(query), *rng.choice(rest, LENGTH - 1)]))
    return list(query), documents


def bigrams(rng: np.random.Generator, phrases: np.ndarray | None = None) -> tuple[list[int], list[list[int]]]:
    """Two query words; all documents contain both, only the relevant one contains them adjacent and in order."""
    first, second = rng.choice(200, 2, replace=False) if phrases is None else phrases[rng.integers(len(phrases))]
    rest = np.setdiff1d(np.arange(200 if phrases is None else 60), [first, second])
    documents = []
    for number in range(1 + NEGATIVES):
        document = rng.choice(rest, LENGTH)
        at = int(rng.integers(0, LENGTH - 4))
        if number == 0:
            document[at : at + 2] = first, second
        else:  # apart, or in reverse order
            document[at], document[at + 3 if rng.random() < 0.5 else at + 1] = second, first
        documents.append(document)
    return [first, second], documents


def four_phrases(rng: np.random.Generator) -> tuple[list[int], list[list[int]]]:
    """Like `bigrams`, with four fixed phrases: DUET learns which phrases match, it does not compare n-grams."""
    return bigrams(rng, np.arange(8).reshape(4, 2))


def write_collection(path, make):
    queries, qrels, run, docs = [], [], [], []
    for number in range(TRAINED + HELD_OUT):
        query, documents = make(generator("planted", make.__name__, number))
        queries.append(f"q{number}\t{' '.join(map(word, query))}\n")
        qrels.append(f"q{number} 0 d{number}x0 1\n")
        for i, document in enumerate(documents):
            docs.append(f"d{number}x{i}\t{' '.join(map(word, document))}\n")
            run.append(f"q{number} Q0 d{number}x{i} {i + 1} {10 - i} planted\n")
    split = TRAINED * (1 + NEGATIVES)
    (path / "docs.tsv").write_text("".join(docs))
    (path / "queries.tsv").write_text("".join(queries))
    (path / "qrels.txt").write_text("".join(qrels[:TRAINED]))
    (path / "train.trec").write_text("".join(run[:split]))
    (path / "test.trec").write_text("".join(run[split:]))


def neural_config(path, name, **changes):
    c = configs.neural_ir()
    c.docs, c.queries, c.qrels = (str(path / n) for n in ("docs.tsv", "queries.tsv", "qrels.txt"))
    c.candidates = str(path / "train.trec")
    c.model.name, c.model.query_length = name, 4
    c.row_length, c.batch_pairs, c.window, c.log_every, c.epochs = 16, 64, 64, 100, 10.0
    c.model.update(changes.pop("model", {}))
    c.update(changes)
    return c


def pair_accuracy(workdir, path) -> float:
    """The fraction of (relevant, other) pairs of the held-out queries that are ranked correctly."""
    run, queries = read_run(str(path / "test.trec")), read_queries(str(path / "queries.tsv"))
    docs = Documents.open(str(path / "docs.tsv"), cache_dir=str(path / "cache"))
    scored = [scores for _, _, scores in rankings(load_scorer(workdir), run, queries, docs)]
    assert len(scored) == HELD_OUT
    return float(np.mean([scores[0] > scores[1:] for scores in scored]))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    path = tmp_path_factory.mktemp("planted")
    write_collection(path, exact_matches)
    return path


@pytest.mark.parametrize(
    "name, make, options",
    [
        ("drmm", exact_matches, {"learning_rate": 3e-2}),
        ("knrm", exact_matches, {"learning_rate": 1e-2, "epochs": 4.0}),
        ("conv_knrm", bigrams, {"model": {"train_vectors": False}, "learning_rate": 0.1, "epochs": 6.0}),
        ("conv_knrm", bigrams, {"learning_rate": 0.1, "epochs": 6.0}),
        ("duet", four_phrases, {"learning_rate": 1e-2, "epochs": 12.0}),
    ],
)  # fmt: skip
def test_learns_the_signal_it_is_designed_for(name, make, options, tmp_path):
    write_collection(tmp_path, make)
    workdir = str(tmp_path / "run")
    train(neural_config(tmp_path, name, **options), workdir, devices=jax.devices()[:1])
    assert pair_accuracy(workdir, tmp_path) >= 0.99


@pytest.mark.parametrize("loss", ["hinge", "lce"])
def test_batches_that_are_not_full_give_the_loss_of_their_groups(planted, loss):
    config = neural_config(planted, "knrm", rank_loss=loss, window=24, negatives=4, batch_pairs=48)
    stage = neural_ir_stage(config)
    params = stage.start(stage.shape, jax.random.key(0))
    batches = Batches(stage.reader, stage.layout, range(1), stage.shares, 20, 0)
    full, rest = batches.make()[0], batches.make()[0]
    assert full["present"].any(1).sum() == 12 and rest["present"].any(1).sum() == 8
    objective = stage.objective(stage.shape)
    compute = jax.jit(jax.value_and_grad(lambda p, b: loss_of(objective, p, b, jax.random.key(0))[0]))
    real = {name: array[: 8 * len(array) // 12] for name, array in rest.items()}
    (found, gradient), (expected, same) = compute(params, rest), compute(params, real)
    assert float(found) == pytest.approx(float(expected), rel=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), gradient, same)


@pytest.mark.parametrize("negatives, accumulate, good", [(1, 1, 4096), (4, 1, 1024), (4, 2, 1024), (7, 1, 585)])
def test_windows_hold_whole_batches(planted, negatives, accumulate, good):
    config = neural_config(planted, "knrm", batch_pairs=4096, window=256, negatives=negatives, accumulate=accumulate)
    with pytest.raises(InputError, match=f"a step has {good} groups per lane .* set --config.window={good}$"):
        neural_ir_stage(config)
    config.window, config.epochs = good, 20.0
    stage = neural_ir_stage(config)
    assert stage.steps == -(-20 * TRAINED // good)
    batches = Batches(stage.reader, stage.layout, range(1), stage.shares, config.window, 0)
    for _ in range(2):
        present = batches.make()[0]["present"]
        assert present[..., 0].all() and present[..., 0].size == good


@pytest.fixture(scope="module")
def trained(planted, tmp_path_factory):
    """A DRMM after 8 steps on one device, with a checkpoint after 4."""
    workdir = str(tmp_path_factory.mktemp("trained") / "run")
    train(neural_config(planted, "drmm", lanes=2, steps=8, checkpoint_every=4), workdir, devices=jax.devices()[:1])
    return workdir


def reranked(workdir, planted, output, *more, **changed):
    options = {"model": workdir, "docs": planted / "docs.tsv", "queries": planted / "queries.tsv"}
    options |= {"run": planted / "test.trec", "output": output, **changed}
    command("rerank", *more, **options)
    return read_run(str(output))


def test_a_resumed_run_ends_with_the_same_bits(planted, trained, tmp_path):
    halved = str(tmp_path / "run")
    shutil.copytree(trained, halved)
    shutil.rmtree(os.path.join(halved, "checkpoints", "8"))
    train(neural_config(planted, "drmm", lanes=2, steps=8, checkpoint_every=4), halved, devices=jax.devices()[:1])
    assert same_parameters(trained, halved)


def test_two_devices_and_microbatches_train_as_one_and_the_command_reranks(planted, trained, tmp_path):
    # Windows of 64 are 8 batches of 8 groups: two microbatches of 4 are the same groups.
    config = neural_config(planted, "drmm", lanes=2, steps=8, accumulate=2)
    train(config, str(tmp_path / "run"), devices=jax.devices()[:2])
    one = reranked(trained, planted, tmp_path / "one.trec")
    two = reranked(str(tmp_path / "run"), planted, tmp_path / "two.trec")
    assert len(one) == HELD_OUT
    for qid, ranking in one.items():
        assert set(ranking.docids) == set(two[qid].docids)
        np.testing.assert_allclose(sorted(ranking.scores), sorted(two[qid].scores), atol=1e-5)


def test_frozen_vectors_do_not_change(planted, tmp_path):
    (tmp_path / "vectors.txt").write_text("".join(f"{word(i)} {i} 1 {-i}\n" for i in range(0, 200, 2)))
    config = neural_config(planted, "knrm", model={"train_vectors": False}, vectors=str(tmp_path / "vectors.txt"))
    config.steps = 3
    train(config, str(tmp_path / "run"), devices=jax.devices()[:1])
    params = load_params(str(tmp_path / "run"))[0]
    ids = load_words(str(tmp_path / "run" / "tokenizer")).ids
    for number in (0, 8, 120):
        np.testing.assert_array_equal(params["vectors"][ids[word(number)]], [number, 1, -number])


def test_a_neural_ranker_is_no_encoder_and_has_its_own_length_and_dtype(trained):
    with pytest.raises(InputError, match="the model reads 16 words"):
        load_scorer(trained, max_length=40)
    with pytest.raises(InputError, match="--dtype=bfloat16: the neural ranker .* does not support it"):
        load_scorer(trained, "bfloat16")
    with pytest.raises(InputError, match="its model_type is None"):
        load_encoder(trained)


def test_a_vocabulary_of_other_texts_is_refused(planted, trained, tmp_path):
    count_words([("x", "alpha beta")]).save(str(tmp_path / "foreign"))
    with pytest.raises(InputError, match=r"^0\.0% of the words of the training queries are .* vocabulary \(2 words"):
        neural_ir_stage(neural_config(planted, "knrm", tokenizer=str(tmp_path / "foreign")))
    text = (planted / "docs.tsv").read_text().splitlines()
    (tmp_path / "docs.tsv").write_text("".join(line.split("\t")[0] + "\tzeta eta\n" for line in text))
    with pytest.raises(InputError, match=r"^0\.0% of the words of the documents .* re-rank the collection that"):
        reranked(trained, planted, tmp_path / "out.trec", docs=tmp_path / "docs.tsv")
    with pytest.raises(InputError, match="--blank_query: drmm scores only matches"):
        reranked(trained, planted, tmp_path / "out.trec", "--blank_query")
    assert not (tmp_path / "out.trec").exists()
