"""Every reader of the project with a valid input of each kind, for the fuzzing tests.

A reader is called with a directory that holds the files of `files`; one of those in `fuzzed` (all of them by default) was
mutated. It reads as far as its command would before it computes anything, and what it returns is not looked at.
"""

import bz2
import functools
import gzip
import hashlib
import json
import lzma
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.mediawiki_dump import HEAD, TAIL, page
from tests.support.warc_record import record

if TYPE_CHECKING:
    from harp_jax.input.tfrecords import RecordReader

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
DUMP = (
    HEAD
    + page("Bak", "'''Bak''' is near [[Muta|the Muta]] {{a|b}}.<ref>x</ref>\n\n== Old ==\n* [[Sel]]\n{| \n|1\n|}", 1)
    + page("Muta", "#REDIRECT [[Bak]]", 2, redirect="Bak")
    + page("Sel", "A [[Bak#Old|old]] town &amp; [http://x.org y].", 3)
    + TAIL
).encode()


def _lines(*records: object) -> bytes:
    return b"".join(json.dumps(found, ensure_ascii=False).encode() + b"\n" for found in records)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


@dataclass(frozen=True)
class Reader:
    """`files` of a valid input, what reads them, and which are mutated (default: all of `files`)."""

    files: Files | Callable[[Path], None]
    read: Callable[[Path], object]
    fuzzed: tuple[str, ...] = ()
    seal: Callable[[Path], None] | None = (
        None  # after a mutation: brings digests up to date, so that the content is read
    )
    share: float = 1.0  # of the inputs: TensorFlow needs tens of milliseconds for each

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
    from harp_jax.corpus.documents import Documents

    cache = directory / "cache"
    try:
        docs = Documents.open(str(directory / name), cache_dir=str(cache))
        for docid in list(docs.ids())[:5]:
            docs[docid]
        list(docs.texts())
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def _source(format_: str, name: str, **fields: object) -> Callable[[Path], None]:
    def read(directory: Path) -> None:
        from data_pipeline.sources import formats

        source = {
            "format": format_,
            "paths": (str(directory / name),),
            "redirects": (),
            "index": (),
            "base_url": "https://x.org/",
        }
        source |= {"max_page_bytes": 2 << 20, "boilerplate_share": 0.5, "split": "anchors", "index_links": False}
        source |= {k: (str(directory / v[0]),) if isinstance(v, tuple) else v for k, v in fields.items()}
        for chunk in formats.chunks(source):
            formats.parse(chunk, source)

    return read


def _redirects(directory: Path) -> None:
    from data_pipeline.sources import formats

    list(formats.redirects({"redirects": (str(directory / "redirects.tsv"),)}))


def _prior_redirects(directory: Path) -> None:
    from harp_jax.ranking.priors import read_redirects

    read_redirects(str(directory / "redirects.tsv"))


def _detected(directory: Path) -> None:
    from data_pipeline.sources.detect import format_of_content

    format_of_content(str(directory / "pages"))


def _trec(name: str) -> Callable[[Path], object]:
    def read(directory: Path) -> object:
        from harp_jax.corpus import trec

        file = next(path for path in directory.iterdir() if path.is_file())
        return getattr(trec, name)(str(file))

    return read


def _clicks(directory: Path) -> None:
    from harp_jax.corpus.clicks import Clicks
    from harp_jax.corpus.documents import Documents
    from harp_jax.ranking.query_probe import KnownQueries

    cache = directory / "cache"
    try:
        docs = Documents.open(str(directory / "docs.tsv"), cache_dir=str(cache))
        clicks = Clicks.open(str(directory / "clicks.tsv"), docs, 1.0, 0, cache_dir=str(cache))
        clicks.pair(len(clicks) - 1)
        list(KnownQueries(clicks=str(directory / "clicks.tsv")).pairs())
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def _folds(directory: Path) -> None:
    from harp_jax.corpus.folds import in_folds, read_folds

    in_folds(read_folds(str(directory / "folds.tsv")), ["0"])


def _subset(directory: Path) -> None:
    from harp_jax.corpus.folds import read_subset

    read_subset({"q1": {"d": 1}, "q2": {"d": 1}}, str(directory / "subset.txt"))


def _anchors(directory: Path) -> None:
    from harp_jax.ranking.lexical.anchors import read_anchors

    read_anchors(str(directory / "anchors.tsv"), repeats=3)


def _excluded(directory: Path) -> None:
    from harp_jax.ranking.lexical.first_stage import excluded_of

    excluded_of(str(directory / "excluded.tsv"))


