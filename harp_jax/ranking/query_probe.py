"""The query-prediction probe of coarse-tuning: what does a model expect a document's query to say?

    python -m harp_jax.ranking.query_probe --model=runs/coarse --docs=docs.tsv --output=probe.jsonl --documents=1000

Every document is shown with [MASK] tokens (three: ORCAS queries have 3.27 words) in the place of its query; the model's MLM head
fills them. OUTPUT has a line a document; the summary says how often the first guess at each place begins inside a word (##), is a
word of the document as shown, or of the rest of the document, and, where queries are known (--clicks, or --queries with
--qrels), how often one of the guesses is a word of a real query of that document. One document proves nothing: take many.
"""

import argparse
import heapq
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from harp_jax.checkpoints.encoder import load_encoder, tokenizer_of
from harp_jax.cli import run as run_command
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.trec import read_qrels, read_queries
from harp_jax.errors import InputError
from harp_jax.files import lines, replacing
from harp_jax.model.cross_encoder import Ranker
from harp_jax.progress import progress
from harp_jax.randomness import hash64
from harp_jax.text.marks import recorded_marks
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

BATCH = 32


class Probe:
    """A model with an MLM head: a training workdir, or a Hugging Face directory. InputError for one without a head."""

    def __init__(self, model: str, masks: int = 3, max_length: int = 256) -> None:
        config, params = load_encoder(model)
        if "mlm" not in params:
            raise InputError(
                f"{model} has no MLM head; exports of fine-tuned models lack it, give the training workdir"
            )
        self.tokenizer: Tokenizer = load_tokenizer(tokenizer_of(model))
        self.marks = recorded_marks(model, self.tokenizer)
        self.masks, self.length = masks, min(max_length, config.max_positions)
        if self.length < masks + 8:
            raise InputError(f"--max_length={max_length} leaves no room for {masks} masks and a document")
        self._params = jax.device_put(
            {name: params[name] for name in params if name in ("bert", "pooler", "score", "mlm")}
        )
        network = Ranker(config)
        first = 1 + (self.marks.query >= 0)

        def logits(params: dict, batch: dict[str, jax.Array]) -> jax.Array:
            hidden: Any = network.apply({"params": params}, batch, method="encode")
            places = jax.numpy.broadcast_to(first + jax.numpy.arange(masks), (hidden.shape[0], masks))
            return network.apply({"params": params}, hidden, places, method="mlm_logits")  # type: ignore[return-value]

        self._logits = jax.jit(logits)

    def shown(self, documents: list[list[int]]) -> list[list[int]]:
        """What of each document's tokens fits beside the masks."""
        room = self.length - 3 - self.masks - len(self.marks.ids)
        return [ids[:room] for ids in documents]

    def predict(self, documents: list[list[int]], k: int = 5) -> np.ndarray:
        """The `k` likeliest tokens at each mask [documents, masks, k] int; at most BATCH documents, tokens as `shown`."""
        query = self.marks.on_query(np.full(self.masks, self.tokenizer.mask, np.int32))
        shape = (BATCH, self.length)
        tokens = np.full(shape, self.tokenizer.pad, np.int32)
        types, segments = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        for row, ids in enumerate(documents):
            document = self.marks.on_document(np.asarray(ids, np.int32))
            line = [self.tokenizer.cls, *query, self.tokenizer.sep, *document, self.tokenizer.sep]
            tokens[row, : len(line)], segments[row, : len(line)] = line, 1
            types[row, len(query) + 2 : len(line)] = 1
        positions = np.broadcast_to(np.arange(self.length, dtype=np.int32), shape)
        batch = {"tokens": tokens, "segment_ids": segments, "position_ids": positions, "token_type_ids": types}
        found = np.asarray(self._logits(self._params, batch))[: len(documents), :, : self.tokenizer.size]
        return np.argsort(-found, axis=-1, kind="stable")[..., :k]


