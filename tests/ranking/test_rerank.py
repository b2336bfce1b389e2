"""Re-ranking: the scores of sentence-transformers for all batch sizes, and one-line errors for bad runs."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import harp_jax as hj
from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.base.made import forget
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.corpus.trec import read_run, write_run
from harp_jax.evaluation.report import truncated_remark
from harp_jax.ranking import rerank as ranking_rerank
from harp_jax.ranking.rerank import Part, load_scorer
from harp_jax.ranking.scorers import POOLED, CrossEncoderScorer, Windows, embed_rows, score_rows
from tests.support.commands import command
from tests.support.tiny_bert import CONFIG, WORDS, random_params, small_tokenizer

RNG = np.random.default_rng(0)
VOCABULARY = [word for word in WORDS.split() if not word.startswith("##")]


def prose(words: int) -> str:
    return " ".join(RNG.choice(VOCABULARY, words))


DOCS = {f"D{i}": prose(int(RNG.integers(0, 40))) for i in range(30)}
QUERIES = {f"q{i}": prose(int(RNG.integers(1, 6))) for i in range(5)}
CANDIDATES = {qid: [f"D{i}" for i in RNG.permutation(30)[:12]] for qid in list(QUERIES)[:4]}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = str(tmp_path_factory.mktemp("rerank") / "model")
    save_hf(directory, CONFIG, random_params(CONFIG), small_tokenizer(), "")
    return directory


@pytest.fixture
def files(tmp_path):
    (tmp_path / "docs.tsv").write_text("".join(f"{d}\t\t\t{text}\n" for d, text in DOCS.items()))
    (tmp_path / "queries.tsv").write_text("".join(f"{q}\t{text}\n" for q, text in QUERIES.items()))
    write_run(str(tmp_path / "bm25.trec"), [(q, d, -np.arange(len(d))) for q, d in CANDIDATES.items()])
    return tmp_path


def reranked(files, model, *flags, **more) -> str:
    named = {"docs": files / "docs.tsv", "queries": files / "queries.tsv", "run": files / "bm25.trec"}
    forget(str(files / "out.trec"))
    command("rerank", *flags, **named | {"model": model, "output": files / "out.trec", **more})
    return (files / "out.trec").read_text()


def test_the_report_says_of_how_many_candidates_only_the_beginning_was_read(files, model, capsys):
    reranked(files, model, windows=2, max_length=16)
    scorer, expected = load_scorer(model, max_length=16), 0
    for qid, docids in CANDIDATES.items():
        room = scorer.room(*scorer.encode_queries([QUERIES[qid]]))
        texts = scorer.encode_documents([DOCS[docid] for docid in docids], 10**6)
        expected += sum(len(text) > room * 3 // 2 for text in texts)
    assert 0 < expected < 48 and f"read in {expected} of 48 pairs; --windows" in capsys.readouterr().err
    output = str(files / "out.trec")
    (remark,) = truncated_remark({"HARP": [output, output]})  # two seeds
    assert f"HARP in {2 * expected} of 96 pairs" in remark
    # The length is the recorded one, or the largest; a longer one than in training is noted.
    for recorded, length in ((24, 24), (41, 40)):
        given = CONFIG, random_params(CONFIG), replace(small_tokenizer(), max_length=recorded)
        assert CrossEncoderScorer(*given).max_length == length
        assert bool(CrossEncoderScorer(*given, max_length=32).check([], [], blank=False)) == (length < 32)


def test_a_killed_run_resumes_and_ends_with_the_same_bytes(files, model, monkeypatch, capsys):
    monkeypatch.setattr(ranking_rerank, "pairs_at_once", lambda: 12)  # one query per chunk
    whole = reranked(files, model, max_length=16)
    truncated = capsys.readouterr().err.split("only the beginning")[1]
    scored, real = [], ranking_rerank.rerank_chunk

    def dies_at_the_third(scorer, chunk, *rest):
        scored.append(chunk[0][0])
        if len(scored) == 3:
            raise KeyboardInterrupt
        return real(scorer, chunk, *rest)

    (files / "out.trec").unlink()
    monkeypatch.setattr(ranking_rerank, "rerank_chunk", dies_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        reranked(files, model, max_length=16)
    assert not (files / "out.trec").exists()
    with (files / "out.trec.part").open("a") as part:
        part.write("q9 Q0 D1 1 2.5 harp_jax\n")  # of a chunk that was not finished
    assert reranked(files, model, max_length=16) == whole
    assert scored == [*CANDIDATES][:3] + [*CANDIDATES][2:]
    said = capsys.readouterr().err
    assert "resuming after 24 of 48 pairs" in said and said.endswith(truncated) and " of 48 pairs" in truncated
    assert not (files / "out.trec.part").exists()


def test_a_part_of_other_inputs_is_not_used(files, model):
    expected, part = reranked(files, model, k=3), files / "out.trec.part"
    for left in ("harp rer", "harp rerank another\nq1 Q0 D1 1 1 x\n\t0 0\n"):
        part.write_text(left)
        assert reranked(files, model, k=3) == expected and not part.exists()
    _open = Part(str(files / "out.trec"), "key")
    with pytest.raises(InputError, match="another process is writing to"):
        reranked(files, model, k=3)
    del _open
    part.write_text("my diary")
    with pytest.raises(InputError, match=r"out\.trec\.part is not part of a run; move it away"):
        reranked(files, model, k=3)
    (files / "bad.trec").write_text("q1 Q0 D1 1 3 x\nq1 Q0 E7 2 2 x\nq2 Q0 E8 1 1 x\n")
    with pytest.raises(InputError, match=r"2 documents that .*docs.tsv lacks, such as E7"):
        reranked(files, model, run=files / "bad.trec")
    assert part.read_text() == "my diary"


@pytest.mark.parametrize("room", [1, 4, 7])
def test_windows_overlap_by_half_and_leave_no_token_unread(room):
    assert [(w[0], w[-1] + 1) for w in Windows(9).of(np.arange(17), 10)] == [(0, 10), (5, 15), (7, 17)]
    for tokens in range(1, 40):
        found = Windows(99).of(np.arange(tokens), room)
        assert all(len(window) for window in found)
        assert sorted({int(i) for window in found for i in window}) == list(range(tokens))
        read = np.arange(tokens)[: Windows(3).reach(room)]  # the part of the document that a scorer encodes
        assert [*map(list, Windows(3).of(read, room))] == [*map(list, Windows(3).of(np.arange(tokens), room))]


def test_maxp_is_the_best_window(model):
    reranker = Reranker.from_pretrained(model)
    scorer = reranker.scorer
    documents = [prose(90), prose(5), ""]
    ids = scorer.encode_documents(documents, 10**6)
    for query in (QUERIES["q1"], prose(100)):  # the second fills the row: half of it is left to the document
        (asked,) = scorer.encode_queries([query])
        room = scorer.room(asked)
        assert len(ids[0]) > 2 * room > len(ids[1]) and len(scorer.pair(asked, ids[0][:room])[1]) == room
        for score, document in zip(reranker.rerank(query, documents, Windows(20)), ids):
            end = max(len(document) - room, 0)
            windows = [document[min(start, end) :][:room] for start in range(0, end + room // 2, room // 2)]
            best = max(scorer.score([scorer.pair(asked, each) for each in windows]))
            assert best == pytest.approx(score, abs=1e-5)


def test_options_of_the_command(files, model, capsys):
    def ranked(*flags, **options):
        reranked(files, model, *flags, **options)
        return read_run(str(files / "out.trec"))

    scores = {}
    for ranking in ranked("--blank_query").values():
        for docid, score in zip(ranking.docids, ranking.scores):
            assert scores.setdefault(docid, score) == pytest.approx(score, abs=1e-5)
    assert "1 of 5 queries have no candidates" in capsys.readouterr().err
    run, reranker = ranked(k=3), Reranker.from_pretrained(model)
    for qid, docids in CANDIDATES.items():
        expected = reranker.rerank(QUERIES[qid], [DOCS[docid] for docid in docids[:3]])
        found = dict(zip(run[qid].docids, run[qid].scores))
        assert found == pytest.approx(dict(zip(docids, expected)), abs=1e-5)
    (files / "few").write_text("q2\tits text\nq1\n")
    assert [*ranked(only=files / "few")] == ["q1", "q2"]


def test_equal_scores_and_scores_that_are_no_numbers_are_told_by_every_function(files, model, monkeypatch, capsys):
    ours, docs = Reranker.from_pretrained(model), {"a": "red dog", "b": "one mat", "c": "sat"}
    given = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, {"q": "the cat"}, docs

    def scoring(of_number) -> None:
        score = lambda self, pairs, bar=None: np.array([*map(of_number, range(len(pairs)))])  # noqa: E731
        monkeypatch.setattr(CrossEncoderScorer, "score", score)

    scoring(lambda number: 0.0)
    with pytest.warns(UserWarning, match="all scores are equal; the documents keep their order"):
        ours.rank("the cat", [*docs.values()])
    reranked(files, model)
    assert "all scores are equal for 4 of the 4 scored queries" in capsys.readouterr().err
    scoring(lambda number: number // 2)
    with pytest.warns(UserWarning, match="some scores are equal for 1 of the 1 scored queries with several candidates"):
        assert [*hj.rerank_run(ours, *given)["q"]] == ["c", "a", "b"]
    scoring(lambda number: np.nan)
    for call in (lambda: hj.rerank_run(ours, *given), lambda: reranked(files, model)):
        with pytest.raises(InputError, match="the model gives scores that are not finite numbers"):
            call()


def test_rank_and_predict_are_those_of_cross_encoder(model):
    from sentence_transformers import CrossEncoder

    ours, theirs = Reranker.from_pretrained(model), CrossEncoder(model, device="cpu")
    documents = [DOCS[f"D{i}"] for i in range(12)]
    found, expected = (side.rank(QUERIES["q2"], documents, top_k=5, return_documents=True) for side in (ours, theirs))
    assert found == [{**hit, "score": pytest.approx(hit["score"], abs=1e-4)} for hit in expected]
    assert ours.predict([]).shape == (0,)
    # Queries shorter and longer than half of the 40 tokens, with documents that are longer, shorter and equal.
    pairs = [(prose(q), prose(d)) for q in (5, 18, 19, 20, 36, 60) for d in (0, 3, 18, 19, 40, 90)]
    expected = theirs.predict(pairs)
    for n in (64, 4096):
        np.testing.assert_allclose(Reranker.from_pretrained(model, batch_tokens=n).predict(pairs), expected, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_float32_is_not_tf32(dtype):
    """With dtype float32, products are in full float32 on every device."""
    config, params = CONFIG.computing_in(dtype), random_params(CONFIG)
    tokens, ends = jnp.ones((2, 8), jnp.int32), jnp.full(2, 8)
    scoring = jax.make_jaxpr(lambda *given: score_rows(config, *given))(params, tokens, ends, ends)
    embedding = jax.make_jaxpr(lambda *given: embed_rows(config, POOLED, *given))({**params, "dense": ()}, tokens, ends)
    for traced in (str(scoring), str(embedding)):
        products, exact = traced.count("= dot_general["), traced.count("Precision.HIGHEST")
        assert products and bool(exact) == (dtype == "float32") and exact in (0, 2 * products)
