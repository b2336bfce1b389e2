"""What `harp pack` writes: every engine's files of a tiny site, and what search.py computes. Real engines: tests/real."""

import importlib.util
import io
import json
import shutil

import pytest

from harp_jax.ranking.lexical import InvertedIndex
from harp_jax.site import packed_search
from harp_jax.site.pack import UNLINKED, pack, query_words
from harp_jax.site.packed_search import add_up
from harp_jax.site.search import CombinedSearch
from tests.support.commands import command
from tests.support.look_site import DOCS, TUNED, write_site

WEIGHTS = {"anchor texts (BM25F)": 1.0, "in-links": 0.5, "vectors": 2.0}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder, parameters = tmp_path_factory.mktemp("packed"), {"k1": 4.0, "b": 0.4, "anchor_weight": 10.0}
    changes = {"weights": WEIGHTS | {"ranker": 1.0}, "encoder": "encoder", "depth": 3}
    return write_site(folder / "site", parameters={"bm25": TUNED, "bm25f": parameters}, **changes)


def lines(folder, suffix=".jsonl"):
    return [json.loads(line) for path in sorted(folder.glob(f"documents-*{suffix}")) for line in path.open()]


@pytest.mark.parametrize("engine", ["opensearch", "elasticsearch"])
def test_an_index_has_the_documents_the_fields_and_a_query_for_each_part(site, tmp_path, engine, capsys):
    command("pack", site, output=tmp_path / "out", **{"for": engine})
    assert "left out of the query: ranker" in capsys.readouterr().out
    actions = lines(tmp_path / "out", ".ndjson")
    records = {action["index"]["_id"]: record for action, record in zip(actions[::2], actions[1::2])}
    first = records["d1"]
    assert {*records} == {*DOCS} and (first["title"], first["body"], first["in_links"]) == (*DOCS["d1"], 4)
    assert first["anchor_text"].split("\n")[:3] == ["the cat"] * 3 and records["d3"]["anchor_text"] == UNLINKED
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    similarity = index["settings"]["index"]["similarity"]
    assert similarity["text"] == {"type": "BM25", "k1": 4.0, "b": 0.4}
    assert similarity["anchors"] == {"type": "BM25", "k1": 0.4, "b": 0.4}
    vector = index["mappings"]["properties"]["passages"]["properties"]["vector"]
    assert {vector.get("dims"), vector.get("dimension")} == {None, len(first["passages"][0]["vector"])}
    plan = json.loads((tmp_path / "out" / "query.json").read_text())
    assert plan["weights"] == WEIGHTS and {*plan["queries"]} == {"BM25", "anchor texts (BM25F)", "vectors"}
    assert (tmp_path / "out" / "encoder" / "config.json").exists()


def script(folder):
    """The module search.py."""
    spec = importlib.util.spec_from_file_location("search", folder / "search.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_adds_up_as_the_site_does(site):
    combined = CombinedSearch(str(site), [*WEIGHTS])
    for query in ("the dog", "red cat", "green mat"):
        scores = combined.scores(query)
        by_part = {part: dict(zip(scores.docids, values.tolist())) for part, values in scores.parts.items()}
        assert dict(add_up(by_part, WEIGHTS)) == pytest.approx(dict(zip(scores.docids, scores.total(WEIGHTS))))


def test_typesense_has_the_fields_of_its_schema(site, tmp_path):
    pack(str(site), "typesense", str(tmp_path))
    schema = json.loads((tmp_path / "schema.json").read_text())
    assert {field["name"] for field in schema["fields"]} | {"id"} == lines(tmp_path)[0].keys()


def test_impacts_add_up_to_the_scores_of_the_search(site, tmp_path):
    pack(str(site), "jsonl", str(tmp_path))
    written = {record["id"]: record for record in lines(tmp_path)}
    combined = CombinedSearch(str(site), ["in-links"])
    for query in ("the dog", "red red cats", "green mat pet", "unknown"):
        words, stems = combined.collection.words(query), query.replace("cats", "cat").split()
        expected = [model.scores(words)[0] for model in combined.lexical.values()]
        for docid, *scores in zip(combined.ids, *expected):
            row = written[docid]
            impacts = [dict(zip(row["terms"], row[part])) for part in ("bm25", "bm25f")]
            assert [sum(each.get(stem, 0) for stem in stems) for each in impacts] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The running dogs' re-use of v15_x"), ("ja", "東京タワー と SQL"), ("hi", "हिन्दी भाषा"),
    ],
)  # fmt: skip
def test_the_script_splits_a_query_as_the_index_does(tmp_path, language, text):
    shutil.copy(packed_search.__file__, tmp_path / "search.py")
    (tmp_path / "query.json").write_text(json.dumps({"words": query_words(language)}))
    index = InvertedIndex([("a", text)], language)
    names = {number: stem for stem, number in index.vocabulary.items()}
    assert script(tmp_path).terms_of(text) == [names[number] for number in index.query(text)] != []


def test_the_script_asks_a_server_and_ranks_its_hits(site, tmp_path, monkeypatch):
    pack(str(site), "elasticsearch", str(tmp_path / "out"))
    rows = ("d1", 3.0, 0, [1.0, 0.0]), ("d2", 2.0, 9, [0.6, 0.8])
    hits = [
        {"_id": docid, "_score": score, "_source": {"in_links": links, "passages": [{"vector": vector}]}}
        for docid, score, links, vector in rows
    ]
    asked = []

    def answer(request):
        searches = request.data.splitlines()[1::2]
        asked.extend([request.full_url, json.loads(line)] for line in searches)
        return io.BytesIO(json.dumps({"responses": [{"hits": {"hits": hits}}] * len(searches)}).encode())

    monkeypatch.setattr("urllib.request.urlopen", answer)
    found = script(tmp_path / "out").search_server("http://x.org/harp", 'a "dog"', [0.8, 0.6])
    assert found == [("d2", 2.5), ("d1", 1.0)]  # the second by words, the first by in-links and by 0.96 against 0.8
    assert {path for path, _ in asked} == {"http://x.org/harp/_msearch"} and len(asked) == 6
    assert asked[1][1]["query"]["multi_match"]["query"] == 'a "dog"'
    assert asked[2][1]["query"]["nested"]["query"]["knn"]["query_vector"] == [0.8, 0.6]
    assert asked[4][1]["query"]["bool"] == {"must": asked[1][1]["query"], "filter": {"ids": {"values": ["d1", "d2"]}}}
    assert asked[5][1]["query"] == {"ids": {"values": ["d1", "d2"]}}