def _tuned(directory: Path) -> None:
    from harp_jax.ranking.lexical.first_stage import settings_of
    from harp_jax.ranking.lexical.models import Collection, make

    folds = str(directory / "folds.tsv")
    settings = settings_of("bm25", {}, str(directory / "tuned.json"), folds, {"q1": "bak", "q2": "muta"})
    collection = Collection([("d1", "bak kori"), ("d2", "muta")], "")
    for parameters, _ in settings:
        make("bm25", collection, parameters).scores(collection.query("bak"))


def _links(directory: Path) -> None:
    from harp_jax.baselines.linklearn.links import read_graph
    from harp_jax.ranking.priors import inlinks

    path = str(directory / "linked.jsonl")
    inlinks([path], {"p1", "p2"}, {})
    read_graph((path,), (str(directory / "redirects.tsv"),), stemmer="")


def _svm(directory: Path) -> None:
    from harp_jax.baselines.linklearn.ranking_svm import load

    load(str(directory))


def _linklearn(directory: Path) -> None:
    from harp_jax.baselines.linklearn.rank import load

    load(str(directory))
    load(str(directory), okapi=True)


def _linklearn_files() -> Files:
    mlp = {"in": [0.5, -1.0], "in_bias": [0.0, 0.1], "out": [0.3, 0.2], "out_bias": 0.5}
    names = ("tf", "idf", "length")
    model = {"scale": {name: [1.0, 0.5] for name in names}, "params": {name: mlp for name in names}}
    return {
        "model.json": _json(
            {"linklearn": model, "step": 3, "okapi": {"k": 0.9, "b": 0.4}, "held_out": {}, "config": {}}
        )
    }


def _tokenizer(directory: Path) -> None:
    from harp_jax.text.tokenizer import load_tokenizer

    load_tokenizer(str(directory)).encode("the cat sat")


def _tokenizer_files(directory: Path) -> None:
    from tests.support.tiny_bert import small_tokenizer

    small_tokenizer().save(str(directory))
    os.remove(directory / "SHA256SUMS")


def _tokenizer_json_files() -> Files:
    from tests.support.tiny_bert import small_tokenizer

    vocabulary = {token: number for number, token in enumerate(small_tokenizer().tokens)}
    return {"tokenizer.json": _json({"version": "1.0", "model": {"type": "WordPiece", "vocab": vocabulary}})}


def _words_files(directory: Path) -> None:
    from harp_jax.text.words import count_words

    count_words([("d1", "bak kori muta"), ("d2", "bak")]).save(str(directory))
    (directory / "stopwords.txt").write_text("the\nof\n")
    (directory / "vectors.txt").write_text("3 2\nbak 0.5 1\nkori -1e-3 .25\nx 1 1\n")


def _words(directory: Path) -> None:
    from harp_jax.text.words import load_words, read_stopwords

    read_stopwords(str(directory / "stopwords.txt"))
    load_words(str(directory))


def _vectors(directory: Path) -> None:
    from harp_jax.text.word_vectors import read_vectors
    from harp_jax.text.words import load_words

    read_vectors(str(directory / "vectors.txt"), load_words(str(directory)))


def _selection_files(directory: Path) -> None:
    from harp_jax.checkpoints.selected import sealed

    found = {"step": 20, "measure": "RR@10", "value": 0.5, "queries": 12, "model": "20"}
    (directory / "selection.json").write_bytes(_json(sealed(found)))


def _selection(directory: Path) -> None:
    from harp_jax.checkpoints.selected import best

    best(str(directory))


def _workdir_files(directory: Path) -> None:
    (directory / "config.json").write_bytes(
        _json({"stage": "pretrain", "steps": 5, "bert": {"hidden": 32}, "tasks": ["rqp"]})
    )
    rows = [{"step": n, "split": "train", "loss": 1.5 / n, "pair_accuracy": 0.5} for n in (1, 2, 3)]
    (directory / "metrics.jsonl").write_bytes(_lines(*rows))
    (directory / "command.txt").write_text("python -m harp_jax.main --config=a.py\n")


def _workdir(directory: Path) -> None:
    from harp_jax.checkpoints.model_card import model_card
    from harp_jax.checkpoints.recorded import read_config
    from harp_jax.training.metrics_log import cut_after
    from harp_jax.training.train import last_logged

    read_config(str(directory))
    last_logged(str(directory))
    model_card(str(directory), {"bert": {"layers": 2, "hidden": 32}}, "out", 2)
    cut_after(str(directory / "metrics.jsonl"), 2)


