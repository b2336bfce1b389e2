"""Re-ranking: a cross-encoder scores every candidate of a run, and a run comes out.

    python -m harp_jax.ranking.rerank --model=HF_DIR --docs=docs.tsv --queries=queries.tsv --run=bm25.trec --output=run.trec

From Python: `Reranker.from_pretrained(directory).rerank(query, documents)` (`reranker.py`). Needs neither torch nor
TensorFlow. The same command again goes on where a killed one was: what is scored lies in OUTPUT.parts until all is.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import jax
import numpy as np

from harp_jax.allocator import keep_pages
from harp_jax.cli import keep_compiled
from harp_jax.cli import run as run_command
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.folds import in_folds, read_folds
from harp_jax.corpus.trec import Run, read_ids, read_queries, read_run
from harp_jax.errors import InputError
from harp_jax.progress import progress
from harp_jax.ranking.maxp import Windows, best_of
from harp_jax.ranking.parts import Parts, fingerprint
from harp_jax.ranking.reranker import Reranker

__all__ = ["Reranker", "rerank_run"]

Rankings = Iterator[tuple[str, list[str], np.ndarray]]
Chunk = list[tuple[str, list[str]]]  # (qid, its candidates)


def pairs_at_once() -> int:
    """Candidates that are sorted by length together, their texts in memory; what a kill can lose."""
    return 5_000 if jax.default_backend() == "cpu" else 50_000


def load(directory: str, dtype: str = "float32", **options: Any) -> Any:
    """The model of an export (`Reranker`), or of the training workdir of a neural ranker (`neural_ir`), float32 only."""
    if os.path.isfile(os.path.join(directory, "tokenizer", "words.json")):
        if dtype != "float32":
            raise InputError(
                f"--dtype={dtype}: {directory} is a neural ranker, which computes in float32; leave it out"
            )
        from harp_jax.ranking.neural_reranker import NeuralReranker

        return NeuralReranker.from_workdir(directory, **options)
    return Reranker.from_pretrained(directory, dtype, **options)


def rerank_run(
    reranker: Any,
    run: Run,
    queries: dict[str, str],
    docs: Documents,
    k: int | None = None,
    windows: Windows | None = None,
) -> Rankings:
    """(qid, docids, scores) of the best `k` candidates of each query, in the order of the run.

    Raises InputError, before anything is scored, for a query or document that the run names and nobody knows.
    """
    chunks = chunks_of(run, queries, docs, k)
    with progress(
        total=sum(len(docids) for chunk in chunks for _, docids in chunk), unit="pairs", desc="rerank"
    ) as bar:
        for chunk in chunks:
            yield from rerank_chunk(reranker, chunk, queries, docs, windows, bar)


def chunks_of(run: Run, queries: dict[str, str], docs: Documents, k: int | None) -> list[Chunk]:
    """The work in portions of whole queries, a pure function of the run: a resumed run forms the same batches."""
    candidates = {qid: ranking.ranked()[:k] for qid, ranking in run.items()}
    _check_known(candidates, queries, docs)
    return list(_chunks(candidates))


def _check_known(candidates: dict[str, list[str]], queries: dict[str, str], docs: Documents) -> None:
    unknown = [qid for qid in candidates if qid not in queries]
    if unknown:
        raise InputError(
            f"the run names {len(unknown)} queries that --queries lacks, {unknown[0]} first; mend one of them"
        )
    seen: set[str] = set()
    absent: list[tuple[str, str]] = []
    for qid, docids in candidates.items():
        for docid in docids:
            if docid not in seen and docid not in docs:
                absent.append((docid, qid))
            seen.add(docid)
    if absent:
        docid, qid = absent[0]
        raise InputError(
            f"the run names {len(absent)} documents that {docs.path} lacks, {docid} first (query {qid}); mend either"
        )


def _chunks(candidates: dict[str, list[str]]) -> Iterator[Chunk]:
    chunk: Chunk = []
    pairs, enough = 0, pairs_at_once()
    for item in candidates.items():
        chunk.append(item)
        pairs += len(item[1])
        if pairs >= enough:
            yield chunk
            chunk, pairs = [], 0
    if chunk:
        yield chunk


def rerank_chunk(
    reranker: Any, chunk: Chunk, queries: dict[str, str], docs: Documents, windows: Windows | None, bar: Any
) -> Rankings:
    """(qid, docids, scores) of a chunk's candidates, scored together."""
    # A document that several queries ask for is read and tokenised once.
    wanted = list(dict.fromkeys(docid for _, docids in chunk for docid in docids))
    limit = None if windows is None else windows.reach(reranker.max_length)
    documents = dict(zip(wanted, reranker.encode_documents([docs[docid] for docid in wanted], limit)))
    encoded = reranker.encode_queries([queries[qid] for qid, _ in chunk])
    pairs = [(query, documents[docid]) for query, (_, docids) in zip(encoded, chunk) for docid in docids]
    scores = best_of(reranker, pairs, windows, bar)
    start = 0
    for qid, docids in chunk:
        yield qid, docids, scores[start : start + len(docids)]
        start += len(docids)


@dataclass
class Ties:
    """Counts queries of which all candidates score the same: the run's order stays, whatever it came from."""

    tied: int = 0
    queries: int = 0  # with more than one candidate

    def counted(self, rankings: Rankings) -> Rankings:
        """The rankings as they are."""
        for qid, docids, scores in rankings:
            if len(docids) > 1:
                self.queries += 1
                self.tied += bool(np.ptp(scores) == 0)
            yield qid, docids, scores


