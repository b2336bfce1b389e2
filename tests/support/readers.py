"""Readers of outside data (dumps, HTML, WARC, collections, runs, qrels, models), with a valid input for each.

A reader is called with a directory that contains `files`, one of which (of `fuzzed`, by default any) was mutated. It reads as far
as its command does before computing anything; its result is ignored.
"""

import bz2
import gzip
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from data_pipeline.sources import formats
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.checkpoints.start import load_ranker
from harp_jax.corpus.clicks import Clicks
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.labels import read_labels
from harp_jax.corpus.trec import read_qrels, read_queries, read_run
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import load_tokenizer
from tests.support.source_files import HEAD, TAIL, page, record
from tests.support.tiny_bert import random_params, small_tokenizer

Files = dict[str, bytes]
QRELS = b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\nq2 0 d4 -2\n"
RUN = b"".join(b"q%d Q0 d%d %d %.1f bm25\n" % (q, d, d, 9.5 - d) for q in (1, 2) for d in (1, 2, 3))
LINKED = [
    {"id": "p1", "title": "Bak", "text": "Bak kori lies near Muta.\nIt is old.", "lead_end": 24,
     "links": [{"start": 19, "end": 23, "target": "p2"}]},
    {"id": "p2", "title": "Muta \U0001f600", "text": "Muta is near Bak kori.", "links": [{"start": 13, "end": 21, "target": "p1"}]},
]  # fmt: skip
HARP = {
    "tokenized_sentence": ["Bak", "kori", "is", "near", "Muta"],
    "anchors": [[{"text": "Bak kori", "pos": [0, 1], "passage": "It is old."}], [{"text": "Muta", "pos": [4, 4], "passage": "A."}]],
}  # fmt: skip
HTML = (
    b"<!doctype html><html lang=en><head><meta charset=utf-8><title>Bak</title><base href='/a/'></head><body><nav><a href=/>"
    b"home</a></nav><main><h1 id=top>Bak kori</h1><p>Bak kori is <a href='muta.html#old'>Muta</a>, and &eacute; &#233;.</p>"
    b"<h2 id=old>Old</h2><p>It is <b>old</b> <a href=#top>up</a>.</p><table><tr><td>1<td>2</table></main></body></html>"
)
BAK = "'''Bak''' is near [[Muta|the Muta]] {{a|b}}.<ref>x</ref>\n\n== Old ==\n* [[Sel]]\n{| \n|1\n|}"
WIKI = {
    "Bak": page("Bak", BAK, 1),
    "Muta": page("Muta", "#REDIRECT [[Bak]]", 2, redirect="Bak"),
    "Sel": page("Sel", "A [[Bak#Old|old]] town &amp; [http://x.org y].", 3),
}
DUMP = (HEAD + "".join(WIKI.values()) + TAIL).encode()


def _lines(*records: object) -> bytes:
    return b"".join(json.dumps(found, ensure_ascii=False).encode() + b"\n" for found in records)


@dataclass(frozen=True)
class Reader:
    """`files`: a valid input; `read`: its reader; `fuzzed`: the files to mutate (default: all of `files`)."""

    files: Files | Callable[[Path], None]
    read: Callable[[Path], object]
    fuzzed: tuple[str, ...] = ()

    def write(self, directory: Path) -> Files:
        """Writes the valid input; returns the files to mutate."""
        if callable(self.files):
            self.files(directory)
        else:
            for name, content in self.files.items():
                (directory / name).write_bytes(content)
        names = self.fuzzed or tuple(self.files if isinstance(self.files, dict) else ())
        return {name: (directory / name).read_bytes() for name in names}


def _documents(directory: Path, name: str) -> None:
    with tempfile.TemporaryDirectory() as cache:
        docs = Documents.open(str(directory / name), cache_dir=cache)
        for docid in list(docs.ids())[:5]:
            docs[docid]
        list(docs.texts())


