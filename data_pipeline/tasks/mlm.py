"""Running text for masked language modelling (HARP Eq. 15): a page split into pieces of whole sentences."""

from collections.abc import Iterable, Sequence

from harp_jax.input.records import TEXT_TASK, TextRecord

TASK = TEXT_TASK


def pieces(page: str, sentences: Iterable[Sequence[int]], limit: int) -> Iterable[TextRecord]:
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
