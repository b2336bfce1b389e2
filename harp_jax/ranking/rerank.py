"""Loads a trained ranker and scores pairs (`predict`), a run in memory (`rankings`), or files (`rerank_files`)."""

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path

import jax
import numpy as np

from harp_jax.base.allocator import keep_pages
from harp_jax.base.cli import keep_compiled
from harp_jax.base.errors import InputError
from harp_jax.base.files import as_stored, locked, output_path, replacing
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import Progress, progress
from harp_jax.base.randomness import hash64
from harp_jax.corpus.documents import FIELDS, Documents, Texts
from harp_jax.corpus.paths import document_files, is_irds, query_file
from harp_jax.corpus.trec import Run, ScoredQuery, chosen_queries, read_queries, read_run, run_lines, with_texts
from harp_jax.ranking.runtimes import RuntimeScorer, chosen_backend
from harp_jax.ranking.scorers import BiEncoderScorer, CrossEncoderScorer, Scorer, Windows, best_of

KEY = "key"
LOCK = "lock"
OURS = re.compile(r"(\d{6,}\.trec|key(\.json)?)(\.tmp\.\w+)?|lock")  # .tmp: left by a kill

Chunk = list[tuple[str, list[str]]]  # (qid, its candidates)


def load_scorer(
    directory: str,
    dtype: str = "float32",
    max_length: int | None = None,
    batch_tokens: int | None = None,
    cosine: bool = False,
    backend: str = "jax",
) -> Scorer:
    """Loads an export, any Hugging Face directory with a one-label classifier, or a training workdir.

    `cosine` scores with the encoder alone, as a bi-encoder, on JAX only. Cross-encoders run on `backend` jax, openvino, onnx, or
    auto (`runtimes`). Raises InputError for other combinations, and if there is no encoder to load.
    """
    if is_neural(directory):
        raise InputError(f"{directory} is a neural ranker; only harp rerank and Reranker.from_pretrained read it")
    if cosine:
        if backend not in ("jax", "auto"):
            raise InputError(f"--backend={backend}: --cosine only runs with JAX; leave the option out")
        if dtype == "int8":
            raise InputError(f"--dtype={dtype}: --cosine does not support it; leave the option out")
        return BiEncoderScorer.load(directory, dtype, max_length, batch_tokens)
    backend = chosen_backend(backend, dtype, directory)
    if backend == "jax":
        return CrossEncoderScorer.load(directory, dtype, max_length, batch_tokens)
    return RuntimeScorer.load(directory, backend, dtype, max_length, batch_tokens)


def is_neural(directory: str) -> bool:
    """Whether a directory is the workdir of a pre-BERT neural ranker."""
    return os.path.isfile(os.path.join(directory, "tokenizer", "words.json"))


def predict(scorer: Scorer, pairs: Sequence[tuple[str, str]], windows: Windows | None = None) -> np.ndarray:
    """Scores [pairs] float32 of (query, document) texts, each text encoded once."""
    limit = None if windows is None else windows.reach(scorer.max_length)
    queries = list(dict.fromkeys(query for query, _ in pairs))
    documents = list(dict.fromkeys(document for _, document in pairs))
    query_ids = dict(zip(queries, scorer.encode_queries(queries)))
    document_ids = dict(zip(documents, scorer.encode_documents(documents, limit)))
    return best_of(scorer, [(query_ids[query], document_ids[document]) for query, document in pairs], windows)


def pairs_at_once() -> int:
    """Pairs per chunk: sorted by length together, texts held in memory; a kill loses the current chunk."""
    return 5_000 if jax.default_backend() == "cpu" else 50_000


def rankings(
    scorer: Scorer,
    run: Run,
    queries: Mapping[str, str],
    docs: Texts,
    k: int | None = None,
    windows: Windows | None = None,
) -> Iterator[ScoredQuery]:
    """(qid, docids, scores float32) of the best `k` candidates of each query (default: all), in the order of the run. `queries` has
    the text of every query in the run (`with_texts`). Raises InputError before scoring if `docs` lacks a document."""
    chunks = chunks_of(run, docs, k)
    with progress(total=sum(map(size, chunks)), unit="pairs", desc="rerank") as bar:
        for chunk in chunks:
            yield from rerank_chunk(scorer, chunk, queries, docs, windows, bar)


def size(chunk: Chunk) -> int:
    return sum(len(docids) for _, docids in chunk)


def chunks_of(run: Run, docs: Texts, k: int | None) -> list[Chunk]:
    """Splits the run into chunks of whole queries, deterministically: a resumed run forms the same batches."""
    candidates = {qid: ranking.ranked()[:k] for qid, ranking in run.items()}
    named = dict.fromkeys(docid for docids in candidates.values() for docid in docids)
    if absent := [docid for docid in named if docid not in docs]:
        wrong = f"the run names {len(absent)} documents that {docs.path} lacks, such as {absent[0]}"
        raise InputError(f"{wrong}; correct one of them")
    chunks: list[Chunk] = []
    enough = pairs = pairs_at_once()
    for qid, docids in candidates.items():
        if pairs >= enough:
            chunks.append([])
            pairs = 0
        chunks[-1].append((qid, docids))
        pairs += len(docids)
    return chunks


