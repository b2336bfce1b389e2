"""A control for ADP without links: a page's title matches its text, not a page that shares the title's words."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_PAGES, LINKS, Config
from data_pipeline.engine.tables import Row
from data_pipeline.tasks import hard_negatives
from data_pipeline.tasks.adp import sides
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import Attempt, Request, Setup, Task


def each_page(
    request: Callable[[Row, Setup, np.random.Generator], list[Request]], page: Row, setup: Setup
) -> Iterator[Attempt]:
    """A `request` for each page, or only for each linked page (`text_pages`)."""
    if page["in_links"] or setup.c["text_pages"] == "all":
        yield page["id"], partial(request, page, setup)


def request(page: Row, setup: Setup, rng: np.random.Generator) -> list[Request]:
    """The title, without its punctuation; BM25 finds the negatives."""
    ((span, _, _),) = setup.terms.split([page["title"]], setup.c["max_query_tokens"])
    words = [word for word in span.words if setup.terms.has_content(word)]
    if not words:
        raise NoPair("title-without-words")
    return [Request(TASK.name, page["id"], page["id"], page["doc"], setup.terms.ids(words), words)]


def needs(c: Config) -> set[str]:
    return {LINKS, *([ALL_PAGES] if c["text_pages"] == "all" else [])}


TASK = Task(
    "title", reads=tables.PASSAGES, needs=needs, fields=hard_negatives.FIELDS, requests=partial(each_page, request),
    prepare=partial(hard_negatives.prepare, task="title", popular=False), sides=sides,
)  # fmt: skip
