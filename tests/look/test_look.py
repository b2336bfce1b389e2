"""The local page: rankings next to each other, labels, POST /rerank, and clear refusals of bad requests."""

import asyncio
import json
import os
from multiprocessing import get_context

import numpy as np
import pytest

from harp_jax.base.errors import InputError
from harp_jax.commands import look
from harp_jax.corpus.labels import read_labels
from harp_jax.look.app import make_app
from harp_jax.look.bodies import LARGEST_BODY, RequestError, read_object
from harp_jax.look.label_file import LabelFile
from harp_jax.look.rerank import MOST_TEXTS
from harp_jax.look.server import listen
from harp_jax.look.shelf import Shelf
from harp_jax.look.snippets import WINDOW, snippet
from harp_jax.look.sources import Sources, of_site
from harp_jax.ranking.lexical.models import Bm25, search
from harp_jax.ranking.reranker import Reranker
from tests.support.look_site import DOCS, HOSTILE, QUERIES, TUNED, write_site

Process = get_context("spawn").Process

pytest.importorskip("starlette")
pytest.importorskip("httpx2")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("look")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        site = write_site(folder / "site")
        shelf = Shelf.load(of_site(str(site), Sources(fields=("title", "body"))))
        yield site, shelf


def test_bm25_has_the_parameters_that_the_site_was_tested_with(place):
    _, shelf = place
    found = {hit["docid"]: hit["score"] for hit in shelf.search("red cat")["rankings"][0]["results"]}
    docids, scores = search(Bm25(shelf.collection, **TUNED), shelf.collection, "red cat", 10)
    assert found == pytest.approx(dict(zip(docids, map(float, scores))), abs=1e-4)  # they are rounded
    assert found != pytest.approx(dict(zip(*search(Bm25(shelf.collection), shelf.collection, "red cat", 10))), abs=1e-2)


@pytest.fixture
def client(place, tmp_path):
    from starlette.testclient import TestClient

    site, shelf = place
    return TestClient(make_app(shelf, LabelFile(str(tmp_path / "labels.tsv"))), base_url="http://127.0.0.1:8808")


def test_a_query_is_ranked_three_ways_with_what_explains_it(client, place):
    found = client.get("/search", params={"q": "  red \n cat "}).json()
    assert found["query"] == "red cat" and found["candidates"] == 3
    bm25, ranker, both = (ranking["results"] for ranking in found["rankings"])
    assert [ranking["name"] for ranking in found["rankings"]] == ["BM25", "Re-ranker", "Both"]
    assert [hit["rank"] for hit in bm25] == [hit["before"] for hit in bm25] == [1, 2, 3] and bm25[0]["docid"] == "d1"
    texts = {docid: " ".join(DOCS[docid]).strip() for docid in DOCS}
    expected = dict(
        zip(texts, Reranker.from_pretrained(str(place[0] / "ranker")).predict([("red cat", t) for t in texts.values()]))
    )
    assert {hit["docid"]: hit["score"] for hit in ranker} == pytest.approx(
        {hit["docid"]: float(expected[hit["docid"]]) for hit in ranker}, abs=1e-4
    )
    scaled = [{h["docid"]: h["score"] for h in hits} for hits in (bm25, ranker)]
    scaled = [{d: (s - min(x.values())) / np.ptp(list(x.values())) for d, s in x.items()} for x in scaled]
    assert {h["docid"]: h["score"] for h in both} == pytest.approx(
        {d: scaled[0][d] + 0.5 * scaled[1][d] for d in scaled[0]}, abs=1e-3
    )
    about = found["documents"]["d1"]
    assert about["title"] == "Red cat" and about["anchors"] == [["the cat", 3], [f"pet {HOSTILE}", 1]]
    assert [part for part, matched in about["snippet"] if matched] == ["red", "cat"]
    assert "".join(part for part, _ in found["documents"]["d2"]["snippet"]).strip() == DOCS["d2"][1]
    assert client.get("/search", params={"q": "of unknownword"}).json()["candidates"] == 0


def test_the_page_that_a_query_was_taken_from_is_no_result(client):
    found = {q: client.get("/search", params={"q": q}).json() for q in ("blue", "blue dog")}
    assert found["blue"]["candidates"] == 0  # only its own source has the word
    assert "d2" in found["blue dog"]["documents"]


