"""The public library, `import harp_jax as hj`: functions and the `Reranker`, on plain Python data. See docs/library.md.

A run is {qid: {docid: score}}, judgments {qid: {docid: level}}, queries {qid: text}, documents {docid: text}. Each may also be a
path to a file, or a pandas frame with the columns of PyTerrier (qid, docno, score or label, query, text) or ir-measures
(query_id, doc_id, score or relevance).
"""

import math
import numbers
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

from harp_jax import config as configs
from harp_jax.base.errors import InputError, at_least, named
from harp_jax.corpus import trec
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.text_files import checked_texts
from harp_jax.corpus.trec import LARGEST, Qrels, Ranking, Run, read_qrels, read_queries
from harp_jax.text.languages import ENGLISH

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from harp_jax.evaluation.results import Table
    from harp_jax.input.records import Manifest
    from harp_jax.ranking.scorers import Scorer, Windows
    from harp_jax.site.pages import Site
    from harp_jax.training.linear_map import Adapted
    from harp_jax.training.train import TrainResult


Path: TypeAlias = str | os.PathLike[str]
Frame: TypeAlias = Any  # a table with named columns, such as pandas.DataFrame
RunData: TypeAlias = Mapping[str, Mapping[str, float]] | Path | Frame
QrelsData: TypeAlias = Mapping[str, Mapping[str, int]] | Frame | Path
QueriesData: TypeAlias = Mapping[str, str] | Frame | Path
DocumentsData: TypeAlias = Mapping[str, str] | Documents | Frame | Path
Scores = dict[str, dict[str, float]]  # qid → docid → score, best first

# Names of a frame's columns.
QID, DOCID = ("qid", "query_id"), ("docno", "docid", "doc_id")
SCORE, LEVEL = ("score",), ("label", "relevance")
QUERY, TEXT = ("query", "text"), ("text", "body", "contents")
CANDIDATES = 50  # BM25 results from which `Reranker.fit` draws negatives


def first_stage(
    docs: DocumentsData,
    queries: QueriesData,
    k: int = 100,
    model: str = "bm25",
    language: str = "en",
    anchors: Mapping[str, str] | Mapping[str, Mapping[str, int]] | Path | None = None,
    **parameters: float,
) -> Scores:
    """The best `k` documents of each query by BM25 (`k1`, `b`), BM25F (model="bm25f": `k1`, `b`, `anchor_weight`, `anchor_b`) or
    query likelihood (model="ql": `mu`).

    `anchors` are anchor texts by document, {docid: {text: number of links}} or {docid: text}, or a file written by `harp anchors`.
    BM25F needs them and indexes them as a second field, where a text counts once for every link; other models append each distinct
    text to its document.

    Queries that match no document are absent from the result. Documents are indexed in memory. Raises InputError for unknown
    models and languages, and for parameters that are unknown or out of range.

    >>> import harp_jax as hj
    >>> hj.first_stage({"d1": "a red cat", "d2": "a blue dog"}, {"q1": "cats"})
    {'q1': {'d1': ...}}
    """
    from harp_jax.ranking.first_stage import indexed, retrieve

    at_least(1, k=k)
    texts = None if anchors is None else to_anchors(anchors)
    collection = indexed(to_documents(docs).texts(), model, language, texts)
    ranked = retrieve(model, collection, [(parameters, to_queries(queries))], k)
    return _plain(dict(trec.ordered((qid, docids, scores) for qid, docids, scores in ranked if docids)))


