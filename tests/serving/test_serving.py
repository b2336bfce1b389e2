"""The server and the local page: results, POST /v1/rerank, labels, workers, and clear errors for bad requests."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest

from harp_jax.api import Reranker
from harp_jax.base.errors import InputError
from harp_jax.corpus.labels import LabelFile
from harp_jax.ranking.lexical import Bm25, search
from harp_jax.serving.server import HOST, LARGEST_BODY, MOST_DOCUMENTS, MOST_RESULTS, listen, make_app
from harp_jax.serving.session import NOTHING, SearchSession, Sources
from harp_jax.site.search import CombinedSearch, Settings
from tests.support.commands import command
from tests.support.look_site import DOCS, HOSTILE, QUERIES, TUNED, add_vectors, write_site

pytest.importorskip("starlette")
pytest.importorskip("httpx2")


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
    asked = {"q": "  red \n cat ", "explain": "1"}
    answer = client.get("/search", params=asked).json()
    assert answer["query"] == "red cat" and answer["candidates"] == 3 and answer["message"] == ""
    results = {hit["id"]: hit for hit in answer["results"]}
    texts = {docid: " ".join(DOCS[docid]).strip() for docid in DOCS}
    # BM25 has the parameters that the site was tested with.
    docids, scores = search(Bm25(session.collection, **TUNED), session.collection, "red cat", 10)
    bm25 = {docid: hit["parts"]["BM25"] for docid, hit in results.items()}
    assert bm25 == pytest.approx(dict(zip(docids, map(float, scores))), abs=1e-5)
    assert bm25 != pytest.approx(
        dict(zip(*search(Bm25(session.collection), session.collection, "red cat", 10))), abs=1e-2
    )
    assert {docid: hit["ranks"]["BM25"] for docid, hit in results.items()} == {d: n for n, d in enumerate(docids, 1)}
    logits = Reranker.from_pretrained(str(site / "ranker")).predict([("red cat", texts[docid]) for docid in results])
    ranker = {docid: hit["parts"]["ranker"] for docid, hit in results.items()}
    assert ranker == pytest.approx(dict(zip(results, map(float, logits))), abs=1e-4)
    scaled = [{d: (s - min(x.values())) / np.ptp(list(x.values())) for d, s in x.items()} for x in (bm25, ranker)]
    total = {docid: hit["score"] for docid, hit in results.items()}
    assert total == pytest.approx({d: scaled[0][d] + 0.5 * scaled[1][d] for d in bm25}, abs=1e-4)
    # Best first, the same as from Python.
    assert [(hit["id"], pytest.approx(hit["score"], abs=1e-6)) for hit in answer["results"]] == CombinedSearch(
        str(site)
    ).search("red cat")
    assert [hit["ranks"]["sum"] for hit in answer["results"]] == [1, 2, 3]
    best = results["d1"]
    assert best["title"] == "Red cat" and best["anchors"] == [["the cat", 3], [f"pet {HOSTILE}", 1]]
    assert [words for words, matched in best["snippets"][""] if matched] == ["red", "cat"]
    assert results["d2"]["passage"] == DOCS["d2"][1] and best["url"] == ""
    # Without `explain`, and with the `k` best; nothing for unknown words.
    few = client.get("/search", params={"q": "red cat", "k": 2}).json()["results"]
    plain = ("id", "title", "url", "passage", "score", "parts")
    assert few == [{name: hit[name] for name in plain} for hit in answer["results"][:2]]
    none = client.get("/search", params={"q": "of unknownword"}).json()
    assert none["results"] == [] and none["message"] == NOTHING and none["candidates"] == 0


def test_a_title_leads_where_a_browser_can_open_it(place, tmp_path):
    """Links to an id or `url` that is a web address; ids of files and scripts are text."""
    web, file, script = "https://docs.example.org/cats.html#red", "file:///cats.html", "javascript:alert(1)"
    records = {
        web: {"title": "Cats"}, file: {"title": "Cats"}, script: {"title": ""},
        "D7": {"title": "Cats", "url": "http://example.org/cats"}, "D8": {"title": "Cats", "url": "cats.html"},
    }  # fmt: skip
    rows = [json.dumps({"id": docid, "text": "red cat", **record}) + "\n" for docid, record in records.items()]
    (tmp_path / "docs.jsonl").write_text("".join(rows))
    session = SearchSession(Sources(model=str(place[0] / "ranker"), docs=str(tmp_path / "docs.jsonl")))
    results = session.search("cat")["results"]
    assert {*results[0]["parts"]} == {"BM25", "re-ranker"} and session.name == "ranker"
    assert {hit["id"]: hit["url"] for hit in results} == {
        web: web,
        file: "",
        script: "",
        "D7": "http://example.org/cats",
        "D8": "",
    }


def test_stopwords_are_not_marked(place):
    assert place[1].stems("how do you stop the test of my pages") == {"stop", "test", "page"}


def test_each_column_shows_the_passage_that_its_part_read(tmp_path):
    """The sum shows the passage of its last ranker."""
    site = write_site(tmp_path / "site")
    text = " ".join(["two dogs ran after the blue cat and sat on the green mat"] * 3)
    with open(site / "pages" / "docs.jsonl", "a") as docs:
        docs.write(json.dumps({"id": "d5", "title": "Long", "text": text}) + "\n")
    weights = {"BM25": 1.0, "vectors": 2.0, "ranker": 1.0, "fine-tuned ranker": 1.0}
    models = dict.fromkeys(("ranker", "fine-tuned ranker"), "ranker")
    settings = replace(Settings.load(str(site)), weights=weights, models=models, encoder="encoder")
    replace(settings, windows=3, max_length=10).save(str(site))
    add_vectors(site, 3)
    session = SearchSession(Sources(str(site)))
    assert session.reader == session.name == "fine-tuned ranker"
    (long,) = (hit for hit in session.search("red cat", explain=True)["results"] if hit["id"] == "d5")
    assert long["ranks"].keys() == {"sum", "BM25", "vectors", "ranker", "fine-tuned ranker"}
    passages = {part: "".join(text for text, _ in segments) for part, segments in long["snippets"].items()}
    assert passages["ranker"] == passages["fine-tuned ranker"] != passages["vectors"]  # the same weights, other windows
    assert long["passage"] == passages["ranker"] != passages[""]


def test_the_page_that_a_query_was_taken_from_is_no_result(place):
    assert place[1].search("blue")["candidates"] == 0  # only its own source has the word
    assert "d2" in [hit["id"] for hit in place[1].search("blue dog")["results"]]


def test_the_page_is_whole_loads_nothing_from_elsewhere_and_is_served_to_this_host_only(client):
    for path, part in (("/", "<title>harp look"), ("/look.css", "prefers-color-scheme"), ("/look.js", "textContent")):
        answer = client.get(path)
        assert answer.status_code == 200 and part in answer.text
        assert "http" not in answer.text.replace("http://www.w3.org", "")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    page, script = client.get("/").text, client.get("/look.js").text
    assert "innerHTML" not in script
    assert page.index('id="verdict"') < page.index('id="rankings"')  # on top
    about = client.get("/about").json()
    assert about["queries"] == [*QUERIES] and about["verdict"].startswith("The sum is better")
    assert client.get("/about", headers={"Host": "x.example"}).status_code == 400
    assert client.get("/v1/rerank").status_code == 405 and client.get("/nothing").json()["error"] == "Not Found"
    for wrong in (
        {},
        {"q": "x" * 1001},
        *({"q": "a", "k": k} for k in ("0", "-1", "x", "²", MOST_RESULTS + 1, "9" * 5000)),
    ):
        answer = client.get("/search", params=wrong)
        assert answer.status_code == 422 and "must be a" in answer.json()["error"]


def test_labels_are_kept_changed_and_removed(client, place, tmp_path):
    def label(query, docid, level):
        return client.post("/label", json={"query": query, "docid": docid, "level": level})

    assert label("red  cat", "d1", 1).json()["levels"] == {"d1": 1}
    answer = label("red cat", "d2", 0).json()
    assert (answer["levels"], answer["labels"], answer["labelled"]) == ({"d1": 1, "d2": 0}, 2, 1)
    assert (tmp_path / "labels.tsv").read_text() == "red cat\td1\t1\nred cat\td2\t0\n"
    assert label("red cat", "d1", 0).json()["levels"] == {"d1": 0, "d2": 0}
    assert label("red cat", "d2", None).json()["levels"] == {"d1": 0}
    assert client.get("/search", params={"q": "red cat"}).json()["levels"] == {"d1": 0}
    valid = {"query": "q", "docid": "d1", "level": 1}
    wrong = [{"docid": "absent"}, *({"level": level} for level in (7, True, 1.0, float("nan")))]
    for body in (*wrong, {"query": "  "}, {"query": "\ud800"}):
        answer = client.post("/label", content=json.dumps(valid | body), headers=JSON)
        assert answer.status_code == 422 and answer.json()["error"], body
    # `null` removes a label; a request without a level does not.
    absent = client.post("/label", json={"query": "red cat", "docid": "d1"})
    assert absent.status_code == 422 and "`level` must be one of" in absent.json()["error"]
    assert client.post("/label", json=valid, headers={"Origin": "http://evil.example"}).status_code == 403
    assert (tmp_path / "labels.tsv").read_text() == "red cat\td1\t0\n"


def _label_fifty(path, query):
    labels = LabelFile(path)
    for n in range(50):
        labels.set(query, f"d{n}", 1)


def test_a_file_of_labels_keeps_its_other_lines(tmp_path):
    path = tmp_path / "labels.tsv"
    path.write_text("# mine\nred cat\td1\nblue\td2\t0\n")
    labels = LabelFile(str(path))
    assert labels.of("red  cat") == {"d1": 1} and (len(labels), labels.queries) == (2, 2)
    labels.set("red cat", "d3", 1)
    assert path.read_text() == "# mine\nred cat\td1\nblue\td2\t0\nred cat\td3\t1\n"
    path.write_text(path.read_text() + "by hand\td4\t1\n")  # while the page is open
    labels.set("red cat", "d3", None)
    assert path.read_text() == "# mine\nred cat\td1\nblue\td2\t0\nby hand\td4\t1\n" and len(labels) == 3
    labels.set("#tags", "d1", 1)
    assert LabelFile(str(path)).of("#tags") == {"d1": 1}  # not a comment
    path.unlink()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        list(pool.map(_label_fifty, [str(path)] * 2, ("one", "two")))
    assert len(LabelFile(str(path))) == 100 and os.listdir(tmp_path) == ["labels.tsv"]


JSON = {"Content-Type": "application/json"}


def test_rerank_answers_in_the_shape_of_cohere_jina_and_vllm(client, place):
    texts = [text for _, text in DOCS.values()]
    logits = Reranker.from_pretrained(str(place[0] / "ranker")).predict([("red cat", text) for text in texts])
    asked = {"model": "any", "query": "red cat", "documents": [texts[0], *({"text": text} for text in texts[1:])]}
    found = client.post("/v1/rerank", json=asked | {"return_documents": True, "unknown": 1}).json()
    assert found["model"] == "ranker" and found.keys() == {"model", "results"}
    assert [hit["index"] for hit in found["results"]] == np.argsort(-logits, kind="stable").tolist()
    sigmoids = 1 / (1 + np.exp(-np.sort(logits)[::-1].astype(np.float64)))
    assert [hit["relevance_score"] for hit in found["results"]] == pytest.approx(sigmoids.tolist(), abs=1e-6)
    assert all(hit["document"] == {"text": texts[hit["index"]]} for hit in found["results"])
    best = client.post("/v2/rerank", json=asked | {"top_n": 2}).json()["results"]
    assert best == [{name: hit[name] for name in ("index", "relevance_score")} for hit in found["results"][:2]]
    # Text Embeddings Inference.
    answer = client.post("/rerank", json={"query": "red cat", "texts": texts, "return_text": True}).json()
    assert answer == [
        {"index": hit["index"], "score": hit["relevance_score"], "text": texts[hit["index"]]}
        for hit in found["results"]
    ]


RANKER = {"ranker": "ranker"}


@pytest.mark.parametrize(
    ("weights", "models", "name"),
    [
        ({"BM25": 1.0}, RANKER, "ranker"), ({"BM25": 1.0}, {}, "encoder"), ({"BM25": 1.0, "vectors": 2.0}, RANKER, "encoder"),
    ],
)  # fmt: skip
def test_texts_are_scored_wherever_there_is_a_model(tmp_path, weights, models, name):
    """Also by a model that is not recommended; one that is comes first."""
    site = write_site(tmp_path / "site")
    replace(Settings.load(str(site)), weights=weights, encoder="encoder", models=models).save(str(site))
    add_vectors(site)
    body = {"query": "red cat", "documents": ["a red cat", "dogs"]}
    answer = client_of(SearchSession(Sources(str(site)))).post("/v1/rerank", json=body).json()
    assert answer["model"] == name and len(answer["results"]) == 2


@pytest.mark.parametrize(
    "body, status, said",
    [
        (b"\xff\xfe", 400, "not JSON"), (b'{"query": "q", "documents": ["a"]}', 415, "send application/json"),
        (b"[]", 422, "not an object"),
        ({"query": 1, "documents": ["a"]}, 422, "`query` must be a text"),
        ({"query": "q", "documents": []}, 422, "`documents` must be a list of one or more"),
        ({"query": "q", "documents": ["a", None]}, 422, "`documents` must be a text"),
        ({"query": "q", "documents": ["\ud800"]}, 422, "half a surrogate pair"),
        ({"query": "q", "documents": ["a"] * (MOST_DOCUMENTS + 1)}, 413, "send at most 1000"),
        ({"query": "q", "documents": ["a"], "top_n": True}, 422, "`top_n` must be"),
        ({"query": "q", "documents": ["a"], "return_documents": 1}, 422, "`return_documents` must be true or false"),
        (b'{"query": "' + b"x" * LARGEST_BODY + b'"}', 413, "larger than 2,000,000 bytes"),
    ],
)  # fmt: skip
def test_bad_requests_are_refused_in_words(client, body, status, said):
    kind = {"Content-Type": "text/plain"} if status == 415 else JSON
    answer = client.post("/v1/rerank", content=body if isinstance(body, bytes) else json.dumps(body), headers=kind)
    assert answer.status_code == status and said in answer.json()["error"]


def test_a_model_that_scores_no_numbers_is_refused_when_it_is_loaded_and_never_answers(client, place, monkeypatch):
    site, session = place
    monkeypatch.setattr(type(session.scorer), "score", lambda self, pairs, bar=None: np.full(len(pairs), np.nan))
    with pytest.raises(InputError, match="the model gives scores that are not finite numbers: its weights are damaged"):
        SearchSession(Sources(str(site)))
    body = {"query": "red cat", "documents": ["a"]}
    for answer in (client.post("/v1/rerank", json=body), client.get("/search", params={"q": "red cat"})):
        assert answer.status_code == 500 and "not finite numbers" in answer.json()["error"]


def test_a_copy_with_another_cache_and_several_workers_answers_the_same(tmp_path):
    """The folder is moved and read-only, and no cache is left. One worker is killed: the server ends and says why."""
    site = write_site(tmp_path / "site")
    replace(Settings.load(str(site)), weights={"BM25": 1.0, "vectors": 2.0}, encoder="encoder", models={}).save(
        str(site)
    )
    add_vectors(site)
    expected = CombinedSearch(str(site)).search("red cat", 3)
    copied = site.rename(tmp_path / "elsewhere")
    for path in (copied, *copied.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    caches = {"XDG_CACHE_HOME": "cache", "HF_HOME": "hub", "HOME": "home", "JAX_COMPILATION_CACHE_DIR": "xla"}
    environment = os.environ | {name: str(tmp_path / folder) for name, folder in caches.items()}
    command = [sys.executable, "-m", "harp_jax", "serve", str(copied), "--port=0", "--workers=2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            address = process.stdout.readline().split()[0]
            with urllib.request.urlopen(f"{address}/search?q=red+cat&k=3", timeout=300) as answer:
                found = [(hit["id"], hit["score"]) for hit in json.load(answer)["results"]]
            assert found == [(docid, pytest.approx(score, abs=1e-5)) for docid, score in expected]
            with urllib.request.urlopen(f"{address}/healthz", timeout=300) as answer:
                assert json.load(answer) == {"status": "ok", "documents": 4, "model": "BM25 + 2 × vectors"}
            children = f"/proc/{process.pid}/task/{process.pid}/children"
            workers = [
                pid for pid in open(children).read().split() if "spawn_main" in open(f"/proc/{pid}/cmdline").read()
            ]
            assert len(workers) == 2
            os.kill(int(workers[1]), signal.SIGKILL)
            error = process.communicate(timeout=300)[1]
        finally:
            process.kill()
    assert process.returncode == 2 and "a worker was killed, probably for lack of memory" in error
    assert "Traceback" not in error and not any(os.path.exists(f"/proc/{pid}") for pid in workers)


def test_other_machines_may_ask_a_server_that_listens_to_them_but_it_has_no_page(place):
    client = client_of(place[1], host="0.0.0.0")
    assert client.get("/healthz", headers={"Host": "search.example"}).json()["documents"] == len(DOCS)
    assert [client.get(path).status_code for path in ("/", "/about", "/label")] == [404] * 3


def test_a_client_with_an_unfinished_body_does_not_delay_the_end(place):
    command = [sys.executable, "-m", "harp_jax", "look", str(place[0]), "--port=0"]
    head = "POST /v1/rerank HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stdout.readline().split()[0].rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
                connection.sendall(f"{head}\r\n\r\n{{".encode())
                urllib.request.urlopen(f"http://127.0.0.1:{port}/about", timeout=300).close()  # it has read the head
                process.send_signal(signal.SIGINT)
                assert "Traceback" not in process.communicate(timeout=300)[1]
        finally:
            process.kill()


def test_ctrl_c_again_ends_without_a_traceback():
    """Also while a search is running, whose thread outlives the server."""
    code = (
        "import time\nfrom harp_jax.base.cli import ending_well\nfrom harp_jax.serving import server\n"
        "from starlette.applications import Starlette\nfrom starlette.concurrency import run_in_threadpool\n"
        "from starlette.responses import Response\nfrom starlette.routing import Route\n"
        "async def slow(_):\n    print('began', flush=True)\n    await run_in_threadpool(time.sleep, 3)\n    return Response()\n"
        "with ending_well():\n    listening = server.listen('127.0.0.1', 0)\n"
        "    print(listening.getsockname()[1], flush=True)\n"
        "    server.run(Starlette(routes=[Route('/', slow)]), listening)\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=300) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert process.stdout.readline() == "began\n"
            for _ in range(3):
                process.send_signal(signal.SIGINT)
                time.sleep(0.3)
            error = process.communicate(timeout=300)[1]
    assert process.returncode == 130 and "Traceback" not in error and "interrupted" in error


def test_wrong_options_are_named(place, tmp_path):
    for options, said in (
        ([], "name the output directory of `harp site`, or --model and --docs"),
        ([tmp_path], "has no search.json; let `harp site` finish"),
        ([place[0], "--language=de"], "--language is recorded in .*; leave it out, or give --model and --docs"),
    ):
        with pytest.raises(InputError, match=said):
            command("look", *options)
    with listen(HOST, 0) as taken, pytest.raises(InputError, match="choose another, or 0 for any free one"):
        listen(HOST, taken.getsockname()[1])
