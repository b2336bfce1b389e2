"""Cosines of mean-pooled vectors and nearest documents, against torch and a slow search."""

import json
import os
import shutil
import string
from pathlib import Path

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.files import SUMS
from harp_jax.base.made import forget
from harp_jax.base.randomness import generator
from harp_jax.checkpoints.sentence_transformers import Embedding
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import read_run
from harp_jax.model.encoders.bert import BertShape
from harp_jax.ranking import vectors
from harp_jax.ranking.rerank import load_scorer, predict
from harp_jax.ranking.scorers import BiEncoderScorer
from harp_jax.ranking.vectors import Embedded, PassageVectors, add_texts, read_texts, text_hashes
from harp_jax.text.tokenizer import load_tokenizer
from tests.support.commands import command
from tests.support.tiny_bert import WORDS, save_encoder, small_tokenizer
from tests.support.tokenizers import save_trained

RNG = np.random.default_rng(0)
WHOLE = [word for word in WORDS.split() if not word.startswith("##")]
DOCS = {f"D{i}": " ".join(RNG.choice(WHOLE, n)) for i, n in enumerate([3, 70, 9, 1, 30, 12, 45, 8, 22, 5])}
QUERIES = {f"q{i}": " ".join(RNG.choice(WHOLE, 3)) for i in range(5)}
CLS = '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}'  # as in most published models


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return save_encoder(str(tmp_path_factory.mktemp("encoder") / "hf"), small_tokenizer(), 24)


@pytest.fixture
def files(tmp_path, monkeypatch):  # a separate cache, whose folders are counted
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("BLOCK", "ROWS", "PART", "QUERIES"):  # several blocks
        monkeypatch.setattr(vectors, name, 3)
    (tmp_path / "docs.tsv").write_text("".join(f"{d}\t\t\t{text}\n" for d, text in DOCS.items()))
    (tmp_path / "queries.tsv").write_text("".join(f"{q}\t{text}\n" for q, text in QUERIES.items()))
    (tmp_path / "own.tsv").write_text("q1\tD4\nq1\tD0\n")
    return tmp_path


def searched(files, encoder, *flags):
    named = {"docs": files / "docs.tsv", "queries": files / "queries.tsv", "output": files / "v.trec"}
    forget(str(files / "v.trec"))
    command("first-stage", "--model=vectors", *flags, encoder=encoder, **named)
    return read_run(str(files / "v.trec"))


def slow(encoder) -> dict[str, dict[str, float]]:
    """qid → docid → torch's best cosine over the document's first four windows of 22 tokens that overlap by half."""
    import torch
    import transformers

    model, ids = transformers.AutoModel.from_pretrained(encoder).double(), small_tokenizer()

    def vector(tokens):
        with torch.no_grad():
            return model(torch.tensor([[ids.cls, *tokens, ids.sep]])).last_hidden_state[0].mean(0)

    def windows(tokens):
        ends = max(len(tokens) - 22, 0)
        return [tokens[min(start, ends) :][:22] for start in range(0, ends + 11, 11)][: vectors.PASSAGES]

    passages = {d: torch.stack([vector(w) for w in windows(ids.encode(text))]) for d, text in DOCS.items()}
    asked = {q: vector(ids.encode(text)) for q, text in QUERIES.items()}
    best = lambda query, each: float(torch.cosine_similarity(query, each).max())  # noqa: E731
    return {q: {d: best(query, each) for d, each in passages.items()} for q, query in asked.items()}


def test_the_nearest_documents_are_those_of_a_slow_search(files, encoder):
    own, expected = f"--exclude={files / 'own.tsv'}", slow(encoder)
    del expected["q1"]["D4"], expected["q1"]["D0"]  # the query was taken from these
    found = searched(files, encoder, "--k=4", own)
    for qid, scores in expected.items():
        np.testing.assert_allclose([scores[d] for d in found[qid].docids], found[qid].scores, atol=1e-3)  # of 16 bits
        np.testing.assert_allclose(sorted(found[qid].scores), sorted(scores.values())[-4:], atol=1e-3)
    (files / "x.trec").write_text("".join(f"q1 Q0 D{n} {n} {-n} x\n" for n in range(10)))
    found = searched(files, encoder, f"--run={files / 'x.trec'}", own)
    assert [*found] == ["q1"] and {*found["q1"].docids} == expected["q1"].keys()
    np.testing.assert_allclose([expected["q1"][d] for d in found["q1"].docids], found["q1"].scores, atol=1e-3)
    (files / "x.trec").write_text("q1 Q0 D77 1 1 x\n")
    with pytest.raises(InputError, match="D77 is not among the documents"):
        searched(files, encoder, f"--run={files / 'x.trec'}")
    (files / "docs.tsv").write_text("A\t\t\t\nB\t\t\t" + WHOLE[0] + "\n")
    everything = searched(files, encoder, "--k=1000000000000")  # no more memory than for two
    assert {*everything["q0"].docids} == {"A", "B"}


