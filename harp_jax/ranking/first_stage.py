"""First stage: retrieves candidates by BM25, BM25F or query likelihood, or re-ranks a given run by one of them.

Documents are streamed once; the index is in memory (`lexical`). Queries that match no document get no candidates and are
reported. BM25F indexes anchor texts as a field; other models append them to the document (document expansion).

Priors ignore the query: a candidate scores log(1 + in-links) or log(1 + words). Fused with the first stage, with a weight fitted
on other folds (`harp fuse --method=weights --normalise=none`), this is the baseline "prior". `harp rerank --blank_query` computes a
trained model's own prior.
"""

import itertools
import json
import math
import re
import sys
import time
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, output_path, read_json_as, replacing
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import STAGES, duration, progress, say, stage
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.text_files import checked_id
from harp_jax.corpus.trec import Run, ScoredQuery, abbreviate, read_folds, read_queries, read_run, with_texts, write_run
from harp_jax.ranking.lexical import Anchors, InvertedIndex, Model, make, rescore, search
from harp_jax.text.languages import ENGLISH

FEATURES = ("inlinks", "length")  # for priors
SIZES = (1000, 4000)  # documents of two indexes, from whose difference `estimate` extrapolates
QUERIES = 20  # whose time it measures
COUNT = re.compile("0*[1-9][0-9]{0,8}")

Excluded = dict[str, set[str]]  # qid → documents to exclude, such as the query's own source
Settings = list[tuple[Mapping[str, float], Mapping[str, str]]]  # (parameters, the queries scored with them)


def retrieve(
    name: str,
    collection: InvertedIndex,
    settings: Settings,
    k: int | None = None,
    excluded: Excluded | None = None,
    run: Run | None = None,
) -> Iterator[ScoredQuery]:
    """(qid, docids, scores) of the best `k` documents of every query (default: 100); empty lists where nothing matches. With `run`,
    of its best `k` candidates (default: all), in its order. Raises InputError for a candidate that the collection lacks."""
    for parameters, queries in settings:
        model = make(name, collection, parameters)
        qids = list(queries) if run is None else [qid for qid in run if qid in queries]
        for qid in progress(qids, unit="queries", desc=name):
            barred = (excluded or {}).get(qid, set())
            if run is None:
                yield qid, *candidates(model, collection, queries[qid], k or 100, barred)
                continue
            docids = [docid for docid in run[qid].ranked() if docid not in barred][:k]
            try:
                yield qid, docids, rescore(model, collection, queries[qid], docids)
            except KeyError as error:
                wrong = f"candidate {error.args[0]} of query {qid} is not among the documents"
                raise InputError(f"{wrong}; correct --run or --docs") from error


def candidates(
    model: Model, collection: InvertedIndex, query: str, k: int, barred: Set[str]
) -> tuple[list[str], np.ndarray]:
    """(docids, scores [n]) of the best `k` documents of a query that are not `barred`."""
    docids, scores = search(model, collection, query, k + len(barred))
    allowed = [i for i, docid in enumerate(docids) if docid not in barred][:k]
    return [docids[i] for i in allowed], scores[allowed]


def excluded_of(path: str) -> Excluded:
    """qid → document ids, from "qid docid" lines; empty for an empty path."""
    excluded: Excluded = {}
    for number, line in lines(path) if path else ():
        parts = line.split()
        if parts and len(parts) != 2:
            raise InputError(f"{path}, line {number}: {len(parts)} columns; write 'qid<TAB>docid'")
        if parts:
            excluded.setdefault(parts[0], set()).add(parts[1])
    return excluded


@dataclass(frozen=True)
class Tuned:
    """The parameters of a lexical `model` that `harp tune-first-stage` chose by `measure`: for all queries, or by fold. Chosen on
    `queries` of the `of` judged ones; `grid`: every setting with its mean."""

    model: str
    parameters: dict[str, float] | None = None
    folds: dict[str, dict[str, float]] | None = None
    measure: str = ""
    queries: int = 0
    of: int = 0
    grid: list[dict[str, float]] = field(default_factory=list)

    @classmethod
    def load(cls, path: str) -> "Tuned":
        """Raises InputError for a damaged file."""
        record = read_json_as(cls, path, "tune again")
        if (record.parameters is None) == (record.folds is None):
            raise InputError(f"{path} has neither parameters nor folds, or both; tune again")
        return record

    def save(self, path: str) -> None:
        with replacing(path) as file:
            json.dump({name: value for name, value in asdict(self).items() if value is not None}, file, indent=1)


