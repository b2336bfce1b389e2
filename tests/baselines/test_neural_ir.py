"""Neural rankers: scores against loops over single pairs; each learns the signal that it is designed for; epochs, resume, files."""

import signal
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harp_jax import config as configs
from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.baselines.neural_ir.models import NeuralConfig, build, init_params, sliding_max, word_tables
from harp_jax.baselines.neural_ir.scorer import load_neural, load_ranker, padded, read_state, rerank_files
from harp_jax.baselines.neural_ir.train import GroupBatches, group_loss, train
from harp_jax.baselines.neural_ir.words import WordVocabulary, count_words
from harp_jax.checkpoints.recorded import best, read_metrics
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_queries, read_run
from harp_jax.input.ranking_groups import RankingData, RankingDataset
from harp_jax.ranking.rerank import Reranking, load_scorer, rankings

SHAPES = {
    "knrm": NeuralConfig("knrm", 41, dimension=12),
    "conv_knrm": NeuralConfig("conv_knrm", 41, dimension=12, filters=16),
    "drmm": NeuralConfig("drmm", 41, dimension=12),
    "duet": NeuralConfig("duet", 41, query_length=6, document_length=20, filters=10, hidden=8, pool=5, graphs=30),
}


def vocabulary() -> WordVocabulary:
    rng = generator("neural words")
    words = set()
    while len(words) < 40:
        words.add("".join(rng.choice(list("abcdefg"), rng.integers(1, 8))))
    return WordVocabulary(tuple(sorted(words)), tuple(int(n) for n in rng.integers(1, 60, 40)), 60)


def model(config):
    """Parameters large enough that every part of the score matters, and the word tables."""
    rng, words = generator("parameters"), vocabulary()
    params = jax.device_get(jax.jit(lambda key: init_params(config, key))(jax.random.key(0)))
    params = jax.tree.map(lambda x: x + 0.3 * rng.standard_normal(x.shape).astype(np.float32), params)
    return params, word_tables(config, words)


def pairs():
    rng = generator("pairs")
    texts = []
    for number in range(12):
        query = rng.integers(1, 41, 1 + number % 6)
        document = rng.integers(1, 41, 1 + (5 * number) % 20)
        document[: len(query)] = query[: len(document)]
        texts.append((query, rng.permutation(document)))
    return texts


def cosine(a, b):
    norms = np.sqrt((a**2).sum() * (b**2).sum())
    return 0.0 if norms == 0 else float((a * b).sum() / norms)


def dense(p, x):
    return x @ p["kernel"] + p.get("bias", 0.0)


def kernels(match):
    """`match`: one list of similarities per query item."""
    features = []
    for mu, sigma in [*((-0.9 + 0.2 * k, 0.1) for k in range(10)), (1.0, 0.001)]:
        counts = [sum(np.exp(-((m - mu) ** 2) / (2 * sigma**2)) for m in row) for row in match]
        features.append(sum(0.01 * np.log(max(count, 1e-10)) for count in counts))
    return np.array(features)


def knrm(p, query, document, config, words):
    table = p["vectors"]
    match = [[cosine(table[q], table[d]) for d in document] for q in query]
    return float(dense(p["score"], kernels(match))[0])


def conv_knrm(p, query, document, config, words):
    def grams(text, n):
        table, kernel, bias = p["vectors"], p[f"kernel_{n}"], p[f"bias_{n}"]
        sums = (sum(table[text[i + k]] @ kernel[k] for k in range(n)) for i in range(len(text) - n + 1))
        return [np.maximum(each + bias, 0.0) for each in sums]

    sides = [(grams(query, n), grams(document, m)) for n in (1, 2, 3) for m in (1, 2, 3)]
    features = [kernels([[cosine(q, d) for d in documents] for q in queries]) for queries, documents in sides]
    return float(dense(p["score"], np.concatenate(features))[0])