def test_the_page_is_whole_and_loads_nothing_from_elsewhere(client):
    for path, part in (("/", "<title>harp look"), ("/look.css", "prefers-color-scheme"), ("/look.js", "textContent")):
        answer = client.get(path)
        assert (
            answer.status_code == 200
            and part in answer.text
            and "http" not in answer.text.replace("http://www.w3.org", "")
        )
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "innerHTML" not in client.get("/look.js").text
    about = client.get("/about").json()
    assert (
        about["queries"] == [*QUERIES] and about["weight"] == 0.5 and about["verdict"].startswith("The sum is better")
    )


def test_labels_are_kept_changed_and_removed(client, tmp_path):
    def label(query, docid, level):
        return client.post("/label", json={"query": query, "docid": docid, "level": level})

    (tmp_path / "labels.tsv").write_text("")
    assert label("red  cat", "d1", 1).json()["levels"] == {"d1": 1}
    assert label("red cat", "d2", 0).json() | {"file": ""} == {
        "levels": {"d1": 1, "d2": 0},
        "labels": 2,
        "labelled": 1,
        "file": "",
    }
    assert (tmp_path / "labels.tsv").read_text() == "red cat\td1\t1\nred cat\td2\t0\n"
    assert label("red cat", "d1", 0).json()["levels"] == {"d1": 0, "d2": 0}
    assert label("red cat", "d2", None).json()["levels"] == {"d1": 0}
    assert client.get("/search", params={"q": "red cat"}).json()["levels"] == {"d1": 0}
    assert (tmp_path / "labels.tsv").read_text() == "red cat\td1\t0\n"
    for body in (
        {"docid": "absent"},
        {"level": 7},
        {"level": True},
        {"level": 1.0},
        {"level": float("nan")},
        {"query": "  "},
        {"query": "x" * 1001},
        {"query": "\ud800"},
    ):
        answer = client.post(
            "/label", content=json.dumps({"query": "q", "docid": "d1", "level": 1} | body), headers=JSON
        )
        assert answer.status_code == 422 and answer.json()["error"], body
    # `null` removes a label; a request without a level does not.
    absent = client.post("/label", json={"query": "red cat", "docid": "d1"})
    assert absent.status_code == 422 and "`level` must be one of" in absent.json()["error"]
    elsewhere = client.post(
        "/label", json={"query": "q", "docid": "d1", "level": 1}, headers={"Origin": "http://evil.example"}
    )
    assert elsewhere.status_code == 403
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
    assert LabelFile(str(path)).of("#tags") == {"d1": 1}  # no comment
    assert read_labels(str(path))[1]["l4"] == {"d1": 1} and read_labels(str(path))[0]["l4"] == "#tags"
    path.unlink()
    writing = [Process(target=_label_fifty, args=(str(path), name)) for name in ("one", "two")]
    for process in writing:
        process.start()
    for process in writing:
        process.join()
    assert len(LabelFile(str(path))) == 100 and os.listdir(tmp_path) == ["labels.tsv"]
    path.write_text("red cat\n")
    with pytest.raises(InputError, match=r"line 1: no 'query<TAB>docid<TAB>level'; correct the line"):
        LabelFile(str(path))


JSON = {"Content-Type": "application/json"}


def test_a_connection_that_closes_within_the_body_is_no_crash():
    from starlette.requests import Request

    async def receive():
        return {"type": "http.disconnect"}

    headers = [(b"content-type", b"application/json")]
    with pytest.raises(RequestError, match="the connection closed"):
        asyncio.run(read_object(Request({"type": "http", "headers": headers}, receive)))


def test_rerank_answers_as_text_embeddings_inference_does(client, place):
    texts = [text for _, text in DOCS.values()]
    logits = Reranker.from_pretrained(str(place[0] / "ranker")).predict([("red cat", text) for text in texts])
    raw = client.post(
        "/rerank", json={"query": "red cat", "texts": texts, "raw_scores": True, "return_text": True}
    ).json()
    assert [hit["index"] for hit in raw] == np.argsort(-logits, kind="stable").tolist()
    assert [hit["score"] for hit in raw] == pytest.approx(sorted(logits.tolist(), reverse=True), abs=1e-5)
    assert all(hit["text"] == texts[hit["index"]] for hit in raw)
    plain = client.post(
        "/rerank", json={"query": "red cat", "texts": texts, "unknown": 1, "truncation_direction": "Right"}
    ).json()
    assert [hit["score"] for hit in plain] == pytest.approx([1 / (1 + np.exp(-hit["score"])) for hit in raw], abs=1e-6)
    assert all(hit.keys() == {"index", "score"} for hit in plain)
    long = {"query": "red", "texts": ["short", "cat " * 100]}
    refused = client.post("/rerank", json=long)
    assert refused.status_code == 413 and "texts[1] has more than the 36 tokens" in refused.json()["error"]
    assert len(client.post("/rerank", json=long | {"truncate": True}).json()) == 2