def test_vectors_are_computed_once_per_content_and_again_if_they_are_damaged(files, encoder, monkeypatch, capsys):
    """A second collection may have the same documents, and the encoder may be fetched again."""
    first = searched(files, encoder)
    (folder,) = (files / "cache" / "harp_jax" / "vectors").iterdir()
    embedded, real = [], vectors.passage_vectors
    noting = lambda scorer, texts, *more: embedded.extend(texts) or real(scorer, texts, *more)  # noqa: E731
    monkeypatch.setattr(vectors, "passage_vectors", noting)
    path, again = files / "docs.tsv", shutil.copytree(encoder, files / "again")
    text = path.read_text()
    path.unlink()
    path.write_text(text)
    assert searched(files, str(again)) == first and not embedded
    for name, flipped in ((vectors.VECTORS_FILE, 300), (vectors.TEXTS_FILE, 9)):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:flipped] + bytes([data[flipped] ^ 1]) + data[flipped + 1 :])
        assert searched(files, encoder) == first and (folder / name).read_bytes() == data
        assert "are damaged and have to be computed again" in capsys.readouterr().err
    embedded.clear()
    shorter = searched(files, encoder, "--max_length=10")
    assert shorter != first and len(embedded) == 10  # other windows need new vectors
    assert searched(files, encoder, "--passages=1") != shorter and len(embedded) == 20
    path.write_text(text.replace(DOCS["D0"], "a"))
    (again / "1_Pooling").mkdir()
    (again / "1_Pooling" / "config.json").write_text(CLS)
    assert searched(files, str(again)) and len(embedded) == 30