def rerank_run(
    model: "Reranker",
    run: RunData,
    queries: QueriesData,
    docs: DocumentsData,
    k: int | None = None,
    windows: "Windows | None" = None,
) -> Scores:
    """The best `k` candidates of each query in a run (default: all), re-ranked by a model, best first.

    A long document is scored by its first tokens, or by the best of its `windows` (MaxP). Queries without a text are left out
    with a warning; another warning counts the queries whose scores are all equal. Raises InputError for a candidate without a text,
    if no query has one, and for scores that are not finite.

    >>> import harp_jax as hj
    >>> model = hj.Reranker.from_pretrained("ranker")
    >>> hj.rerank_run(model, {"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": "cats"}, {"d1": "a red cat", "d2": "a blue dog"}, k=1)
    {'q1': {'d1': ...}}
    """
    from harp_jax.ranking.rerank import note_on_ties, rankings, ties_of

    at_least(1, k=k)
    texts = to_queries(queries)
    candidates, left_out = trec.with_texts(to_run(run), texts, "queries")
    ranked = list(rankings(model.scorer, candidates, texts, to_documents(docs), k, windows))
    for note in filter(None, (left_out, note_on_ties(Counter(ties_of(ranked))))):
        warnings.warn(note, stacklevel=2)
    return _plain(dict(trec.ordered(ranked)))


def evaluate(
    qrels: QrelsData,
    runs: Mapping[str, RunData | list[RunData] | tuple[RunData, ...]],
    measures: str | list[str] = "RR@10 RR@100 nDCG@10 nDCG@100 AP",
    baseline: str = "",
    **options: Any,
) -> "Table":
    """A table of measures, named as in ir-measures; print it, or use its `mean`, `per_query` or `to_frame()`.

    Every query in the qrels counts; one that a run lacks counts as zero, with a warning. A list of runs is one system trained
    with several seeds. `baseline` compares the other runs with it: randomisation and t test, Holm's correction, bootstrap
    intervals. `options` are those of `harp_jax.evaluation.evaluate.evaluate` (confirm, rounds, seed, runs_per_draw, chance, blank,
    oracle).

    >>> import harp_jax as hj
    >>> table = hj.evaluate({"q1": {"d1": 1}}, {"BM25": {"q1": {"d2": 2.0, "d1": 1.0}}}, "RR@10 AP")
    >>> print(table)
    run    RR@10      AP
    BM25  0.5000  0.5000
    >>> table.mean["BM25"]["AP"]
    0.5
    """
    from harp_jax.evaluation.evaluate import evaluate as measured

    named = runs.items() if isinstance(runs, Mapping) else ()
    lists = {name: some if isinstance(some, list | tuple) else [some] for name, some in named}
    if not (lists and all(lists.values())):
        raise InputError("runs: give one or several runs for each name, as in {'BM25': 'bm25.trec'}")
    systems = {name: [to_run(one) for one in some] for name, some in lists.items()}
    names = measures if isinstance(measures, str) else [str(measure) for measure in measures]
    table = measured(to_qrels(qrels), systems, names, baseline, **options)
    for note in table.notes():
        warnings.warn(note, stacklevel=2)
    return table


def read_run(path: Path) -> Scores:
    """A TREC run (qid Q0 docid rank score tag) or MS MARCO's three columns, as {qid: {docid: score}}, best first.

    The file may be compressed; "irds:ID" names an ir_datasets dataset. Raises InputError with the line number.

    >>> import harp_jax as hj
    >>> len(hj.read_run("bm25.trec"))
    40
    """
    return _plain(trec.read_run(os.fspath(path)))


def write_run(path: Path, run: RunData, tag: str = trec.TAG) -> None:
    """Writes a TREC run atomically, best first, ties as `evaluate` breaks them: by descending document id.

    >>> import harp_jax as hj
    >>> hj.write_run("run.trec", {"q1": {"d1": 2.0, "d2": 1.0}})
    >>> hj.read_run("run.trec")
    {'q1': {'d1': 2.0, 'd2': 1.0}}
    """
    from harp_jax.ranking.fuse import joined

    if str(tag).split() != [tag]:
        raise InputError(f"the tag {tag!r} has white space or is empty; use one word")
    trec.write_run(os.fspath(path), joined([to_run(run)]), tag)


