"""The linear map of vectors: its loss against loops, a planted map, and from pair records to sentence-transformers."""

import os

import numpy as np
import pytest

import harp_jax as hj
from harp_jax.base.errors import InputError
from harp_jax.checkpoints.sentence_transformers import Embedding
from harp_jax.training.linear_map import MapOptions, adapt, fit_map, nearest_share, read_pairs
from tests.support.commands import command
from tests.support.shards_fixture import write_job
from tests.support.synthetic import tokenizer
from tests.support.tiny_bert import save_encoder

TEXTS = ["w7 w8 w9", "w40", " ".join(f"w{i}" for i in range(60)), "w9 w8 w7 w7"]
MADE = Embedding("mean", ("Normalize",), (), ("w1 w2 ", "w3 "), 48, recorded=True)


def unit(x: np.ndarray) -> np.ndarray:
    return (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)


def distinct(count: int) -> np.ndarray:
    """Identities of pairs that share nothing."""
    return np.random.default_rng(3).integers(1, 2**31, (count, 4), np.int32)


def slow_loss(matrix: np.ndarray, queries: np.ndarray, pages: np.ndarray, may_compare: np.ndarray, tau: float) -> float:
    total = 0.0
    for i, query in enumerate(queries):
        compared = [j for j in range(len(pages)) if i == j or may_compare[i, j]]
        scores = {j: float(unit(matrix @ query) @ unit(matrix @ pages[j])) / tau for j in compared}
        total += np.log(sum(np.exp(s) for s in scores.values())) - scores[i]
    return total / len(queries)


def test_the_first_update_goes_down_the_gradient_of_the_equation():
    rng = np.random.default_rng(0)
    queries, pages = (unit(rng.normal(size=(8, 6))) for _ in range(2))
    identities, may_compare = distinct(8), np.ones((8, 8), bool)
    identities[1, 0] = identities[0, 0]  # linked from the same page
    identities[3, 1] = identities[2, 1]  # an equal query
    identities[5, 2:] = identities[4, 2:]  # an equal page
    for i, j in ((0, 1), (2, 3), (4, 5)):
        may_compare[i, j] = may_compare[j, i] = False
    options = MapOptions("", "", steps=1, learning_rate=1e-3, temperature=0.2)
    moved = fit_map(queries, pages, np.arange(8), identities, options) - np.eye(6)
    change, slope = 1e-3, np.zeros((6, 6))
    for at in np.ndindex(6, 6):
        step = np.zeros((6, 6))
        step[at] = change
        losses = [slow_loss(np.eye(6) + x, queries, pages, may_compare, 0.2) for x in (step, -step)]
        slope[at] = (losses[0] - losses[1]) / (2 * change)
    clear = np.abs(slope) > 0.01
    assert clear.sum() > 25
    np.testing.assert_allclose(moved[clear], -1e-3 * np.sign(slope[clear]), rtol=1e-3)  # Adam's first step


def test_learns_a_planted_map():
    """Queries say their pages in other coordinates: a shared map must make both meet, of pages it has not seen."""
    rng = np.random.default_rng(1)
    pages = unit(rng.normal(size=(2000, 32)))
    other = np.eye(32) + 0.5 * rng.normal(size=(32, 32))
    queries = unit(pages @ other.T + 0.3 * rng.normal(size=pages.shape))
    page, options = np.arange(2000, dtype=np.int32), MapOptions("", "", steps=600, learning_rate=3e-3)
    matrix = fit_map(queries[:1500], pages, page[:1500], distinct(1500), options)
    before, after = (nearest_share(each, queries[1500:], pages, page[1500:]) for each in (np.eye(32), matrix))
    assert before < 0.25 and after > 2 * before


def job(directory: object, records: dict[str, list[int]]) -> str:
    tokenizer().save(str(directory))
    write_job(str(directory), records)
    return str(directory)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> str:
    return job(tmp_path_factory.mktemp("pairs"), {"qdm": [70, 50], "mlm": [10]})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> str:
    return save_encoder(str(tmp_path_factory.mktemp("encoder") / "encoder"), tokenizer(), 64, MADE)


def test_an_adapted_encoder_has_the_same_vectors_in_sentence_transformers(pairs, encoder, tmp_path, capsys):
    from safetensors.numpy import load_file
    from sentence_transformers import SentenceTransformer

    output = str(tmp_path / "adapted")
    strong = MapOptions(pairs, encoder, steps=50, learning_rate=1e-2)
    adapt(strong, output=output)
    ours, theirs = hj.Retriever.from_pretrained(output), SentenceTransformer(output, device="cpu")
    assert theirs.max_seq_length == 48
    assert (ours.encode(TEXTS) * theirs.encode_document(TEXTS)).sum(1).min() > 0.99999
    assert (ours.encode(TEXTS, as_queries=True) * theirs.encode_query(TEXTS)).sum(1).min() > 0.99999
    # Whoever may read the config may read the weights: safetensors writes its files for the owner only.
    names = ("config.json", "model.safetensors", "3_Dense/model.safetensors")
    assert len({os.stat(os.path.join(output, name)).st_mode for name in names}) == 1
    # A second map follows the first. Stored vectors of the start need no encoder.
    twice = str(tmp_path / "twice")
    command("adapt", pairs, encoder=output, output=twice)
    assert "adapted to 114 links; of " in capsys.readouterr().out
    for start, adapted, layer in ((encoder, output, "3_Dense"), (output, twice, "5_Dense")):
        matrix = load_file(os.path.join(adapted, layer, "model.safetensors"))["linear.weight"]
        stored, vectors = (hj.Retriever.from_pretrained(path).encode(TEXTS) for path in (start, adapted))
        assert np.abs(stored - vectors).max() > 1e-3
        np.testing.assert_allclose(unit(stored @ matrix.T), vectors, atol=2e-6)


def test_links_of_every_task_are_held_out(encoder, tmp_path):
    made = (job(tmp_path / str(len(records)), records) for records in ({"qdm": [8], "rqp": [8]}, {"qdm": [8]}))
    both, one = (read_pairs(MapOptions(pairs, encoder)).queries for pairs in made)
    assert len(both) == 16 and sum(query in one for query in both[:2]) == 1


def test_bad_input_is_refused_in_one_line(pairs, encoder, tmp_path):
    bare = save_encoder(str(tmp_path / "bare"), tokenizer(), 64)
    too_small = {"steps": 0, "batch_pairs": 1, "temperature": -1, "learning_rate": 0}
    for change, message in (
        ({"encoder": bare}, "does not record how it pools hidden states"),
        ({"pairs": job(tmp_path / "one", {"qdm": [1]})}, "has pairs of 1 pages, and a page is compared with"),
        ({"pairs": job(tmp_path / "texts", {"mlm": [5]})}, "has no training pairs"),
        ({"steps": 2, "temperature": 1e-45}, "not finite; use another learning_rate or temperature"),
        *(({name: number}, f"{name}={number}: use") for name, number in too_small.items()),
    ):
        with pytest.raises(InputError, match=message):
            adapt(MapOptions(**{"pairs": pairs, "encoder": encoder} | change), output=str(tmp_path / "out"))