def settings_of(
    name: str, parameters: Mapping[str, float], tuned: str, folds: str, queries: Mapping[str, str]
) -> Settings:
    """Assigns parameters to queries: those given, the same for all, or those in the file `tuned` by `harp tune-first-stage`:
    for all, or those tuned without each query's fold, with the file `folds` that it was tuned with."""
    record = Tuned.load(tuned) if tuned else None
    if folds and (record is None or record.folds is None):
        raise InputError("--folds is only for --parameters written by harp tune-first-stage --folds; leave it out")
    if record is None:
        return [(parameters, queries)]
    if parameters:
        raise InputError(f"--{next(iter(parameters))} and --parameters contradict each other; use one of them")
    if record.model != name:
        raise InputError(f"{tuned} holds parameters for {record.model}, not {name}; tune --model={name}")
    if record.folds is None:
        return [(record.parameters or {}, queries)]
    by_fold, fold_of = record.folds, read_folds(folds)
    if lost := [qid for qid in queries if fold_of.get(qid) not in by_fold]:
        raise InputError(f"query {lost[0]} is in no fold that {tuned} was tuned for; correct --folds")
    return [
        (best, {qid: text for qid, text in queries.items() if fold_of[qid] == fold}) for fold, best in by_fold.items()
    ]


@dataclass(frozen=True)
class Candidates:
    """Settings of the index: documents, fields, language, excluded pairs, number of candidates, file of anchor texts."""

    docs: InputPath
    fields: tuple[str, ...] = FIELDS
    language: str = ENGLISH
    exclude: InputPath = ""
    k: int | None = None
    anchors: InputPath = ""

    @cached_property
    def excluded(self) -> Excluded:
        return excluded_of(self.exclude)

    def indexed(self, model: str) -> InvertedIndex:
        """The documents, tokenised for a model: anchor texts are a field of bm25f and are appended for other models. Checks
        `exclude` and `anchors` before indexing. Raises InputError for bad lines, and if no document has an anchor text."""
        _ = self.excluded
        anchors = read_anchors(self.anchors) if self.anchors else None
        docs = Documents.open(self.docs, self.fields)
        if anchors is not None:
            anchored = sum(docid in docs for docid in anchors)
            if not anchored:
                raise InputError(f"{self.anchors} has no anchor text for any document in --docs; use the ids of --docs")
            say(f"note: {anchored} of {len(docs)} documents have anchor texts")
        texts = progress(docs.texts(), total=len(docs), unit="documents", desc="index")
        return indexed(texts, model, self.language, anchors)


def indexed(
    texts: Iterable[tuple[str, str]], model: str, language: str, anchors: Anchors | None = None
) -> InvertedIndex:
    """(docid, text) pairs, tokenised for a model. Anchor texts are a field of bm25f, where they count once for every link; for
    other models distinct ones follow the text."""
    if anchors is None or model == "bm25f":
        return InvertedIndex(texts, language, anchors)
    longer = ((docid, " ".join([text, "\n".join(anchors.get(docid, ()))])) for docid, text in texts)
    return InvertedIndex(longer, language)


@dataclass(frozen=True)
class Retrieved:
    queries: int  # with candidates
    documents: int  # that were searched


@once
def first_stage_files(
    candidates: Candidates,
    *,
    queries: InputPath,
    output: str,
    model: str = "bm25",
    run: InputPath = "",
    parameters: Mapping[str, float] | None = None,
    tuned: InputPath = "",
    folds: InputPath = "",
) -> Retrieved:
    """Writes a TREC run of new candidates, or of `run` re-ranked lexically: ours, Anserini's, Pyserini's or Lucene's. `model` is
    one of MODELS; its `parameters` have defaults, or come from `tuned` (see `settings_of`). Reports queries without candidates on
    stderr. Raises InputError for bad input."""
    output_path(output)  # fails before the documents are read
    texts = read_queries(queries)
    settings = settings_of(model, parameters or {}, tuned, folds, texts)
    candidate_run = read_given(run, texts) if run else None
    ranked: set[str] = set()

    def counted(scored: Iterator[ScoredQuery]) -> Iterator[ScoredQuery]:
        for qid, docids, scores in scored:
            if docids:
                ranked.add(qid)
            yield qid, docids, scores

    with progress(total=2, unit=STAGES):
        stage("index")
        collection = candidates.indexed(model)
        stage(model)
        scored = retrieve(model, collection, settings, candidates.k, candidates.excluded, candidate_run)
        write_run(output, counted(scored), tag=model)
    if without := [qid for qid in texts if qid not in ranked]:
        why = "match no document" if candidate_run is None else "have no candidates in the run"
        print(f"note: {len(without)} of {len(texts)} queries {why}: {abbreviate(without)}", file=sys.stderr)
    return Retrieved(len(ranked), len(collection))


def read_given(path: str, queries: Mapping[str, str]) -> Run:
    """The run to re-rank, without queries that `queries` lacks; prints a note about these. InputError if none is left."""
    run, note = with_texts(read_run(path), queries, "--queries")
    if note:
        print(f"note: {note}", file=sys.stderr)
    return run