def _sums_files(directory: Path) -> None:
    from harp_jax.base.digests import write_sums

    (directory / "a.bin").write_bytes(b"abc")
    (directory / "b.txt").write_bytes(b"def")
    write_sums(str(directory), ["a.bin", "b.txt"])


def _sums(directory: Path) -> None:
    from harp_jax.base.digests import check_sums

    check_sums(str(directory))


def _model_files(directory: Path) -> None:
    from harp_jax.checkpoints.huggingface import save_hf
    from harp_jax.model.bert import BertConfig
    from tests.support.tiny_bert import random_params, small_tokenizer

    shape = BertConfig(vocab_size=46, layers=1, hidden=8, heads=2, intermediate=8, max_positions=16)
    os.rmdir(directory)
    save_hf(str(directory), shape, random_params(shape), small_tokenizer(), "card")
    os.remove(directory / "SHA256SUMS")


def _model(directory: Path) -> None:
    from harp_jax.checkpoints.encoder import load_ranker

    load_ranker(str(directory))


def _neural_files(directory: Path) -> None:
    import numpy as np

    from harp_jax.baselines.neural_ir.parameters import save_selected

    save_selected(str(directory), {"dense": {"kernel": np.ones((2, 3), np.float32), "bias": np.zeros(3, np.float32)}})
    os.remove(directory / "SHA256SUMS")


def _neural(directory: Path) -> None:
    from harp_jax.baselines.neural_ir.parameters import load_selected

    load_selected(str(directory))


def _job_files(directory: Path) -> None:
    from tests.support.shards_fixture import write_job

    write_job(str(directory), {"rqp": [5], "mlm": [4]})


def _full_job_files(directory: Path) -> None:
    """With what `harp inspect` prints."""
    _job_files(directory)
    path = directory / "manifest.json"
    manifest = json.loads(path.read_text())
    predictors = {"overlap": 0.5}
    manifest |= {
        "format": 1, "config": {"tokenizer": "", "seed": 0}, "config_sha256": "", "bits_from_uniform": {"sentence": 0.5},
        "tasks": {"rqp": {"pairs": 5, "tokens": 90, "mean_query_tokens": 3.5, "predictors": predictors, "predictor_pairs": 3},
                  "mlm": {"pairs": 4, "tokens": 50, "mean_sequence_tokens": 9.5}},
        "link_graph": {"pages": 3, "links": 2, "anchors": {"texts": 2, "ambiguous": 1, "mean_entropy_bits": 0.5,
                       "most_ambiguous": [{"anchor": "x", "n": 2, "destinations": 2, "entropy": 1.0}]}},
        "losses": {"page-empty": {"count": 2, "examples": [["a.xml byte 3", "x"]]}},
    }  # fmt: skip
    path.write_bytes(_json(manifest))


def _manifest(directory: Path) -> None:
    from harp_jax.input.manifest import check_sizes, read_manifest

    check_sizes(str(directory), read_manifest(str(directory)))


def _inspect(directory: Path) -> None:
    from data_pipeline.output.report import as_text, report

    as_text(report(str(directory), 1))


def _shards(directory: Path) -> None:
    from harp_jax.input.tfrecords import RecordReader

    reader = RecordReader((str(directory),), ("rqp", "mlm"), "train", 2, 64, "document", 0)
    for task in ("rqp", "mlm"):
        reader.read(0, task, 0, 3)


@functools.lru_cache(1)
def _record_reader(directory: Path) -> "RecordReader":
    from harp_jax.input.tfrecords import RecordReader

    return RecordReader((str(directory),), ("rqp", "mlm"), "train", 2, 64, "document", 0)


def _record(directory: Path) -> None:
    _record_reader(directory)._parse("rqp", [(directory / "record").read_bytes()])


def _seal_job(directory: Path) -> None:
    """Writes the sizes and digests of changed shards into the manifest: what then comes out is the parser's."""
    path = directory / "manifest.json"
    manifest = json.loads(path.read_text())
    for split in manifest["splits"].values():
        for shard in split["shards"]:
            content = (directory / shard["file"]).read_bytes()
            shard |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_text(json.dumps(manifest))


def _record_files(directory: Path) -> None:
    from data_pipeline.pairs.examples import tensorflow

    _job_files(directory)
    records = tensorflow().data.TFRecordDataset(str(next(directory.glob("harp-rqp_train*"))))
    (directory / "record").write_bytes(next(iter(records)).numpy())


