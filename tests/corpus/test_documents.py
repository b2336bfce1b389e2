import bz2
import gzip
import json
import lzma
import multiprocessing
import os
import pickle
import resource
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from harp_jax.base.errors import InputError
from harp_jax.base.files import cache_directory
from harp_jax.corpus.documents import Documents

RECORDS = [
    {"id": "D1", "url": "http://a.org/1", "title": "One", "body": "the first  body"},
    {"id": "D2", "url": "", "title": "Zwei – två", "body": "second \u2028 body \U0001f408"},
    {"id": "D3", "url": "", "title": "", "body": ""},
]
TEXTS = {"D1": "One http://a.org/1 the first  body", "D2": "Zwei – två second \u2028 body \U0001f408", "D3": ""}
TSV = "".join("\t".join(r[k] for k in ("id", "url", "title", "body")) + "\n" for r in RECORDS).encode()
JSONL = "".join(json.dumps(r) + "\n" for r in RECORDS).encode()
BEIR = JSONL.replace(b'"id"', b'"metadata": {"url": "x"}, "_id"').replace(b'"body"', b'"text"')


def opened(tmp_path, data: bytes, name: str = "docs.tsv", **options) -> Documents:
    (tmp_path / name).write_bytes(data)
    return Documents.open(str(tmp_path / name), cache_dir=str(tmp_path / "cache"), **options)


def check(docs: Documents) -> None:
    assert {docid: docs[docid] for docid in TEXTS} == TEXTS and len(docs) == 3
    assert list(docs.ids()) == list(TEXTS) and list(docs.texts()) == list(TEXTS.items())
    assert "D2" in docs and "D4" not in docs and "" not in docs
    with pytest.raises(KeyError):
        docs["D4"]


PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("data", [TSV, JSONL, BEIR, MARK + TSV, TSV.replace(b"\n", b"\r\n\n"), MARK + JSONL, TSV[:-1]])
def test_every_format_with_odd_line_ends_and_marks(tmp_path, data, suffix):
    check(opened(tmp_path, PACKERS[suffix](data), "docs" + suffix))


def test_fields_and_their_order(tmp_path):
    assert opened(tmp_path, TSV, fields=("body", "title"))["D1"] == "the first  body One"
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert opened(tmp_path, TSV, fields=("title",))["D1"] == "One"
    with pytest.raises(InputError, match="unknown document field"):
        opened(tmp_path, TSV, fields=("abstract",))


def reopened(docs: Documents) -> Documents:
    return Documents.open(docs.path, cache_dir=os.path.dirname(docs.index))


def test_index_is_made_once_and_again_when_the_file_changes(tmp_path):
    docs = opened(tmp_path, TSV)
    before = os.stat(docs.index)
    assert reopened(docs).index == docs.index and os.stat(docs.index).st_mtime_ns == before.st_mtime_ns
    # It holds the ids, and the records of compressed files, of a collection that may be private.
    assert before.st_mode & 0o077 == 0
    changed = opened(tmp_path, TSV + b"D4\t\t\tnew\n")
    assert changed.index != docs.index and changed["D4"] == "new"


def test_cache_follows_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache?#%"))
    assert cache_directory("documents").startswith(str(tmp_path / "my cache?#%"))
    (tmp_path / "docs.tsv").write_bytes(TSV)
    check(Documents.open(str(tmp_path / "docs.tsv")))


def test_threads_and_spawned_processes_read_together(tmp_path):
    docs = opened(tmp_path, gzip.compress(TSV, mtime=0), "docs.tsv.gz")
    assert docs["D1"] == TEXTS["D1"]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(docs.__getitem__, list(TEXTS) * 40)) == list(TEXTS.values()) * 40
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(docs.__getitem__, list(TEXTS))) == list(TEXTS.values())
    check(pickle.loads(pickle.dumps(docs)))


@pytest.mark.parametrize(
    "data, message",
    [
        (TSV + b"D2\t\t\tagain\nD1\t\t\tagain\n", r"line 4: document D2 a second time \(first in line 2\)"),
        (TSV + b"D4\tonly\tthree\n", "line 4: 3 columns"),
        (b"1\tone\n2\tthe text\twith two\ttabs\n", "line 2: 4 columns, not 2; .* without tabs in the texts"),
        (TSV + b"D 4\t\t\tspace\n", "line 4: document id 'D 4' is empty or contains white space"),
        (JSONL + b'{"id": "D4", "text": \n', "line 4: not a JSON object"),
        (JSONL + b'{"text": "no id"}\n', "line 4: document id '' is empty"),
        (JSONL + b'{"_id": ["D4"], "text": "x"}\n', r"line 4: document id is \['D4'\], neither"),
        (JSONL + b'{"id": "D4", "text": null}\n', 'line 4: text is null, not a text; .* write "" for no text'),
        (JSONL + b'{"id": "D4", "body": {"en": "x"}}\n', r"line 4: body is \{'en': 'x'\}, not a text"),
        (TSV + b"D4\t\t\tcaf\xe9\n", "line 4: not UTF-8"),
        (b"\n", "has no documents"),
        (gzip.compress(TSV, mtime=0)[:-20], "damaged after line"),
    ],
)
def test_bad_documents_name_the_line_and_leave_no_index(tmp_path, data, message):
    with pytest.raises(InputError, match=message):
        opened(tmp_path, data, "docs.tsv.gz" if data.startswith(b"\x1f\x8b") else "docs.tsv")
    assert not list((tmp_path / "cache").iterdir())


def test_jsonl_texts_that_are_there_in_part(tmp_path):
    rows = [
        '{"id": 4, "title": null, "url": null, "text": "four"}',
        '{"id": "5", "title": "Five"}',
        '{"id": "6", "text": null, "contents": "six"}',
        '{"id": "7", "text": "x \\ud83d y \\ud83d\\ude00", "title": "\\udc00"}',
    ]
    docs = opened(tmp_path, "\n".join(rows).encode(), "docs.jsonl")
    assert dict(docs.texts()) == {"4": "four", "5": "Five", "6": "six", "7": "\ufffd x \ufffd y \U0001f600"}
    assert docs["7"].encode()


def test_a_folder_of_more_files_than_may_be_open(tmp_path):
    (tmp_path / "docs").mkdir()
    for i in range(200):
        (tmp_path / "docs" / f"{i:03d}.tsv").write_text(f"D{i}\ttext {i}\n")
    docs = Documents.open(str(tmp_path / "docs"), cache_dir=str(tmp_path / "cache"))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 50, limits[1]))
    try:
        for i in (*range(200), 7, 199, 7):
            assert docs[f"D{i}"] == f"text {i}"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_change_that_keeps_size_and_time_is_noticed(tmp_path):
    docs = opened(tmp_path, TSV)
    before = os.stat(docs.path)
    (tmp_path / "docs.tsv").write_bytes(TSV.replace(b"the first", b"one first").replace(b"D1", b"D9"))
    os.utime(docs.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(docs.path).st_size == before.st_size
    with pytest.raises(InputError, match="document 'D9', but 'D1' when the file was indexed"):
        docs["D1"]
    assert reopened(docs)["D9"].startswith("One http://a.org/1 one first") and "D1" not in reopened(docs)


def test_a_damaged_index_is_removed_and_built_again(tmp_path):
    docs = opened(tmp_path, TSV)
    size = os.path.getsize(docs.index)
    with open(docs.index, "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(InputError, match="was damaged .* and is removed; run the command again"):
        docs["D1"]
    check(reopened(docs))
    os.truncate(docs.index, 0)
    with pytest.raises(InputError, match="was damaged"):
        len(reopened(docs))
