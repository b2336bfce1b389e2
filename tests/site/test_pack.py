"""What `harp pack` writes: every engine's files of a tiny site, and the sum that search.py computes. Real engines: tests/real."""

import dataclasses
import http.server
import importlib.util
import json
import threading

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.site.engines import ENGINES, MOST, Record, add_up
from harp_jax.site.pack import pack
from harp_jax.site.search import CombinedSearch, Settings
from tests.support.commands import command
from tests.support.look_site import DOCS, add_vectors, write_site

WEIGHTS = {"anchor texts (BM25F)": 1.0, "in-links": 0.5, "vectors": 2.0}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = write_site(tmp_path_factory.mktemp("packed") / "site")
    settings = Settings.load(str(folder))
    parameters = settings.parameters | {"bm25f": {"k1": 4.0, "b": 0.4, "anchor_weight": 10.0}}
    changed = {"weights": WEIGHTS | {"ranker": 1.0}, "encoder": "encoder", "depth": 3, "parameters": parameters}
    dataclasses.replace(settings, **changed).save(str(folder))
    add_vectors(folder)
    return folder


def lines(folder, suffix):
    return [json.loads(line) for path in sorted(folder.glob(f"documents-*{suffix}")) for line in path.open()]


@pytest.mark.parametrize("engine", ["opensearch", "elasticsearch"])
def test_an_index_has_the_documents_the_fields_and_a_query_for_each_part(site, tmp_path, engine, capsys):
    command("pack", site, output=tmp_path / "out", **{"for": engine})
    assert "left out of the query: ranker" in capsys.readouterr().out
    actions = lines(tmp_path / "out", ".ndjson")
    records = {action["index"]["_id"]: record for action, record in zip(actions[::2], actions[1::2])}
    first = records["d1"]
    assert {*records} == {*DOCS} and (first["title"], first["body"], first["in_links"]) == (*DOCS["d1"], 4)
    assert first["anchor_text"].split("\n")[:4] == ["the cat"] * 3 + [first["anchors"][1]["text"]]
    assert records["d3"]["anchor_text"] == "unlinkeddocument" and records["d3"]["anchors"] == []
    index = json.loads((tmp_path / "out" / "index.json").read_text())
    similarity = index["settings"]["index"]["similarity"]
    assert similarity["text"] == {"type": "BM25", "k1": 4.0, "b": 0.4}
    assert similarity["anchors"] == {"type": "BM25", "k1": 0.4, "b": 0.4}
    vector = index["mappings"]["properties"]["passages"]["properties"]["vector"]
    assert {vector.get("dims"), vector.get("dimension")} == {None, len(first["passages"][0]["vector"])}
    plan = json.loads((tmp_path / "out" / "query.json").read_text())
    assert plan["weights"] == WEIGHTS and {*plan["queries"]} == {"BM25", "anchor texts (BM25F)", "vectors"}
    assert (tmp_path / "out" / "encoder" / "config.json").exists()
    if engine == "opensearch":
        step = json.loads((tmp_path / "out" / "pipeline.json").read_text())["phase_results_processors"][0]
        shares = step["normalization-processor"]["combination"]["parameters"]["weights"]
        assert shares == pytest.approx([1 / 3, 2 / 3])


def test_other_engines(site, tmp_path):
    pack(str(site), "typesense", str(tmp_path / "typesense"))
    first, *_ = lines(tmp_path / "typesense", ".jsonl")
    schema = json.loads((tmp_path / "typesense" / "schema.json").read_text())
    assert {field["name"] for field in schema["fields"]} | {"id"} == first.keys()
    pack(str(site), "jsonl", str(tmp_path / "jsonl"))
    assert [record["id"] for record in lines(tmp_path / "jsonl", ".jsonl")] == [*DOCS]
    settings = Settings.load(str(site))
    with pytest.raises(InputError, match="ranks by ranker alone"):
        dataclasses.replace(settings, weights={"ranker": 1.0}).save(str(site))
        pack(str(site), "jsonl", str(tmp_path / "alone"))
    settings.save(str(site))


def test_the_script_adds_up_as_the_site_does(site):
    combined = CombinedSearch(str(site), [*WEIGHTS])
    for query in ("the dog", "red cat", "green mat"):
        scores = combined.scores(query)
        found = {part: dict(zip(scores.docids, values.tolist())) for part, values in scores.parts.items()}
        assert dict(add_up(found, WEIGHTS)) == pytest.approx(dict(zip(scores.docids, scores.total(WEIGHTS))))
    assert dict(add_up({"BM25": {"a": 4.0, "b": 2.0}, "vectors": {"c": 0.5}}, {"BM25": 2.0})) == {
        "a": 2.0,
        "b": 1.0,
        "c": 0.0,
    }
    assert add_up({"BM25": {}}, {"BM25": 1.0}) == []


def test_anchor_texts_of_many_links_keep_their_shares():
    text = Record("d", "", "", (("one", 3 * MOST), ("two", MOST)), np.zeros((0, 0))).anchor_text.split("\n")
    assert (text.count("one"), text.count("two")) == (MOST * 3 // 4, MOST // 4)


def test_the_script_asks_a_server_and_ranks_its_hits(site, tmp_path):
    pack(str(site), "elasticsearch", str(tmp_path / "out"))
    spec = importlib.util.spec_from_file_location("search", tmp_path / "out" / "search.py")
    search = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(search)
    asked = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            searches = self.rfile.read(int(self.headers["Content-Length"])).splitlines()[1::2]
            asked.extend([self.path, json.loads(line)] for line in searches)
            answers = [{"hits": {"hits": hits}} for _ in searches]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"responses": answers}).encode())

        def log_message(self, *_):
            pass

    rows = {
        "d1": {"in_links": 0, "passages": [{"vector": [1.0, 0.0]}]},
        "d2": {"in_links": 9, "passages": [{"vector": [0.6, 0.8]}]},
    }
    hits = [{"_id": docid, "_score": score, "_source": rows[docid]} for docid, score in (("d1", 3.0), ("d2", 2.0))]
    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        serving = threading.Thread(target=lambda: [server.handle_request() for _ in range(2)], daemon=True)
        serving.start()
        found = search.search(f"http://127.0.0.1:{server.server_port}/harp", 'a "dog"', [0.8, 0.6])
        serving.join()
    assert found == [("d2", 2.5), ("d1", 1.0)]  # the second by words, the first by in-links and by 0.96 against 0.8
    assert {path for path, _ in asked} == {"/harp/_msearch"} and len(asked) == 6
    assert asked[1][1]["query"]["multi_match"]["query"] == 'a "dog"' and asked[1][1]["size"] == 3
    assert asked[2][1]["query"]["nested"]["query"]["knn"]["query_vector"] == [0.8, 0.6]
    assert asked[4][1]["query"]["bool"] == {"must": asked[1][1]["query"], "filter": {"ids": {"values": ["d1", "d2"]}}}
    assert asked[5][1]["query"] == {"ids": {"values": ["d1", "d2"]}}


def test_every_engine_is_a_choice_of_the_command():
    from harp_jax.commands.pack import ENGINES as CHOICES

    assert {*CHOICES} == {*ENGINES}