def _words_of(path: Path) -> list[str]:
    """The lines of a file as words of a command line, which hold no NUL."""
    return [
        line for line in path.read_bytes().replace(b"\0", b"").decode("utf-8", "surrogateescape").split("\n") if line
    ]


TINY_CONFIG = b"""from ml_collections import ConfigDict

def get_config(preset=""):
    c = ConfigDict()
    c.stage, c.steps, c.learning_rate, c.tasks, c.docs = "pretrain", 5, 1e-3, ("rqp", "qdm"), ""
    c.mesh = ConfigDict({"data": -1, "fsdp": 1})
    c.compilation_cache = True
    return c
"""


def _config(directory: Path) -> None:
    from harp_jax.config import check_training, read_config

    config = read_config(str(directory / "tiny_config.py"), _words_of(directory / "overrides"))
    if config is not None:
        check_training(config)


TINY_PLAN = b'''"""A plan."""
from harp_jax.experiments.plan import Command

def get_plan(words=("{out}", "--model={first}"), seeds=(1, 2), rate=0.5, name="x", quick=False):
    return [Command("first", "train", [f"--workdir={name}", "{out}"]), Command("second", "rerank", list(words))]
'''


def _plan(directory: Path) -> None:
    from harp_jax.experiments.plan import listing, resolve
    from harp_jax.experiments.plan_cost import summary
    from harp_jax.experiments.plan_file import load_plan

    output = str(directory / "out")
    steps = resolve(load_plan(str(directory / "tiny_plan.py")).commands(_words_of(directory / "settings")), output)
    listing(steps)
    summary(steps, output)


def _plan_files(directory: Path) -> None:
    from harp_jax.experiments.plan import resolve
    from harp_jax.experiments.plan_file import load_plan

    (directory / "tiny_plan.py").write_bytes(TINY_PLAN)
    (directory / "settings").write_bytes(
        b"words={out},--docs=a.tsv,--model={first}\nseeds=1,2\nrate=1e-3\nname=y\nquick=true\n"
    )
    (directory / "out" / ".plan").mkdir(parents=True)
    for step in resolve(load_plan(str(directory / "tiny_plan.py")).commands(), str(directory / "out")):
        Path(step.place).write_text("x")
        fields = {"name": step.command.name, "command": str(step), "seconds": 1.5, "sha256": step.contents(step.place)}
        Path(step.record).write_bytes(_json(fields))
        shutil.copy(step.record, directory / "out" / ".plan" / f"{step.command.name}.json")
    (directory / "out" / ".plan" / "contents").write_bytes(_json({"/a": [[3, 4, 5, 6], "0" * 64]}))


def _parts_files(directory: Path) -> None:
    from harp_jax.ranking.parts import Parts

    parts = Parts(str(directory / "run"), "abc", 3)
    parts.add([("q1", ["d1", "d2"], [2.0, 1.0])])


def _parts(directory: Path) -> None:
    from harp_jax.ranking.parts import Parts

    parts = Parts(str(directory / "run"), "abc", 3)
    parts._lock.close()


def _weights_files() -> Files:
    nothing = hashlib.sha256().hexdigest()
    return {"meta.json": _json({"format": 2, "encoder": {"sha256": "x"}, "belongs_to": "y", "sha256": nothing})}


def _weights(directory: Path) -> None:
    from data_pipeline.weights.artefact import verify

    verify(str(directory), "y", {"sha256": "x"})


def _leave_out_files() -> Files:
    return {"stopwords.txt": b"the\nof\n\xc3\xa9\n"}


def _stop_terms(directory: Path) -> None:
    from data_pipeline.text.terms import read_stopwords

    read_stopwords(str(directory / "stopwords.txt"))


def _multistream_files() -> Files:
    head, *pages = DUMP.split(b"  <page>")
    last, _, _ = pages[-1].rpartition(b"</mediawiki>")
    bodies = [head, *(b"  <page>" + found for found in pages[:-1]), b"  <page>" + last, b"</mediawiki>\n"]
    dump, index = b"", b""
    for number, body in enumerate(bodies):
        if 0 < number < len(bodies) - 1:
            title = body.partition(b"<title>")[2].partition(b"</title>")[0]
            index += b"%d:%d:%s\n" % (len(dump), number, title)
        dump += bz2.compress(body)
    return {"dump.xml.bz2": dump, "index.txt": index}


