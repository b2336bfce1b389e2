"""The query-prediction probe of coarse-tuning: which words does a model expect in a document's query?

Each document's query is replaced by [MASK] tokens (three: ORCAS queries have 3.27 words), which the model's MLM head fills.
The summary counts how often the first guess at each mask continues a word (##), occurs in the part of the document that the
model read, or only in the rest; and, for known queries, how often a guess is a token of one. Probe many documents.
"""

import heapq
import itertools
import json
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
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
from harp_jax.ranking.scorers import single_rows

BATCH, GUESSES = 32, 5  # documents; tokens for each mask


class Probe:
    """A model with an MLM head, from a training workdir or a Hugging Face directory. InputError if it has none."""

    def __init__(self, model: str, masks: int, max_length: int) -> None:
        config, params, self.tokenizer, self.marks = load_ranker(model)
        if "mlm" not in params:
            raise InputError(f"{model} has no MLM head; exports of fine-tuned models lack it, use the training workdir")
        self.masks, self.length = masks, min(max_length, config.max_positions)
        if self.length < max_length:
            say(f"note: --max_length={max_length}, but {model} reads at most {self.length} tokens")
        if self.length < masks + 8:
            raise InputError(f"--max_length={max_length} leaves no room for {masks} masks and a document")
        self._params, network = jax.device_put(params), Ranker(config)
        first = 1 + (self.marks.query >= 0)

        def logits(params: dict, tokens: jax.Array, second: jax.Array, end: jax.Array) -> jax.Array:
            hidden: Any = network.apply({"params": params}, single_rows(tokens, second, end), method="encode")
            positions = jnp.broadcast_to(first + jnp.arange(masks), (BATCH, masks))
            return network.apply({"params": params}, hidden, positions, method="mlm_logits")  # type: ignore[return-value]

        self._logits = jax.jit(logits)

    def read_part(self, documents: list[list[int]]) -> list[list[int]]:
        """The first tokens of each document that fit in a row with the masks."""
        room = self.length - self.tokenizer.template.around_pair - self.masks - len(self.marks.ids)
        return [ids[:room] for ids in documents]

    def predict(self, documents: list[list[int]]) -> np.ndarray:
        """The likeliest tokens at each mask [documents, masks, GUESSES] int, for at most BATCH results of `read_part`."""
        query = self.marks.on_query(np.full(self.masks, self.tokenizer.mask, np.int32))
        pairs = [(query, self.marks.on_document(np.asarray(ids, np.int32))) for ids in documents]
        logits = np.asarray(self._logits(self._params, *pair_rows(pairs, BATCH, self.length, self.tokenizer)))
        return np.argsort(-logits[: len(documents), :, : self.tokenizer.size], axis=-1, kind="stable")[..., :GUESSES]


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
    """Writes the guesses as JSONL, {"id", "predicted"} (tokens, masks × GUESSES) a document, and returns the summary.

    `model` is a training workdir, or a Hugging Face directory with an MLM head. Raises InputError for bad input.
    """
    probe, collection = Probe(model, masks, max_length), Documents.open(docs, fields)
    tokenizer = probe.tokenizer

    # Clicked documents sampled by hash, and the tokens of their queries; any documents if there is no click log.
    clicked = {docid for _, _, docid in sampled_clicks(clicks, 1.0, 0)} if clicks else set()
    eligible = (docid for docid in clicked if docid in collection) if clicked else collection.ids()
    chosen = heapq.nsmallest(documents, eligible, key=lambda docid: hash64(0, "probe", docid))
    if not chosen:
        raise InputError("no clicked document is in --docs; correct one of them")
    known: dict[str, set[str]] = {docid: set() for docid in chosen if docid in clicked}
    for _, query, docid in sampled_clicks(clicks, 1.0, 0) if clicks else ():
        if docid in known:
            known[docid].update(tokenizer.tokens[i] for i in tokenizer.encode(query))

    summary: Counter[str] = Counter()
    rows = iter(progress(chosen, unit="documents", desc="probe"))
    with replacing(output) as file:
        while ids := list(itertools.islice(rows, BATCH)):
            whole = [encoding.ids for encoding in tokenizer.encode_batch([collection[docid] for docid in ids])]
            parts = probe.read_part(whole)
            for docid, guesses, part, all_of_it in zip(ids, probe.predict(parts), parts, whole):
                tokens = [[tokenizer.tokens[i] for i in of_mask] for of_mask in guesses]
                summary["documents"] += 1
                for mask, best in enumerate((int(row[0]) for row in guesses), 1):
                    summary[f"mask {mask}: part of a word"] += bool(tokenizer.continues[best])
                    summary[f"mask {mask}: in the part of the document that was read"] += best in set(part)
                    summary[f"mask {mask}: only in the rest of the document"] += best in set(all_of_it) - set(part)
                if docid in known:
                    summary["with known queries"] += 1
                    first, every = {row[0] for row in tokens}, {token for row in tokens for token in row}
                    summary["a first guess is in a known query"] += bool(first & known[docid])
                    summary["a guess is in a known query"] += bool(every & known[docid])
                file.write(json.dumps({"id": docid, "predicted": tokens}, ensure_ascii=False) + "\n")
    return dict(summary)
