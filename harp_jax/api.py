"""The library's functions, on plain data: `import harp_jax as hj`, then hj.NAME. docs/library.md shows them together.

A run is {qid: {docid: score}}, judgments {qid: {docid: level}}, queries {qid: text}, documents {docid: text}; a pandas frame
or a path to a file is accepted for each (`plain_data`).
"""

import importlib
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harp_jax.base.errors import InputError
from harp_jax.config import config_file, read_config
from harp_jax.corpus import trec
from harp_jax.plain_data import (
    DocumentsData,
    Path,
    QrelsData,
    QueriesData,
    RunData,
    texts_of,
    to_documents,
    to_qrels,
    to_queries,
    to_run,
)

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from harp_jax.evaluation.tables import Table
    from harp_jax.ranking.maxp import Windows
    from harp_jax.ranking.reranker import Reranker

Scores = dict[str, dict[str, float]]  # qid → docid → score, best first


def first_stage(
    docs: DocumentsData,
    queries: QueriesData,
    k: int = 100,
    model: str = "bm25",
    stemmer: str = "english",
    anchors: Mapping[str, str] | Path | None = None,
    **parameters: float,
) -> Scores:
    """The best `k` documents of each query by BM25 (`k1`, `b`) or query likelihood (model="ql": `mu`).

    `anchors` are anchor texts by document, or the file of `harp anchors`: a second field of model="bm25f" (also `anchor_weight`,
    `anchor_b`), more words of the documents for other models.

    Queries that share no word with a document are absent from the result. Documents are indexed in memory. Raises InputError
    for unknown models, stemmers and parameters.

    >>> import harp_jax as hj
    >>> hj.first_stage({"d1": "a red cat", "d2": "a blue dog"}, {"q1": "cats"})
    {'q1': {'d1': ...}}
    """
    from harp_jax.ranking.lexical.anchors import read_anchors
    from harp_jax.ranking.lexical.first_stage import indexed, retrieve

    if not isinstance(k, int) or k < 1:
        raise InputError(f"k={k!r}: use a whole number of 1 or more")
    if isinstance(anchors, str | os.PathLike):
        texts: Mapping[str, str] | None = read_anchors(os.fspath(anchors))
    else:
        texts = anchors if anchors is None else dict(texts_of(anchors, "anchors of document"))
    collection = indexed(to_documents(docs).texts(), model, stemmer, texts)
    found = retrieve(model, collection, [(parameters, to_queries(queries))], k)
    return _plain(dict(trec.ordered((qid, docids, scores) for qid, docids, scores in found if docids)))


def rerank_run(
    model: "Reranker",
    run: RunData,
    queries: QueriesData,
    docs: DocumentsData,
    k: int | None = None,
    windows: "Windows | None" = None,
) -> Scores:
    """The best `k` candidates of each query of a run (all), scored by a model, best first.

    Of a long document the first tokens count, or the best of its `windows` (MaxP). Queries of the run without a text are left
    out with a warning. Raises InputError for a candidate without a text, and if no query has one.

    >>> import harp_jax as hj
    >>> model = hj.Reranker.from_pretrained("ranker")
    >>> hj.rerank_run(model, {"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": "cats"}, {"d1": "a red cat", "d2": "a blue dog"}, k=1)
    {'q1': {'d1': ...}}
    """
    from harp_jax.ranking.rerank import rerank_run as rankings
    from harp_jax.ranking.rerank import with_texts

    if k is not None and k < 1:
        raise InputError(f"k={k}: use 1 or more, or None for all candidates")
    if isinstance(model, str | os.PathLike):
        raise InputError(f"model is the path {os.fspath(model)}; use hj.Reranker.from_pretrained({os.fspath(model)!r})")
    texts = to_queries(queries)
    candidates, note = with_texts(to_run(run), texts, "queries")
    if note:
        warnings.warn(note, stacklevel=2)
    return _plain(dict(trec.ordered(rankings(model.scorer, candidates, texts, to_documents(docs), k, windows))))


def evaluate(
    qrels: QrelsData,
    runs: Mapping[str, RunData | list[RunData] | tuple[RunData, ...]],
    measures: str | list[str] = "RR@10 RR@100 nDCG@10 nDCG@100 AP",
    baseline: str = "",
    **options: Any,
) -> "Table":
    """A table of measures, named as in ir-measures; print it, or take its `mean`, `per_query`, `to_frame()`.

    Every query of the qrels counts, as zero where a run lacks it (with a warning). A list of runs is one system trained with
    several seeds. With `baseline` the others are compared with it: randomisation and t test, Holm's correction, bootstrap
    intervals; `options` are those of `harp_jax.evaluation.evaluate.evaluate` (confirm, rounds, seed, runs_per_draw, chance, blank).

    >>> import harp_jax as hj
    >>> table = hj.evaluate({"q1": {"d1": 1}}, {"BM25": {"q1": {"d2": 2.0, "d1": 1.0}}}, "RR@10 AP")
    >>> print(table)
    run    RR@10      AP
    BM25  0.5000  0.5000
    >>> table.mean["BM25"]["AP"]
    0.5
    """
    from harp_jax.evaluation.evaluate import evaluate as measured

    if not isinstance(runs, Mapping):
        raise InputError(f"runs: {type(runs).__name__} given; use {{name: run}}, as in {{'BM25': 'bm25.trec'}}")
    if not runs:
        raise InputError("no runs; use {name: run}, as in {'BM25': 'bm25.trec'}")
    for name in runs:
        if not isinstance(name, str):
            raise InputError(f"the run's name {name!r} is no string")
    if not isinstance(measures, str | list | tuple):
        raise InputError(f"measures: {measures!r} given; use names, as in 'RR@10 AP'")
    names = measures if isinstance(measures, str) else [str(measure) for measure in measures]
    given = {name: _seeds(some) for name, some in runs.items()}
    if empty := [name for name, some in given.items() if not some]:
        raise InputError(f"no run for {empty[0]}; give one or several")
    table = measured(to_qrels(qrels), given, names, baseline, **options)
    for note in table.notes():
        warnings.warn(note, stacklevel=2)
    return table