JSONL = _lines({"id": "d1", "title": "T", "url": "u", "text": "one two"}, {"_id": "d2", "body": "\u00e9 three"})
TSV = b"d1\tu\tTitle\tone two\nd2\t\t\t\xc3\xa9 three\n"
QUERIES = b"q1\tfirst query\nq2\tsecond\tquery\n"
QUERIES_JSONL = _lines({"_id": "q1", "text": "first"}, {"_id": "q2", "text": "second"})
CLICKS = b"q1\tfirst\td1\thttps://x\nq2\tsecond\td2\thttps://y\nq1\tfirst\td1\thttps://x\n"
WARC = record("https://x.org/a", HTML) + record("https://x.org/b", b"", "301 Moved", headers="Location: /a\r\n")
EXTRACTED = {
    "id": "1",
    "title": "Bak",
    "text": 'Bak\nBak is near <a href="Muta">the Muta</a>.\nSection::::Old.\n&lt;a href="Sel"&gt;x&lt;/a&gt;',
}


def _figures(directory: Path) -> None:
    from harp_jax.checkpoints.card_metadata import About, figure_lines, metadata, read_figures

    about = About(license="mit", figures=read_figures(str(directory / "table.json")), evaluated_on="x")
    figure_lines(about)
    metadata("a", about, pretrained_only=False)


def _per_query(directory: Path) -> None:
    from harp_jax.checkpoints.card_metadata import read_figures

    read_figures(str(directory / "table.tsv"))


def _labels(directory: Path) -> None:
    from harp_jax.look.label_file import LabelFile

    LabelFile(str(directory / "labels.tsv")).of("one two")