def drmm(p, query, document, config, words):
    table, scores, weights, bins = p["vectors"], [], [], 30
    for q in query:
        histogram = np.zeros(bins)
        for d in document:
            if d == q:
                histogram[bins - 1] += 1
            else:
                width = 2.0 / (bins - 1)
                histogram[min(int((cosine(table[q], table[d]) + 1.0) / width), bins - 2)] += 1
        hidden = np.tanh(dense(p["network_in"], np.log(histogram + 1)))
        scores.append(np.tanh(dense(p["network_out"], hidden))[0])
        weights.append(np.exp(dense(p["gate"], np.array([words.idf[q]]))[0]))
    return float(np.dot(weights, scores) / np.sum(weights))


def duet(p, query, document, config, words):
    def three(name, x):
        x = np.tanh(dense(p[f"{name}_hidden_1"], x))
        x = np.tanh(dense(p[f"{name}_hidden_2"], x))
        return float(dense(p[f"{name}_score"], x)[0])

    exact = np.zeros((config.query_length, config.filters))
    for i, q in enumerate(query):
        row = np.zeros(config.document_length)
        row[[j for j, d in enumerate(document) if d == q]] = 1.0
        exact[i] = np.tanh(dense(p["local_conv"], row))

    # The n-graphs in most documents count, once per occurrence in a word.
    of_word = [[word[i : i + n] for n in range(1, 6) for i in range(len(word) - n + 1)] for word in words.words]
    weight = {}
    for own, documents in zip(of_word, words.frequencies):
        for graph in own:
            weight[graph] = weight.get(graph, 0) + documents
    best = sorted(weight, key=lambda graph: (-weight[graph], graph))[: config.graphs]

    def trigrams(text, side):
        counts = np.zeros((len(text) + 2, config.graphs))
        for i, word in enumerate(text):
            for graph in of_word[word - 1]:
                if graph in best:
                    counts[i + 1, best.index(graph)] += 1
        rows = [sum(counts[i + k] @ p[f"{side}_conv"][k] for k in range(3)) for i in range(len(text))]
        return np.tanh(np.array(rows) + p[f"{side}_conv_bias"])

    q = np.tanh(dense(p["query_dense"], trigrams(query, "query").max(axis=0)))
    d = trigrams(document, "document")
    windows = []
    for start in range(config.document_length - config.pool + 1):
        part = d[start : start + config.pool]
        windows.append(q * np.tanh(dense(p["document_dense"], part.max(axis=0))) if len(part) else np.zeros(len(q)))
    return three("local", exact.reshape(-1)) + three("distributed", np.concatenate(windows))


@pytest.mark.parametrize("slow", [knrm, conv_knrm, drmm, duet], ids=lambda slow: slow.__name__)
def test_scores_equal_a_loop_padding_changes_none_and_gradients_are_finite(slow):
    config, texts, words = SHAPES[slow.__name__], pairs(), vocabulary()
    params, known = model(config)
    jitted = jax.jit(lambda params, known, q, d: build(config).apply({"params": params}, q, d, known))

    def score(texts, query_length=6, document_length=20, params=params):
        queries, documents = zip(*texts)
        both = padded(queries, len(texts), query_length), padded(documents, len(texts), document_length)
        return jitted(params, known, *map(jnp.asarray, both))

    expected = np.array([slow(params, q, d, config, words) for q, d in texts])
    assert np.std(expected) > 0.03
    tight = np.asarray(score(texts))
    np.testing.assert_allclose(tight, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()))
    # A single pair has fewer words than the vocabulary: DUET then computes per word of the batch.
    close = {"rtol": 0, "atol": 1e-6 * max(1.0, np.abs(tight).max())}
    np.testing.assert_allclose(np.concatenate([score([pair]) for pair in texts[:3]]), tight[:3], **close)
    np.testing.assert_allclose(score(texts, 9, 47), tight, **close)
    with_empty = [*texts[:4], (np.zeros(0, int), np.zeros(0, int))]
    gradients = jax.jit(jax.grad(lambda params: score(with_empty, params=params).sum()))(params)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