def test_only_new_texts_are_embedded_and_a_killed_run_resumes(tmp_path, encoder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(vectors, "BLOCK", 2)

    def documents(records):
        (tmp_path / "docs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        return Documents.open(str(tmp_path / "docs.jsonl"), ("body",))

    records = [{"id": docid, "body": DOCS[docid]} for docid in ("D0", "D1", "D2", "D3")]
    folder, other = str(tmp_path / "one"), str(tmp_path / "other")
    assert add_texts(documents(records), encoder, 1, folder) == Embedded(4, 4)
    records[0]["body"] = "a new red text"
    docs = documents(records + [{**record, "id": f"copy-{record['id']}"} for record in records])  # of the same texts
    assert add_texts(docs, encoder, 1, folder) == Embedded(1, 4)
    # Killed after half a line, in a block after a sample.
    assert add_texts(docs, encoder, 1, other, sample=vectors.SAMPLE).new == 4
    texts = os.path.join(other, "texts.tsv")
    os.truncate(texts, os.path.getsize(texts) - 30)
    os.remove(os.path.join(other, SUMS))
    assert add_texts(docs, encoder, 1, other) == Embedded(2, 4)
    stored = [PassageVectors(place, encoder, 1, text_hashes(docs)).cosines("red cat")[0] for place in (folder, other)]
    np.testing.assert_allclose(*stored, atol=2e-3)
    assert stored[0][:4].tolist() == stored[0][4:].tolist()
    # Damaged vectors, of a finished and an unfinished run, are refused and computed again.
    for size, name in ((os.path.getsize(f"{folder}/vectors.float16"), "none"), (100, SUMS)):
        Path(folder, "vectors.float16").write_bytes(bytes(size))
        Path(folder, name).unlink(missing_ok=True)
        with pytest.raises(InputError, match="lacks the vectors of some documents"):
            PassageVectors(folder, encoder, 1, text_hashes(docs))
        assert add_texts(docs, encoder, 1, folder) == Embedded(4, 4)
    # Texts that are mostly gone start anew.
    assert add_texts(documents(records[:1]), encoder, 1, other) == Embedded(1, 1) and len(read_texts(other)[0]) == 1


def test_the_floor_is_what_queries_without_meaning_reach(tmp_path, encoder, files):
    """95 % of them, as computed one by one."""
    docs = Documents.open(str(files / "docs.tsv"))
    add_texts(docs, encoder, 1, str(tmp_path / "v"))
    index = PassageVectors(str(tmp_path / "v"), encoder, 1, text_hashes(docs))
    rng, letters = generator("queries without meaning"), [*string.ascii_lowercase]
    nearest = []
    for _ in range(vectors.RANDOM_QUERIES):
        words = ["".join(rng.choice(letters, rng.integers(4, 11))) for _ in range(rng.integers(1, 4))]
        nearest.append(index.cosines(" ".join(words))[0].max())
    assert index.noise == pytest.approx(np.quantile(nearest, 0.95), abs=1e-3)


def sentence_encoder(encoder, directory, *steps, pooling="mean", length=24, **fields):
    """A sentence-transformers directory: the encoder, its pooling, and modules after it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    model = SentenceTransformer(modules=[Transformer(encoder), Pooling(32, pooling_mode=pooling), *steps], device="cpu")
    model.max_seq_length = length
    model.save_pretrained(str(directory))
    path = directory / "config_sentence_transformers.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return SentenceTransformer(str(directory), device="cpu")


def dense(size, width, activation):
    import torch
    from sentence_transformers.base.modules import Dense

    return Dense(size, width, bias=width != 12, activation_function=getattr(torch.nn, activation)())


@pytest.mark.parametrize("pooling, document, length", [("cls", "passage", 24), ("mean", "document", 12)])
def test_layers_prompts_and_length_are_those_of_torch(pooling, document, length, files, encoder, tmp_path, capsys):
    from sentence_transformers.base.modules import Normalize

    steps = [dense(32, 20, "Tanh"), Normalize(), dense(20, 12, "Identity"), Normalize()]
    prompts = {"prompts": {"query": "one cat: ", document: "a dog, ", "other": "red"}, "default_prompt_name": "other"}
    theirs = sentence_encoder(encoder, tmp_path / "st", *steps, pooling=pooling, length=length, **prompts)
    # encode_document prefers the prompt "document", even if empty.
    asked, read = theirs.encode_query([*QUERIES.values()]), theirs.encode([*DOCS.values()], prompt_name=document)
    if pooling == "cls":
        (tmp_path / "st" / "1_Pooling" / "config.json").write_text(CLS)
    scorer = load_scorer(str(tmp_path / "st"), cosine=True)
    assert capsys.readouterr().err.count("note: ") == 1 and scorer.max_length == length
    pairs = [(q, d) for q in QUERIES.values() for d in DOCS.values()]
    np.testing.assert_allclose(predict(scorer, pairs), (asked @ read.T).ravel(), atol=2e-6)
    found = searched(files, str(tmp_path / "st"), "--passages=1")
    for row, qid in enumerate(QUERIES):
        scores = dict(zip(found[qid].docids, found[qid].scores))
        np.testing.assert_allclose([scores[d] for d in DOCS], asked[row] @ read.T, atol=1e-3)  # stored in 16 bits


@pytest.mark.parametrize("kind", ["bert", "modernbert", "xlm-roberta"])
def test_tokens_of_a_prompt_are_those_before_the_text(kind, tmp_path):
    """Also if a word has different tokens after a space than at the start of a text."""
    lines = [*DOCS.values(), *QUERIES.values(), "query: passage: "]
    tokenizer = load_tokenizer(save_trained(kind, str(tmp_path), lines, 300))
    shape, made = BertShape(tokenizer.size, 1, 32, 2, 64, 99), Embedding(prompts=("query: ", "passage: "))
    scorer = BiEncoderScorer(shape, {"encoder": {}}, tokenizer, made=made)
    for text in lines:
        (query,), (document,) = scorer.encode_queries([text]), scorer.encode_documents([text])
        assert scorer.as_query(query).tolist() == tokenizer.encode(f"query: {text}")[:97]
        assert scorer.as_document(document).tolist() == tokenizer.encode(f"passage: {text}")[:97]


def test_other_and_damaged_modules_are_refused(encoder, tmp_path):
    folder = tmp_path / "st"
    sentence_encoder(encoder, folder, dense(32, 12, "ReLU"))
    for name, content, message in [
        ("modules.json", "", r"its module Dense \(ReLU\) is not supported"),
        ("config_sentence_transformers.json", '{"prompts": {"query": 3}}', "prompts={'query': 3} is not an object"),
        ("modules.json", '[{"type": "x.Transformer", "path": ""}]', "its module x.Transformer is custom code"),
    ]:
        (folder / name).write_text(content or (folder / name).read_text())
        with pytest.raises(InputError, match=message):
            load_scorer(str(folder), cosine=True)
    with pytest.raises(InputError, match="max_length=2: the model reads 3 to 24 tokens"):
        load_scorer(encoder, max_length=2, cosine=True)
