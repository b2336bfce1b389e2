"""Loads a trained ranker and scores pairs (`predict`), a run in memory (`rankings`), or files (`rerank_files`)."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest

import jax
import numpy as np

from harp_jax.base.allocator import keep_pages
from harp_jax.base.cli import keep_compiled
from harp_jax.base.errors import InputError
from harp_jax.base.files import as_stored, full_disk_refused, locked, output_path, replacing
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import Progress, progress
from harp_jax.base.randomness import hash64
from harp_jax.checkpoints.start import load_ranker
from harp_jax.corpus.documents import Documents, Texts
from harp_jax.corpus.paths import document_files, is_irds, query_file
from harp_jax.corpus.text_files import checked_texts
from harp_jax.corpus.trec import Run, ScoredQuery, chosen_queries, read_queries, read_run, run_lines, with_texts
from harp_jax.ranking.options import DEFAULTS, Reranking
from harp_jax.ranking.runtimes import load_runtime
from harp_jax.ranking.scorers import CrossEncoderScorer, Scorer, Windows, best_windows, sentence_encoder

HEAD = "harp rerank "  # the first line of a `Part`, before the hash of its inputs

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

    `cosine` scores with the encoder alone, as a bi-encoder. `backend`: jax, openvino, onnx, or auto (`runtimes`). Raises InputError
    for a dtype that the backend does not support, and if there is no encoder to load.
    """
    if is_neural(directory):
        raise InputError(f"{directory} is a neural ranker; only harp rerank and Reranker.from_pretrained read it")
    if cosine:
        return sentence_encoder(directory, dtype, max_length, batch_tokens, backend)
    config, params, tokenizer, marks = load_ranker(directory)
    if missing := {"pooler", "score"} - set(params):
        raise InputError(
            f"the model has no {' and no '.join(sorted(missing))}: it is an encoder; use a fine-tuned or pre-trained export, or "
            "rank by the encoder's vectors (harp rerank --cosine)"
        )
    runtime = load_runtime(backend, dtype, directory, config, params, tokenizer)
    shape = config if runtime else config.computing_in(dtype)
    return CrossEncoderScorer(shape, params, tokenizer, max_length, batch_tokens, marks, runtime)


def is_neural(directory: str) -> bool:
    """Whether a directory is the workdir of a pre-BERT neural ranker."""
    return os.path.isfile(os.path.join(directory, "tokenizer", "words.json"))


def predict(
    scorer: Scorer, pairs: Iterable[tuple[str, str]], windows: Windows | None = None, bar: Progress | None = None
) -> np.ndarray:
    """Scores [pairs] float32 of (query, document) texts, each text encoded once. InputError for what is not such a pair."""
    if not isinstance(windows, Windows | None):
        raise InputError(f"windows={windows!r}: use Windows(number)")
    pairs = list(pairs) if isinstance(pairs, Iterable) else [pairs]
    for pair in pairs:
        if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
            raise InputError(f"{str(pair)[:60]!r} is not a pair; use a list of (query, document)")
    texts = [checked_texts(name, [pair[side] for pair in pairs]) for side, name in enumerate(("queries", "documents"))]
    queries, documents = (list(dict.fromkeys(each)) for each in texts)
    limit = None if windows is None else windows.reach(scorer.max_length)
    query_ids = dict(zip(queries, scorer.encode_queries(queries)))
    document_ids = dict(zip(documents, scorer.encode_documents(documents, limit)))
    ids = [(query_ids[query], document_ids[document]) for query, document in zip(*texts)]
    return best_windows(scorer, ids, windows, bar)[0]


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
    with progress(total=pairs_in(chunks), unit="pairs", desc="rerank") as bar:
        for chunk in chunks:
            yield from rerank_chunk(scorer, chunk, queries, docs, windows, bar)