READERS: dict[str, Reader] = {
    "documents.jsonl": Reader({"docs.jsonl": JSONL}, lambda d: _documents(d, "docs.jsonl")),
    "documents.tsv": Reader({"docs.tsv": TSV}, lambda d: _documents(d, "docs.tsv")),
    "documents.gz": Reader({"docs.jsonl.gz": gzip.compress(JSONL, mtime=0)}, lambda d: _documents(d, "docs.jsonl.gz")),
    "documents.xz": Reader({"docs.tsv.xz": lzma.compress(TSV)}, lambda d: _documents(d, "docs.tsv.xz")),
    "linked_jsonl": Reader({"linked.jsonl": _lines(*LINKED)}, _source("linked_jsonl", "linked.jsonl")),
    "wikiextractor": Reader({"wiki_00": _lines(EXTRACTED)}, _source("wikiextractor", "wiki_00")),
    "harp_json": Reader({"pairs.json": _lines(HARP, HARP)}, _source("harp_json", "pairs.json")),
    "html": Reader({"page.html": HTML}, _source("html", "page.html")),
    "warc": Reader({"crawl.warc": WARC}, _source("warc", "crawl.warc")),
    "warc.gz": Reader(
        {"crawl.warc.gz": gzip.compress(WARC[: len(record("https://x.org/a", HTML))], mtime=0)}, _source("warc", "crawl.warc.gz")
    ),
    "dump": Reader({"dump.xml": DUMP}, _source("mediawiki", "dump.xml")),
    "multistream": Reader(_multistream_files(), _source("mediawiki", "dump.xml.bz2", index=("index.txt",))),
    "format of pages": Reader({"pages": _lines(*LINKED)}, _detected),
    "redirects": Reader({"redirects.tsv": b"old\tp1\nolder\told\n"}, _redirects),
    "redirects of priors": Reader({"redirects.tsv": b"old\tp1\nolder\told\n"}, _prior_redirects),
    "queries.tsv": Reader({"queries.tsv": QUERIES}, _trec("read_queries")),
    "queries.jsonl": Reader({"queries.jsonl": QUERIES_JSONL}, _trec("read_queries")),
    "qrels": Reader({"qrels.txt": QRELS}, _trec("read_qrels")),
    "qrels of BEIR": Reader({"test.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t0\n"}, _trec("read_qrels")),
    "run": Reader({"run.trec": RUN}, _trec("read_run")),
    "run of MS MARCO": Reader({"run.tsv": b"q1\td1\t1\nq1\td2\t2\nq2\td1\t1\n"}, _trec("read_run")),
    "run.bz2": Reader({"run.trec.bz2": bz2.compress(RUN)}, _trec("read_run")),
    "clicks": Reader({"clicks.tsv": CLICKS, "docs.tsv": TSV}, _clicks, fuzzed=("clicks.tsv",)),
    "folds": Reader({"folds.tsv": b"q1\t0\nq2\t1\nq3\t0\n"}, _folds),
    "labels": Reader({"labels.tsv": b"# mine\none two\td1\t1\n#three\td2\t0\nfour\td3\n"}, _labels),
    "values per query": Reader(
        {"table.tsv": b"run\tmeasure\tqid\tvalue\nours\tAP\tq1\t0.25\nours\tAP\tq2\t1.0\n"}, _per_query, share=0.2
    ),
    "figures": Reader(
        {"table.json": _json({"mean": {}, "per_query": {"ours": {"RR@10": {"q1": 0.5, "q2": 1.0}, "AP": {"q1": 0.25}}}})},
        _figures, share=0.2,
    ),
    "subset": Reader({"subset.txt": b"q1\tfirst\nq2\n"}, _subset),
    "anchors": Reader({"anchors.tsv": b"d1\tbak kori\t3\nd1\tbak\t1\nd2\tmuta\t12\n"}, _anchors),
    "excluded pairs": Reader({"excluded.tsv": b"q1\td1\nq1\td2\n"}, _excluded),
    "tuned parameters": Reader(
        {"tuned.json": _json({"model": "bm25", "folds": {"0": {"k1": 0.9, "b": 0.4}, "1": {"k1": 1.2, "b": 1}}}),
         "folds.tsv": b"q1\t0\nq2\t1\n"}, _tuned, fuzzed=("tuned.json",),
    ),
    "links": Reader({"linked.jsonl": _lines(*LINKED), "redirects.tsv": b"old\tp1\n"}, _links),
    "weights of words": Reader({"ranking_svm.tsv": b"bak\t0.5\nkori\t1e-3\n"}, _svm),
    "LinkLearn": Reader(_linklearn_files(), _linklearn),
    "vocabulary": Reader(_tokenizer_files, _tokenizer, fuzzed=("vocab.txt", "tokenizer_config.json")),
    "tokenizer.json": Reader(_tokenizer_json_files(), _tokenizer),
    "words": Reader(_words_files, _words, fuzzed=("words.tsv", "words.json", "stopwords.txt")),
    "vectors": Reader(_words_files, _vectors, fuzzed=("vectors.txt",)),
    "selection.json": Reader(_selection_files, _selection, fuzzed=("selection.json",)),
    "workdir": Reader(_workdir_files, _workdir, fuzzed=("metrics.jsonl", "config.json", "command.txt")),
    "SHA256SUMS": Reader(_sums_files, _sums, fuzzed=("SHA256SUMS",)),
    "config.json": Reader(_model_files, _model, fuzzed=("config.json",)),
    "safetensors": Reader(_model_files, _model, fuzzed=("model.safetensors",)),
    "safetensors of words": Reader(_neural_files, _neural, fuzzed=("parameters.safetensors",)),
    "manifest": Reader(_job_files, _manifest, fuzzed=("manifest.json",)),
    "manifest of inspect": Reader(_full_job_files, _inspect, fuzzed=("manifest.json",), share=0.2),
    "metadata of TFDS": Reader(_job_files, _shards, fuzzed=("dataset_info.json", "features.json"), share=0.2),
    "shards": Reader(_job_files, _shards, fuzzed=("harp-rqp_train.tfrecord-00000-of-00001",), share=0.2),
    "shards of right digests": Reader(
        _job_files, _shards, fuzzed=("harp-rqp_train.tfrecord-00000-of-00001",), seal=_seal_job, share=0.05
    ),
    "records": Reader(_record_files, _record, fuzzed=("record",)),
    "overrides": Reader(
        {"tiny_config.py": TINY_CONFIG, "overrides": b"--config.steps=3\n--config.tasks=('rqp',)\n--config.mesh.data=2\n"
         b"--config.learning_rate=1e-4\n--config.docs=a.tsv\n--config.compilation_cache=false\n"}, _config,
        fuzzed=("overrides",), share=0.25,
    ),
    "settings of a plan": Reader(_plan_files, _plan, fuzzed=("settings",)),
    "records of a plan": Reader(_plan_files, _plan, fuzzed=("out/.plan/first.json", "out/.plan/contents")),
    "chunks of a re-ranking": Reader(_parts_files, _parts, fuzzed=("run.parts/000000.trec", "run.parts/key")),
    "term weights": Reader(_weights_files(), _weights),
    "stopwords": Reader(_leave_out_files(), _stop_terms),
}  # fmt: skip