def read_anchors(path: str) -> dict[str, dict[str, int]]:
    """docid → anchor text → number of links that carry it."""
    anchors: dict[str, dict[str, int]] = {}
    for docid, text, links in anchor_rows(path):
        texts = anchors.setdefault(docid, {})
        texts[text] = texts.get(text, 0) + links
    return anchors


def anchor_rows(path: str) -> Iterator[tuple[str, str, int]]:
    """(docid, anchor text, count) per line of a file that `harp anchors` wrote. Raises InputError for malformed lines."""
    for number, line in lines(path):
        parts = [part.strip() for part in line.split("\t")]
        if parts == [""]:
            continue
        where = f"{path}, line {number}"
        if len(parts) != 3 or not parts[1] or not COUNT.fullmatch(parts[2]):
            raise InputError(f"{where}: write 'docid<TAB>anchor text<TAB>count' with a count from 1 to 10^9")
        docid, text, count = checked_id(where, parts[0], "document"), *parts[1:]
        yield docid, text, int(count)


def estimate(candidates: Candidates, queries: str, model: str = "bm25", settings: int = 1, sample: int = 0) -> str:
    """The cost of `model` in words, from evenly spaced documents. `settings`: of tuning on `sample` queries (0: all). Raises
    InputError for bad input."""
    docs, texts = Documents.open(candidates.docs, candidates.fields), read_queries(queries)
    anchors = read_anchors(candidates.anchors) if candidates.anchors else None

    def index_of(size: int) -> tuple[InvertedIndex, Model]:
        step = max(1, len(docs) // size)
        chosen = ((docid, docs[docid]) for docid in itertools.islice(docs.ids(), 0, None, step))
        index = indexed(chosen, model, candidates.language, anchors)
        return index, make(model, index, {})

    def measured(size: int) -> np.ndarray:
        """Documents, seconds of indexing, its peak memory in bytes, seconds per query."""
        times = [time.perf_counter()]
        index, ranker = index_of(size)
        times.append(time.perf_counter())
        for query in itertools.islice(texts.values(), QUERIES):
            search(ranker, index, query, candidates.k or 100)
            times.append(time.perf_counter())
        indexing, *seconds = np.diff(times)
        del index, ranker
        tracemalloc.start()
        try:
            count, per_query = len(index_of(size)[0]), np.median(seconds) if seconds else 0.0
            return np.array([count, indexing, tracemalloc.get_traced_memory()[1], per_query])
        finally:
            tracemalloc.stop()

    index_of(10)  # imports
    small, large = map(measured, SIZES)
    slope = np.maximum(large - small, 0.0) / max(large[0] - small[0], 1)
    _, indexing, memory, per_query = large + slope * (len(docs) - large[0])
    count = min(sample, len(texts)) if sample else len(texts)
    ranked = f"{count:,} queries" + (f" with {settings} settings" if settings > 1 else "")
    return (
        f"index of {len(docs):,} documents: about {duration(indexing)} and {memory / 1e9:.1f} GB of memory; "
        f"{ranked}: about {duration(settings * count * per_query)} ({per_query:.2g} s each). "
        "If that is too much, rank with Lucene (Anserini, Pyserini): harp rerank --run, fuse and evaluate read its runs."
    )


@dataclass(frozen=True)
class Prior:
    documents: int  # in the run
    known: int  # with a value


@once
def prior_files(
    *,
    run: InputPath,
    feature: str,
    output: str,
    anchors: InputPath = "",
    docs: InputPath = "",
    fields: tuple[str, ...] = FIELDS,
) -> Prior:
    """Writes a run's candidates scored by log(1 + feature), ties in the order of the run: inlinks (needs `anchors`) or length
    (needs `docs`). Raises InputError for bad input."""
    if (feature == "inlinks") != bool(anchors) or (feature == "length") != bool(docs):
        raise InputError("--feature=inlinks needs --anchors, --feature=length needs --docs; give no other source")
    candidates = read_run(run)
    wanted = {docid for ranking in candidates.values() for docid in ranking.docids}
    values: dict[str, int] = {}
    if feature == "inlinks":
        for docid, _, count in anchor_rows(anchors):
            if docid in wanted:
                values[docid] = values.get(docid, 0) + count
    else:
        texts = Documents.open(docs, fields)
        if absent := [docid for docid in sorted(wanted) if docid not in texts]:
            raise InputError(f"candidate {absent[0]} is not among the documents; correct --run or --docs")
        bar = progress(sorted(wanted), unit="documents", desc="length")
        values = {docid: len(texts[docid].split()) for docid in bar}
    ranked = ((qid, ranking.ranked()) for qid, ranking in candidates.items())
    scored = ((qid, docids, np.array([math.log1p(values.get(d, 0)) for d in docids])) for qid, docids in ranked)
    write_run(output, scored, tag=feature)
    return Prior(len(wanted), len(values))
