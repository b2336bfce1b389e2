"""Re-ranking: a cross-encoder scores every candidate of a run, and a run comes out.

    python -m harp_jax.rerank --model=HF_DIR --docs=docs.tsv --queries=queries.tsv --run=bm25.trec --output=run.trec

From Python: `Reranker.from_pretrained(directory).rerank(query, documents)`. Needs neither torch nor TensorFlow. Pairs
are sorted by length and scored in batches of a few static shapes, so that little is padded and little is compiled.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from harp_jax.bert import BertConfig
from harp_jax.cli import run as run_command
from harp_jax.documents import FIELDS, Documents
from harp_jax.errors import InputError
from harp_jax.heads import Ranker
from harp_jax.huggingface import check_vocabulary, load_hf
from harp_jax.packing import fit
from harp_jax.progress import progress
from harp_jax.tokenizer import Tokenizer, load_tokenizer
from harp_jax.trec import Run, read_queries, read_run, write_run

# Row lengths that are compiled; finer steps pad less and compile more.
LENGTHS = (32, 64, 96, 128, 160, 192, 256, 320, 384, 448, 512)
PAIRS_AT_ONCE = 20_000  # of the command: sorted by length together, their texts in memory

Pair = tuple[np.ndarray, np.ndarray]  # token ids of query and document, cut to fit


class Reranker:
    """A cross-encoder that scores (query, document) pairs.

    `max_length` counts tokens with [CLS] and both [SEP]; `batch_tokens` slots go through the encoder at a time. Only
    the document is cut, unless the query alone nearly fills the row (`packing.fit`, the same as in training).
    """

    def __init__(
        self,
        config: BertConfig,
        params: dict[str, Any],
        tokenizer: Tokenizer,
        max_length: int | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        missing = {"pooler", "score"} - set(params)
        if missing:
            raise InputError(
                f"the model has no {' and no '.join(sorted(missing))}; give a fine-tuned or pre-trained export"
            )
        self.config, self.tokenizer = config, tokenizer
        self.max_length = max_length or min(512, config.max_positions)
        if not 8 <= self.max_length <= config.max_positions:
            raise InputError(f"max_length={self.max_length}: the model takes 8 to {config.max_positions} tokens")
        # A CPU's caches like small batches, an accelerator needs large ones to be busy.
        self.batch_tokens = batch_tokens or (4096 if jax.default_backend() == "cpu" else 65536)
        self.lengths = (*(n for n in LENGTHS if n < self.max_length), self.max_length)
        self.cut_queries = 0
        self._params = jax.device_put({name: params[name] for name in ("bert", "pooler", "score")})
        self._score = jax.jit(partial(_score, config))

    @classmethod
    def from_pretrained(cls, directory: str, dtype: str = "float32", **options: Any) -> "Reranker":
        """Loads a Hugging Face directory with a one-label classifier, such as `harp_jax.export` writes."""
        config, params = load_hf(directory)
        tokenizer = load_tokenizer(directory)
        check_vocabulary(tokenizer, config, directory)
        return cls(config.computing_in(dtype), params, tokenizer, **options)

    def rerank(self, query: str, documents: Sequence[str]) -> np.ndarray:
        """Relevance scores [documents] float32 in the given order; larger is better."""
        if isinstance(documents, str):
            raise TypeError("documents is one string; give a list of them")
        ids = self.encode_documents(list(documents))
        return self.score([self.pair(np.asarray(self.tokenizer.encode(query), np.int32), d) for d in ids])

    def encode_documents(self, texts: list[str]) -> list[np.ndarray]:
        """Token ids of each text, as many as a row can take."""
        return [np.asarray(ids, np.int32) for ids in self.tokenizer.encode_prefixes(texts, self.max_length)]

    def pair(self, query: np.ndarray, document: np.ndarray) -> Pair:
        """Cuts the two to the row."""
        fitted = fit(query, document, self.max_length)
        self.cut_queries += len(fitted[0]) < len(query)
        return fitted

    def score(self, pairs: list[Pair], bar: Any = None) -> np.ndarray:
        """Scores [pairs] float32. All batches are sent before the first result is waited for."""
        sizes = np.array([len(query) + len(document) + 3 for query, document in pairs], np.int64)
        waiting = np.argsort(-sizes, kind="stable")
        sent: list[tuple[np.ndarray, jax.Array]] = []
        while len(waiting):
            length = next(n for n in self.lengths if n >= sizes[waiting[0]])
            rows = min(max(1, self.batch_tokens // length), 1 << max(3, int(len(waiting) - 1).bit_length()))
            chosen, waiting = waiting[:rows], waiting[rows:]
            sent.append((chosen, self._score(self._params, *self._batch([pairs[i] for i in chosen], rows, length))))
        scores = np.zeros(len(pairs), np.float32)
        for chosen, result in sent:
            scores[chosen] = np.asarray(result)[: len(chosen)]
            if bar is not None:
                bar.update(len(chosen))
        return scores

    def _batch(self, pairs: list[Pair], rows: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """tokens [rows, length], start of the document and end of the sequence [rows], int32; spare rows end at 0."""
        tokens = np.full((rows, length), self.tokenizer.pad, np.int32)
        second, end = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
        for row, (query, document) in enumerate(pairs):
            q, n = len(query) + 2, len(query) + len(document) + 3
            tokens[row, 0] = self.tokenizer.cls
            tokens[row, 1 : q - 1] = query
            tokens[row, q - 1] = self.tokenizer.sep
            tokens[row, q : n - 1] = document
            tokens[row, n - 1] = self.tokenizer.sep
            second[row], end[row] = q, n
        return tokens, second, end


def _score(config: BertConfig, params: dict, tokens: jax.Array, second: jax.Array, end: jax.Array) -> jax.Array:
    """Scores [rows] of one sequence a row; segments, positions and types are made on the device."""
    jnp = jax.numpy
    position = jnp.broadcast_to(jnp.arange(tokens.shape[1], dtype=jnp.int32), tokens.shape)
    real = position < end[:, None]
    batch = {
        "tokens": tokens,
        "segment_ids": real.astype(jnp.int32),
        "position_ids": position,
        "token_type_ids": (real & (position >= second[:, None])).astype(jnp.int32),
    }
    model = Ranker(config)
    first = jnp.zeros((tokens.shape[0], 1), jnp.int32)
    # Of the last layer [CLS] alone is needed.
    cls = model.apply({"params": params}, batch, True, first, method="encode")
    scores: Any = model.apply({"params": params}, cls, first, method="scores")
    return scores[:, 0]


def rerank_run(
    reranker: Reranker, run: Run, queries: dict[str, str], docs: Documents, k: int | None = None
) -> Iterator[tuple[str, list[str], np.ndarray]]:
    """(qid, docids, scores) of the best `k` candidates of each query, in the order of the run.

    Raises InputError, before anything is scored, for a query or document that the run names and nobody knows.
    """
    candidates = {qid: ranking.ranked()[:k] for qid, ranking in run.items()}
    _check_known(candidates, queries, docs)
    total = sum(map(len, candidates.values()))
    with progress(total=total, unit="pairs", desc="rerank") as bar:
        for chunk in _chunks(candidates):
            yield from _rerank_chunk(reranker, chunk, queries, docs, bar)


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


def _chunks(candidates: dict[str, list[str]]) -> Iterator[list[tuple[str, list[str]]]]:
    """Whole queries, about PAIRS_AT_ONCE candidates at a time."""
    chunk: list[tuple[str, list[str]]] = []
    pairs = 0
    for item in candidates.items():
        chunk.append(item)
        pairs += len(item[1])
        if pairs >= PAIRS_AT_ONCE:
            yield chunk
            chunk, pairs = [], 0
    if chunk:
        yield chunk


def _rerank_chunk(
    reranker: Reranker, chunk: list[tuple[str, list[str]]], queries: dict[str, str], docs: Documents, bar: Any
) -> Iterator[tuple[str, list[str], np.ndarray]]:
    # A document that several queries ask for is read and tokenised once.
    wanted = list(dict.fromkeys(docid for _, docids in chunk for docid in docids))
    documents = dict(zip(wanted, reranker.encode_documents([docs[docid] for docid in wanted])))
    encoded = reranker.tokenizer.encode_batch([queries[qid] for qid, _ in chunk])
    pairs = [
        reranker.pair(np.asarray(query.ids, np.int32), documents[docid])
        for query, (_, docids) in zip(encoded, chunk)
        for docid in docids
    ]
    scores = reranker.score(pairs, bar)
    start = 0
    for qid, docids in chunk:
        yield qid, docids, scores[start : start + len(docids)]
        start += len(docids)


def main(arguments: argparse.Namespace) -> None:
    for option in ("max_length", "batch_tokens", "k"):
        if getattr(arguments, option) is not None and getattr(arguments, option) < 1:
            raise InputError(f"--{option}={getattr(arguments, option)}: give a positive number")
    queries = read_queries(arguments.queries)
    run = read_run(arguments.run)
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    reranker = Reranker.from_pretrained(
        arguments.model, arguments.dtype, max_length=arguments.max_length, batch_tokens=arguments.batch_tokens
    )
    write_run(arguments.output, rerank_run(reranker, run, queries, docs, arguments.k))
    if len(queries) > len(run):
        print(
            f"note: {len(queries) - len(run)} of {len(queries)} queries have no candidates in the run", file=sys.stderr
        )
    if reranker.cut_queries:
        print(f"note: the query was cut in {reranker.cut_queries} pairs; raise --max_length", file=sys.stderr)
    print(f"{arguments.output}: {len(run)} queries re-ranked by {os.path.normpath(arguments.model)}")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harp_jax.rerank", description="Re-ranks the candidates of a run.")
    parser.add_argument("--model", required=True, help="Hugging Face directory, such as harp_jax.export writes")
    parser.add_argument("--docs", required=True, help="documents: MS MARCO docs.tsv, or JSONL; may be compressed")
    parser.add_argument("--queries", required=True, help="queries: qid<TAB>text, or JSONL")
    parser.add_argument("--run", required=True, help="candidates: a TREC run, or MS MARCO's three columns")
    parser.add_argument("--output", required=True, help="the TREC run to write")
    parser.add_argument("--max_length", type=int, help="tokens of query and document together (512, or the model's)")
    parser.add_argument("--k", type=int, help="re-rank and keep the best k candidates of each query (all)")
    parser.add_argument("--batch_tokens", type=int, help="slots of a batch (4096 on CPU, 65536 on accelerators)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    parser.add_argument(
        "--dtype", default="float32", choices=("float32", "bfloat16"), help="of the computation (float32)"
    )
    return parser


if __name__ == "__main__":
    run_command(main, arguments_parser())