@pytest.mark.parametrize("window", [1, 5, 8, 13])
def test_sliding_maxima_and_their_gradient(window):
    x = generator("sliding").standard_normal((2, 13, 3)).astype(np.float32)
    expected = np.stack([x[:, i : i + window].max(axis=1) for i in range(14 - window)], axis=1)
    np.testing.assert_array_equal(sliding_max(jnp.asarray(x), window), expected)
    weights = generator("weights").standard_normal(expected.shape).astype(np.float32)
    gradient = jax.grad(lambda x: jnp.sum(sliding_max(x, window) * weights))(jnp.asarray(x))
    slow = np.zeros_like(x)
    for b, i, f in np.ndindex(expected.shape):
        slow[b, i + np.argmax(x[b, i : i + window, f]), f] += weights[b, i, f]
    np.testing.assert_allclose(gradient, slow, rtol=0, atol=1e-5)


NEGATIVES, LENGTH, TRAINED, HELD_OUT = 4, 12, 400, 60
SIZES = {
    "drmm": {"dimension": 32},
    "knrm": {"dimension": 32},
    "conv_knrm": {"dimension": 32, "filters": 32},
    "duet": {"filters": 24, "hidden": 24, "pool": 4, "graphs": 120, "dropout": 0.1},
}


@pytest.fixture(scope="module", autouse=True)
def small_models():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harp_jax.baselines.neural_ir.train.SIZES", SIZES)
        yield


def exact_matches(rng: np.random.Generator) -> tuple[list[int], list[list[int]]]:
    """Three query words; the relevant document contains all of them, the others at most one."""
    query = rng.choice(200, 3, replace=False)
    rest = np.setdiff1d(np.arange(200), query)
    documents = [rng.permutation([*query, *rng.choice(rest, LENGTH - 3)])]
    for _ in range(NEGATIVES):
        documents.append(rng.permutation([rng.choice(query), *rng.choice(rest, LENGTH - 1)]))
    return list(query), documents


def bigrams(rng: np.random.Generator) -> tuple[list[int], list[list[int]]]:
    """Two query words; all documents contain both, only the relevant one contains them adjacent and in order."""
    first, second = rng.choice(200, 2, replace=False)
    rest = np.setdiff1d(np.arange(200), [first, second])
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


def write_collection(path, make):
    lines = {name: [] for name in ("docs.tsv", "queries.tsv", "qrels.txt", "train.trec", "test.trec")}
    for number in range(TRAINED + HELD_OUT):
        query, documents = make(generator("planted", make.__name__, number))
        lines["queries.tsv"].append(f"q{number}\t{' '.join(f'w{i}' for i in query)}\n")
        if number < TRAINED:
            lines["qrels.txt"].append(f"q{number} 0 d{number}x0 1\n")
        for i, document in enumerate(documents):
            lines["docs.tsv"].append(f"d{number}x{i}\t{' '.join(f'w{i}' for i in document)}\n")
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
    c.update_from_flattened_dict(changes)
    return c


@pytest.mark.parametrize(
    "name, make, learning_rate, epochs",
    [
        ("drmm", exact_matches, 3e-2, 5.0),
        ("knrm", exact_matches, 1e-2, 2.0),
        ("conv_knrm", bigrams, 0.1, 4.0),
        ("duet", exact_matches, 1e-2, 6.0),
    ],
)
def test_learns_the_signal_it_is_designed_for(name, make, learning_rate, epochs, tmp_path):
    write_collection(tmp_path, make)
    train(neural_config(tmp_path, name, learning_rate=learning_rate, epochs=epochs), str(tmp_path / "run"))
    run, queries = read_run(str(tmp_path / "test.trec")), read_queries(str(tmp_path / "queries.tsv"))
    docs = Documents.open(str(tmp_path / "docs.tsv"))
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
    return GroupBatches(RankingData(config, words, RankingDataset.read(config)), groups, 4)