def probe(
    model: Probe, texts: Iterable[tuple[str, str]], known: dict[str, set[str]], summary: Counter
) -> Iterator[dict]:
    """A record a document: id, "predicted" (tokens, masks × k); adds to the summary's counts."""
    rows = iter(texts)
    while chunk := list(itertools.islice(rows, BATCH)):
        whole = [encoding.ids for encoding in model.tokenizer.encode_batch([text for _, text in chunk])]
        shown = model.shown(whole)
        for (docid, _), guesses, ids, all_ids in zip(chunk, model.predict(shown), shown, whole):
            tokens = [[model.tokenizer.tokens[i] for i in place] for place in guesses]
            summary["documents"] += 1
            for place, best in enumerate(int(row[0]) for row in guesses):
                summary[f"mask {place + 1}: part of a word"] += model.tokenizer.tokens[best].startswith("##")
                summary[f"mask {place + 1}: in the document as shown"] += best in set(ids)
                summary[f"mask {place + 1}: later in the document"] += best in set(all_ids) - set(ids)
            if docid in known:
                summary["with known queries"] += 1
                summary["a first guess is in a known query"] += bool({row[0] for row in tokens} & known[docid])
                summary["a guess is in a known query"] += bool({t for row in tokens for t in row} & known[docid])
            yield {"id": docid, "predicted": tokens}


def known_pairs(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """(docid, query) that belong together, from a click log or from relevance judgments."""
    if arguments.clicks:
        for number, line in lines(arguments.clicks):
            parts = line.split("\t")
            if line.strip() and len(parts) != 4:
                raise InputError(f"{arguments.clicks}, line {number}: {len(parts)} columns; ORCAS has 4 (tabs)")
            if line.strip():
                yield parts[2].strip(), parts[1]
    elif arguments.qrels:
        queries = read_queries(arguments.queries)
        for qid, levels in read_qrels(arguments.qrels).items():
            yield from ((docid, queries[qid]) for docid, level in levels.items() if level > 0 and qid in queries)


def chosen_documents(
    arguments: argparse.Namespace, docs: Documents, tokenizer: Tokenizer
) -> tuple[list[str], dict[str, set[str]]]:
    """Documents drawn by hash, of those with known queries where there are any; and the tokens of their queries."""
    with_queries = {docid for docid, _ in known_pairs(arguments)}
    there = (docid for docid in with_queries if docid in docs) if with_queries else docs.ids()
    chosen = heapq.nsmallest(arguments.documents, there, key=lambda docid: hash64(arguments.seed, "probe", docid))
    known: dict[str, set[str]] = {docid: set() for docid in chosen if docid in with_queries}
    for docid, query in known_pairs(arguments):
        if docid in known:
            known[docid].update(tokenizer.tokens[i] for i in tokenizer.encode(query))
    return chosen, known


def main(arguments: argparse.Namespace) -> None:
    if bool(arguments.qrels) != bool(arguments.queries) or (arguments.qrels and arguments.clicks):
        raise InputError("give --clicks, or --queries with --qrels, or none of them")
    if arguments.documents < 1 or arguments.masks < 1:
        raise InputError("--documents and --masks: give 1 at least")
    model = Probe(arguments.model, arguments.masks, arguments.max_length)
    docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
    chosen, known = chosen_documents(arguments, docs, model.tokenizer)
    if not chosen:
        raise InputError("no document of the known queries is among --docs; mend either")
    summary: Counter = Counter()
    with replacing(arguments.output) as file:
        texts = ((docid, docs[docid]) for docid in progress(chosen, unit="documents", desc="probe"))
        for record in probe(model, texts, known, summary):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    for what, count in summary.items():
        of = summary["with known queries" if "known query" in what else "documents"]
        print(f"{what}: {count}" + (f" ({count / of:.1%})" if what != "documents" else ""))


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.ranking.query_probe", description="Predicts queries of documents."
    )
    parser.add_argument("--model", required=True, help="training workdir, or Hugging Face directory with an MLM head")
    parser.add_argument("--docs", required=True, help="documents: MS MARCO docs.tsv, JSONL, a folder of either")
    parser.add_argument("--fields", default=",".join(FIELDS), help="document fields that are read (title,url,body)")
    parser.add_argument("--documents", type=int, default=1000, help="how many, drawn by hash (1000)")
    parser.add_argument("--masks", type=int, default=3, help="[MASK] tokens in the place of the query (3)")
    parser.add_argument("--max_length", type=int, default=256, help="tokens of the whole sequence (256)")
    parser.add_argument("--clicks", default="", help="ORCAS: queries that are known; its documents are probed")
    parser.add_argument("--queries", default="", help="with --qrels: queries that are known")
    parser.add_argument("--qrels", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", required=True, help="JSONL to write: a line a document")
    return parser


if __name__ == "__main__":
    run_command(main, arguments_parser())
