"""A pre-training task in one file: a sentence matches the page of its first link, not that of its last one."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from data_pipeline.engine.job import LINKS, SENTENCES
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import Attempt, Field, Passages, Request, Sentence, Setup, Sides, Task


def requests(sentence: Sentence, setup: Setup) -> Iterator[Attempt]:
    yield sentence.key, partial(request, sentence, setup.c["toy_apart"])


def request(sentence: Sentence, apart: bool, rng: np.random.Generator) -> list[Request]:
    first, last = sentence.anchors[0].destination, sentence.anchors[-1].destination
    if apart and first == last:
        raise NoPair("one-page")
    return [Request("toy", sentence.key, sentence.page, first, sentence.tokens, negative=last)]


def sides(request: Request, passages: Passages, setup: Setup, rng: np.random.Generator) -> Sides:
    return Sides(request.query, passages.positive, (), passages.negative or ())


TASK = Task(
    "toy",
    reads="sentences",
    needs=lambda c: {LINKS, SENTENCES},
    fields={"toy_apart": Field(True, "only sentences that link to two pages")},
    requests=requests,
    sides=sides,
)