@pytest.mark.parametrize(
    "body, status, said",
    [
        (b"{", 400, "no JSON"),
        (b"[" * 100_000, 400, "no JSON"),
        (b"\xff\xfe", 400, "no JSON"),
        (b"[]", 422, "no object"),
        (b"{}", 422, "`query` must be a text; it is absent"),
        ({"query": 1, "texts": ["a"]}, 422, "`query` must be a text"),
        ({"query": "q"}, 422, "`texts` must be a list of texts; it is absent"),
        ({"query": "q", "texts": "a"}, 422, "`texts` must be a list of texts"),
        ({"query": "q", "texts": ["a", None]}, 422, "`texts` must be a list of texts"),
        ({"query": "q", "texts": ["\ud800"]}, 422, "half a surrogate pair"),
        ({"query": "q", "texts": []}, 400, "`texts` cannot be empty"),
        ({"query": "q", "texts": ["a"] * (MOST_TEXTS + 1)}, 413, "maximum allowed batch size 1000"),
        ({"query": "q", "texts": ["a"], "truncate": "yes"}, 422, "`truncate` must be true or false"),
        ({"query": "q", "texts": ["a"], "truncation_direction": "Left"}, 422, "must be right"),
        (b'{"query": "' + b"x" * LARGEST_BODY + b'"}', 413, "larger than 2,000,000 bytes"),
    ],
)  # fmt: skip
def test_bad_requests_are_refused_in_words(client, body, status, said):
    answer = client.post("/rerank", content=body if isinstance(body, bytes) else json.dumps(body), headers=JSON)
    assert answer.status_code == status and said in answer.json()["error"] and answer.json()["error_type"]


def test_other_hosts_methods_and_content_types_are_refused(client):
    assert client.get("/about", headers={"Host": "evil.example"}).status_code == 400
    assert client.get("/about", headers={"Host": "localhost:8808"}).status_code == 200
    assert client.get("/rerank").status_code == 405 and client.get("/nothing").json()["error"] == "Not Found"
    simple = client.post("/rerank", content='{"query": "q", "texts": ["a"]}', headers={"Content-Type": "text/plain"})
    assert simple.status_code == 415
    assert client.get("/search").status_code == client.get("/search", params={"q": "x" * 1001}).status_code == 422


def test_snippets_show_where_a_document_answers():
    text = "filler words " * 60 + "here the red cat sits " + "more filler " * 60
    found = snippet({"red", "cat"}, text, None)
    assert (
        [part for part, matched in found if matched] == ["red", "cat"] and found[0][0] == "… " and found[-1][0] == " …"
    )
    assert len("".join(part for part, _ in found).split()) <= WINDOW + 2
    assert snippet({"absent"}, "one two", None) == [("one two", False)] and snippet({"x"}, "", None) == []
    assert snippet({"x"}, "?!", None) == [("?!", False)]


def test_wrong_options_are_named(place, tmp_path):
    def start(*options):
        look.main(look.arguments_parser().parse_args(list(options)))

    with pytest.raises(InputError, match="no --model and no --docs; give both, or the output directory of `harp site`"):
        start()
    with pytest.raises(InputError, match="has no ranker; let `harp site` finish"):
        start(str(tmp_path))
    with pytest.raises(InputError, match="absent, gone: no such file or folder"):
        start("--model=absent", "--docs=gone")
    with pytest.raises(InputError, match="--weight=-1: use 0 to 1000"):
        start(str(place[0]), "--weight=-1")
    with pytest.raises(InputError, match="--depth=0: use 1 to 1000"):
        start(str(place[0]), "--depth=0")
    with listen(0) as taken:
        taken.listen()
        with pytest.raises(InputError, match="choose another, or 0 for any free one"):
            listen(taken.getsockname()[1])
    with pytest.raises(InputError, match="--port=70000: use 0"):
        listen(70000)
