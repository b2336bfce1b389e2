"""The query-prediction probe of coarse-tuning: which words does a model expect in a document's query?

Each clicked document's query is replaced by [MASK] tokens, which the model's MLM head fills. The summary counts how often the
first guess at each mask continues a word (##), occurs in the part of the document that the model read, or only in the rest; and
how often a guess is a token of a query whose users clicked the document. Probe many documents.
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
from harp_jax.corpus.documents import Documents
from harp_jax.input.packing import pair_rows
from harp_jax.model.cross_encoder import Ranker
from harp_jax.ranking.scorers import single_rows

BATCH, GUESSES = 32, 5  # documents; tokens for each mask
MASKS = 3  # in place of a query: those of ORCAS have 3.27 words
LENGTH = 256  # maximum tokens of the whole sequence


@once
def probe_files(model: InputPath, docs: InputPath, clicks: InputPath, documents: int, output: str) -> dict[str, int]:
    """Writes the guesses for so many `documents` of the click log as JSONL, {"id", "predicted"} (tokens, MASKS × GUESSES) each, and
    returns the summary.

    `model` is a training workdir, or a Hugging Face directory with an MLM head. Raises InputError for bad input.
    """
    config, params, tokenizer, marks = load_ranker(model)
    if "mlm" not in params:
        raise InputError(f"{model} has no MLM head; exports of fine-tuned models lack it, use the training workdir")
    if config.max_positions < LENGTH:
        say(f"note: {model} reads at most {config.max_positions} tokens, not {LENGTH}")
    length = min(LENGTH, config.max_positions)

    # Clicked documents sampled by hash, and the tokens of their queries.
    collection = Documents.open(docs)
    clicked = {docid for _, _, docid in sampled_clicks(clicks, 1.0, 0)}
    eligible = (docid for docid in clicked if docid in collection)
    chosen = heapq.nsmallest(documents, eligible, key=lambda docid: hash64(0, "probe", docid))
    if not chosen:
        raise InputError(f"no clicked document of {clicks} is in {docs}; correct one of them")
    asked: dict[str, set[str]] = {docid: set() for docid in chosen}
    for _, query, docid in sampled_clicks(clicks, 1.0, 0):
        if docid in asked:
            asked[docid].update(tokenizer.tokens[i] for i in tokenizer.encode(query))

    # The likeliest tokens at each mask [BATCH, MASKS, GUESSES]; the masks follow [CLS] and the mark of a query.
    network, first = Ranker(config), 1 + (marks.query >= 0)
    masked = marks.on_query(np.full(MASKS, tokenizer.mask, np.int32))
    room = length - tokenizer.template.around_pair - MASKS - len(marks.ids)
    params = jax.device_put(params)

    @jax.jit
    def likeliest(params: dict, tokens: jax.Array, second: jax.Array, end: jax.Array) -> jax.Array:
        hidden: Any = network.apply({"params": params}, single_rows(tokens, second, end), method="encode")
        positions = jnp.broadcast_to(first + jnp.arange(MASKS), (BATCH, MASKS))
        logits: Any = network.apply({"params": params}, hidden, positions, method="mlm_logits")
        return jax.lax.top_k(logits[..., : tokenizer.size], GUESSES)[1]

    summary: Counter[str] = Counter()
    rows = iter(progress(chosen, unit="documents", desc="probe"))
    with replacing(output) as file:
        while ids := list(itertools.islice(rows, BATCH)):
            whole = [encoding.ids for encoding in tokenizer.encode_batch([collection[docid] for docid in ids])]
            pairs = [(masked, marks.on_document(np.asarray(text[:room], np.int32))) for text in whole]
            best = np.asarray(likeliest(params, *pair_rows(pairs, BATCH, length, tokenizer)))
            for docid, guesses, text in zip(ids, best, whole):
                tokens = [[tokenizer.tokens[i] for i in of_mask] for of_mask in guesses]
                summary["documents"] += 1
                for mask, guess in enumerate(guesses[:, 0].tolist(), 1):
                    summary[f"mask {mask}: part of a word"] += bool(tokenizer.continues[guess])
                    summary[f"mask {mask}: in the part of the document that was read"] += guess in text[:room]
                    summary[f"mask {mask}: only in the rest of the document"] += guess in set(text) - set(text[:room])
                firsts, every = {row[0] for row in tokens}, {token for row in tokens for token in row}
                summary["a first guess is in a known query"] += bool(firsts & asked[docid])
                summary["a guess is in a known query"] += bool(every & asked[docid])
                file.write(json.dumps({"id": docid, "predicted": tokens}, ensure_ascii=False) + "\n")
    return dict(summary)
