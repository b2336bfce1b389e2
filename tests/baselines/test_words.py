"""The word vocabulary, its idf table, and word vectors from text files and from word2vec."""

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.baselines.neural_ir.words import (
    VECTORS,
    WordVocabulary,
    count_words,
    load_words,
    read_vectors,
    write_words,
)
from harp_jax.text.languages import splitter

TEXTS = [("a", "Red fox; red Fox_den"), ("b", "the fox runs"), ("c", "café the 42")]


def test_words_are_counted_by_document_and_ordered_by_frequency():
    found = count_words(TEXTS)
    assert found.words == ("fox", "red", "the", "42", "café", "den", "runs") and found.size == 8
    assert found.frequencies[:2] == (2, 1)
    places = [0, found.ids["fox"], found.ids["42"]]
    np.testing.assert_allclose(found.idf[places], [0, np.log(1.5), np.log(3)], rtol=1e-6)
    assert found.encode("The RED owl fox", 4) == [found.ids["the"], found.ids["red"], 0, found.ids["fox"]]
    assert count_words(TEXTS, min_documents=2).words == ("fox", "the")
    assert count_words(TEXTS, max_words=1).words == ("fox",)
    stemmed = count_words([("a", "running runs"), ("b", "run")], "english")
    assert stemmed.words == ("run",) and stemmed.frequencies == (2,)
    with pytest.raises(InputError, match="no word occurs in 9 of 3 documents"):
        count_words(TEXTS, min_documents=9)


def test_scripts_without_spaces_are_split_as_in_lexical_ranking():
    text = "Linuxの設定ガイド、ไทยนี้ in_2024 Über 北"
    words = WordVocabulary(("x",), (1,), 1).split(text)
    assert words == ["linux", "の設", "設定", "定ガ", "ガイ", "イド", "ไท", "ทย", "ยนี้", "in", "2024", "über", "北"]
    lexical, ours = ([word for word in found if not word.isascii()] for found in (splitter("ja")(text), words))
    assert lexical == ours
    assert WordVocabulary(("設定",), (1,), 1).encode("設定を見る", limit=2) == [1, 0]


@pytest.mark.parametrize("header", ["", "3 2\n", "\n3 2 \n"])
def test_text_vectors_with_and_without_header(tmp_path, header):
    known = WordVocabulary(("fox", "red", "owl"), (1, 1, 1), 2)
    path = tmp_path / "vectors.txt"
    path.write_text(header + "red 1 2 \n\nat name@example.com 5 5\n  \nfox -1 0.5\n")
    vectors, found = read_vectors(str(path), known)
    assert found == 2 and vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors[:3], [[0, 0], [-1, 0.5], [1, 2]])
    assert np.abs(vectors[3]).max() > 0


@pytest.mark.parametrize(
    "text, message",
    [
        ("red 1 2\nfox 1\n", "line 2: 1 numbers, but the first line has 2"),
        ("fox 1 2\nred nan 2\n", "line 2: the vector of 'red' has non-finite numbers"),
        ("cat 1 2\n", "no word of the vocabulary has a vector"),
        ("3 2\nfox 1 2\nred 3 4\n", "vectors.txt has 2 vectors, but the header says 3; fetch or write the file again"),
    ],
)
def test_bad_vectors_are_named(tmp_path, text, message):
    (tmp_path / "vectors.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        read_vectors(str(tmp_path / "vectors.txt"), WordVocabulary(("fox", "red"), (1, 1), 2))


def test_vectors_are_trained_on_the_documents(tmp_path):
    pytest.importorskip("gensim")
    lines = [f"d{i}\t{'sun moon star' if i % 2 else 'cat dog fox'} number{i % 3}\n" for i in range(60)]
    (tmp_path / "docs.tsv").write_text("".join(lines))
    made = write_words(str(tmp_path / "docs.tsv"), str(tmp_path / "words"), dimension=8, epochs=40)
    known = load_words(str(tmp_path / "words"))
    vectors, found = read_vectors(str(tmp_path / "words" / VECTORS), known)
    assert found == len(known.words) == made.words == made.vectors == 9
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
    near, far = (unit[known.ids["sun"]] @ unit[known.ids[other]] for other in ("moon", "cat"))
    assert near > far