def pairs_in(chunks: Sequence[Chunk]) -> int:
    return sum(len(docids) for chunk in chunks for _, docids in chunk)


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
    # Each document is read once, even if several queries have it as a candidate.
    texts = {docid: docs[docid] for docid in dict.fromkeys(docid for _, docids in chunk for docid in docids)}
    pairs = [(queries[qid], texts[docid]) for qid, docids in chunk for docid in docids]
    scores, start = predict(scorer, pairs, windows, bar), 0
    for qid, docids in chunk:
        yield qid, docids, scores[start : start + len(docids)]
        start += len(docids)


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
    killed one: finished chunks stay in OUTPUT.part until the run is complete. Raises InputError for bad input before scoring."""
    return rerank_with(load_scorer, model, docs, queries, run, output, options)


def rerank_with(
    load: Callable[..., Scorer], model: str, docs: str, queries: str, run: str, output: str, options: Reranking
) -> Reranked:
    """`rerank_files` by a model that `load` opens, with the arguments of `load_scorer`."""
    keep_pages()
    keep_compiled()
    o, windows = options, Windows(options.windows) if options.windows else None

    # The queries, their candidates and the documents.
    inputs = [] if is_irds(docs) else document_files(docs)
    inputs += [queries if is_irds(queries) else query_file(queries), *map(as_stored, (run, o.only, o.folds))]
    output_path(output, inputs)
    texts = read_queries(queries)
    wanted = chosen_queries(o.only, o.folds, [o.fold] if o.fold else [])
    candidates, left_out = with_texts(read_run(run, wanted), texts, queries)
    documents = Documents.open(docs, o.fields)
    scorer = load(model, o.dtype, o.max_length, o.batch_tokens, o.cosine, o.backend)
    chunks = chunks_of(candidates, documents, o.k)
    # Checked: the first candidate of every query, then the second, …: the candidates of one query are too similar.
    ranks = zip_longest(*(docids for chunk in chunks for _, docids in chunk))
    checked = (documents[docid] for rank in ranks for docid in rank if docid is not None)
    notes = [left_out, *scorer.check((texts[qid] for chunk in chunks for qid, _ in chunk), checked, o.blank_query)]

    # Scores what an earlier call has not finished. Scores depend on the options, and on the size, mtime and ctime of each file;
    # tools that restore modification times cannot set the ctime.
    weights = [os.path.join(folder, name) for folder, _, names in sorted(os.walk(model)) for name in sorted(names)]
    stats = [os.stat(path) for path in (*weights, *inputs) if os.path.exists(path)]
    computed = [model, docs, queries, run, asdict(o), type(scorer).__name__, jax.default_backend()]
    state = [computed, [(each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in stats]]
    part = Part(output, f"{hash64(json.dumps(state, sort_keys=True)):016x}")
    total, done = pairs_in(chunks), pairs_in(chunks[: part.done])
    notes += [f"resuming after {done} of {total} pairs, found in {part.path}"] if done else []
    for note in filter(None, notes):
        print(f"note: {note}", file=sys.stderr)
    scorer.truncated_queries, scorer.truncated_documents = part.truncated
    scored = dict.fromkeys(texts, "") if o.blank_query else texts
    ties: Counter[str] = Counter()
    with progress(total=total, initial=done, unit="pairs", desc="rerank") as bar:
        for chunk in chunks[part.done :]:
            ranked = list(rerank_chunk(scorer, chunk, scored, documents, windows, bar))
            ties.update(ties_of(ranked))
            part.add(ranked, (scorer.truncated_queries, scorer.truncated_documents))
    part.finish()

    # What the run does not show.
    expected, notes = texts if wanted is None else wanted & texts.keys(), []
    if len(expected) > len(candidates):
        notes.append(f"{len(expected) - len(candidates)} of {len(expected)} queries have no candidates in the run")
    if scorer.truncated_queries:
        notes.append(f"the query was truncated in {scorer.truncated_queries} pairs; {scorer.remedy}")
    if scorer.truncated_documents:
        beginning = f"only the beginning of the document was read in {scorer.truncated_documents} of {total} pairs"
        notes.append(f"{beginning}; --windows reads more, or a longer --max_length if the model was trained with it")
    for note in filter(None, [*notes, note_on_ties(ties)]):
        print(f"note: {note}", file=sys.stderr)
    return Reranked(len(candidates), total, scorer.truncated_documents)


def ties_of(rankings: Iterable[ScoredQuery]) -> Iterator[str]:
    """For each query with several candidates, whether "all" their scores are equal, "some", or "none"."""
    for _, docids, scores in rankings:
        if len(docids) > 1:
            distinct = len(np.unique(scores))
            yield "all" if distinct == 1 else "some" if distinct < len(docids) else "none"


def note_on_ties(ties: Counter[str]) -> str:
    """A note on the queries with equal scores, from the counts of `ties_of`; "" if there are none."""
    queries = f"of the {ties.total()} scored queries with several candidates"
    said = [f"{which} scores are equal for {ties[which]} {queries}" for which in ("all", "some") if ties[which]]
    return f"{'; '.join(said)}; documents with equal scores keep the order of the candidates" if said else ""


class Part:
    """OUTPUT.part: what an interrupted run has finished. The first line identifies the inputs. Each chunk's lines of the run are
    followed by a line, with a tab first, that counts the pairs so far with a truncated query and with a truncated document.

    Starts anew if the file is of other inputs. Raises InputError for any other file, or if another process is writing it.
    """

    def __init__(self, output: str, key: str) -> None:
        self.output, self.path, self.done, self.truncated = output, f"{output}.part", 0, (0, 0)
        output_path(self.path)
        busy = f"another process is writing to {output}; wait for it, or choose another --output"
        self._lock, self._file = locked(os.path.abspath(self.path), busy), open(self.path, "r+b")
        head, first = f"{HEAD}{key}\n".encode(), self._file.readline()
        if not first.startswith(HEAD.encode()) and not head.startswith(first):
            self._lock.close()
            raise InputError(f"{self.path} is not part of a run; move it away")
        end = position = len(first)
        for line in self._file if first == head else ():
            position += len(line)
            if line.startswith(b"\t") and line.endswith(b"\n"):
                queries, documents = map(int, line.split())
                self.done, self.truncated, end = self.done + 1, (queries, documents), position
        self._file.truncate(end if first == head else 0)
        self._file.seek(0, os.SEEK_END)
        if first != head:
            self._file.write(head)

    def add(self, rankings: Iterable[ScoredQuery], truncated: tuple[int, int]) -> None:
        """Writes the next chunk, with the numbers of truncated queries and documents so far."""
        with full_disk_refused(self.path):
            self._file.writelines(line.encode() for line in (*run_lines(rankings), "\t{} {}\n".format(*truncated)))
            self._file.flush()
            os.fsync(self._file.fileno())
        self.done += 1

    def finish(self) -> None:
        """Writes the output and removes the file."""
        self._file.seek(0)
        self._file.readline()
        with replacing(self.output) as whole:
            whole.writelines(line.decode() for line in self._file if not line.startswith(b"\t"))
        os.remove(self.path)
        self._file.close()
        self._lock.close()
