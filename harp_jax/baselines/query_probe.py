"""The query-prediction probe of coarse-tuning: which words does a model expect in a document's query?

Each document's query is replaced by [MASK] tokens (three: ORCAS queries have 3.27 words), which the model's MLM head fills.
The summary counts how often the first guess at each mask continues a word (##), occurs in the part of the document that the
model read, or only in the rest; and, for known queries, how often a guess is a token of one. Probe many documents.
"""

import heapq
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.base.made import InputPath, once
from harp_jax.base.progress import progress, say
from harp_jax.base.randomness import hash64
from harp_jax.checkpoints.start import load_ranker
from harp_jax.corpus.clicks import sampled_clicks
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.input.packing import pair_rows
from harp_jax.model.cross_encoder import Ranker
from harp_jax.text.tokenizer import Tokenizer

BATCH = 32  # documents


class Probe:
    """A model with an MLM head, from a training workdir or a Hugging Face directory. InputError if it has none."""

    def __init__(self, model: str, masks: int = 3, max_length: int = 256) -> None:
        config, params, self.tokenizer, self.marks = load_ranker(model)
        if "mlm" not in params:
            raise InputError(f"{model} has no MLM head; exports of fine-tuned models lack it, use the training workdir")
        self.masks, self.length = masks, min(max_length, config.max_positions)
        if self.length < max_length:
            say(f"note: --max_length={max_length}, but {model} reads at most {self.length} tokens")
        if self.length < masks + 8:
            raise InputError(f"--max_length={max_length} leaves no room for {masks} masks and a document")
        self._params = jax.device_put(
            {name: params[name] for name in params if name in ("encoder", "pooler", "score", "mlm")}
        )
        network = Ranker(config)
        first = 1 + (self.marks.query >= 0)

        def logits(params: dict, batch: dict[str, jax.Array]) -> jax.Array:
            hidden: Any = network.apply({"params": params}, batch, method="encode")
            places = jax.numpy.broadcast_to(first + jax.numpy.arange(masks), (hidden.shape[0], masks))
            return network.apply({"params": params}, hidden, places, method="mlm_logits")  # type: ignore[return-value]

        self._logits = jax.jit(logits)

    def read_part(self, documents: list[list[int]]) -> list[list[int]]:
        """The first tokens of each document that fit in a row with the masks."""
        room = self.length - self.tokenizer.template.around_pair - self.masks - len(self.marks.ids)
        return [ids[:room] for ids in documents]

    def predict(self, documents: list[list[int]], k: int = 5) -> np.ndarray:
        """The `k` likeliest tokens at each mask [documents, masks, k] int, for at most BATCH results of `read_part`."""
        query = self.marks.on_query(np.full(self.masks, self.tokenizer.mask, np.int32))
        shape = (BATCH, self.length)
        tokens = np.full(shape, self.tokenizer.pad, np.int32)
        types, segments = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        pairs = [(query, self.marks.on_document(np.asarray(ids, np.int32))) for ids in documents]
        tokens[: len(pairs)], second, end = pair_rows(pairs, len(pairs), self.length, self.tokenizer)
        column = np.arange(self.length)
        segments[: len(pairs)] = column < end[:, None]
        types[: len(pairs)] = segments[: len(pairs)] * (column >= second[:, None])
        positions = np.broadcast_to(np.arange(self.length, dtype=np.int32), shape)
        batch = {"tokens": tokens, "segment_ids": segments, "position_ids": positions, "token_type_ids": types}
        found = np.asarray(self._logits(self._params, batch))[: len(documents), :, : self.tokenizer.size]
        return np.argsort(-found, axis=-1, kind="stable")[..., :k]


def probe(
    model: Probe, texts: Iterable[tuple[str, str]], known: dict[str, set[str]], summary: Counter[str]
) -> Iterator[dict]:
    """Yields a record for each (docid, text), "id" and "predicted" (tokens, masks × k), and updates the summary."""
    rows = iter(texts)
    while chunk := list(itertools.islice(rows, BATCH)):
        whole = [encoding.ids for encoding in model.tokenizer.encode_batch([text for _, text in chunk])]
        parts = model.read_part(whole)
        for (docid, _), guesses, ids, all_ids in zip(chunk, model.predict(parts), parts, whole):
            tokens = [[model.tokenizer.tokens[i] for i in place] for place in guesses]
            summary["documents"] += 1
            for place, best in enumerate(int(row[0]) for row in guesses):
                summary[f"mask {place + 1}: part of a word"] += bool(model.tokenizer.continues[best])
                summary[f"mask {place + 1}: in the part of the document that was read"] += best in set(ids)
                summary[f"mask {place + 1}: only in the rest of the document"] += best in set(all_ids) - set(ids)
            if docid in known:
                summary["with known queries"] += 1
                summary["a first guess is in a known query"] += bool({row[0] for row in tokens} & known[docid])
                summary["a guess is in a known query"] += bool({t for row in tokens for t in row} & known[docid])
            yield {"id": docid, "predicted": tokens}


def sampled_documents(
    clicks: str, docs: Documents, tokenizer: Tokenizer, count: int
) -> tuple[list[str], dict[str, set[str]]]:
    """Clicked documents sampled by hash, and the tokens of their queries; any documents if there is no click log."""
    clicked = {docid for _, _, docid in sampled_clicks(clicks, 1.0, 0)} if clicks else set()
    eligible = (docid for docid in clicked if docid in docs) if clicked else docs.ids()
    chosen = heapq.nsmallest(count, eligible, key=lambda docid: hash64(0, "probe", docid))
    tokens: dict[str, set[str]] = {docid: set() for docid in chosen if docid in clicked}
    for _, query, docid in sampled_clicks(clicks, 1.0, 0) if clicks else ():
        if docid in tokens:
            tokens[docid].update(tokenizer.tokens[i] for i in tokenizer.encode(query))
    return chosen, tokens


@once
def probe_files(
    *,
    model: InputPath,
    docs: InputPath,
    output: str,
    clicks: InputPath = "",
    documents: int = 1000,
    masks: int = 3,
    max_length: int = 256,
    fields: tuple[str, ...] = FIELDS,
) -> dict[str, int]:
    """Writes the guesses as JSONL, one line per document, and returns the summary.

    `model` is a training workdir, or a Hugging Face directory with an MLM head. Raises InputError for bad input.
    """
    loaded = Probe(model, masks, max_length)
    collection = Documents.open(docs, fields)
    chosen, tokens = sampled_documents(clicks, collection, loaded.tokenizer, documents)
    if not chosen:
        raise InputError("no clicked document is in --docs; correct one of them")
    summary: Counter[str] = Counter()
    with replacing(output) as file:
        texts = ((docid, collection[docid]) for docid in progress(chosen, unit="documents", desc="probe"))
        for record in probe(loaded, texts, tokens, summary):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return dict(summary)
