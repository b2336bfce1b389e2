"""First stage: BM25 over a collection (bm25s), written as a TREC run of candidates.

    python -m harp_jax.first_stage --docs=docs.tsv --queries=queries.tsv --k=100 --output=bm25.trec

Documents stream in once; the index is held in memory: about 8 bytes a token while it is built and 8 bytes a posting
afterwards (22 M words: 1 GB). Queries that share no term with any document get no candidates and are reported.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from harp_jax.cli import run
from harp_jax.documents import FIELDS, Documents
from harp_jax.errors import InputError
from harp_jax.progress import progress
from harp_jax.trec import read_queries, write_run


class Bm25:
    """BM25 in Lucene's variant over (docid, text) pairs; lower-cased words of two characters and more.

    `stemmer` is the name of a Snowball stemmer, or "" for none; English stopwords are dropped.
    """

    def __init__(
        self, texts: Iterable[tuple[str, str]], k1: float = 0.9, b: float = 0.4, stemmer: str = "english"
    ) -> None:
        import bm25s
        from bm25s.tokenization import Tokenizer

        self.docids: list[str] = []
        self._tokenizer = Tokenizer(stemmer=_stemmer(stemmer), stopwords="english")
        tokens = list(self._tokenizer.streaming_tokenize(self._noting_ids(texts)))
        if not tokens:
            raise InputError("the collection holds no documents; check --docs")
        self._index = bm25s.BM25(k1=k1, b=b, method="lucene")
        self._index.index((tokens, self._tokenizer.get_vocab_dict()), show_progress=False)

    def _noting_ids(self, texts: Iterable[tuple[str, str]]) -> Iterator[str]:
        for docid, text in texts:
            self.docids.append(docid)
            yield text

    def search(self, query: str, k: int) -> tuple[list[str], np.ndarray]:
        """The best `k` documents with a positive score, and their scores; ties in the order of the collection."""
        # update_vocab=False still finds a known stem behind an unknown word; "never" would drop the word.
        ids = next(iter(self._tokenizer.streaming_tokenize([query], update_vocab=False, allow_empty=False)))
        if not ids:
            return [], np.zeros(0, np.float32)
        scores = self._index.get_scores_from_ids(ids)
        best = top(scores, k)
        return [self.docids[i] for i in best], scores[best]


def top(scores: np.ndarray, k: int) -> np.ndarray:
    """Indices of the `k` largest positive scores [n], largest first, ties by index."""
    positive = np.flatnonzero(scores > 0)
    if len(positive) > k:
        threshold = np.partition(scores[positive], len(positive) - k)[len(positive) - k]
        above, level = positive[scores[positive] > threshold], positive[scores[positive] == threshold]
        positive = np.sort(np.concatenate([above, level[: k - len(above)]]))
    return positive[np.argsort(-scores[positive], kind="stable")]


def _stemmer(name: str) -> Any:
    if not name:
        return None
    import Stemmer

    try:
        return Stemmer.Stemmer(name)
    except KeyError:
        raise InputError(
            f"no stemmer {name!r}; choose from {', '.join(Stemmer.algorithms())}, or '' for none"
        ) from None


def main(arguments: argparse.Namespace) -> None:
    if arguments.k < 1:
        raise InputError(f"--k={arguments.k}: give the number of candidates a query, 1 at least")
    queries = read_queries(arguments.queries)
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    texts = progress(docs.texts(), total=len(docs), unit="documents", desc="BM25 index")
    bm25 = Bm25(texts, arguments.k1, arguments.b, arguments.stemmer)
    without: list[str] = []

    def rankings() -> Iterator[tuple[str, list[str], np.ndarray]]:
        for qid, query in progress(queries.items(), total=len(queries), unit="queries", desc="BM25"):
            docids, scores = bm25.search(query, arguments.k)
            if not docids:
                without.append(qid)
            yield qid, docids, scores

    write_run(arguments.output, rankings(), tag="bm25")
    if without:
        shown = ", ".join(without[:5]) + (", …" if len(without) > 5 else "")
        print(f"note: {len(without)} of {len(queries)} queries match no document: {shown}", file=sys.stderr)
    print(f"{arguments.output}: BM25 candidates of {len(queries) - len(without)} queries from {len(docs)} documents")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harp_jax.first_stage", description="BM25 candidates for queries.")
    parser.add_argument("--docs", required=True, help="documents: MS MARCO docs.tsv, or JSONL; may be compressed")
    parser.add_argument("--queries", required=True, help="queries: qid<TAB>text, or JSONL")
    parser.add_argument("--output", required=True, help="the TREC run to write")
    parser.add_argument("--k", type=int, default=100, help="candidates a query (100)")
    parser.add_argument("--k1", type=float, default=0.9, help="saturation of term frequency (0.9)")
    parser.add_argument("--b", type=float, default=0.4, help="length normalisation (0.4)")
    parser.add_argument("--stemmer", default="english", help="Snowball stemmer, '' for none (english)")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are indexed (title,url,body)")
    return parser


if __name__ == "__main__":
    run(main, arguments_parser())
