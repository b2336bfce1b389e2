"""Training of neural rankers: each learns the signal that it is designed for, tested on held-out queries; epochs, resume, files."""

import signal
from itertools import islice
from pathlib import Path

import jax
import numpy as np
import pytest

from harp_jax import config as configs
from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.baselines.neural_ir.models import NeuralConfig, build, init_params, word_tables
from harp_jax.baselines.neural_ir.scorer import load_neural, load_ranker, read_state, rerank_files
from harp_jax.baselines.neural_ir.train import GroupBatches, group_loss, train
from harp_jax.checkpoints.recorded import best, read_metrics
from harp_jax.checkpoints.start import load_encoder
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_queries, read_run
from harp_jax.input.ranking_groups import RankingData, RankingDataset
from harp_jax.ranking.rerank import Reranking, load_scorer, rankings
from harp_jax.text.words import count_words

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
        patch.setattr("harp_jax.baselines.neural_ir.train.SIZES", SIZES)
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
    lines = {name: [] for name in ("docs.tsv", "queries.tsv", "qrels.txt", "train.trec", "test.trec")}
    for number in range(TRAINED + HELD_OUT):
        query, documents = make(generator("planted", make.__name__, number))
        lines["queries.tsv"].append(f"q{number}\t{' '.join(map(word, query))}\n")
        if number < TRAINED:
            lines["qrels.txt"].append(f"q{number} 0 d{number}x0 1\n")
        for i, document in enumerate(documents):
            lines["docs.tsv"].append(f"d{number}x{i}\t{' '.join(map(word, document))}\n")
            run = "train.trec" if number < TRAINED else "test.trec"
            lines[run].append(f"q{number} Q0 d{number}x{i} {i + 1} {10 - i} planted\n")
    for name, written in lines.items():
        (path / name).write_text("".join(written))


def neural_config(path, name, **changes):
    c = configs.neural_ir()
    c.docs, c.queries, c.qrels = (str(path / n) for n in ("docs.tsv", "queries.tsv", "qrels.txt"))
    c.candidates = str(path / "train.trec")
    c.model.name, c.model.query_length = name, 4
    c.row_length, c.batch_pairs, c.log_every = 16, 64, 100
    c.model.update(changes.pop("model", {}))
    c.update(changes)
    return c


@pytest.mark.parametrize(
    "name, make, options",
    [
        ("drmm", exact_matches, {"learning_rate": 3e-2, "epochs": 5.0}),
        ("knrm", exact_matches, {"learning_rate": 1e-2, "epochs": 2.0}),
        ("conv_knrm", bigrams, {"learning_rate": 0.1, "epochs": 4.0}),
        ("duet", four_phrases, {"learning_rate": 1e-2, "epochs": 8.0}),
    ],
)  # fmt: skip
def test_learns_the_signal_it_is_designed_for(name, make, options, tmp_path):
    write_collection(tmp_path, make)
    train(neural_config(tmp_path, name, **options), str(tmp_path / "run"))
    run, queries = read_run(str(tmp_path / "test.trec")), read_queries(str(tmp_path / "queries.tsv"))
    docs = Documents.open(str(tmp_path / "docs.tsv"), cache_dir=str(tmp_path / "cache"))
    scored = [scores for _, _, scores in rankings(load_neural(str(tmp_path / "run")), run, queries, docs)]
    assert len(scored) == HELD_OUT
    assert np.mean([scores[0] > scores[1:] for scores in scored]) >= 0.99  # the relevant document comes first


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    path = tmp_path_factory.mktemp("planted")
    write_collection(path, exact_matches)
    return path


def batches_of(config, groups: int) -> GroupBatches:
    words = count_words(Documents.open(config.docs, tuple(config.fields)).texts())
    return GroupBatches(RankingData(config, words, RankingDataset.read(config)), groups, 4, 16, config.seed)


@pytest.mark.parametrize("loss", ["hinge", "lce"])
def test_a_batch_that_is_not_full_has_the_loss_of_its_groups(planted, loss):
    batches = batches_of(neural_config(planted, "knrm"), 12)
    shape = NeuralConfig("knrm", batches.data.tokenizer.size, dimension=32)
    tables, params = word_tables(shape, batches.data.tokenizer), init_params(shape, jax.random.key(0))
    compute = jax.jit(jax.value_and_grad(lambda p, b: group_loss(build(shape), tables, loss, p, b)[0]))
    rest = batches.batch([batches.data.unit(0, number) for number in range(8)])
    assert rest["present"].shape == (12, 1 + NEGATIVES) and rest["present"].any(1).sum() == 8
    (found, gradient), (expected, same) = compute(params, rest), compute(params, {k: x[:8] for k, x in rest.items()})
    assert float(found) == pytest.approx(float(expected), rel=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), gradient, same)


