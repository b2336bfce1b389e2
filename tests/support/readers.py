"""Readers of outside data (dumps, HTML, WARC, collections, runs, qrels, models), with a valid input for each.

A reader reads as far as its command does before computing anything; its result is ignored.
"""

import bz2
import gzip
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from data_pipeline.sources import formats
from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.checkpoints.start import load_ranker
from harp_jax.corpus.clicks import Clicks
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.labels import read_labels
from harp_jax.corpus.trec import read_qrels, read_queries, read_run
from harp_jax.model.encoders.bert import BertShape
from harp_jax.text.tokenizer import load_tokenizer
from tests.support import corpus
from tests.support.malformed import check_offsets
from tests.support.source_files import HEAD, TAIL, page, record
from tests.support.source_reading import source as source_of
from tests.support.tiny_bert import random_params, small_tokenizer

RUN = b"".join(b"q%d Q0 d%d %d %.1f bm25\n" % (q, d, d, 9.5 - d) for q in (1, 2) for d in (1, 2, 3))
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
WIKI = [
    page("Bak", BAK, 1),
    page("Muta", "#REDIRECT [[Bak]]", 2, redirect="Bak"),
    page("Sel", "A [[Bak#Old|town]] &amp;", 3),
]
DUMP = [part.encode() for part in (HEAD, *WIKI, TAIL)]


def jsonl(*records: object) -> bytes:
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in records)


@dataclass(frozen=True)
class Reader:
    """`write`: writes a valid input to a directory; `read`: its reader; `fuzzed`: the files to mutate."""

    write: Callable[[Path], object]
    read: Callable[[Path], object]
    fuzzed: tuple[str, ...]

    def valid(self, directory: Path) -> dict[str, bytes]:
        """Writes the valid input; returns the files to mutate."""
        self.write(directory)
        return {name: (directory / name).read_bytes() for name in self.fuzzed}


def one(name: str, content: bytes, read: Callable[[str], object]) -> Reader:
    """A reader of one file."""
    return Reader(lambda path: (path / name).write_bytes(content), lambda path: read(str(path / name)), (name,))


def documents(path: str) -> None:
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, XDG_CACHE_HOME=cache):
        docs = Documents.open(path)
        [docs[docid] for docid in list(docs.ids())[:5]]
        list(docs.texts())


def clicks(path: str) -> None:
    with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, XDG_CACHE_HOME=cache):
        (Path(cache) / "docs.tsv").write_bytes(TSV)
        pairs = Clicks.open(path, Documents.open(f"{cache}/docs.tsv"), 1.0, 0)
        pairs.pair(len(pairs) - 1)


def source(format_: str) -> Callable[[str], None]:
    def read(path: str) -> None:
        given = source_of(format_, path, base_url="https://x.org/", split="auto")
        for document in (each for chunk in formats.chunks(given) for each in formats.parse(chunk, given)[0]):
            if format_ in ("html", "mediawiki", "warc"):  # in the others, a program has written the offsets
                check_offsets(document)

    return read


def tokenizer(directory: Path) -> None:
    load_tokenizer(str(directory)).encode("the cat sat")


def write_tokenizer(directory: Path) -> None:
    small_tokenizer().save(str(directory))
    os.remove(directory / "SHA256SUMS")


def write_model(directory: Path) -> None:
    shape = BertShape(vocab_size=46, layers=1, hidden=8, heads=2, intermediate=8, max_positions=16)
    os.rmdir(directory)
    save_hf(str(directory), shape, random_params(shape), small_tokenizer(), "card")
    os.remove(directory / "SHA256SUMS")


LINKED = jsonl(corpus.page(5), corpus.page(6) | {"title": "Muta \U0001f600"})
JSONL = jsonl({"id": "d1", "title": "T", "url": "u", "text": "one two"}, {"_id": "d2", "body": "\u00e9 three"})
TSV = b"d1\tu\tTitle\tone two\nd2\t\t\t\xc3\xa9 three\n"
WARC = record("https://x.org/a", HTML) + record("https://x.org/b", b"", "301 Moved", headers="Location: /a\r\n")
EXTRACTED = 'Bak\nBak is near <a href="Muta">the Muta</a>.\nSection::::Old.\n&lt;a href="Sel"&gt;x&lt;/a&gt;'

READERS: dict[str, Reader] = {
    "documents.jsonl": one("docs.jsonl", JSONL, documents),
    "documents.tsv": one("docs.tsv", TSV, documents),
    "documents.gz": one("docs.jsonl.gz", gzip.compress(JSONL, mtime=0), documents),
    "linked_jsonl": one("linked.jsonl", LINKED, source("linked_jsonl")),
    "wikiextractor": one("wiki_00", jsonl({"id": "1", "title": "Bak", "text": EXTRACTED}), source("wikiextractor")),
    "harp_json": one("pairs.json", jsonl(HARP, HARP), source("harp_json")),
    "html": one("page.html", HTML, source("html")),
    "warc": one("crawl.warc", WARC, source("warc")),
    "warc.gz": one("crawl.warc.gz", gzip.compress(record("https://x.org/a", HTML), mtime=0), source("warc")),
    "dump": one("dump.xml", b"".join(DUMP), source("mediawiki")),
    "multistream": one("a.xml.bz2", b"".join(map(bz2.compress, DUMP)), source("mediawiki")),
    "format of pages": one("pages", LINKED, formats.format_of_content),
    "redirects": one("aliases", b"old\tp1\nolder\told\n", lambda path: [*formats.redirects({"redirects": (path,)})]),
    "queries.tsv": one("queries.tsv", b"q1\tfirst query\nq2\tsecond\tquery\n", read_queries),
    "queries.jsonl": one("queries.jsonl", b"".join(jsonl({"_id": x, "text": x}) for x in ("q1", "q2")), read_queries),
    "qrels": one("qrels.txt", b"q1 0 d1 1\nq1 0 d2 0\nq2 0 d3 2\nq2 0 d4 -2\n", read_qrels),
    "qrels of BEIR": one("test.tsv", b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t0\n", read_qrels),
    "run": one("run.trec", RUN, read_run),
    "run of MS MARCO": one("run.tsv", b"q1\td1\t1\nq1\td2\t2\nq2\td1\t1\n", read_run),
    "clicks": one("clicks.tsv", 2 * b"q1\tfirst\td1\thttps://x\nq2\tsecond\td2\thttps://y\n", clicks),
    "labels": one("labels.tsv", b"# mine\none two\td1\t1\n#three\td2\t0\nfour\td3\n", read_labels),
    "vocabulary": Reader(write_tokenizer, tokenizer, ("vocab.txt", "tokenizer_config.json")),
    "tokenizer.json": Reader(write_tokenizer, tokenizer, ("tokenizer.json",)),
    "config.json": Reader(write_model, lambda path: load_ranker(str(path)), ("config.json",)),
    "safetensors": Reader(write_model, lambda path: load_ranker(str(path)), ("model.safetensors",)),
}
