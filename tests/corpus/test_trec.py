import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harp_jax.base.errors import InputError
from harp_jax.corpus import trec
from harp_jax.corpus.labels import read_labels
from harp_jax.corpus.trec import read_qrels, read_queries, read_run, write_run

TREC = "q1 Q0 d1 1 12.5 bm25\nq1 Q0 d2 2 3.25 bm25\nq2 Q0 d1 1 -1e-3 bm25\n"


def written(tmp_path, text, name="file"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def plain(run):
    return {qid: list(zip(ranking.docids, ranking.scores)) for qid, ranking in run.items()}


EXPECTED = {"q1": [("d1", 12.5), ("d2", 3.25)], "q2": [("d1", -1e-3)]}


def test_reads_trec_runs(tmp_path):
    texts = [TREC, TREC.replace(" ", "\t"), TREC.replace("\n", "\r\n"), "\ufeff" + TREC, TREC + "\n\n"]
    texts += [TREC.replace("bm25", "bm25 k1 0.9 b 0.4"), "q1 Q0 d1 7 12.5 x\nq2 Q0 d1 0 -1e-3 x\nq1 Q0 d2 7 3.25 x"]
    for text in texts:
        assert plain(read_run(written(tmp_path, text))) == EXPECTED, text


def test_reads_ms_marco_runs(tmp_path):
    run = read_run(written(tmp_path, "q1\td9\t2\nq1\td1\t1\n"))
    assert plain(run) == {"q1": [("d9", -2.0), ("d1", -1.0)]} and run["q1"].ranked() == ["d1", "d9"]
    assert plain(read_run(written(tmp_path, gzip.compress(TREC.encode()), "run.gz"), {"q2"})) == {"q2": [("d1", -1e-3)]}


def test_reads_qrels(tmp_path):
    expected = {"q1": {"d1": 2, "d2": -1}, "q2": {"d1": 0}}
    assert read_qrels(written(tmp_path, "\ufeffq1 0 d1 2\r\nq1\t0\td2\t-1\r\nq2 Q0 d1 0\r\n")) == expected
    beir = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t-1\nq2\td1\t0\n"
    assert read_qrels(written(tmp_path, beir)) == expected
    assert read_qrels(written(tmp_path, "qid iter docid relevance\nq1 0 d1 2\n")) == {"q1": {"d1": 2}}


def test_reads_queries(tmp_path):
    expected = {"1": "who is it", "2": "what\u00a0 then"}
    assert read_queries(written(tmp_path, "\ufeff1\twho\tis it\r\n\r\n2\twhat\u00a0 then \r\n")) == expected
    jsonl = '{"_id": "1", "text": "who is it"}\n{"id": 2, "text": "what\u00a0 then", "metadata": {}}\n'
    assert read_queries(written(tmp_path, jsonl)) == expected


def test_a_run_is_written_sorted_with_ties_broken_and_without_what_it_cannot_hold(tmp_path):
    path = tmp_path / "out" / "run.trec"
    write_run(str(path), [("q1", ["a", "b", "c", "d"], [0.0, 1.0, 0.0, 1.0]), ("q2", ["a"], [7.0])])
    rows = [line.split() for line in path.read_text().splitlines()]
    ranked = [*(("q1", d, str(n)) for n, d in enumerate("bdac", 1)), ("q2", "a", "1")]
    assert [(r[0], r[2], r[3], r[5]) for r in rows] == [(*row, "harp_jax") for row in ranked]
    assert read_run(str(path))["q1"].ranked() == ["b", "d", "a", "c"]
    for docid, score, message in (
        ("a b", 1.0, "document id 'a b'"),
        ("a", -1e38, r"query q1, document a: the score -1e\+38 is not a number within"),
        ("a", float("nan"), "query q1, document a: the score nan is not a number within"),
    ):
        with pytest.raises(InputError, match=message):
            write_run(str(tmp_path / "run"), [("q0", ["a"], [1.0]), ("q1", ["x", docid], [2.0, score])])
    assert [each.name for each in tmp_path.iterdir()] == ["out"]


scores = st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=2, max_size=30)


@given(scores | scores.map(lambda s: s[:1] * len(s)) | st.lists(st.sampled_from([0.0, -0.0, 1.0, 16.0, 1e-38])))
def test_scores_decrease_strictly_and_survive_the_text(values):
    values = sorted(values, reverse=True)
    decreasing = trec.strictly_decreasing(values)
    read_back = np.array([float(f"{x:.9g}") for x in decreasing], np.float32)
    assert (read_back == decreasing).all()
    assert (np.diff(decreasing.astype(np.float64)) < 0).all()
    # Scores that are distinct in float32 are unchanged.
    if len(set(values)) == len(values):
        np.testing.assert_array_equal(decreasing, np.float32(values))


def test_folds_and_lists_of_queries(tmp_path):
    folds = written(tmp_path, "q1\ta\nq2\tb\n\nq3\tb\n", "folds")
    listed = written(tmp_path, "q3\ttext\nq1\nq3\n", "listed")
    assert trec.chosen_queries(listed) == {"q1", "q3"}
    assert trec.chosen_queries(folds=folds, wanted=["b"]) == {"q2", "q3"}
    qrels: dict = {"q1": {}, "q2": {}, "q3": {}}
    assert list(trec.read_subset(qrels)) == list(trec.read_subset(qrels, "", folds, ["b", "a"])) == ["q1", "q2", "q3"]
    assert list(trec.read_subset(qrels, listed, folds, ["b"])) == ["q3"]
    with pytest.raises(InputError, match="1 queries have no judgments, such as q3"):
        trec.read_subset({"q1": {}}, listed)


@pytest.mark.parametrize(
    "read, text, message",
    [
        (read_run, "q1 Q0 d1 1 5 x\nq1 Q0 d2 2 x\n", r"line 2: 5 columns, a run has 6"),
        (read_run, "q1 Q0 d1 1 5 x\nq2 Q0 d1 1 5 x\nq1 Q0 d1 2 4 x\n", "line 3: document d1 is listed twice"),
        (read_run, f"q1 d1 {'9' * 400}\n", "line 1: rank '9+' is not a number within"),
        (read_run, "q1 Q0 d one 1 5 x\n", r"line 1: rank 'one', score '1', tag '5 x' are shifted"),
        (read_run, "q1 Q0 d 1 1 5.5 x\n", r"line 1: rank '1', score '1', tag '5.5 x' are shifted"),
        (read_run, "", "is empty"), (read_run, b"q1 Q0 d\xe9 1 5 x\n", "line 1: not UTF-8 .*; convert the file"),
        (read_run, "q1 Q0 d0 1 1_0 x\n", "line 1: score '1_0' is not a number within"),
        (read_qrels, "q1 0 d1 1\nq1 0 d1 1\n", "line 2: document d1 is judged twice for query q1"),
        (read_qrels, "query-id passage-number page\n11 2 7\n", "line 1: 3 columns and no header"),
        (read_queries, "1 who is it\n", "line 1: no tab; write 'qid<TAB>text'"),
        (read_queries, '{"_id": "\\ud83d", "text": "a"}\n', "line 1: query id .* half a surrogate pair"),
        (read_labels, "fish\td 1\t1\n", "line 1: not 'query"),
    ],
)  # fmt: skip
def test_bad_files_name_the_line(tmp_path, read, text, message):
    with pytest.raises(InputError, match=message):
        read(written(tmp_path, text))
