"""Anchor Co-occurrence Modeling (HARP 3.2.4): words of a page match another page linked in the same sentence."""

import itertools
from collections.abc import Iterator

from numpy.random import Generator

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_PAGES, LINKS, SENTENCES, Config
from data_pipeline.links.link_graph import COLINKED_SQL
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.tasks.task import Anchor, Attempt, PairTokens, Passages, Request, Sentence, Setup, Task
from harp_jax.config import Field

FIELDS = {
    "acm_pairs": Field(
        "both",
        'pairs of a sentence: two random anchors with different pages, in "both" directions or in one ("sampled", the paper); or '
        '"all" pairs, the earlier anchor giving the query, also of links to one page (the authors\' code)',
        ("both", "sampled", "all"),
    ),
    "acm_max_tokens": Field(
        0, "maximum tokens of ACM's queries and documents; 0: as in the other tasks (authors' code: 250)", (0, 1 << 20)
    ),
    "acm_negative": Field(
        "linked",
        'negatives: any link destination, one of similar "in_links", or any page of the "corpus"',
        ("linked", "in_links", "corpus"),
    ),
    "acm_exclude_colinked": Field(True, "exclude negatives that occur with P1 in the links of one sentence"),
}
DRAWS = 8  # candidates for a negative; the first that is not co-linked is used


def attempts(sentence: Sentence, setup: Setup) -> Iterator[Attempt]:
    """Pairs of anchors; the first provides the query. "both" makes twice as many pairs as RDP, as the paper's Table 1 has."""
    if setup.c["acm_pairs"] == "all":
        for one, two in itertools.combinations(range(len(sentence.anchors)), 2):
            yield f"{sentence.key}+{one}+{two}", (sentence, (one, two))
        return
    anchors, rng = sentence.anchors, setup.rng("acm-pair", sentence.key, "request")
    if len({anchor.destination for anchor in anchors}) < 2:
        return
    # Uniform over all ordered pairs of anchors with different pages.
    one = two = 0
    while anchors[one].destination == anchors[two].destination:
        one, two = rng.integers(len(anchors), size=2).tolist()
    for direction in ((one, two), (two, one))[: 1 if setup.c["acm_pairs"] == "sampled" else 2]:
        yield f"{sentence.key}+{direction[0]}", (sentence, direction)


def negative_places(setup: Setup, positive: Anchor, rng: Generator) -> list[int]:
    """DRAWS places among the candidates: uniform, or with "in_links" near the positive's, where in-links are about equal.
    Candidates are ordered by in-links; "near" means within 1 % of all candidates, but at least 50 places."""
    low, high = (0 if setup.c["acm_negative"] == "corpus" else setup.unlinked), setup.candidates
    if setup.c["acm_negative"] == "in_links":
        reach = max(50, (high - low) // 100)
        low, high = max(low, positive.place - reach), min(high, positive.place + reach + 1)
    return rng.integers(low, high, size=DRAWS).tolist()


def request(sentence: Sentence, pair: tuple[int, int], setup: Setup, rng: Generator) -> list[Request]:
    """The query is from (a1, P1), P2 is the positive page; the negative is one of the draws (Eq. 14)."""
    one, two = sentence.anchors[pair[0]], sentence.anchors[pair[1]]
    words, source = sentence.words_of(one, setup.terms), one.destination
    draws = [{"one": source, "place": place} for place in negative_places(setup, two, rng)]
    length = setup.sampler.length(rng)
    key = f"{sentence.anchor_key(one)}+{two.number}"
    return [Request(key, sentence.page, two.destination, (), words, length, words_of=source, draws=draws)]


def negatives(c: Config) -> str:
    """The drawn candidates, or those that are not co-linked with P1 in any sentence (P1 counts as co-linked)."""
    sql = "SELECT d.task, d.key, d.draw, c.doc AS destination FROM draws d JOIN candidates c ON d.place = c.place"
    apart = " LEFT JOIN colinked l ON d.one = l.one AND c.doc = l.other WHERE l.one IS NULL"
    return sql + (apart if c["acm_exclude_colinked"] else "")


def sides(request: Request, passages: Passages, setup: Setup, rng: Generator) -> PairTokens:
    """S1 = a1 ∪ l words of P1 sampled by the attention of [CLS] (Eq. 13): (S1, P2) against (S1, P̃). In the authors' code the words
    of the negative side are drawn independently."""
    sampler, anew = setup.sampler, setup.sampler.official
    if anew and list(passages.negative) == list(passages.positive):
        # Two queries from the same distribution for one page: neither is better.
        raise NoPair("documents-equal")
    anchor = list(request.anchor)
    queries: list[list[int]] = []
    for length in [request.length, *([sampler.length(rng)] if anew else [])]:
        context = sampler.sample(rng, passages.words, sampler.excluded(anchor), length, "page")
        queries.append(setup.terms.ids(sampler.query(rng, context, anchor)))
    limit = setup.c["acm_max_tokens"] or None
    positive = queries[0][:limit], passages.positive[:limit]
    return PairTokens(*positive, queries[1][:limit] if anew else (), passages.negative[:limit])


TASK = Task(
    "acm", reads=tables.SENTENCES, fields=FIELDS, attempts=attempts, request=request,
    needs=lambda c: {LINKS, SENTENCES, *([ALL_PAGES] if c["acm_negative"] == "corpus" else [])},
    prepare=lambda engine: engine.join(tables.COLINKED, COLINKED_SQL),
    negatives=negatives, missing="candidates-all-co-linked", sides=sides,
)  # fmt: skip
