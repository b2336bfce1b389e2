"""BM25 and query likelihood against their formulas, retrieving and re-ranking, tuning by folds, and the commands."""

import json
import math
import re

import numpy as np
import pytest

import harp_jax as hj
from harp_jax.base.errors import InputError
from harp_jax.base.made import forget
from harp_jax.corpus.trec import read_run
from harp_jax.ranking.lexical import Bm25, Bm25f, InvertedIndex, QueryLikelihood, rescore, search
from harp_jax.ranking.tune_first_stage import GRIDS
from tests.support.commands import command

DOCS = {
    "D1": "wing lift drag wing",
    "D2": "wing tail rudder elevator aileron flap",
    "D3": "boundary layer drag",
    "D4": "",
    "D5": "heat transfer in a boundary layer with heat sources",
}
ANCHORS = {"D1": {"wing theory": 2, "lift": 1}, "D3": {"drag": 1, "drag drag": 3}, "D4": {"heat": 1}}  # text → links


def slow_bm25f(
    query: str, anchors: dict, k1: float, b: float, anchor_weight: float, anchor_b: float
) -> dict[str, float]:
    """Weighted sum of normalised frequencies in text and anchors, then BM25's saturation; an empty text counts as one word, an
    anchor text once for every link."""
    fields = [{d: re.findall(r"\w\w+", t) or [""] for d, t in DOCS.items()}]
    fields.append({d: [w for text, links in anchors.get(d, {}).items() for w in text.split() * links] for d in DOCS})
    scores = dict.fromkeys(DOCS, 0.0)
    for term in query.split():
        df = sum(any(term in field[d] for field in fields) for d in DOCS)
        for d in DOCS:
            tf = 0.0
            for field, weight, field_b in zip(fields, (1, anchor_weight), (b, anchor_b)):
                mean = sum(map(len, field.values())) / len(DOCS)
                tf += weight * field[d].count(term) / (1 - field_b + field_b * len(field[d]) / mean) if field[d] else 0
            scores[d] += math.log(1 + (len(DOCS) - df + 0.5) / (df + 0.5)) * tf / (tf + k1) if tf else 0
    return scores


def slow_ql(query: str, mu: float) -> dict[str, float]:
    """log Π p(w|d) with p(w|d) = (c(w,d) + μ·p(w|C)) / (|d| + μ), less log Π p(w|C), which all documents share."""
    texts = {d: re.findall(r"\w\w+", t) for d, t in DOCS.items()}
    everything = [w for words in texts.values() for w in words]
    known = [w for w in query.split() if w in everything]
    scores = {}
    for docid, words in texts.items():
        p = {w: everything.count(w) / len(everything) for w in known}
        scores[docid] = sum(math.log((words.count(w) + mu * p[w]) / (len(words) + mu)) - math.log(p[w]) for w in known)
    return scores


@pytest.mark.parametrize("parameters", [(1.2, 0.75, 3.0, 1.0), (0.6, 0.2, 0.0, 0.0)])
def test_bm25_and_bm25f_are_their_formulas(parameters):
    fielded, text = InvertedIndex(DOCS.items(), "", ANCHORS), InvertedIndex(DOCS.items(), "")
    for query in ("wing drag", "theory heat", "wing wing lift", "unheard heat", "tail layer layer"):
        scores = rescore(Bm25f(fielded, *parameters), fielded, query, list(DOCS))
        np.testing.assert_allclose(scores, [*slow_bm25f(query, ANCHORS, *parameters).values()], rtol=1e-9)
        scores = rescore(Bm25(text, *parameters[:2]), text, query, list(DOCS))
        np.testing.assert_allclose(scores, [*slow_bm25f(query, {}, *parameters).values()], rtol=1e-9)


@pytest.mark.parametrize("mu", [0.5, 2000.0])
def test_query_likelihood_is_its_formula(mu):
    collection = InvertedIndex(DOCS.items(), "")
    model = QueryLikelihood(collection, mu)
    for query in ("wing drag", "wing wing lift", "wing unheard", "unheard"):
        expected = slow_ql(query, mu)
        scores = rescore(model, collection, query, list(DOCS))
        np.testing.assert_allclose(scores, [expected[d] for d in DOCS], rtol=1e-9, atol=1e-12)
        docids, scores = search(model, collection, query, 10)
        sharing = {d for d, text in DOCS.items() if set(text.split()) & set(query.split())}
        assert set(docids) == sharing and list(scores) == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    "language, text, present, absent",
    [
        ("ja", "カーネル・設定を変更するには再起動が必要。", ("再起動", "設定", "ｶｰﾈﾙ", "カーネル 変更"), ("停止", "・ 山")),
        ("zh-Hans", "您可以使用软件包管理器安装程序，结果已保存", ("管理器", "软件包 安装", "结果"), ("删除", "的")),
        ("ja", "庭の木は高い。", ("木", "木 林"), ("林", "の")), ("hi", "यह हिन्दी में लिखा है", ("हिन्दी",), ("अंग्रेज़ी",)),
        ("", "wing lift", ("WING",), ("wings",)), ("de", "Die Straßen der Häuser", ("straße", "STRASSE", "Haus"), ("die", "Weg")),
    ],
)  # fmt: skip
def test_a_word_is_found_in_its_language(language, text, present, absent):
    """Inside a sentence without spaces, with vowel signs, or by its stem; stopwords do not count."""
    documents = InvertedIndex([("other", "0815 4711"), ("text", text)], language)
    for query in present + absent:
        assert search(Bm25(documents), documents, query, 10)[0] == (["text"] if query in present else []), query


