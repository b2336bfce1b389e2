"""Every kind of file with a byte order mark, Windows line ends and gzip, and what is said where one repeats itself."""

import gzip
import json

import pytest

from harp_jax.base.errors import InputError
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.folds import chosen_queries, read_folds, read_subset
from harp_jax.corpus.trec import read_ids, read_qrels, read_queries, read_run
from harp_jax.ranking.lexical.first_stage import excluded_of

MARK = b"\xef\xbb\xbf"
WARTS = {
    "plain": lambda data: data,
    "mark": lambda data: MARK + data,
    "windows": lambda data: data.replace(b"\n", b"\r\n"),
    "all": lambda data: MARK + b"\r\n" + data.replace(b"\n", b"\r\n").rstrip() + b"\r\n\r\n",
}
QUERIES = '{"_id": "q1", "text": "one wörd"}\n{"_id": 2, "text": " two "}\n'
BEIR_QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n2\td1\t1\n"
DOCS = '{"_id": "d1", "title": "T", "text": "bödy"}\n{"_id": "d2", "text": "other"}\n'


@pytest.fixture(params=[(wart, packed) for wart in WARTS for packed in (False, True)], ids=str)
def write(request, tmp_path, monkeypatch):
    """Writes a text under a name as the wart has it, and says where."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wart, packed = request.param

    def written(name: str, text: str) -> str:
        data = WARTS[wart](text.encode())
        path = tmp_path / (name + ".gz" * packed)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if packed else data)
        return str(path)

    return written


def test_queries(write):
    expected = {"q1": "one wörd", "2": "two"}
    assert read_queries(write("queries.jsonl", QUERIES)) == expected
    assert read_queries(write("queries.tsv", "q1\tone wörd\n2\t two \n")) == expected
    with pytest.raises(InputError, match=r"line [34]: query q1 is listed twice; remove one"):
        read_queries(write("twice.jsonl", QUERIES + '{"_id": "q1", "text": "again"}\n'))


def test_judgments(write):
    expected = {"q1": {"d1": 2, "d2": 0}, "2": {"d1": 1}}
    assert read_qrels(write("test.tsv", BEIR_QRELS)) == expected
    assert read_qrels(write("qrels", "q1 0 d1 2\nq1 0 d2 0\n2 0 d1 1\n")) == expected
    with pytest.raises(InputError, match=r"line [56]: document d2 is judged twice for query q1; remove one"):
        read_qrels(write("twice.tsv", BEIR_QRELS + "q1\td2\t1\n"))
    with pytest.raises(InputError, match=r"line [56]: 2 columns, qrels has 3; correct the line"):
        read_qrels(write("short.tsv", BEIR_QRELS + "q1\td3\n"))


def test_runs_of_three_columns(write):
    run = read_run(write("run", "q1\td2\t1\nq1\td1\t2\n2\td1\t1\n"))
    assert {qid: ranking.ranked() for qid, ranking in run.items()} == {"q1": ["d2", "d1"], "2": ["d1"]}
    with pytest.raises(InputError, match=r"line [34]: document d1 is listed twice for query q1; remove one"):
        read_run(write("twice", "q1\td1\t1\n2\td1\t1\nq1\td1\t2\n"))


def test_folds(write):
    assert read_folds(write("folds", "q1\ta\n2\t1\n")) == {"q1": "a", "2": "1"}
    with pytest.raises(InputError, match=r"line [23]: query q1 is listed twice"):
        read_folds(write("twice", "q1\ta\nq1\tb\n"))


def test_lists_of_queries_and_of_excluded_pairs(write):
    some = write("some", "q1\tits text\n2\nq1\n")
    assert read_ids(some) == ["q1", "2"]  # --only and train_queries
    assert list(read_subset({"2": {}, "q1": {}, "q3": {}}, some)) == ["q1", "2"]  # --queries
    assert excluded_of(write("sources", "q1\td1\n2 d2\nq1\td2\n")) == {"q1": {"d1", "d2"}, "2": {"d2"}}


def test_documents(write):
    docs = Documents.open(write("docs.jsonl", DOCS))
    assert (docs["d1"], docs["d2"], len(docs)) == ("T bödy", "other", 2)
    assert dict(docs.texts()) == {"d1": "T bödy", "d2": "other"}


def test_a_beir_folder(write, tmp_path):
    folder = str(tmp_path / "beir")
    for name, text in (("corpus.jsonl", DOCS), ("queries.jsonl", QUERIES), ("qrels/test.tsv", BEIR_QRELS)):
        write(f"beir/{name}", text)
    assert read_queries(folder) == {"q1": "one wörd", "2": "two"}
    assert read_qrels(folder) == {"q1": {"d1": 2, "d2": 0}, "2": {"d1": 1}}
    assert Documents.open(folder)["d1"] == "T bödy"


def test_ids_of_digits_are_the_same_as_text_and_as_number(tmp_path):
    for value in (7, "7"):
        (tmp_path / "queries").write_text(json.dumps({"_id": value, "text": "x"}))
        assert read_queries(str(tmp_path / "queries")) == {"7": "x"}


def test_queries_are_chosen_by_a_list_or_by_folds(tmp_path):
    listed, folds = str(tmp_path / "listed"), str(tmp_path / "folds")
    (tmp_path / "listed").write_text("q3\ttext\nq1\n")
    (tmp_path / "folds").write_text("q1\ta\nq2\tb\nq3\tb\n")
    assert chosen_queries() is None
    assert chosen_queries(listed) == {"q1", "q3"}
    assert chosen_queries(folds=folds, wanted=["b"]) == {"q2", "q3"}
    for wrong in ({"only": listed, "folds": folds, "wanted": ["a"]}, {"folds": folds}, {"wanted": ["a"]}):
        with pytest.raises(InputError, match="choose queries by --only, or by --folds with --fold"):
            chosen_queries(**wrong)
    qrels: dict = {"q1": {}, "q2": {}, "q3": {}}
    assert list(read_subset(qrels)) == ["q1", "q2", "q3"]
    assert list(read_subset(qrels, listed)) == ["q3", "q1"]
    assert list(read_subset(qrels, "", folds, ["b", "a"])) == ["q1", "q2", "q3"]
    assert list(read_subset(qrels, listed, folds, ["b"])) == ["q3"]