def rerank_chunk(
    scorer: Scorer, chunk: Chunk, queries: Mapping[str, str], docs: Texts, windows: Windows | None, bar: Progress | None
) -> Iterator[ScoredQuery]:
    """(qid, docids, scores float32) of a chunk's candidates, scored together."""
    # Each document is read and tokenised once, even if several queries have it as a candidate.
    wanted = list(dict.fromkeys(docid for _, docids in chunk for docid in docids))
    limit = None if windows is None else windows.reach(scorer.max_length)
    encoded = scorer.encode_queries([queries[qid] for qid, _ in chunk])
    documents = dict(zip(wanted, scorer.encode_documents([docs[docid] for docid in wanted], limit)))
    pairs = [(query, documents[docid]) for query, (_, docids) in zip(encoded, chunk) for docid in docids]
    scores = best_of(scorer, pairs, windows, bar)
    start = 0
    for qid, docids in chunk:
        yield qid, docids, scores[start : start + len(docids)]
        start += len(docids)


@dataclass(frozen=True)
class Reranking:
    """How to re-rank. `fields` of the documents; the best `k` candidates (None: all); only the query ids in the file `only`, or
    those of `fold` in the file `folds`; `windows` of a document to score (None: its beginning). `blank_query` scores documents with
    an empty query. The other options as in `load_scorer`."""

    fields: tuple[str, ...] = FIELDS
    k: int | None = None
    only: InputPath = ""
    folds: InputPath = ""
    fold: str = ""
    windows: int | None = None
    blank_query: bool = False
    max_length: int | None = None
    batch_tokens: int | None = None
    dtype: str = "float32"
    cosine: bool = False
    backend: str = "jax"


DEFAULTS = Reranking()


@dataclass(frozen=True)
class Reranked:
    """The numbers of queries and pairs, and of the pairs of which only the beginning of the document was read."""

    queries: int
    pairs: int
    truncated: int


@once
def rerank_files(
    model: InputPath, docs: InputPath, queries: InputPath, run: InputPath, output: str, options: Reranking = DEFAULTS
) -> Reranked:
    """Re-ranks the TREC run `run` to `output`, for queries with a text in `queries`; notes go to stderr. A repeated call resumes a
    killed one: finished chunks stay in OUTPUT.parts until the run is complete. Raises InputError for bad input before scoring."""
    return rerank_with(load_scorer, model, docs, queries, run, output, options)


def rerank_with(
    load: Callable[..., Scorer], model: str, docs: str, queries: str, run: str, output: str, options: Reranking
) -> Reranked:
    """`rerank_files` by a model that `load` opens, with the arguments of `load_scorer`."""
    keep_pages()
    keep_compiled()
    o, windows = options, Windows(options.windows) if options.windows else None
    inputs = [] if is_irds(docs) else document_files(docs)
    inputs += [queries if is_irds(queries) else query_file(queries), *map(as_stored, (run, o.only, o.folds))]
    output_path(output, inputs)
    texts = read_queries(queries)
    wanted = chosen_queries(o.only, o.folds, [o.fold] if o.fold else [])
    candidates, left_out = with_texts(read_run(run, wanted), texts, queries)
    documents = Documents.open(docs, o.fields)
    scorer = load(model, o.dtype, o.max_length, o.batch_tokens, o.cosine, o.backend)
    scored = dict.fromkeys(texts, "") if o.blank_query else texts
    chunks = chunks_of(candidates, documents, o.k)
    # The first candidate of every query, then the second, …: the candidates of one query are too similar.
    ranks = zip_longest(*(docids for chunk in chunks for _, docids in chunk))
    checked = (documents[docid] for rank in ranks for docid in rank if docid is not None)
    asked = (texts[qid] for chunk in chunks for qid, _ in chunk)
    for text in (left_out, *scorer.check(asked, checked, o.blank_query)):
        _note(text)
    settings = {
        "files": [model, docs, queries, run],
        "chosen": asdict(o),
        "computed": [type(scorer).__name__, jax.default_backend()],
        "parts": "counts, lines",  # what a part holds
    }
    parts = Parts(output, fingerprint(settings, model, inputs), len(chunks))
    ties = _score(parts, scorer, chunks, scored, documents, windows)
    parts.finish()
    expected = texts if wanted is None else wanted & texts.keys()
    if len(expected) > len(candidates):
        _note(f"{len(expected) - len(candidates)} of {len(expected)} queries have no candidates in the run")
    if scorer.truncated_queries:
        _note(f"the query was truncated in {scorer.truncated_queries} pairs; {scorer.remedy}")
    total = sum(map(size, chunks))
    if scorer.truncated_documents:
        _note(
            f"only the beginning of the document was read in {scorer.truncated_documents} of {total} pairs; "
            "--windows reads more, or a longer --max_length if the model was trained with it"
        )
    _note(ties)
    return Reranked(len(candidates), total, scorer.truncated_documents)


