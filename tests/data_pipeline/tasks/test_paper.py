"""`:paper` against the paper: S1, S2 and ACM, drawn many times and compared with the probabilities of its text.

Expected values are written from sections 3.2.1 and 3.2.4 in numpy, without the code of the tasks.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from data_pipeline.config import generation, plain
from data_pipeline.engine.job import Job
from data_pipeline.tasks import acm, rqp
from data_pipeline.tasks.sampling import Weighted
from data_pipeline.tasks.task import Anchor, Passages, Sentence, setup_of
from harp_jax.base.randomness import generator
from harp_jax.text.tokenizer import SPECIAL_TOKENS
from tests.support.distributions import assert_drawn

# INQUERY's list has "thy" and "nowadays", our own does not.
WORDS = ["harbour", "old", "thy", "harbour", "light", "nowadays", "keeper", "tower"]
ALPHA = np.array([0.05, 0.3, 0.9, 0.25, 0.4, 0.9, 0.1, 0.6])
ANCHOR = ["harbour", "old"]
STOPPED = {"thy", "nowadays"}
DRAWS = 2_000


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    path = tmp_path_factory.mktemp("paper") / "vocab.txt"
    path.write_text("\n".join([*SPECIAL_TOKENS, *sorted(set(WORDS)), *(f"w{i}" for i in range(200))]) + "\n")
    return str(path)


def setup(vocabulary, preset="paper", **fields):
    """What the tasks share in a job of the preset. Near 0, `query_length` makes l = 1."""
    config = generation(preset)
    config.source.paths, config.source.format = ("pages.jsonl",), "linked_jsonl"
    config.update({"tokenizer": vocabulary, "encoder": "uniform", "language": "en", **fields})
    return setup_of(Job(plain(config), ""), candidates=40, unlinked=30)


def sentence(*anchors):
    """Anchors: (start, end, destination)."""
    found = [
        Anchor(100 + start, " ".join(WORDS[start:end]), start, end, page, 0, 0, 1, 1) for start, end, page in anchors
    ]
    by_anchor = np.stack([ALPHA] * len(found))
    return Sentence("page", 0, WORDS, [], ALPHA, by_anchor, found, np.zeros(len(found)), np.ones(len(WORDS)))


def softmax_of_sums(excluded=()):
    """Eq. 2 and 3 over the words of the text that are no stopwords."""
    terms = [w for w in dict.fromkeys(WORDS) if w not in STOPPED and w not in excluded]
    beta = np.array([sum(a for w, a in zip(WORDS, ALPHA) if w == term) for term in terms])
    return dict(zip(terms, np.exp(beta) / np.exp(beta).sum()))


def spelled(tokens, made):
    return [made.terms.tokenizer.tokens[token] for token in tokens]


def beside(words, anchor):
    """The words of a query without one copy of each of the anchor's."""
    rest = Counter(words)
    rest.subtract(anchor)
    assert min(rest.values()) >= 0
    return list(rest.elements())


def test_s1_draws_from_the_whole_sentence_and_s2_not_the_anchor(vocabulary):
    made, first, second = setup(vocabulary, query_length=1e-3), Counter(), Counter()
    page = Passages([9], [], Weighted(WORDS, ALPHA))
    for seed in range(DRAWS):
        (request,) = rqp.request(sentence((0, 2, 7)), 0, made, generator("s1", seed))
        if request.length > 1:  # one in two thousand
            continue
        first.update(beside(spelled(request.query, made), ANCHOR))
        sides = rqp.sides(request, page, made, generator("s2", seed))
        drawn = spelled(sides.neg_query, made)
        second[frozenset(drawn)] += 1
        assert len(drawn) == 3 and sides.pos_query == request.query
    assert_drawn(first, softmax_of_sums())
    # Three words of the page (Eq. 5), of which three are neither the anchor's nor stopwords.
    assert set(second) == {frozenset(softmax_of_sums(ANCHOR))}


def test_acm_has_one_pair_a_sentence_whose_query_is_of_the_first_page(vocabulary):
    made = setup(vocabulary, query_length=1e-3)
    anchors = [(0, 2, 1), (4, 5, 2), (6, 7, 3), (7, 8, 1)]
    pairs, words, negatives = Counter(), Counter(), Counter()
    for seed in range(DRAWS):
        ((_, build),) = acm.requests(replace(sentence(*anchors), page=f"p{seed}"), made)
        (request,) = build(generator("acm", seed))
        pairs[request.words_of, request.positive] += 1
        negatives.update(draw["place"] for draw in request.draws[:1])
        if request.anchor == ANCHOR and request.length == 1:
            sides = acm.sides(request, Passages([9], [10], Weighted(WORDS, ALPHA)), made, generator("q", seed))
            assert (sides.pos_doc, sides.neg_doc, list(sides.neg_query)) == ([9], [10], [])
            words.update(beside(spelled(sides.pos_query, made), ANCHOR))
    # Any two anchors with different pages: two of the four lead to page 1.
    ordered = [(a, b) for a in (1, 2, 3, 1) for b in (1, 2, 3, 1) if a != b]
    assert_drawn(pairs, {pair: n / len(ordered) for pair, n in Counter(ordered).items()})
    assert_drawn(words, softmax_of_sums())
    assert_drawn(negatives, dict.fromkeys(range(40), 1 / 40))  # of the whole corpus, linked or not


def test_acm_of_the_authors_has_all_pairs_of_earlier_and_later_anchors(vocabulary):
    made = setup(vocabulary, "official", stopwords="inquery")
    found = [
        build(generator("all", key)) for key, build in acm.requests(sentence((0, 2, 1), (4, 5, 2), (6, 7, 1)), made)
    ]
    assert [(r.words_of, r.positive, r.key) for (r,) in found] == [
        (1, 2, "page@100+104"), (1, 1, "page@100+106"), (2, 1, "page@104+106"),
    ]  # fmt: skip
    sides = acm.sides(found[0][0], Passages([9] * 400, [10] * 400, Weighted(WORDS, ALPHA)), made, generator("cut"))
    assert (len(sides.pos_doc), len(sides.neg_doc)) == (250, 250)