def load_config(path: Path, **changes: Any) -> "ConfigDict":
    """The config of a file with `get_config()`, or of a shipped name such as "tpu_v3" or "data/html", with fields changed.

    A preset may follow a colon. Nested fields are written with dots: `**{"model.layers": 2}`. The result is locked.
    Raises InputError for a missing file and for an unknown field.

    >>> import harp_jax as hj
    >>> hj.load_config("tpu_v3", steps=1000, **{"model.layers": 2}).model.layers
    2
    """
    return configs.load_config(os.fspath(path), changes)


def train(config: "ConfigDict | Path", workdir: Path) -> "TrainResult":
    """Trains a model; the result has the last logged `metrics`. A repeated call resumes, or does nothing if training has finished.

    On SIGTERM the run saves its state, and the result says `interrupted`. The workdir holds the config, checkpoints and metrics.
    Raises InputError for a bad config or bad data, and if the workdir belongs to another config.

    >>> import harp_jax as hj
    >>> data = dict(docs="docs.tsv", queries="queries.tsv", qrels="qrels.txt", candidates="bm25.trec", tokenizer="vocabulary")
    >>> config = hj.load_config("finetune_bert_tiny", **data, init_head="fresh", steps=2, negatives=3, batch_pairs=8, window=16)
    >>> hj.train(config, "runs/two_steps").metrics["loss"] > 0
    True
    """
    from harp_jax.main import trainer_of

    loaded = load_config(config) if isinstance(config, str | os.PathLike) else config
    return trainer_of(loaded)(loaded, named(workdir))


def generate(config: "ConfigDict | Path", output: Path) -> "Manifest":
    """Generates pre-training pairs from linked pages as TFRecord shards, and returns their manifest.

    A repeated call resumes, or does nothing if the job has finished. Runs on the local cores; for Spark use `harp generate`.
    Raises InputError for a bad config or bad input.

    >>> import harp_jax as hj
    >>> source = {"source.paths": ("pages.jsonl",), "tokenizer": "wordpieces.txt", "encoder": "uniform", "workers": 1}
    >>> manifest = hj.generate(hj.load_config("data/linked_jsonl", **source, memory_limit="500MB"), "pairs")
    >>> sorted(manifest["tasks"])
    ['acm', 'mlm', 'qdm', 'rdp', 'rqp']
    """
    from data_pipeline import pipeline

    loaded = load_config(config) if isinstance(config, str | os.PathLike) else config
    return pipeline.generate(loaded, named(output))


def adapt(pairs: Path, encoder: Path, output: Path, **options: Any) -> "Adapted":
    """Writes a sentence encoder whose vectors are adapted to pairs from links by a linear map, and returns what that gains.

    `options`: fields of `linear_map.MapOptions`. Raises InputError for bad input, and for an output of other options.
    """
    from harp_jax.training import linear_map

    return linear_map.adapt(linear_map.MapOptions(named(pairs), named(encoder), **options), output=named(output))


