"""BM25 against its formula, and the command on files."""

import math
import re
import subprocess
import sys

import numpy as np
import pytest

from harp_jax.errors import InputError
from harp_jax.first_stage import Bm25, arguments_parser, main, top
from harp_jax.trec import read_run

DOCS = {
    "D1": "wing lift drag wing",
    "D2": "wing tail rudder elevator aileron flap",
    "D3": "boundary layer drag",
    "D4": "",
    "D5": "heat transfer in a boundary layer with heat sources",
}
STOPWORDS = {"in", "a", "with"}


def slow_bm25(query: str, k1: float, b: float) -> dict[str, float]:
    """Robertson's sum over query terms, with Lucene's idf; an empty document counts as one empty word, as in bm25s."""
    texts = {d: [w for w in re.findall(r"\w\w+", t) if w not in STOPWORDS] or [""] for d, t in DOCS.items()}
    mean = sum(map(len, texts.values())) / len(texts)
    scores = {}
    for docid, words in texts.items():
        score = 0.0
        for term in query.split():
            df = sum(term in words for words in texts.values())
            tf = words.count(term)
            idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
            score += idf * tf / (tf + k1 * (1 - b + b * len(words) / mean))
        scores[docid] = score
    return scores


@pytest.mark.parametrize("k1, b", [(0.9, 0.4), (1.2, 0.75)])
def test_scores_are_those_of_the_formula(k1, b):
    bm25 = Bm25(DOCS.items(), k1=k1, b=b, stemmer="")
    for query in ("wing drag", "boundary layer heat", "wing wing lift"):
        docids, scores = bm25.search(query, 10)
        expected = {d: s for d, s in slow_bm25(query, k1, b).items() if s > 0}
        assert set(docids) == set(expected)
        np.testing.assert_allclose(scores, [expected[d] for d in docids], rtol=1e-5)
        assert list(scores) == sorted(scores, reverse=True)


def test_stemming_meets_forms_the_documents_lack():
    assert set(Bm25(DOCS.items()).search("Sourcing WINGS", 10)[0]) == {"D1", "D2", "D5"}
    assert Bm25(DOCS.items(), stemmer="").search("wings", 10)[0] == []
    with pytest.raises(InputError, match="no stemmer 'klingon'"):
        Bm25(DOCS.items(), stemmer="klingon")


def test_top_breaks_ties_by_position():
    scores = np.array([1, 0, 2, 1, 1, 3, 1, -1], np.float32)
    assert top(scores, 4).tolist() == [5, 2, 0, 3]
    assert top(scores, 100).tolist() == [5, 2, 0, 3, 4, 6]
    assert top(np.zeros(3, np.float32), 2).tolist() == []


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "docs.tsv").write_text("".join(f"{d}\t\t\t{t}\n" for d, t in DOCS.items()))
    (tmp_path / "queries.tsv").write_text("q1\twing drag\nq2\tthe of\nq3\tboundary\n")
    return tmp_path


def options(files, **more):
    named = {"docs": files / "docs.tsv", "queries": files / "queries.tsv", "output": files / "bm25.trec", **more}
    return [f"--{name}={value}" for name, value in named.items()]


def test_command_writes_a_run(files):
    done = subprocess.run(
        [sys.executable, "-m", "harp_jax.first_stage", *options(files, k=2)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 3 queries match no document: q2" in done.stderr
    run = read_run(str(files / "bm25.trec"))
    assert {qid: ranking.ranked() for qid, ranking in run.items()} == {"q1": ["D1", "D3"], "q3": ["D3", "D5"]}


def test_command_reports_bad_input_in_one_line(files):
    (files / "docs.tsv").write_text("D1\tonly three\tcolumns\n")
    done = subprocess.run(
        [sys.executable, "-m", "harp_jax.first_stage", *options(files)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "docs.tsv, line 1: 3 columns" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (files / "bm25.trec").exists()


def test_fields_decide_what_is_indexed(files):
    (files / "docs.tsv").write_text("D1\t\ttitle word\tbody word\nD2\t\tother\twing\n")
    main(arguments_parser().parse_args(options(files, fields="title")))
    assert (files / "bm25.trec").read_text() == ""
    main(arguments_parser().parse_args(options(files, fields="body")))
    assert read_run(str(files / "bm25.trec"))["q1"].ranked() == ["D2"]
    with pytest.raises(InputError, match="--k=0"):
        main(arguments_parser().parse_args(options(files, k=0)))