def test_a_letter_alone_counts_as_one_word():
    """It scores like a stem that occurs wherever a bigram with the letter does."""
    texts = {"a": "木は木と木の", "b": "大木や木々", "c": "林の中の家、犬と猫", "d": "海と山"}
    documents = InvertedIndex(texts.items(), "ja")
    docids, scores = search(Bm25(documents), documents, "木", 10)
    assert list(docids) == ["a", "b"] and len(documents.words("木 海と")) == 2
    counts, norms = np.array([5, 4]), documents.text.norms(0.4)[:2]  # 木は, は木, 木と, …; 大木, 木や, …
    np.testing.assert_allclose(scores, np.log(1 + 2.5 / 2.5) * counts / (counts + 0.9 * norms))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "docs.tsv").write_text("".join(f"{d}\t\t\t{t}\n" for d, t in DOCS.items()))
    (tmp_path / "queries.tsv").write_text("q1\twing drag\nq2\tthe of\nq3\tboundary\n")
    return tmp_path


def run_of(files, name="first-stage", output="bm25.trec", **more):
    """What a command writes: for each query the documents, or tuned parameters."""
    forget(str(files / output))
    given = {"docs": files / "docs.tsv", "queries": files / "queries.tsv", "output": files / output}
    command(name, **given | more)
    if output.endswith(".json"):
        return json.loads((files / output).read_text())
    return {qid: ranking.ranked() for qid, ranking in read_run(str(files / output)).items()}


def test_command_writes_a_run(files, capsys):
    assert run_of(files, k=2) == {"q1": ["D1", "D3"], "q3": ["D3", "D5"]}
    assert "1 of 3 queries match no document: q2" in capsys.readouterr().err
    (files / "sources").write_text("q1\tD1\n\nq3\tD9\n")  # not candidates
    assert run_of(files, exclude=files / "sources", k=2) == {"q1": ["D3", "D2"], "q3": ["D3", "D5"]}


def test_a_given_run_is_reranked_and_nothing_is_added(files, capsys):
    given = "q1 Q0 D5 1 3 x\nq1 Q0 D3 2 2 x\nq1 Q0 D1 3 1 x\nq3 Q0 D1 1 2 x\nq3 Q0 D2 2 1 x\nq7 Q0 D1 1 1 x\n"
    (files / "given.trec").write_text(given)
    by_ql = run_of(files, model="ql", run=files / "given.trec", mu=5)
    assert by_ql == {"q1": ["D1", "D3", "D5"], "q3": sorted(["D1", "D2"], key=lambda d: -slow_ql("boundary", 5)[d])}
    said = capsys.readouterr().err
    assert "have no candidates in the run: q2" in said and "are not in --queries and are left out: q7" in said
    assert run_of(files, run=files / "given.trec", k=1) == {"q1": ["D5"], "q3": ["D1"]}
    (files / "given.trec").write_text("q1 Q0 E9 1 3 x\n")
    with pytest.raises(InputError, match="candidate E9 of query q1"):
        run_of(files, run=files / "given.trec")


def test_anchor_texts_are_a_field_or_more_words(files):
    (files / "queries.tsv").write_text("q1\tsustentation\nq2\trudder\n")
    (files / "anchors").write_text("D1\tsustentation\t3\nD2\tsustentation theory\t1\nE9\trudder\t2\n\nD1\twing\t1\n")
    assert run_of(files) == {"q2": ["D2"]}
    for model in ("bm25", "bm25f", "ql"):
        assert run_of(files, model=model, anchors=files / "anchors") == {"q1": ["D1", "D2"], "q2": ["D2"]}, model
    for anchors in (files / "anchors", {"D1": {"sustentation": 3}, "D2": {"sustentation": 1}}, {"D1": "sustentation"}):
        assert next(iter(hj.first_stage(DOCS, {"q": "sustentation"}, model="bm25f", anchors=anchors)["q"])) == "D1"
    for rows, said in (
        ("D2\ttail\t1\nD1\twing\tmany\n", "anchors, line 2: "),
        ("E1\ttail\t1\n", "has no anchor text for any document in --docs"),
    ):
        (files / "anchors").write_text(rows)
        with pytest.raises(InputError, match=said):
            run_of(files, anchors=files / "anchors")