class Reranker:
    """A trained ranker: a cross-encoder, or a pre-BERT neural ranker. `pretrain` trains one on the links of a site,
    `fit` fine-tunes it on judged queries.

    `rank` and `predict` have the arguments, results and scores of sentence-transformers' `CrossEncoder.rank` and `.predict`.
    Neither torch nor TensorFlow is needed.

    >>> import harp_jax as hj
    >>> model = hj.Reranker.from_pretrained("ranker")
    >>> model.rank("red cat", ["a blue dog", "the red cat sat"], top_k=1)
    [{'corpus_id': ..., 'score': ...}]
    >>> model.predict([("red cat", "a blue dog"), ("red cat", "the red cat sat")]).shape
    (2,)
    """

    def __init__(self, scorer: "Scorer", directory: str = "") -> None:
        self.scorer = scorer
        self.directory = directory  # where it was loaded from

    @classmethod
    def from_pretrained(
        cls,
        directory: Path,
        dtype: str = "float32",
        max_length: int | None = None,
        batch_tokens: int | None = None,
        backend: str = "jax",
    ) -> Self:
        """Loads an export, a Hugging Face directory of a one-label cross-encoder, or a training workdir.

        `max_length` (default: as in training) counts tokens of query and document, including special tokens; for neural
        rankers, words of the document. `dtype` is float32 or bfloat16, or int8 if the export has it and the backend is not
        jax. `backend` is jax, openvino, onnx, or auto: the fastest one installed. `batch_tokens` is the size of a batch
        (default: 4096 on CPU, 65536 on accelerators). Raises InputError if there is no model to load.
        """
        from harp_jax.ranking.rerank import is_neural, load_scorer

        at_least(1, max_length=max_length, batch_tokens=batch_tokens)
        directory, load = named(directory), load_scorer
        if is_neural(directory):
            from harp_jax.baselines.neural_ir.scorer import load_neural as load
        return cls(load(directory, dtype, max_length, batch_tokens, backend=backend), directory)

    def predict(self, pairs: Iterable[tuple[str, str]], windows: "Windows | None" = None) -> np.ndarray:
        """Scores [pairs] float32 of (query, document) texts; larger is more relevant. Cross-encoders return raw logits.

        A document that is too long is scored by its first tokens, or by the best of its `windows` (MaxP).
        """
        from harp_jax.ranking.rerank import predict

        return predict(self.scorer, pairs, windows)

    def rank(
        self,
        query: str,
        documents: Iterable[str],
        top_k: int | None = None,
        return_documents: bool = False,
        windows: "Windows | None" = None,
    ) -> list[dict[str, Any]]:
        """The documents by decreasing score, ties in the given order: {"corpus_id", "score"} each.

        "corpus_id" is the position in `documents`; `return_documents` adds their "text"; `top_k` keeps the first k.
        """
        at_least(1, top_k=top_k)
        documents = checked_texts("documents", documents)
        scores = self.rerank(query, documents, windows)
        if len(set(documents)) > 1 and np.ptp(scores) == 0:
            warnings.warn("all scores are equal; the documents keep their order", stacklevel=2)
        order = np.argsort(-scores, kind="stable")[:top_k].tolist()
        hits: list[dict[str, Any]] = [{"corpus_id": i, "score": float(scores[i])} for i in order]
        return [{**hit, "text": documents[hit["corpus_id"]]} for hit in hits] if return_documents else hits

    def rerank(self, query: str, documents: Iterable[str], windows: "Windows | None" = None) -> np.ndarray:
        """`predict` for one query: scores [documents] float32 in the given order."""
        return self.predict([(query, document) for document in checked_texts("documents", documents)], windows)

    @classmethod
    def pretrain(cls, site: "Site", output: str, start: str = "", minutes: float = 30.0, **options: Any) -> Self:
        """Trains a ranker on the links of a site for `minutes`, starting from the Hugging Face encoder `start` or from scratch.

        Same as `harp site`: writes its results, including verdict.json, to `output`; a repeated call resumes. `options` are
        fields of `site.options.SiteOptions` and `Training`. If the verdict leaves the ranker out, it is still returned, with a
        warning. Raises InputError if there are too few links.
        """
        from harp_jax.site.build import build
        from harp_jax.site.options import SiteOptions, Training
        from harp_jax.site.search import RANKER

        training = {field.name: options.pop(field.name) for field in fields(Training) if field.name in options}
        training |= {"start": start, "minutes": minutes}
        result = build(SiteOptions(site.source, training=Training(**training), **options), output)
        if not result.ranker:
            raise InputError(f"no ranker: the links of these pages are too few. {result.verdict.words()}")
        if not any(part.startswith(RANKER) for part in result.verdict.weights):
            warnings.warn(f"the verdict leaves this ranker out. {result.verdict.words()}", stacklevel=2)
        return cls.from_pretrained(result.ranker)

    def fit(
        self,
        queries: QueriesData,
        qrels: QrelsData,
        docs: DocumentsData,
        output: str,
        language: str = ENGLISH,
        **changes: Any,
    ) -> Self:
        """Fine-tunes this ranker on judged queries, exports the result to `output` and returns it.

        Negatives are drawn from BM25's best 50 documents; `language` is for its stemming and stopwords ("de"; "": none).
        `changes` are fields of configs/finetune_site.py, such as `epochs=3.0`. Raises InputError if no relevant document has a
        text, and for a ranker that was not loaded from a directory.
        """
        from harp_jax.checkpoints.export import export_model
        from harp_jax.input.ranking_groups import RankingDataset
        from harp_jax.ranking.first_stage import indexed, retrieve
        from harp_jax.training.stages.finetune import finetune_stage
        from harp_jax.training.train import train

        if not self.directory:
            raise InputError("this ranker was not loaded from a directory; use Reranker.from_pretrained")
        texts, judged, documents = to_queries(queries), to_qrels(qrels), to_documents(docs)
        ranked = retrieve("bm25", indexed(documents.texts(), "bm25", language), [({}, texts)], CANDIDATES)
        candidates = dict(trec.ordered(one for one in ranked if one[1]))
        config = load_config("finetune_site", init=self.directory, **changes)
        stage = finetune_stage(config, judged=RankingDataset(documents, texts, judged, candidates))
        with tempfile.TemporaryDirectory(prefix="harp-fit-") as workdir:
            train(config, workdir, stage)
            export_model(workdir, output)
        return type(self).from_pretrained(output)


