"""Wiki Link Prediction, a control (after Chang et al., ICLR 2020): a sentence of a page matches the pages that link to it."""

from collections.abc import Iterator, Sequence

from numpy.random import Generator

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_PAGES, LINKS, SENTENCE_ENDS
from data_pipeline.links.link_graph import LINKED_SQL
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import Attempt, PairTokens, Passages, Request, Setup, Task

DRAWS = 8  # candidates for a negative; the first that does not link to the query's page is used

# The drawn pages that do not link to A.
NEGATIVES_SQL = """
    SELECT d.task, d.key, d.draw, d.doc AS destination
    FROM draws d LEFT JOIN linked l ON d.doc = l.one AND d.one = l.other
    WHERE d.task = 'wlp' AND l.one IS NULL AND d.doc <> d.one
"""


def attempts(links: Sequence[tables.RankedRow], setup: Setup) -> Iterator[Attempt]:
    """Each page that page B links to; `links`: B's links in order, rows of `ranked`."""
    first: dict[int, tables.RankedRow] = {}
    for link in links:
        first.setdefault(link["destination"], link)
    for at, link in enumerate(first.values()):
        yield f"{link['id']}@{link['link_start']}", (link["id"], link["doc"], list(first), at, link["link_start"])


def request(
    page: str, b: int, destinations: Sequence[int], at: int, number: int, setup: Setup, rng: Generator
) -> list[Request]:
    """Page B, whose first link to A is at `number`, as the positive; the draws for the negative C. A is number `at` of
    `destinations`, the distinct pages that B links to. Candidates for C are the other ones, in random order."""
    a, others = destinations[at], len(destinations) - 1
    if not others:
        raise NoPair("page-has-one-destination")
    drawn = rng.choice(others, size=min(DRAWS, others), replace=False).tolist()
    draws = [{"one": a, "doc": destinations[i + (i >= at)]} for i in drawn]
    return [Request(f"{page}@{number}", page, b, words_of=a, draws=draws)]


def sides(request: Request, passages: Passages, setup: Setup, rng: Generator) -> PairTokens:
    """(s, B) against (s, C): s is a random sentence of A's first section; B links to A, C does not."""
    ends = list(passages.sentences)
    if not ends:
        raise NoPair("page-without-sentences")
    at = int(rng.integers(len(ends)))
    sentence = list(passages.page[ends[at - 1] if at else 0 : ends[at]])
    return PairTokens(sentence, passages.positive, (), passages.negative)


TASK = Task(
    "wlp", reads=tables.RANKED, needs=lambda c: {LINKS, ALL_PAGES, SENTENCE_ENDS}, attempts=attempts, request=request,
    prepare=lambda engine: engine.join(tables.LINKED, LINKED_SQL),
    negatives=lambda c: NEGATIVES_SQL, missing="candidates-all-link-to-the-page", sides=sides,
)  # fmt: skip