def _clicks(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as cache:
        docs = Documents.open(str(directory / "docs.tsv"), cache_dir=cache)
        clicks = Clicks.open(str(directory / "clicks.tsv"), docs, 1.0, 0, cache_dir=cache)
        clicks.pair(len(clicks) - 1)


def _file(reader: Callable[[str], object], name: str) -> Callable[[Path], object]:
    return lambda directory: reader(str(directory / name))


def _source(format_: str, name: str, **fields: object) -> Callable[[Path], None]:
    def read(directory: Path) -> None:
        source = {"format": format_, "paths": (str(directory / name),), "redirects": (), "index": ()}
        source |= {"base_url": "https://x.org/", "split": "auto", "max_page_bytes": 2 << 20}
        source |= {k: (str(directory / v[0]),) if isinstance(v, tuple) else v for k, v in fields.items()}
        for chunk in formats.chunks(source):
            formats.parse(chunk, source)

    return read


def _tokenizer(directory: Path) -> None:
    load_tokenizer(str(directory)).encode("the cat sat")


def _tokenizer_files(directory: Path) -> None:
    small_tokenizer().save(str(directory))
    os.remove(directory / "SHA256SUMS")


def _model_files(directory: Path) -> None:
    shape = BertShape(vocab_size=46, layers=1, hidden=8, heads=2, intermediate=8, max_positions=16)
    os.rmdir(directory)
    save_hf(str(directory), shape, random_params(shape), small_tokenizer(), "card")
    os.remove(directory / "SHA256SUMS")


def _multistream_files() -> Files:
    dump, index = bz2.compress(HEAD.encode()), b""
    for number, (title, text) in enumerate(WIKI.items(), 1):
        index += b"%d:%d:%s\n" % (len(dump), number, title.encode())
        dump += bz2.compress(text.encode())
    return {"dump.xml.bz2": dump + bz2.compress(TAIL.encode()), "index.txt": index}


JSONL = _lines({"id": "d1", "title": "T", "url": "u", "text": "one two"}, {"_id": "d2", "body": "\u00e9 three"})
TSV = b"d1\tu\tTitle\tone two\nd2\t\t\t\xc3\xa9 three\n"
QUERIES = b"q1\tfirst query\nq2\tsecond\tquery\n"
QUERIES_JSONL = _lines({"_id": "q1", "text": "first"}, {"_id": "q2", "text": "second"})
CLICKS = b"q1\tfirst\td1\thttps://x\nq2\tsecond\td2\thttps://y\nq1\tfirst\td1\thttps://x\n"
WARC = record("https://x.org/a", HTML) + record("https://x.org/b", b"", "301 Moved", headers="Location: /a\r\n")
PACKED_WARC = gzip.compress(record("https://x.org/a", HTML), mtime=0)
EXTRACTED_TEXT = 'Bak\nBak is near <a href="Muta">the Muta</a>.\nSection::::Old.\n&lt;a href="Sel"&gt;x&lt;/a&gt;'
EXTRACTED = _lines({"id": "1", "title": "Bak", "text": EXTRACTED_TEXT})
BEIR = b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t0\n"

READERS: dict[str, Reader] = {
    "documents.jsonl": Reader({"docs.jsonl": JSONL}, lambda d: _documents(d, "docs.jsonl")),
    "documents.tsv": Reader({"docs.tsv": TSV}, lambda d: _documents(d, "docs.tsv")),
    "documents.gz": Reader({"docs.jsonl.gz": gzip.compress(JSONL, mtime=0)}, lambda d: _documents(d, "docs.jsonl.gz")),
    "linked_jsonl": Reader({"linked.jsonl": _lines(*LINKED)}, _source("linked_jsonl", "linked.jsonl")),
    "wikiextractor": Reader({"wiki_00": EXTRACTED}, _source("wikiextractor", "wiki_00")),
    "harp_json": Reader({"pairs.json": _lines(HARP, HARP)}, _source("harp_json", "pairs.json")),
    "html": Reader({"page.html": HTML}, _source("html", "page.html")),
    "warc": Reader({"crawl.warc": WARC}, _source("warc", "crawl.warc")),
    "warc.gz": Reader({"crawl.warc.gz": PACKED_WARC}, _source("warc", "crawl.warc.gz")),
    "dump": Reader({"dump.xml": DUMP}, _source("mediawiki", "dump.xml")),
    "multistream": Reader(_multistream_files(), _source("mediawiki", "dump.xml.bz2", index=("index.txt",))),
    "format of pages": Reader({"pages": _lines(*LINKED)}, _file(formats.format_of_content, "pages")),
    "redirects": Reader(
        {"redirects.tsv": b"old\tp1\nolder\told\n"}, lambda d: list(formats.redirects({"redirects": (str(d / "redirects.tsv"),)}))
    ),
    "queries.tsv": Reader({"queries.tsv": QUERIES}, _file(read_queries, "queries.tsv")),
    "queries.jsonl": Reader({"queries.jsonl": QUERIES_JSONL}, _file(read_queries, "queries.jsonl")),
    "qrels": Reader({"qrels.txt": QRELS}, _file(read_qrels, "qrels.txt")),
    "qrels of BEIR": Reader({"test.tsv": BEIR}, _file(read_qrels, "test.tsv")),
    "run": Reader({"run.trec": RUN}, _file(read_run, "run.trec")),
    "run of MS MARCO": Reader({"run.tsv": b"q1\td1\t1\nq1\td2\t2\nq2\td1\t1\n"}, _file(read_run, "run.tsv")),
    "clicks": Reader({"clicks.tsv": CLICKS, "docs.tsv": TSV}, _clicks, fuzzed=("clicks.tsv",)),
    "labels": Reader({"labels.tsv": b"# mine\none two\td1\t1\n#three\td2\t0\nfour\td3\n"}, _file(read_labels, "labels.tsv")),
    "vocabulary": Reader(_tokenizer_files, _tokenizer, fuzzed=("vocab.txt", "tokenizer_config.json")),
    "tokenizer.json": Reader(_tokenizer_files, _tokenizer, fuzzed=("tokenizer.json",)),
    "config.json": Reader(_model_files, lambda d: load_ranker(str(d)), fuzzed=("config.json",)),
    "safetensors": Reader(_model_files, lambda d: load_ranker(str(d)), fuzzed=("model.safetensors",)),
}  # fmt: skip