def _plain(run: trec.Run) -> Scores:
    """{qid: {docid: score}}, best first."""
    return {qid: {r.docids[i]: r.scores[i] for i in r.order()} for qid, r in run.items()}


# What users pass, as the types of the other rooms: checked here, once.


class Texts(dict[str, str]):
    """Documents in memory, with the part of `Documents`' interface that ranking uses."""

    path = "docs"

    def texts(self) -> Iterator[tuple[str, str]]:
        """(docid, text) in order."""
        return iter(self.items())


def to_run(data: RunData) -> Run:
    """A run from {qid: {docid: score}}, a frame, or a path to a TREC or MS MARCO run."""
    if isinstance(data, str | os.PathLike):
        return trec.read_run(os.fspath(data))
    return {qid: Ranking.of([*scores], [*scores.values()]) for qid, scores in _by_query(data, SCORE, "finite").items()}


def to_qrels(data: QrelsData) -> Qrels:
    """Judgments from {qid: {docid: level}}, a frame, or a path."""
    if isinstance(data, str | os.PathLike):
        return read_qrels(os.fspath(data))
    judged = _by_query(data, LEVEL, "whole")
    return {qid: {docid: int(level) for docid, level in levels.items()} for qid, levels in judged.items()}


def to_queries(data: QueriesData) -> dict[str, str]:
    """Queries from {qid: text}, a frame, or a path."""
    return read_queries(os.fspath(data)) if isinstance(data, str | os.PathLike) else _texts(data, QID, QUERY, "query")


def to_documents(data: DocumentsData) -> Documents | Texts:
    """Documents from {docid: text}, a frame, a path, or `Documents` themselves."""
    if isinstance(data, str | os.PathLike):
        return Documents.open(os.fspath(data))
    return data if isinstance(data, Documents | Texts) else Texts(_texts(data, DOCID, TEXT, "document"))