@pytest.mark.parametrize("loss", ["hinge", "lce"])
def test_a_batch_that_is_not_full_has_the_loss_of_its_groups(planted, loss):
    batches = batches_of(neural_config(planted, "knrm"), 12)
    shape = NeuralConfig("knrm", batches.data.tokenizer.size, dimension=32)
    tables, params = word_tables(shape, batches.data.tokenizer), init_params(shape, jax.random.key(0))
    compute = jax.jit(jax.value_and_grad(lambda p, b: group_loss(build(shape), tables, loss, p, b)[0]))
    rest = batches.batch([batches.data.unit(0, number)[0] for number in range(8)])
    assert rest["present"].shape == (12, 1 + NEGATIVES) and rest["present"].any(1).sum() == 8
    close = partial(np.testing.assert_allclose, atol=1e-6)
    jax.tree.map(close, compute(params, rest), compute(params, {name: x[:8] for name, x in rest.items()}))


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


@pytest.fixture(scope="module")
def trained(planted, tmp_path_factory) -> str:
    """KNRM on given vectors, which it does not train, with a selection."""
    path = tmp_path_factory.mktemp("trained")
    (path / "vectors.txt").write_text("".join(f"w{i} {i} 1 {-i}\n" for i in range(0, 200, 2)))
    fields = {"model.train_vectors": False, "vectors": str(path / "vectors.txt"), "learning_rate": 0.3}
    train(neural_config(planted, "knrm", select="RR@10", eval_every=4, steps=10, **fields), str(path / "run"))
    return str(path / "run")


def test_the_best_parameters_on_held_out_queries_are_kept_and_frozen_vectors_do_not_change(trained):
    rows = [row for row in read_metrics(trained) if row["split"] == "validation"]
    selected, last = best(trained), read_state(trained)
    assert [row["step"] for row in rows] == [0, 4, 8, 10] and selected["queries"] == TRAINED // 10
    assert selected["value"] == pytest.approx(max(row["RR@10"] for row in rows), rel=1e-5)
    _, params, words = load_ranker(trained)
    same = np.array_equal(params["score"]["kernel"], last["params/score/kernel"])
    assert same == (selected["step"] == 10)
    for number in (0, 8, 120):
        np.testing.assert_array_equal(last["params/vectors"][words.ids[f"w{number}"]], [number, 1, -number])


def test_what_a_neural_ranker_refuses(planted, trained, tmp_path):
    count_words([("x", "alpha beta")]).save(str(tmp_path / "foreign"))
    foreign = neural_config(planted, "knrm", tokenizer=str(tmp_path / "foreign"))
    (tmp_path / "docs.tsv").write_text("".join(f"d{n}x{i}\tzeta eta\n" for n in range(TRAINED, 460) for i in range(5)))
    files = [str(path) for path in (planted / "queries.tsv", planted / "test.trec", tmp_path / "out")]
    blank = Reranking(blank_query=True)
    for message, use in (
        ("the model reads 16 words", lambda: load_neural(trained, max_length=40)),
        ("is a neural ranker; only harp rerank and Reranker.from_pretrained", lambda: load_scorer(trained)),
        (r"^0\.0% of the words of the training queries .* \(2 words", lambda: train(foreign, str(tmp_path / "run"))),
        (r"^0\.0% of the words of the documents", lambda: rerank_files(trained, str(tmp_path / "docs.tsv"), *files)),
        ("--blank_query: knrm", lambda: rerank_files(trained, str(planted / "docs.tsv"), *files, blank)),
    ):
        with pytest.raises(InputError, match=message):
            use()
    assert len(Reranker.from_pretrained(trained).predict([("ab", "cd"), ("ab", "ab")])) == 2