@pytest.fixture
def judged(files):
    """Relevant in fold a: documents that repeat the word; in fold b: short ones. The folds need different b."""
    rows = [f"L{i}\t\t\tword word word {'filler ' * 12}\nS{i}\t\t\tword thing\n" for i in range(3)]
    (files / "docs.tsv").write_text("".join(rows) + f"N\t\t\t{'other ' * 100}\n")
    relevant = {"a0": "L", "a1": "L", "b0": "S", "b1": "S"}
    (files / "queries.tsv").write_text("".join(f"{qid}\tword\n" for qid in relevant))
    (files / "qrels").write_text("".join(f"{qid} 0 {d}{j} 1\n" for qid, d in relevant.items() for j in range(3)))
    (files / "folds").write_text("".join(f"{qid}\t{qid[0]}\n" for qid in relevant))
    return files


def tune(files, **more):
    given = {"qrels": files / "qrels", "output": "best.json", "measure": "AP"}
    return run_of(files, "tune-first-stage", **given | more)


def test_a_fold_is_never_scored_by_what_it_chose(judged, monkeypatch):
    monkeypatch.setitem(GRIDS, "bm25f", {"k1": (1.2,), "b": (0.0, 1.0), "anchor_weight": (1.0,)})
    (judged / "anchors").write_text("N\tnothing\t1\n")
    given, alone = {"model": "bm25f", "anchors": judged / "anchors"}, {}
    for fold in "ab":
        (judged / f"{fold}.tsv").write_text(f"{fold}0\tword\n{fold}1\tword\n")
        alone[fold] = tune(judged, queries=judged / f"{fold}.tsv", **given)["parameters"]
    assert alone["a"] != alone["b"]
    tuned = tune(judged, folds=judged / "folds", **given)
    assert tuned["folds"] == {"a": alone["b"], "b": alone["a"]} and len(tuned["grid"]) == 2
    given["parameters"] = judged / "best.json"
    first = {qid: ranked[0][0] for qid, ranked in run_of(judged, folds=judged / "folds", **given).items()}
    assert first == {"a0": "S", "a1": "S", "b0": "L", "b1": "L"}
    with pytest.raises(InputError, match="no folds file"):
        run_of(judged, **given)
    (judged / "folds").write_text("a0\ta\na1\ta\nb0\ta\nb1\ta\n")
    with pytest.raises(InputError, match="no judged query lies outside fold a"):
        tune(judged, folds=judged / "folds")
    (judged / "qrels").write_text("a0 0 L0 0\n")
    with pytest.raises(InputError, match="none of the 1 judged queries has a relevant document"):
        tune(judged)


def test_a_grid_grows_until_its_best_value_is_not_the_last_tried(judged, monkeypatch, capsys):
    """WikiPassageQA's BM25 rises from .31 to .42 RR@10 beyond a grid that ends at k1 = 2."""
    monkeypatch.setitem(GRIDS, "bm25", {"k1": (0.9, 1.2), "b": (0.6, 0.75)})
    (judged / "docs.tsv").write_text((judged / "docs.tsv").read_text().replace("filler " * 12, "filler " * 100))
    (judged / "a.tsv").write_text("a0\tword\na1\tword\n")  # long documents are relevant: a small b is needed
    short = tune(judged, queries=judged / "a.tsv", b="0.6,0.75")  # given values do not grow; a note says so
    assert short["parameters"]["b"] == 0.6 and {point["b"] for point in short["grid"]} == {0.6, 0.75}
    assert "widen --b" in capsys.readouterr().err
    wider = tune(judged, queries=judged / "a.tsv", sample=1)
    assert min(point["b"] for point in wider["grid"]) < wider["parameters"]["b"] < 0.6
    assert max(point["mean"] for point in wider["grid"]) == 1.0 and (wider["queries"], wider["of"]) == (1, 2)


def test_a_dry_run_tells_hours_and_memory_and_ranks_nothing(judged, capsys):
    given = {"docs": judged / "docs.tsv", "queries": judged / "queries.tsv", "output": judged / "none"}
    command("first-stage", "--dry_run", **given)
    command("tune-first-stage", "--dry_run", qrels=judged / "qrels", **given)
    first, second = capsys.readouterr().out.splitlines()
    assert "index of 7 documents: about 0.0 s and 0.0 GB of memory; 4 queries: about 0.0 s" in first
    assert "4 queries with 25 settings" in second and not (judged / "none").exists()
