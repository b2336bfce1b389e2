import bz2
import contextlib
import gzip
import json
import lzma
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from harp_jax.base.errors import InputError
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.trec import read_qrels, read_queries, read_run

RECORDS = [
    {"id": "D1", "url": "http://a.org/1", "title": "One", "body": "the first  body"},
    {"id": "D2", "url": "", "title": "Zwei – två", "body": "second \u2028 body \U0001f408"},
    {"id": "D3", "url": "", "title": "", "body": ""},
]
TEXTS = {"D1": "One http://a.org/1 the first  body", "D2": "Zwei – två second \u2028 body \U0001f408", "D3": ""}
TSV = "".join("\t".join(r[k] for k in ("id", "url", "title", "body")) + "\n" for r in RECORDS).encode()
JSONL = "".join(json.dumps(r) + "\n" for r in RECORDS).encode()
BEIR = JSONL.replace(b'"id"', b'"metadata": {"url": "x"}, "_id"').replace(b'"body"', b'"text"')


def opened(tmp_path, data: bytes, name: str = "docs.tsv", fields: tuple[str, ...] = FIELDS) -> Documents:
    (tmp_path / name).write_bytes(data)
    return Documents.open(str(tmp_path / name), fields)


def written(folder, files: dict[str, str | bytes]) -> str:
    """Writes files by their path in a folder; returns the folder."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(folder)


def check(docs: Documents, texts: dict[str, str] = TEXTS) -> None:
    assert {docid: docs[docid] for docid in texts} == texts and len(docs) == len(texts)
    assert list(docs.ids()) == list(texts) and list(docs.texts()) == list(texts.items())
    assert "D9" not in docs


PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("data", [TSV, JSONL, BEIR, MARK + TSV, TSV.replace(b"\n", b"\r\n\n"), MARK + JSONL, TSV[:-1]])
def test_every_format_with_odd_line_ends_and_marks(tmp_path, data, suffix):
    check(opened(tmp_path, PACKERS[suffix](data), "docs" + suffix))


def test_index_is_made_once_for_all_fields_and_again_when_the_file_changes(tmp_path):
    docs = opened(tmp_path, TSV, fields=("body", "title"))
    before, again = os.stat(docs.index), Documents.open(docs.path, ("title",))
    assert (docs["D1"], again["D1"], again.index) == ("the first  body One", "One", docs.index)
    assert os.stat(docs.index).st_mtime_ns == before.st_mtime_ns
    assert before.st_mode & 0o077 == 0  # the collection may be private
    changed = opened(tmp_path, TSV + b"D4\t\t\tnew\n")
    assert changed.index != docs.index and changed["D4"] == "new"


def test_threads_and_spawned_processes_read_together(tmp_path):
    docs = opened(tmp_path, gzip.compress(TSV, mtime=0), "docs.tsv.gz")
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(docs.__getitem__, list(TEXTS) * 40)) == list(TEXTS.values()) * 40
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(docs.__getitem__, list(TEXTS))) == list(TEXTS.values())


@pytest.mark.parametrize(
    "data, message",
    [
        (TSV + b"D2\t\t\tagain\nD1\t\t\tagain\n", r"line 4: document D2 is listed again \(first in line 2\)"),
        (b"1\tone\n2\tthe text\twith two\ttabs\n", "line 2: 4 columns, not 2; .* without tabs in the texts"),
        (JSONL + b'{"_id": ["D4"], "text": "x"}\n', r"line 4: document id is \['D4'\], neither"),
        (JSONL + b'{"id": "D4", "text": null}\n', 'line 4: text is null, not a text; .* write "" for no text'),
        (TSV + b"D4\t\t\tcaf\xe9\n", "line 4: not UTF-8"),
        (gzip.compress(TSV, mtime=0)[:-20], "damaged after line"),
    ],
)
def test_bad_documents_name_the_line_and_leave_no_index(tmp_path, monkeypatch, data, message):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(InputError, match=message):
        opened(tmp_path, data, "docs.tsv.gz" if data.startswith(b"\x1f\x8b") else "docs.tsv")
    assert not list((tmp_path / "cache" / "harp_jax" / "documents").iterdir())


def test_a_change_that_keeps_size_and_time_and_a_damaged_index_are_noticed(tmp_path):
    docs, changed = opened(tmp_path, TSV), TSV.replace(b"the first", b"one first").replace(b"D1", b"D9")
    before = os.stat(docs.path)
    assert len(changed) == len(TSV)
    Path(docs.path).write_bytes(changed)
    os.utime(docs.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InputError, match="document 'D9', but 'D1' when the file was indexed"):
        docs["D1"]
    again = Documents.open(docs.path)
    assert again["D9"].startswith("One http://a.org/1 one first") and "D1" not in again
    with open(again.index, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(InputError, match="was damaged .* and has been removed; run the command again"):
        Documents(docs.path, again.index, FIELDS)["D9"]
    check(opened(tmp_path, TSV))


def test_a_folder_of_several_files_or_of_beir(tmp_path):
    first = '{"_id": "D0", "title": "Zero", "text": "null", "metadata": {}}\n{"id": "D1", "contents": "eins"}\n'
    second = '{"id": 4, "title": null, "text": null, "contents": "four"}\n{"id": "5", "title": "x \\ud83d y"}\n'
    files = {"b.jsonl.gz": gzip.compress(second.encode()), "c.tsv": "D2\thttp://x\tTwo\tzwei\r\n"}
    folder = written(tmp_path / "some", files | {"a.jsonl": "\ufeff" + first})
    texts = {"D0": "Zero null", "D1": "eins", "4": "four", "5": "x \ufffd y"}
    check(Documents.open(folder), texts | {"D2": "Two http://x zwei"})
    with pytest.raises(InputError, match=r"d\.tsv, line 2: document D1 is listed .*first in .*a\.jsonl, line 2"):
        Documents.open(written(tmp_path / "some", {"d.tsv": "D8\t\t\tnew\nD1\t\t\tagain\n"}))

    files = {"queries.jsonl": '{"_id": "q1", "text": "title"}\n', "qrels/test.tsv": "q1 0 D1 1\n"}
    beir = written(tmp_path / "scifact", files | {"corpus.jsonl": first + second})
    check(Documents.open(beir), texts)
    assert read_queries(beir) == {"q1": "title"} and read_qrels(beir) == {"q1": {"D1": 1}}
    written(tmp_path / "scifact", {"qrels/train.tsv": ""})
    with pytest.raises(InputError, match=r"has 2 files of judgments \(test\.tsv, train\.tsv\)"):
        read_qrels(beir)


@pytest.mark.parametrize(
    "names, documents",
    [
        ("docs.tsv queries.tsv source_documents.tsv folds.tsv qrels.tsv", "docs.tsv"),
        ("msmarco-docs.tsv msmarco-doctrain-queries.tsv qrels.dev.tsv", "msmarco-docs.tsv"),
        ("collection-01.jsonl collection-02.jsonl notes.json", "collection-01.jsonl collection-02.jsonl"),
        ("one.tsv two.tsv queries.tsv", r"has one\.tsv, two\.tsv: which are the documents\?"),
        ("collection.tsv docs.tsv", r"has collection\.tsv, docs\.tsv: which"),
    ],
)
def test_a_folder_of_documents_and_other_files(tmp_path, names, documents):
    """All these files could be read as documents: only names tell them apart."""
    folder = written(tmp_path, {name: f"{name}\ttext\n" for name in names.split()})
    refused = pytest.raises(InputError, match=documents) if documents.startswith("has") else contextlib.nullcontext()
    with refused:
        assert list(Documents.open(folder).ids()) == documents.split()


FT = """<DOC>
<DOCNO>FT911-3</DOCNO>
<HEADLINE>
FT  14 MAY 91 / Company News:
</HEADLINE>
<TEXT>
CONTIGAS said &amp; <b>today</b>.
</TEXT>
</DOC>
"""
FR = "<DOC>\n<DOCNO> FR940104-0-00001 </DOCNO>\n<TEXT>\n<!-- PJG FTAG 4700 -->\nVol. 59, café\n</TEXT>\n</DOC>\n"
FR += "<DOC><DOCNO> FR940104-0-00002 </DOCNO>\nonly text\n</DOC>\n"
TOPICS = "\n<top>\n<num> Number: 301 \n<title> International Organized Crime \n\n<desc> Description: \n</top>\n"


def test_robust04_is_read_as_trec_distributes_it(tmp_path):
    """Folders of SGML, packed by Unix compress or gzip or not, next to notes and topics."""
    # gzip -dc unpacks .z of compress and of gzip alike; compress itself is seldom installed.
    packed = {"fr94/fr940104.0z": gzip.compress(FR.encode("latin-1"))}
    written(tmp_path, {"ft/ft911/ft911_1": FT, "ft/readmeft": "notes", "04.testset": TOPICS, **packed})
    docs = Documents.open(str(tmp_path))
    texts = {"FR940104-0-00001": "Vol. 59, café", "FR940104-0-00002": "only text"}
    check(docs, texts | {"FT911-3": "FT 14 MAY 91 / Company News: CONTIGAS said & today ."})
    assert read_queries(str(tmp_path / "04.testset")) == {"301": "International Organized Crime"}
    for name, text, read, said in (
        ("cut", FT[:-9], Documents.open, r"cut, line 1: <DOC> without </DOC>; the file is truncated"),
        ("damaged.z", "text", Documents.open, "damaged.z is damaged: gzip -dc cannot unpack it"),
        ("topics", TOPICS.replace("<title>", ""), read_queries, "topics, topic 1: no <num> or no <title>"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=said):
            read(str(tmp_path / name))


def test_an_ir_datasets_id_stands_for_files(tmp_path, monkeypatch):
    """A tiny dataset is registered under an id, without downloads."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "irds"))
    ir_datasets = pytest.importorskip("ir_datasets", reason="the extra [irds] is not installed")
    from ir_datasets import formats
    from ir_datasets.datasets.msmarco_document import MsMarcoDocument
    from ir_datasets.util import Download, LocalDownload, RequestsDownload

    files = {
        "docs.tsv": "D1\thttp://a\tOne\tthe body\nD2\t\tTwo\tanother\n",
        "queries.tsv": "q1\tthe question\nq2\tother\n",
        "qrels": "q1 1 D1 2\nq1 2 D1 0\nq1 1 D2 0\n",
        "run": "q1 Q0 D2 1 3.5 x\nq1 Q0 D1 2 1.5 x\nq2 Q0 D1 1 1 x\n",
    }
    written(tmp_path, files)
    docs, queries, qrels, run = (LocalDownload(tmp_path / name) for name in files)
    dataset = ir_datasets.Dataset(
        formats.TsvDocs(docs, doc_cls=MsMarcoDocument, namespace="tiny", lang="en"),
        formats.TsvQueries(queries, lang="en"),
        formats.TrecSubQrels(qrels, {}),
        formats.TrecScoredDocs(run),
    )
    registered = f"irds:harp-tiny-{tmp_path.name}"
    ir_datasets.registry.register(registered.removeprefix("irds:"), dataset)
    docs = Documents.open(registered, ("title", "body"))
    check(docs, texts := {"D1": "One the body", "D2": "Two another"})
    check(pickle.loads(pickle.dumps(docs)), texts)
    assert Documents.open(registered)["D1"] == "One http://a the body"
    assert read_queries(registered) == {"q1": "the question", "q2": "other"}
    assert read_qrels(registered) == {"q1": {"D1": 2, "D2": 0}}  # the highest level of a subtopic
    assert read_run(registered)["q1"].ranked() == ["D2", "D1"] and list(read_run(registered, {"q2"})) == ["q2"]
    # What does not exist, and what no source serves.
    with pytest.raises(InputError, match="ir_datasets has no queries of"):
        read_queries("irds:no-such-thing")
    lost = Download([RequestsDownload("http://127.0.0.1:9/none", tries=1)])
    monkeypatch.setattr(LocalDownload, "path", lambda self, force=True: lost.path())
    monkeypatch.setattr(LocalDownload, "stream", lambda self: lost.stream())
    read_document = lambda path: Documents.open(path)["D1"]  # noqa: E731
    for reading in (read_queries, read_qrels, read_run, read_document):
        with pytest.raises(InputError, match="ir_datasets cannot serve harp-tiny-.*: .*check the network"):
            reading(registered)