def to_anchors(data: Any) -> dict[str, dict[str, int]]:
    """Anchor texts from {docid: text}, {docid: {text: number of links}}, or a path. Raises InputError for other types."""
    from harp_jax.ranking.first_stage import read_anchors

    if isinstance(data, str | os.PathLike):
        return read_anchors(os.fspath(data))
    if not isinstance(data, Mapping):
        raise InputError(f"anchors: {type(data).__name__} given; use {{docid: {{text: number of links}}}}, or a path")
    anchors: dict[str, dict[str, int]] = {}
    for docid, some in data.items():
        counts = some if isinstance(some, Mapping) else {some: 1}
        for links in counts.values():
            if isinstance(links, bool) or not isinstance(links, numbers.Integral) or not 0 < int(links) <= 10**9:
                raise InputError(f"anchors of {docid!r}: {links!r} links; use a whole number from 1 to 10^9")
        anchors[_id(docid)] = {_text(text, f"anchor of {docid!r}"): int(links) for text, links in counts.items()}
    return anchors


def _by_query(data: Any, names: tuple[str, ...], kind: str) -> dict[str, dict[str, float]]:
    """{qid: {docid: number}} from such a dict, or from a frame with a column in `names`. InputError for a number that is not of the
    kind "finite" or "whole"."""
    in_frame = not isinstance(data, Mapping)
    values: dict[str, dict[str, float]] = {} if in_frame else {_id(qid): {} for qid in data}
    if wrong := [] if in_frame else [qid for qid, row in data.items() if not isinstance(row, Mapping)]:
        raise InputError(f"query {wrong[0]!r}: {type(data[wrong[0]]).__name__} given; use {{docid: number}}")
    triples = ((qid, docid, value) for qid, row in data.items() for docid, value in row.items()) if not in_frame else ()
    for qid, docid, score in _columns(data, QID, DOCID, names) if in_frame else triples:
        row = values.setdefault(_id(qid, in_frame), {})
        if (docid := _id(docid, in_frame)) in row:
            raise InputError(f"query {qid!r} lists {docid!r} twice; drop the duplicates")
        try:
            row[docid] = float(score)
        except (TypeError, ValueError, OverflowError):
            row[docid] = math.nan
        if not abs(row[docid]) <= LARGEST or (kind == "whole" and row[docid] != int(row[docid])):
            raise InputError(f"query {qid!r}, document {docid!r}: {score!r} is not a {kind} number up to {LARGEST:g}")
    return values


def _texts(data: Any, ids: tuple[str, ...], names: tuple[str, ...], kind: str) -> dict[str, str]:
    """{id: text} from a dict, or from two columns of a frame."""
    in_frame, texts = not isinstance(data, Mapping), dict[str, str]()
    for key, text in _columns(data, ids, names) if in_frame else data.items():
        if (key := _id(key, in_frame)) in texts:
            raise InputError(f"the frame lists {key!r} twice; drop the duplicates")
        texts[key] = _text(text, f"{kind} {key!r}")
    return texts


def _columns(frame: Any, *names: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Rows of the given columns of a frame; each column may have several names. InputError unless there is one of each."""
    if not hasattr(frame, "columns"):
        raise InputError(f"{type(frame).__name__} given; use a dict, a path, or a frame with the columns {names}")
    held = [str(name) for name in frame.columns]
    chosen = [next((name for name in some if name in held), some[0]) for some in names]
    for name, some in zip(chosen, names):
        if held.count(name) != 1:
            raise InputError(f"the frame needs one column {' or '.join(some)}; it has {', '.join(sorted(held))}")
    return zip(*(frame[name] for name in chosen))


def _id(key: Any, in_frame: bool = False) -> str:
    """The id as a string. InputError for other types: 1 and "1" would be two queries. A frame's may be integers; 7.0 is not "7"."""
    if isinstance(key, str):
        return key
    if not in_frame:
        raise InputError(f"the id {key!r} is not a string; use str() for the ids of queries and documents")
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        return str(int(key))
    raise InputError(f"the id {key!r} is neither text nor a whole number; read the column as text, without gaps")


def _text(text: Any, where: str) -> str:
    """The text with lone surrogates replaced, as in files. Raises InputError if it is not a string."""
    if not isinstance(text, str):
        raise InputError(f"{where}: {type(text).__name__} given; use a string")
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
