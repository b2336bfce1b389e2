"""Running text for masked language modelling (HARP Eq. 15): a page split into pieces of whole sentences."""

from collections.abc import Iterable, Iterator, Sequence

from data_pipeline.engine import tables
from data_pipeline.engine.job import Job
from data_pipeline.tasks.task import Task
from data_pipeline.text.terms import terms_of
from data_pipeline.weights.tokenised import longest, running_text
from harp_jax.input.records import TEXT_TASK, TextRecord


def pieces(page: str, sentences: Iterable[Sequence[int]], limit: int) -> Iterator[TextRecord]:
    """The page's sentences (token ids) in order, as many per piece as fit `limit` tokens; longer sentences are split."""
    number = 0
    piece: list[int] = []
    for sentence in sentences:
        for start in range(0, len(sentence), limit):
            part = sentence[start : start + limit]
            if piece and len(piece) + len(part) > limit:
                yield TextRecord(f"{page}#{number}", page, piece)
                number, piece = number + 1, []
            piece = piece + list(part)
    if piece:
        yield TextRecord(f"{page}#{number}", page, piece)


def records(job: Job, number: int) -> Iterator[TextRecord]:
    c = job.config
    tokenizer = terms_of(c).tokenizer
    limit = longest(c, tokenizer) - tokenizer.template.around_text
    for page, sentences in running_text(job, number):
        yield from pieces(page, sentences, limit)


TASK = Task(TEXT_TASK, reads=tables.DOCUMENTS, needs=lambda c: set(), records=records)