def test_an_epoch_has_every_query_once_and_batches_are_found_by_their_number(planted):
    batches = batches_of(neural_config(planted, "knrm"), 150)
    epochs = list(islice(batches.after(0), 6))
    for start in (0, 3):
        queries = [query.tobytes() for batch in epochs[start : start + 3] for query in batch["query"] if query.any()]
        assert len(queries) == TRAINED == len(set(queries))
    jax.tree.map(np.testing.assert_array_equal, epochs[4:], list(islice(batches.after(4), 2)))


def test_a_run_ended_by_sigterm_resumes_with_the_same_bits(planted, tmp_path, monkeypatch):
    """DUET has dropout, too."""
    config = neural_config(planted, "duet", steps=8, checkpoint_every=3)
    workdir, whole = str(tmp_path / "run"), str(tmp_path / "whole")
    train(config, whole)
    after = GroupBatches.after

    def ended(self, start):
        for number, batch in enumerate(after(self, start), start):
            if number == 4:
                signal.raise_signal(signal.SIGTERM)
            yield batch

    with monkeypatch.context() as patch:
        patch.setattr(GroupBatches, "after", ended)
        assert train(config, workdir).interrupted
    assert read_state(workdir)["step"] == 5
    done = train(config, workdir)
    assert not done.interrupted and train(config, workdir).metrics["loss"] == pytest.approx(done.metrics["loss"], 1e-5)
    jax.tree.map(np.testing.assert_array_equal, read_state(workdir), read_state(whole))
    assert [row["step"] for row in read_metrics(workdir)] == [8]
    content = bytearray(Path(workdir, "state.npz").read_bytes())
    content[len(content) // 2] ^= 1
    Path(workdir, "state.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"state\.npz is damaged .* remove it to train again"):
        train(config, workdir)


def test_the_best_parameters_on_held_out_queries_are_kept(planted, tmp_path):
    workdir = str(tmp_path / "run")
    config = neural_config(planted, "drmm", select="RR@10", eval_every=4, steps=10, learning_rate=0.3)
    train(config, workdir)
    rows = [row for row in read_metrics(workdir) if row["split"] == "validation"]
    found = best(workdir)
    assert [row["step"] for row in rows] == [0, 4, 8, 10] and found["queries"] == TRAINED // 10
    assert found["value"] == pytest.approx(max(row["RR@10"] for row in rows), rel=1e-5)
    _, params, _ = load_ranker(workdir)
    last = read_state(workdir)["params/network_in/kernel"]
    assert np.array_equal(params["network_in"]["kernel"], last) == (found["step"] == 10)


def test_frozen_vectors_do_not_change(planted, tmp_path):
    (tmp_path / "vectors.txt").write_text("".join(f"{word(i)} {i} 1 {-i}\n" for i in range(0, 200, 2)))
    options = {"model": {"train_vectors": False}, "vectors": str(tmp_path / "vectors.txt"), "steps": 3}
    train(neural_config(planted, "knrm", **options), str(tmp_path / "run"))
    _, params, words = load_ranker(str(tmp_path / "run"))
    for number in (0, 8, 120):
        np.testing.assert_array_equal(params["vectors"][words.ids[word(number)]], [number, 1, -number])


def test_what_a_neural_ranker_refuses(planted, tmp_path):
    """Among others a vocabulary of other texts."""
    trained = str(tmp_path / "trained")
    train(neural_config(planted, "knrm", steps=2), trained)
    count_words([("x", "alpha beta")]).save(str(tmp_path / "foreign"))
    foreign = neural_config(planted, "knrm", tokenizer=str(tmp_path / "foreign"))
    ids = [line.split("\t")[0] for line in (planted / "docs.tsv").read_text().splitlines()]
    (tmp_path / "docs.tsv").write_text("".join(f"{docid}\tzeta eta\n" for docid in ids))
    docs, run = (
        str(planted / "docs.tsv"),
        (str(planted / "queries.tsv"), str(planted / "test.trec"), str(tmp_path / "out")),
    )
    for message, use in (
        ("the model reads 16 words", lambda: load_neural(trained, max_length=40)),
        ("--dtype=bfloat16: the neural ranker .* does not support it", lambda: load_neural(trained, "bfloat16")),
        ("is a neural ranker; only harp rerank and Reranker.from_pretrained", lambda: load_scorer(trained)),
        ("its model_type is None", lambda: load_encoder(trained)),
        (
            r"^0\.0% of the words of the training queries are .* \(2 words",
            lambda: train(foreign, str(tmp_path / "run")),
        ),
        (r"^0\.0% of the words of the documents", lambda: rerank_files(trained, str(tmp_path / "docs.tsv"), *run)),
        ("--blank_query: knrm", lambda: rerank_files(trained, docs, *run, Reranking(blank_query=True))),
    ):
        with pytest.raises(InputError, match=message):
            use()
    assert not (tmp_path / "out").exists()
    assert len(Reranker.from_pretrained(trained).predict([("ab", "cd"), ("ab", "ab")])) == 2
