"""How far the sampling of words (Eq. 3) is from drawing them uniformly, in bits: near 0, the term weights have no effect.

A softmax over shares of attention is .003 bits from uniform on Wikipedia's sentences: weighting="normalised" gives .78.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from data_pipeline.engine.job import Job
from data_pipeline.engine.store import read
from data_pipeline.engine.tables import table, unpack
from data_pipeline.pairs.requests import make_sampler, weighed_sentence
from data_pipeline.tasks.rqp import anchor_words
from data_pipeline.tasks.sampling import NoPair, Sampler, Weighted
from data_pipeline.text.terms import Span, Terms, load_terms
from data_pipeline.weights.word_weights import from_bytes

ROWS = 512  # of each bucket: enough for a mean
UNIT = 1 << 32  # bits are summed as integers, which SQL engines add alike


def measure(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over the buckets of `sentences`: bits and number of the distributions of some sentences and pages."""
    c = job["config"]
    terms = load_terms(c["tokenizer"], c["stopwords"], c["unit"])
    sampler = make_sampler(c, terms)
    found = {"sentence": list(_sentences(job, number, terms, sampler)), "page": list(_pages(job, number, sampler))}
    rows = [dict(source=source, units=round(sum(bits) * UNIT), n=len(bits)) for source, bits in found.items()]
    return {"sharpness": table("sharpness", [row for row in rows if row["n"]])}


def bits_from_uniform(p: np.ndarray) -> float:
    """KL(p ‖ uniform) = log2 n - H(p), for p over n words."""
    positive = p[p > 0]
    return float(np.log2(len(p)) + (positive * np.log2(positive)).sum())


def _sentences(job: Job, number: int, terms: Terms, sampler: Sampler) -> Iterator[float]:
    """Of the context of each sentence's first anchor."""
    sentences = read(job, "sentences", number).slice(0, ROWS).to_pylist()
    weights = read(job, "sentence_weights", number).slice(0, ROWS).to_pylist()
    for row, weight in zip(sentences, weights, strict=True):
        sentence = weighed_sentence(row, weight)
        try:
            anchor = anchor_words(sentence, sentence.anchors[0], terms)
        except NoPair:
            continue
        _, p = sampler.distribution(Weighted(sentence.words, sentence.by_anchor[0]), sampler.outside(anchor))
        if len(p):
            yield bits_from_uniform(p)


def _pages(job: Job, number: int, sampler: Sampler) -> Iterator[float]:
    weights = {row["doc"]: row["weights"] for row in read(job, "passage_weights", number).slice(0, ROWS).to_pylist()}
    for row in read(job, "passages", number, ["doc", "tokens", "lengths"]).slice(0, 2 * ROWS).to_pylist():
        if row["doc"] in weights:
            words = Span(unpack(row["tokens"]), unpack(row["lengths"])).words()
            _, p = sampler.distribution(Weighted(words, from_bytes(weights[row["doc"]])), set())
            if len(p):
                yield bits_from_uniform(p)
