"""The server and the local page: results, POST /v1/rerank, labels, workers, and clear errors for bad requests."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx2")

from harp_jax.api import Reranker
from harp_jax.corpus.labels import LabelFile
from harp_jax.ranking.lexical import Bm25, search
from harp_jax.serving.server import HOST, LARGEST_BODY, MOST_DOCUMENTS, MOST_RESULTS, make_app
from harp_jax.serving.session import NOTHING, SearchSession, Sources
from harp_jax.site.search import CombinedSearch
from tests.support.look_site import DOCS, HOSTILE, QUERIES, TUNED, write_site


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    site = write_site(tmp_path_factory.mktemp("serving") / "site")
    return site, SearchSession(Sources(str(site)))


@pytest.fixture
def client(place, tmp_path):
    """A client of the page."""
    return client_of(place[1], LabelFile(str(tmp_path / "labels.tsv")))


def client_of(session, labels=None, host=HOST):
    from starlette.testclient import TestClient

    return TestClient(make_app(session, labels, host), base_url="http://127.0.0.1:8808")


def test_a_query_has_results_with_the_scores_of_all_parts_and_what_explains_them(client, place):
    site, session = place
    answer = client.get("/search", params={"q": "  red \n cat ", "explain": "1"}).json()
    assert answer["query"] == "red cat" and answer["candidates"] == 3 and answer["message"] == ""
    results = {hit["id"]: hit for hit in answer["results"]}
    # BM25 has the parameters that the site was tested with.
    docids, scores = search(Bm25(session.collection, **TUNED), session.collection, "red cat", 10)
    bm25 = {docid: hit["parts"]["BM25"] for docid, hit in results.items()}
    assert bm25 == pytest.approx(dict(zip(docids, map(float, scores))), abs=1e-5)
    assert {docid: hit["ranks"]["BM25"] for docid, hit in results.items()} == {d: n for n, d in enumerate(docids, 1)}
    # Best first, the same as from Python.
    found = [(hit["id"], pytest.approx(hit["score"], abs=1e-6)) for hit in answer["results"]]
    assert found == CombinedSearch(str(site)).search("red cat")
    assert [hit["ranks"]["sum"] for hit in answer["results"]] == [1, 2, 3]
    best = results["d1"]
    assert best["title"] == "Red cat" and best["anchors"] == [["the cat", 3], [f"pet {HOSTILE}", 1]]
    assert [words for words, matched in best["snippets"][""] if matched] == ["red", "cat"]
    assert results["d2"]["passage"] == DOCS["d2"][1] and best["url"] == ""
    # Without `explain`, and with the `k` best; nothing for unknown words, or a word of only the page that a query was taken from.
    few = client.get("/search", params={"q": "red cat", "k": 2}).json()["results"]
    plain = ("id", "title", "url", "passage", "score", "parts")
    assert few == [{name: hit[name] for name in plain} for hit in answer["results"][:2]]
    for query in ("of unknownword", "blue"):
        none = client.get("/search", params={"q": query}).json()
        assert none["results"] == [] and none["message"] == NOTHING
    assert "d2" in [hit["id"] for hit in session.search("blue dog")["results"]]
    assert session.stems("how do you stop the test of my pages") == {"stop", "test", "page"}  # to be marked


def test_a_title_leads_where_a_browser_can_open_it(place, tmp_path):
    """To an id or `url` that is a web address; ids of files and scripts are text."""
    web, other = "https://docs.example.org/cats.html#red", "http://example.org/cats"
    given = {"D7": other, "D8": "cats.html", web: "", "file:///cats.html": "", "javascript:a()": ""}
    rows = [{"id": docid, "title": "Cats", "url": url, "text": "red cat"} for docid, url in given.items()]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    session = SearchSession(Sources(model=str(place[0] / "ranker"), docs=str(tmp_path / "docs.jsonl")))
    results = session.search("cat")["results"]
    assert {*results[0]["parts"]} == {"BM25", "re-ranker"} and session.name == "ranker"
    assert {hit["id"]: hit["url"] for hit in results} == dict.fromkeys(given, "") | {"D7": other, web: web}


def test_the_page_is_whole_loads_nothing_from_elsewhere_and_is_served_to_this_host_only(client, place):
    for path, part in (("/", "<title>harp look"), ("/look.css", "prefers-color-scheme"), ("/look.js", "textContent")):
        answer = client.get(path)
        assert answer.status_code == 200 and part in answer.text
        assert "http" not in answer.text.replace("http://www.w3.org", "")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "innerHTML" not in client.get("/look.js").text
    about = client.get("/about").json()
    assert about["queries"] == [*QUERIES] and about["verdict"].startswith("The sum is better")
    assert client.get("/about", headers={"Host": "x.example"}).status_code == 400
    wrong = [{}, {"q": "x" * 1001}, *({"q": "a", "k": k} for k in ("0", "x", "²", MOST_RESULTS + 1, "9" * 5000))]
    for answer in (client.get("/search", params=each) for each in wrong):
        assert answer.status_code == 422 and "must be a" in answer.json()["error"]
    # A server that listens to other machines answers them, but has no page.
    client = client_of(place[1], host="0.0.0.0")
    assert client.get("/healthz", headers={"Host": "search.example"}).json()["documents"] == len(DOCS)
    assert [client.get(path).status_code for path in ("/", "/about", "/label")] == [404] * 3


def test_labels_are_kept_changed_and_removed(client, place, tmp_path):
    def label(query, docid, level):
        return client.post("/label", json={"query": query, "docid": docid, "level": level})

    assert label("red  cat", "d1", 1).json()["levels"] == {"d1": 1}
    answer = label("red cat", "d2", 0).json()
    assert (answer["levels"], answer["labels"], answer["labelled"]) == ({"d1": 1, "d2": 0}, 2, 1)
    label("red cat", "d1", 0)
    assert label("red cat", "d2", None).json()["levels"] == {"d1": 0}
    assert client.get("/search", params={"q": "red cat"}).json()["levels"] == {"d1": 0}
    valid = {"query": "q", "docid": "d1", "level": 1}
    wrong = [{"docid": "absent"}, *({"level": level} for level in (7, True, 1.0, float("nan"))), {"query": "\ud800"}]
    for body in (*(valid | each for each in wrong), {"query": "red cat", "docid": "d1"}):  # only `null` removes a label
        answer = client.post("/label", content=json.dumps(body), headers=JSON)
        assert answer.status_code == 422 and answer.json()["error"], body
    assert client.post("/label", json=valid, headers={"Origin": "http://evil.example"}).status_code == 403
    assert (tmp_path / "labels.tsv").read_text() == "red cat\td1\t0\n"


def test_a_file_of_labels_keeps_its_other_lines(tmp_path):
    path = tmp_path / "labels.tsv"
    path.write_text("# mine\nred cat\td1\nblue\td2\t0\n")
    labels = LabelFile(str(path))
    labels.set("red cat", "d3", 1)
    path.write_text(path.read_text() + "by hand\td4\t1\n")  # while the page is open
    labels.set("red cat", "d1", None)
    assert path.read_text() == "# mine\nblue\td2\t0\nred cat\td3\t1\nby hand\td4\t1\n"
    labels.set("#tags", "d1", 1)
    assert LabelFile(str(path)).of("#tags") == {"d1": 1}  # not a comment


JSON = {"Content-Type": "application/json"}


def test_rerank_answers_in_the_shape_of_cohere_jina_and_vllm(client, place):
    texts = [text for _, text in DOCS.values()]
    logits = Reranker.from_pretrained(str(place[0] / "ranker")).predict([("red cat", text) for text in texts])
    asked = {"model": "any", "query": "red cat", "documents": [texts[0], *({"text": text} for text in texts[1:])]}
    found = client.post("/v1/rerank", json=asked | {"return_documents": True, "unknown": 1}).json()
    assert found["model"] == "ranker"
    assert [hit["index"] for hit in found["results"]] == np.argsort(-logits, kind="stable").tolist()
    sigmoids = 1 / (1 + np.exp(-np.sort(logits)[::-1].astype(np.float64)))
    assert [hit["relevance_score"] for hit in found["results"]] == pytest.approx(sigmoids.tolist(), abs=1e-6)
    assert all(hit["document"] == {"text": texts[hit["index"]]} for hit in found["results"])
    best = client.post("/v2/rerank", json=asked | {"top_n": 2}).json()["results"]
    assert best == [{name: hit[name] for name in ("index", "relevance_score")} for hit in found["results"][:2]]
    # Text Embeddings Inference.
    answer = client.post("/rerank", json={"query": "red cat", "texts": texts, "return_text": True}).json()
    theirs = {"index": "index", "score": "relevance_score"}
    expected = [{name: hit[ours] for name, ours in theirs.items()} for hit in found["results"]]
    assert answer == [{**each, "text": texts[each["index"]]} for each in expected]


@pytest.mark.parametrize(
    "body, status, said",
    [
        (b"\xff\xfe", 400, "not JSON"), (b'{"query": "q", "documents": ["a"]}', 415, "send application/json"),
        ({"query": "q", "documents": ["a", None]}, 422, "`documents` must be a text"),
        ({"query": "q", "documents": ["\ud800"]}, 422, "half a surrogate pair"),
        ({"query": "q", "documents": ["a"] * (MOST_DOCUMENTS + 1)}, 413, "send at most 1000"),
        ({"query": "q", "documents": ["a"], "top_n": True}, 422, "`top_n` must be"),
        (b'{"query": "' + b"x" * LARGEST_BODY + b'"}', 413, "larger than 2,000,000 bytes"),
    ],
)  # fmt: skip
def test_bad_requests_are_refused_in_words(client, body, status, said):
    kind = {"Content-Type": "text/plain"} if status == 415 else JSON
    answer = client.post("/v1/rerank", content=body if isinstance(body, bytes) else json.dumps(body), headers=kind)
    assert answer.status_code == status and said in answer.json()["error"]


@contextlib.contextmanager
def running(*words, **environment):
    """Python in another process, and the address that it prints."""
    command, piped = [sys.executable, *words], subprocess.PIPE
    with subprocess.Popen(command, stdout=piped, stderr=piped, text=True, env=os.environ | environment) as process:
        try:
            yield process, process.stdout.readline().split()[0]
        finally:
            process.kill()


def connected(address):
    return socket.create_connection((HOST, int(address.rpartition(":")[2])), timeout=300)


def answered(address):
    with urllib.request.urlopen(address, timeout=300) as answer:
        return json.load(answer)


def test_a_copy_with_another_cache_and_several_workers_answers_the_same(tmp_path):
    """The folder is moved, read-only and without queries; no cache is left. One worker is killed: the server ends and says why."""
    site = write_site(tmp_path / "site", weights={"BM25": 1.0, "vectors": 2.0}, encoder="encoder", models={})
    (site / "pages" / "queries.tsv").write_text("")
    expected = CombinedSearch(str(site)).search("red cat", 3)
    copied = site.rename(tmp_path / "elsewhere")
    for path in (copied, *copied.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    caches = {"XDG_CACHE_HOME": "cache", "HF_HOME": "hub", "HOME": "home", "JAX_COMPILATION_CACHE_DIR": "xla"}
    environment = {name: str(tmp_path / folder) for name, folder in caches.items()}
    serve = ("-m", "harp_jax", "serve", str(copied), "--port=0", "--workers=2")
    with running(*serve, **environment) as (process, address):
        found = [(hit["id"], hit["score"]) for hit in answered(f"{address}/search?q=red+cat&k=3")["results"]]
        assert found == [(docid, pytest.approx(score, abs=1e-5)) for docid, score in expected]
        assert answered(f"{address}/healthz") == {"status": "ok", "documents": 4, "model": "BM25 + 2 × vectors"}
        children = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()
        workers = [pid for pid in children if "spawn_main" in open(f"/proc/{pid}/cmdline").read()]
        assert len(workers) == 2
        os.kill(int(workers[1]), signal.SIGKILL)
        error = process.communicate(timeout=300)[1]
    assert process.returncode == 2 and "a worker was killed, probably for lack of memory" in error
    assert "Traceback" not in error and not any(os.path.exists(f"/proc/{pid}") for pid in workers)


def test_a_client_with_an_unfinished_body_does_not_delay_the_end(place):
    head = "POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99"
    look = running("-m", "harp_jax", "look", str(place[0]), "--port=0")
    with look as (process, address), connected(address) as connection:
        connection.sendall(f"{head}\r\n\r\n{{".encode())
        answered(f"{address}/about")  # it has read the head
        process.send_signal(signal.SIGINT)
        assert "Traceback" not in process.communicate(timeout=300)[1]


PROGRAM = """
import anyio, time
from harp_jax.base.cli import ending_well
from harp_jax.serving import server

async def slow(scope, receive, send):
    print("began", flush=True)
    await anyio.to_thread.run_sync(time.sleep, 3)

with ending_well():
    listening = server.listen("127.0.0.1", 0)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    server.run(slow, listening)
"""


def test_ctrl_c_again_ends_without_a_traceback():
    """Also while a search is running, whose thread outlives the server."""
    with running("-c", PROGRAM) as (process, address), connected(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert process.stdout.readline() == "began\n"
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        error = process.communicate(timeout=300)[1]
    assert process.returncode == 130 and "Traceback" not in error and "interrupted" in error
