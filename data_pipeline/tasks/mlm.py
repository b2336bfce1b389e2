"""Running text for masked language modelling (HARP Eq. 15): a page split into pieces of whole sentences."""

from collections.abc import Iterable, Iterator, Sequence

from data_pipeline.engine.job import Job
from data_pipeline.tasks.task import Field, Task
from data_pipeline.weights.wordpieces import running_text
from harp_jax.input.records import TEXT_TASK, TextRecord

FIELDS = {"max_text_tokens": Field(510, "of a piece of running text", (1, 510))}


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
    for page, sentences in running_text(job, number):
        yield from pieces(page, sentences, job["config"]["max_text_tokens"])


TASK = Task(TEXT_TASK, reads="documents", needs=lambda c: set(), fields=FIELDS, records=records)
