"""One sentence of the corpus with its term weights and the pairs that were made of it, for reports and `harp inspect`."""

import itertools
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from data_pipeline.engine.job import Engine
from data_pipeline.engine.store import buckets
from data_pipeline.tasks.requests import weighed_sentences
from data_pipeline.tasks.task import Sentence
from data_pipeline.text.terms import load_terms
from harp_jax.input.records import PAIR_FEATURES
from harp_jax.input.tfrecords import tensorflow

LOOKED_AT = 200  # sentences of the first bucket
WORDS = (8, 40)  # of a sentence that is easy to read
LONG = 20  # words that are enough
DOCUMENT_TOKENS = 60  # decoded of a document
PLAIN = re.compile(r"[\w@+./:#%~,;=&?!()* -]*")  # keys that SQL engines read alike in quotes


def worked_example(engine: Engine) -> dict[str, Any] | None:
    """The sentence with pairs of the most tasks among the first ones: "words" [text, weight 0…1, part of an anchor], and "pairs"
    with the texts of both sides, one a task. None for a job without sentences.

    The weight is the first anchor's (HARP Eq. 1), relative to the largest; words that are never sampled have 0.
    """
    job = engine.job
    sentences = list(_sentences(engine))
    by_key = {
        key: number for number, sentence in enumerate(sentences) for key in _keys(sentence) if PLAIN.fullmatch(key)
    }
    if not by_key:
        return None
    listed = ", ".join(f"'{key}'" for key in sorted(by_key))
    found: dict[int, dict[str, tuple[str, bytes]]] = {}
    for task, key, example in engine.query(
        f"SELECT task, key, example FROM records WHERE key IN ({listed})", ["records"]
    ):
        one = found.setdefault(by_key[key], {})
        one[task] = min(one.get(task, (key, bytes(example))), (key, bytes(example)))
    if not found:
        return None
    # Of equals a longer sentence: it has more words to choose from.
    best = min(found, key=lambda number: (-len(found[number]), -min(len(sentences[number].words), LONG), number))
    sentence, c = sentences[best], job["config"]
    terms = load_terms(c["tokenizer"], c["stopwords"], c["unit"])
    decode = terms.tokenizer.decode
    anchored = {place for anchor in sentence.anchors for place in range(anchor.start, anchor.end)}
    weights = np.where([terms.is_term(word) for word in sentence.words], sentence.by_anchor[0], 0.0)
    weights[sorted(anchored)] = 0.0  # Eq. 5: an anchor's words are not sampled
    weights = weights / (weights.max() or 1.0)
    words = [
        [word, round(float(weight), 3), place in anchored]
        for place, (word, weight) in enumerate(zip(sentence.words, weights))
    ]
    pairs = [{"task": task, **_sides(example, decode)} for task, (_, example) in sorted(found[best].items())]
    return {"words": words, "pairs": pairs}


def _sentences(engine: Engine) -> Iterable[Sentence]:
    for number in buckets(engine.job, "sentences")[:1]:
        for sentence in weighed_sentences(engine.job, number, LOOKED_AT):
            if WORDS[0] <= len(sentence.words) <= WORDS[1]:
                yield sentence


def _keys(sentence: Sentence) -> list[str]:
    """The keys that the tasks give to pairs of a sentence."""
    found = [sentence.key, *(sentence.anchor_key(anchor) for anchor in sentence.anchors)]
    pairs = itertools.permutations(sentence.anchors, 2)
    return [*found, *(f"{sentence.anchor_key(one)}+{two.number}" for one, two in pairs)]


def _sides(example: bytes, decode: Any) -> dict[str, str]:
    """The decoded fields of a record; documents are shortened."""
    features = tensorflow().train.Example.FromString(example).features.feature
    found = {}
    for name in PAIR_FEATURES:
        if name in features:
            ids = list(features[name].int64_list.value)
            found[name] = decode(ids[:DOCUMENT_TOKENS]) + (" …" if len(ids) > DOCUMENT_TOKENS else "")
    return found