def _score(
    parts: "Parts",
    scorer: Scorer,
    chunks: list[Chunk],
    queries: Mapping[str, str],
    docs: Texts,
    windows: Windows | None,
) -> str:
    """Scores the remaining chunks into `parts`; returns `note_on_ties` on their queries."""
    total, done = sum(map(size, chunks)), sum(map(size, chunks[: parts.done]))
    _note(f"resuming after {done} of {total} pairs, found in {parts.directory}" if done else "")
    scorer.truncated_queries, scorer.truncated_documents = parts.truncated
    ties: Counter[str] = Counter()
    with progress(total=total, initial=done, unit="pairs", desc="rerank") as bar:
        for chunk in chunks[parts.done :]:
            found = list(rerank_chunk(scorer, chunk, queries, docs, windows, bar))
            ties.update(ties_of(found))
            parts.add(found, (scorer.truncated_queries, scorer.truncated_documents))
    return note_on_ties(ties)


def ties_of(rankings: Iterable[ScoredQuery]) -> Iterator[str]:
    """For each query with several candidates, whether "all" their scores are equal, "some", or "none"."""
    for _, docids, scores in rankings:
        if len(docids) > 1:
            distinct = len(np.unique(scores))
            yield "all" if distinct == 1 else "some" if distinct < len(docids) else "none"


def note_on_ties(ties: Counter[str]) -> str:
    """A note on the queries with equal scores, from the counts of `ties_of`; "" if there are none."""
    queries = f"of the {ties.total()} scored queries with several candidates"
    said = [f"all scores are equal for {ties['all']} {queries}"] if ties["all"] else []
    said += [f"some scores are equal for {ties['some']} {queries}"] if ties["some"] else []
    return f"{'; '.join(said)}; documents with equal scores keep the order of the candidates" if said else ""


def _note(text: str) -> None:
    if text:
        print(f"note: {text}", file=sys.stderr)


class Parts:
    """OUTPUT.parts: chunk n of the run as n.trec, and a key that identifies the inputs.

    The first line of a chunk counts the pairs so far with a truncated query, and with a truncated document. Removes parts with
    another key or none. Raises InputError if the directory holds other files, or if another process is writing to it.
    """

    def __init__(self, output: str, key: str, count: int) -> None:
        self.output, self.directory, self.count = output, f"{output}.parts", count
        held = sorted(os.listdir(self.directory)) if os.path.isdir(self.directory) else []
        if foreign := [name for name in held if not OURS.fullmatch(name)]:
            raise InputError(f"{self.directory} holds {foreign[0]}, which is not part of a run; move it away")
        busy = f"another process is writing to {output}; wait for it, or choose another --output"
        self._lock = locked(os.path.join(self.directory, LOCK), busy)
        path = os.path.join(self.directory, KEY)
        if not (os.path.exists(path) and Path(path).read_bytes() == key.encode()):
            self._remove()
            with replacing(path) as file:
                file.write(key)
        self.done = next(n for n in range(count + 1) if n == count or not os.path.exists(self._part(n)))
        self.truncated = (0, 0)
        if self.done:
            with open(self._part(self.done - 1), encoding="utf-8") as part:
                queries, documents = map(int, part.readline().split())
            self.truncated = (queries, documents)

    def _part(self, number: int) -> str:
        return os.path.join(self.directory, f"{number:06d}.trec")

    def add(self, rankings: Iterable[ScoredQuery], truncated: tuple[int, int]) -> None:
        """Writes the next chunk, with the numbers of truncated queries and documents so far."""
        with replacing(self._part(self.done)) as file:
            file.write("{} {}\n".format(*truncated))
            file.writelines(run_lines(rankings))
        self.done += 1

    def finish(self) -> None:
        """Concatenates the chunks into the output and removes them."""
        with replacing(self.output) as whole:
            for number in range(self.count):
                with open(self._part(number), encoding="utf-8") as part:
                    part.readline()
                    shutil.copyfileobj(part, whole)
        self._remove()
        os.remove(os.path.join(self.directory, LOCK))
        os.rmdir(self.directory)
        self._lock.close()

    def _remove(self) -> None:
        """Removes the chunks, then the key: after a kill the rest is still recognised."""
        for name in sorted(os.listdir(self.directory), key=lambda name: (name == KEY, name)):
            if name != LOCK:
                os.remove(os.path.join(self.directory, name))


def fingerprint(settings: Mapping[str, object], model: str, inputs: Iterable[str]) -> str:
    """Hash of everything that scores depend on: settings, and the size, mtime and ctime of each file. Tools that restore
    modification times cannot set the ctime. `model` is a directory, `inputs` are files; missing ones are skipped."""
    weights = [os.path.join(folder, name) for folder, _, names in sorted(os.walk(model)) for name in sorted(names)]
    found = [os.stat(path) for path in (*weights, *inputs) if os.path.exists(path)]
    state = [dict(settings), [(about.st_size, about.st_mtime_ns, about.st_ctime_ns) for about in found]]
    return f"{hash64(json.dumps(state, sort_keys=True, default=str)):016x}"