def _seeds(given: RunData | list[RunData] | tuple[RunData, ...]) -> list[trec.Run]:
    """The runs of one system."""
    return [to_run(one) for one in given] if isinstance(given, list | tuple) else [to_run(given)]


def read_run(path: Path) -> Scores:
    """A TREC run (qid Q0 docid rank score tag) or MS MARCO's three columns, as {qid: {docid: score}}, best first.

    The file may be compressed; "irds:ID" names an ir_datasets dataset. Raises InputError with the line of what is wrong.

    >>> import harp_jax as hj
    >>> len(hj.read_run("bm25.trec"))
    40
    """
    return _plain(trec.read_run(os.fspath(path)))


def write_run(path: Path, run: RunData, tag: str = trec.TAG) -> None:
    """Writes a TREC run, best first, ties in the given order; the file appears complete or not at all.

    >>> import harp_jax as hj
    >>> hj.write_run("run.trec", {"q1": {"d1": 2.0, "d2": 1.0}})
    >>> hj.read_run("run.trec")
    {'q1': {'d1': 2.0, 'd2': 1.0}}
    """
    rankings = to_run(run)
    if not rankings:
        raise InputError("the run has no queries, and its file could not be read")
    if not tag or tag.split() != [tag]:
        raise InputError(f"the tag {tag!r} has white space or is empty; use one word")
    found = ((qid, ranking.docids, ranking.scores) for qid, ranking in rankings.items())
    trec.write_run(os.fspath(path), found, tag)


def load_config(path: Path, **changes: Any) -> "ConfigDict":
    """The config of a file with `get_config()`, or of a shipped name such as "tpu_v3" or "data/html", with fields changed.

    A preset may follow a colon. Fields within fields are written with dots: `**{"model.layers": 2}`. The result is locked.
    Raises InputError for a file that is absent, an unknown field, or a value of the wrong type.

    >>> import harp_jax as hj
    >>> hj.load_config("tpu_v3", steps=1000, **{"model.layers": 2}).model.layers
    2
    """
    from harp_jax.config import check_fields

    if not isinstance(path, str | os.PathLike):
        raise InputError(f"load_config takes a path or a name, not {type(path).__name__}")
    path = os.fspath(path)
    if not os.path.exists(config_file(path).partition(":")[0]):
        raise InputError(f"no config {path}; name a file, or one below configs/ such as tpu_v3 or data/html")
    config = read_config(path)
    check_fields(config, changes, path)
    try:
        config.update_from_flattened_dict(changes)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: {error.args[0]}; check the fields") from error
    return config


def train(config: "ConfigDict | Path", workdir: Path) -> dict[str, float]:
    """Trains what a config describes and returns the last logged metrics; a repeated call resumes, or does nothing if done.

    A run that SIGTERM interrupts saves its state and returns {"interrupted": 1.0}. The workdir holds the config, checkpoints
    and metrics. Raises InputError for bad config or data, and if the workdir belongs to another config.

    >>> import harp_jax as hj
    >>> data = dict(docs="docs.tsv", queries="queries.tsv", qrels="qrels.txt", candidates="bm25.trec", tokenizer="vocabulary")
    >>> config = hj.load_config("finetune_bert_tiny", **data, init_head="fresh", steps=2, negatives=3, batch_pairs=8, window=16)
    >>> hj.train(config, "runs/two_steps")["loss"] > 0
    True
    """
    from harp_jax.training.train import train as run_training

    return run_training(load_config(config) if isinstance(config, str | os.PathLike) else config, _directory(workdir))


def generate(config: "ConfigDict | Path", output: Path) -> dict[str, Any]:
    """Generates pre-training pairs from linked pages: TFRecord shards and a manifest, which is returned.

    A repeated call resumes, or does nothing if done. Runs on the cores of this machine; on Spark: `harp generate`. Raises
    InputError for bad config or input.

    >>> import harp_jax as hj
    >>> source = {"source.paths": ("pages.jsonl",), "tokenizer": "wordpieces.txt", "encoder": "uniform", "workers": 1}
    >>> manifest = hj.generate(hj.load_config("data/linked_jsonl", **source, memory_limit="500MB"), "pairs")
    >>> sorted(manifest["tasks"])
    ['acm', 'mlm', 'qdm', 'rdp', 'rqp']
    """
    # By name, at the call: harp_jax works without the generation job.
    pipeline = importlib.import_module("data_pipeline.pipeline")
    return pipeline.generate(
        load_config(config) if isinstance(config, str | os.PathLike) else config, _directory(output)
    )


def _directory(path: Path) -> str:
    """The path of a directory that is written. InputError for an empty one: the current folder would be used."""
    if not os.fspath(path):
        raise InputError("the directory's path is empty; name one")
    return os.fspath(path)


def _plain(run: trec.Run) -> Scores:
    """{qid: {docid: score}}, best first."""
    return {qid: {r.docids[i]: r.scores[i] for i in r.order()} for qid, r in run.items()}
