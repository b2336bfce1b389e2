"""POST /rerank in the shape of Text Embeddings Inference, so that a client can be tried before the export is served by it.

    {"query": "…", "texts": ["…", "…"], "raw_scores": false, "return_text": false, "truncate": false}
    [{"index": 1, "score": 0.98}, {"index": 0, "score": 0.02}]

Scores are sigmoids of the model's logits, or the logits themselves (`raw_scores`), best first. Without `truncate` a text that the
model cannot read whole is refused. Unknown fields are ignored. One difference: 1000 texts a request, not 32.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from harp_jax.look.bodies import RequestError, encodable, flag_field, text_field
from harp_jax.ranking.scoring import Scorer

MOST_TEXTS = 1000
LONGEST_QUERY = 10_000  # characters


@dataclass(frozen=True)
class RerankRequest:
    """A checked request."""

    query: str
    texts: list[str]
    raw_scores: bool
    return_text: bool
    truncate: bool


def parse(found: dict[str, Any]) -> RerankRequest:
    """The request in a JSON object. Raises RequestError: 422 for wrong types, 400 for no texts, 413 for too many."""
    query = text_field(found, "query", LONGEST_QUERY)
    texts = found.get("texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RequestError(
            422, "Validation", "`texts` must be a list of texts" + ("" if "texts" in found else "; it is absent")
        )
    if not texts:
        raise RequestError(400, "Empty", "`texts` cannot be empty")
    if len(texts) > MOST_TEXTS:
        raise RequestError(413, "Validation", f"batch size {len(texts)} > maximum allowed batch size {MOST_TEXTS}")
    if str(found.get("truncation_direction") or "right").lower() != "right":
        raise RequestError(422, "Validation", "`truncation_direction` must be right: models read the start of a text")
    flags = {name: flag_field(found, name) for name in ("raw_scores", "return_text", "truncate")}
    return RerankRequest(query, [encodable(text, "texts") for text in texts], **flags)


def rerank(scorer: Scorer, request: RerankRequest) -> list[dict[str, Any]]:
    """The answer, best first; ties in the order of the texts. Raises RequestError 413 for a text that is too long."""
    (query,) = scorer.encode_queries([request.query])
    documents = scorer.encode_documents(request.texts, scorer.max_length + 1)
    room = scorer.room(query)
    long = [number for number, document in enumerate(documents) if len(document) > room]
    if long and not request.truncate:
        raise RequestError(
            413,
            "Validation",
            f"texts[{long[0]}] has more than the {room} tokens that the model reads with this query; set `truncate`",
        )
    logits = scorer.score([scorer.pair(query, document) for document in documents]).astype(np.float64)
    scores = logits if request.raw_scores else 0.5 * (1.0 + np.tanh(0.5 * logits))  # the sigmoid, without overflow
    order = np.argsort(-logits, kind="stable").tolist()
    answer: list[dict[str, Any]] = [{"index": place, "score": float(scores[place])} for place in order]
    return [{**hit, "text": request.texts[hit["index"]]} for hit in answer] if request.return_text else answer