def check_neural(reranker: Any, chunks: list[Chunk], queries: dict[str, str], docs: Documents, blank: bool) -> None:
    """What `NeuralReranker.check` has to say of the work, before it begins: a resumed run is told the same."""
    asked = (queries[qid] for chunk in chunks for qid, _ in chunk)
    # The first of every query, then the second: candidates of one query alone are much alike.
    ranks = zip_longest(*(docids for chunk in chunks for _, docids in chunk))
    documents = (docs[docid] for rank in ranks for docid in rank if docid is not None)
    for note in reranker.check(asked, documents, blank):
        print(f"note: {note}", file=sys.stderr)


def chosen_queries(arguments: argparse.Namespace) -> set[str] | None:
    """The queries to re-rank: those of a list, of a fold, or all (None)."""
    if bool(arguments.folds) != bool(arguments.fold) or (arguments.fold and arguments.only):
        raise InputError("give --only, or --folds with --fold, or none of them")
    if arguments.fold:
        return in_folds(read_folds(arguments.folds), [arguments.fold], arguments.folds)
    return set(read_ids(arguments.only)) if arguments.only else None


def main(arguments: argparse.Namespace) -> None:
    keep_pages()
    for option in ("max_length", "batch_tokens", "k", "windows", "window", "stride"):
        if getattr(arguments, option) is not None and getattr(arguments, option) < 1:
            raise InputError(f"--{option}={getattr(arguments, option)}: give a positive number")
    if arguments.windows is None and (arguments.window or arguments.stride):
        raise InputError("--window and --stride need --windows, the number of windows at most")
    windows = None
    if arguments.windows is not None:
        windows = Windows(arguments.windows, arguments.window or 0, arguments.stride or 0)
    keep_compiled()
    queries = read_queries(arguments.queries)
    only = chosen_queries(arguments)
    run = read_run(arguments.run, only)
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    reranker = load(
        arguments.model, arguments.dtype, max_length=arguments.max_length, batch_tokens=arguments.batch_tokens
    )
    asked = dict.fromkeys(queries, "") if arguments.blank_query else queries
    chunks = chunks_of(run, queries, docs, arguments.k)
    if hasattr(reranker, "check"):
        check_neural(reranker, chunks, queries, docs, arguments.blank_query)
    parts = Parts(arguments.output, fingerprint(arguments, jax.default_backend()), len(chunks))
    total = sum(len(docids) for chunk in chunks for _, docids in chunk)
    done = sum(len(docids) for chunk in chunks[: parts.done] for _, docids in chunk)
    if done:
        print(f"note: going on after {done} of {total} pairs, found in {parts.directory}", file=sys.stderr)
    ties = Ties()
    with progress(total=total, initial=done, unit="pairs", desc="rerank") as bar:
        for chunk in chunks[parts.done :]:
            parts.add(ties.counted(rerank_chunk(reranker, chunk, asked, docs, windows, bar)))
    parts.finish()
    if only is not None:
        queries = {qid: text for qid, text in queries.items() if qid in only}
    if len(queries) > len(run):
        print(
            f"note: {len(queries) - len(run)} of {len(queries)} queries have no candidates in the run", file=sys.stderr
        )
    if reranker.cut_queries:
        print(f"note: the query was cut in {reranker.cut_queries} pairs; {reranker.remedy}", file=sys.stderr)
    if ties.tied:
        print(
            f"note: all scores are equal for {ties.tied} of the {ties.queries} queries scored that have several candidates; "
            "they keep the order of the run",
            file=sys.stderr,
        )
    print(f"{arguments.output}: {len(run)} queries re-ranked by {os.path.normpath(arguments.model)}")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.ranking.rerank", description="Re-ranks the candidates of a run."
    )
    parser.add_argument(
        "--model", required=True, help="an export (Hugging Face directory), or a neural ranker's workdir"
    )
    parser.add_argument("--docs", required=True, help="documents: MS MARCO docs.tsv, or JSONL; may be compressed")
    parser.add_argument("--queries", required=True, help="queries: qid<TAB>text, or JSONL")
    parser.add_argument("--run", required=True, help="candidates: a TREC run, or MS MARCO's three columns")
    parser.add_argument("--output", required=True, help="the TREC run to write")
    parser.add_argument("--max_length", type=int, help="tokens of query and document together (as in training)")
    parser.add_argument("--windows", type=int, help="MaxP: score at most so many windows of a document, keep the best")
    parser.add_argument("--window", type=int, help="tokens of a window (what the query leaves of --max_length)")
    parser.add_argument("--stride", type=int, help="tokens from one window to the next (half a window)")
    parser.add_argument("--blank_query", action="store_true", help="prior: score documents without their query")
    parser.add_argument("--only", default="", help="a file whose lines begin with the query ids to re-rank (all)")
    parser.add_argument("--folds", default="", help="qid<TAB>fold, with --fold: the fold whose queries are re-ranked")
    parser.add_argument("--fold", default="")
    parser.add_argument("--k", type=int, help="re-rank and keep the best k candidates of each query (all)")
    parser.add_argument("--batch_tokens", type=int, help="slots of a batch (4096 on CPU, 65536 on accelerators)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    parser.add_argument(
        "--dtype", default="float32", choices=("float32", "bfloat16"), help="of the computation (float32)"
    )
    return parser


if __name__ == "__main__":
    run_command(main, arguments_parser())
