"""The paper's tasks and ADP: the parts of each pair and their distributions."""

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from data_pipeline.config import generation
from data_pipeline.tasks import acm, adp, qdm, rdp, rqp
from data_pipeline.tasks.maps import stored
from data_pipeline.tasks.sampling import NoPair, Sampler, Weighted
from data_pipeline.tasks.task import Anchor, PairTokens, Passages, Request, Sentence, Setup
from data_pipeline.text.terms import Terms
from harp_jax.base.randomness import generator
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from tests.support.distributions import assert_drawn

W = [f"w{i}" for i in range(40)]
TERMS = Terms(Tokenizer.of_words((*SPECIAL_TOKENS, ".", "the", *W, "##x")), frozenset({"the"}))
SAMPLER = Sampler(TERMS.is_term, weighting="normalised")
OFFICIAL = replace(SAMPLER, sampling="official")
SETUP = Setup(generation().to_dict(), TERMS, SAMPLER, candidates=50)


def having(sampler=SAMPLER, **fields):
    return replace(SETUP, c=SETUP.c | fields, sampler=sampler)


def only(requests):
    (request,) = requests
    return request


STOP, THE, X = 5, 6, 47


def anchor(number, text, start, end, destination, first=0, own=1, total=1, place=0):
    return Anchor(number, text, start, end, destination, place, first, own, total)


# "the w0 w1x . w2 w3 w4 w5 w6 w7 w8 w9" with anchors "w1x ." and "w4 w5"
WORDS = ["the", "w0", "w1x", ".", *W[2:10]]
SENTENCE = Sentence(
    "page", 100, WORDS, TERMS.ids(WORDS), np.linspace(0.01, 0.12, 12),
    np.stack([np.linspace(0.01, 0.12, 12), np.linspace(0.12, 0.01, 12)]),
    [anchor(110, "w1x.", 2, 4, 7, 1, 2, 5), anchor(120, "w4 w5", 6, 8, 9)],
    to_cls=np.zeros(2), lengths=np.array([len(TERMS.ids([each])) for each in WORDS]),
)  # fmt: skip
PAGE = Weighted([*W[:30], "w1x"], np.linspace(0.001, 0.05, 31))
POSITIVE = [30, 31, 32]


def test_rqp_queries_are_equally_long_and_s2_has_no_anchor_word():
    lengths = set()
    for seed in range(300):
        try:
            request = only(rqp.request(SENTENCE, 0, SETUP, generator("rqp", seed)))
        except NoPair:  # the sentence has too few terms
            continue
        assert (request.positive, request.words_of, request.anchor) == (7, 7, ["w1x"])  # without its full stop
        sides = rqp.sides(request, Passages(POSITIVE, (), PAGE), SETUP, generator("s2", seed))
        s1, s2 = Counter(sides.pos_query), Counter(sides.neg_query)
        assert s1[X] == 1 and sum(s1.values()) - 1 == sum(s2.values())
        assert X not in s2 and not {STOP, THE} & (s1.keys() | s2.keys())
        lengths.add(request.length)
    assert lengths >= {1, 5}


def test_rqp_can_restrict_its_context_to_the_page():
    sampler = replace(SAMPLER, context_in_page=True, query_length=1.5)
    page = Weighted([W[0], W[2], W[3], W[6], *W[20:30]], np.full(14, 0.05))
    for seed in range(50):
        request = only(rqp.request(SENTENCE, 0, having(sampler), generator("in page", seed)))
        sides = rqp.sides(request, Passages(POSITIVE, (), page), having(sampler), generator("s2", seed))
        assert set(sides.pos_query) <= {8, X, *(7 + i for i in (0, 2, 3, 6))}
        # Four terms of the sentence are in the page: longer queries are shortened on both sides.
        assert len(sides.pos_query) == min(request.length, 4) + 2 == len(sides.neg_query) + 1


def test_the_papers_rqp_draws_s1_from_the_whole_sentence_and_s2_without_the_anchor():
    """Against the softmax of Eq. 3 over the terms, for queries of one word beside the two of the anchor."""
    setup = having(replace(SAMPLER, weighting="softmax", anchor_in_context=True, query_length=1e-3))
    beta = {TERMS.ids([word])[0]: SENTENCE.by_anchor[1][i] for i, word in enumerate(WORDS) if word not in ("the", ".")}
    page = {11: 3.0, 12: 3.0, 27: 0.1, 28: 0.9, 29: 1.5, 30: 0.4}  # w4 and w5, the anchor's; w20 to w23
    passages = Passages(POSITIVE, (), Weighted([W[token - 7] for token in page], np.array([*page.values()])))
    drawn, left = Counter(), Counter()
    for seed in range(1_000):
        request = only(rqp.request(SENTENCE, 1, setup, generator("s1", seed)))
        if request.length == 1:  # nearly always
            drawn.update(token for token in (Counter(request.query) - Counter([11, 12])).elements() if token != X)
            sides = rqp.sides(request, passages, setup, generator("s2", seed))
            assert sides.pos_query == request.query
            left[only({27, 28, 29, 30} - set(sides.neg_query))] += 1  # S2 has three of the four others
    assert_drawn(drawn, {token: np.exp(b) / sum(map(np.exp, beta.values())) for token, b in beta.items()})
    p = {token: np.exp(b) / sum(np.exp(page[each]) for each in (27, 28, 29, 30)) for token, b in page.items()}
    expected = Counter()
    for one, two, three, last in itertools.permutations((27, 28, 29, 30)):
        expected[last] += p[one] * p[two] / (1 - p[one]) * p[three] / (1 - p[one] - p[two])
    assert_drawn(left, expected)


def test_rqp_official_has_its_anchor_last_and_in_the_pools():
    setup, repeated, in_s2 = having(OFFICIAL), 0, 0
    for seed in range(200):
        request = only(rqp.request(SENTENCE, 1, setup, generator("last", seed)))
        sides = rqp.sides(request, Passages([1], (), PAGE), setup, generator("s2", seed))
        assert sides.pos_query[-2:] == [11, 12]
        repeated += bool(set(sides.pos_query[:-2]) & {11, 12})
        in_s2 += bool(set(sides.neg_query) & {11, 12})
    assert repeated and in_s2


LONG = replace(SENTENCE, words=W, anchors=[anchor(110, "a", 20, 21, 7)])


def test_adp_window_is_the_sentence_around_the_anchor():
    """Words keep their order and include the anchor; its position is uniform, and the number of words follows Poisson."""
    rng, setup = generator("window"), having(adp_queries=("window",))
    queries = [list(only(adp.request(LONG, 0, setup, rng)).query) for _ in range(4_000)]
    assert all(query == list(range(query[0], query[-1] + 1)) and 27 in query for query in queries)
    assert_drawn((query.index(27) for query in queries if len(query) == 7), dict.fromkeys(range(7), 1 / 7))
    p = dict(enumerate(stats.poisson.pmf(range(12), 6.0)))
    p[1] += p.pop(0)
    assert_drawn((min(len(query) - 1, 12) for query in queries), p | {12: stats.poisson.sf(11, 6.0)})


def test_adp_draws_the_style_of_each_query():
    """Without punctuation, and with more words after the anchor where it begins the sentence."""
    rng, setup = generator("style"), having(adp_queries=("anchor", "short", "sentence"))
    sentence = replace(SENTENCE, words=[W[1], "the", ".", *W[2:30]], anchors=[anchor(110, "a", 0, 1, 7)])
    queries = [list(only(adp.request(sentence, 0, setup, rng)).query) for _ in range(3_000)]
    whole = [8, THE, *(7 + i for i in range(2, 30))]
    assert all(query == whole[: len(query)] for query in queries)
    assert_drawn(map(len, queries), {1: 1 / 3, 2: 1 / 6, 3: 1 / 6, 30: 1 / 3})


def test_qdm_asks_about_ambiguous_anchors_and_draws_from_the_other_ranks():
    setup = having(replace(SAMPLER, query_length=0.1))
    ((_, link),) = qdm.attempts(SENTENCE, setup)
    requests = (only(qdm.request(*link, setup, generator(seed))) for seed in range(3_000))
    drawn = ((request.positive, *request.draws[0].values()) for request in requests)
    assert_drawn(drawn, dict.fromkeys([(7, "w1x.", rank) for rank in (0, 3, 4)], 1 / 3))


def test_qdm_takes_any_ten_occurrences_or_the_first():
    anchors = [Anchor(0, "a", 0, 1, 7, 0, 0, 1, 3, i, 40) for i in range(40)]
    taken = [[i for i in range(40) if qdm.chosen(anchors[i], 10, False, seed)] for seed in range(200)]
    assert all(len(links) == 10 for links in taken)
    assert_drawn(i for links in taken for i in links)
    assert [i for i in range(40) if qdm.chosen(anchors[i], 10, True, 0)] == list(range(10))


def test_rdp_importance_sums_repeated_anchors_and_averages_over_pieces():
    anchors = [anchor(0, "a", 2, 3, 7), anchor(1, "b", 6, 8, 9), anchor(2, "a", 9, 10, 7)]
    sentence = replace(SENTENCE, anchors=anchors, to_cls=np.array([0.5, 0.2, 0.3]))
    # γ of Eq. 10: attention per wordpiece; w1x has two pieces that share the word's stored sum.
    cls = SENTENCE.cls
    a, b = pytest.approx(cls[2] / 2 + cls[9]), pytest.approx((cls[6] + cls[7]) / 2)
    assert rdp.importance(sentence) == {"a": (a, 7), "b": (b, 9)}
    assert rdp.importance(sentence, summed=False) == {"a": (cls[2] / 2, 7), "b": (b, 9)}
    assert rdp.importance(sentence, "to_cls") == {"a": (0.8, 7), "b": (0.2, 9)}
    many = [anchor(i, text, i, i + 1, i) for i, text in enumerate("abcd")]
    sentence = replace(sentence, anchors=many, cls=np.array([0.3, 0.1, 0.3, 0.2]), lengths=np.ones(4))
    pairs = rdp.request(sentence, having(rdp_pairs="all"), generator("all"))  # ties are kept
    assert sorted((r.positive, r.negative) for r in pairs) == [(0, 1), (0, 2), (0, 3), (2, 1), (2, 3), (3, 1)]


@pytest.mark.parametrize("weighting", ["softmax", "normalised"])
def test_rdp_anchors_follow_eq_11(weighting):
    eta, destinations = np.array([0.3, 0.1, 0.1, 0.25, 0.3]), [1, 2, 3, 1, 4]
    sampler, rng = Sampler(TERMS.is_term, weighting=weighting), generator("rdp", weighting)
    p = np.exp(eta) / np.exp(eta).sum() if weighting == "softmax" else eta / eta.sum()
    expected: Counter = Counter()
    for i in range(5):
        rest = {j: p[j] for j in range(5) if destinations[j] != destinations[i] and eta[j] != eta[i]}
        for j, q in rest.items():
            expected[(i, j) if eta[i] > eta[j] else (j, i)] += p[i] * q / sum(rest.values())
    assert_drawn((rdp.choose(eta, destinations, sampler, rng) for _ in range(20_000)), expected)


def test_acm_negatives_are_uniform_or_near_in_in_links():
    rng, positive = generator("places"), anchor(0, "a", 0, 1, 1, place=9_000)
    for negative, first in (("linked", 2), ("corpus", 0)):
        setup = replace(having(acm_negative=negative), candidates=12, unlinked=2)
        places = [place for _ in range(500) for place in acm.negative_places(setup, positive, rng)]
        assert_drawn(places, dict.fromkeys(range(first, 12), 1 / (12 - first)))
    setup = replace(having(acm_negative="in_links"), candidates=10_000)
    near = [place for _ in range(500) for place in acm.negative_places(setup, positive, rng)]
    assert min(near) >= 8_900 and max(near) <= 9_100 and len(set(near)) > 150


def test_the_papers_acm_has_one_pair_of_any_two_anchors_with_different_pages():
    anchors = [anchor(i, WORDS[i], i, i + 1, page) for i, page in ((1, 1), (4, 2), (6, 3), (8, 1))]
    setup, pairs = having(acm_pairs="sampled"), Counter()
    for number in range(2_000):
        ((_, pair),) = acm.attempts(replace(SENTENCE, page=f"p{number}", anchors=anchors), setup)
        request = only(acm.request(*pair, setup, generator("acm", number)))
        pairs[request.words_of, request.positive] += 1
    ordered = Counter((a, b) for a in (1, 2, 3, 1) for b in (1, 2, 3, 1) if a != b)
    assert_drawn(pairs, {pair: n / ordered.total() for pair, n in ordered.items()})
    # The authors' code: all pairs of an earlier and a later anchor.
    setup = having(OFFICIAL, acm_pairs="all")
    attempts = acm.attempts(replace(SENTENCE, anchors=anchors), setup)
    requests = (only(acm.request(*pair, setup, generator("all", key))) for key, pair in attempts)
    pairs = [(each.words_of, each.positive) for each in requests]
    assert pairs == [(1, 2), (1, 3), (1, 1), (2, 3), (2, 1), (3, 1)]


def test_acm_queries_have_words_of_the_first_page_and_differ_if_drawn_anew():
    request = Request("k", "p", 1, (), ["w0"], 1, words_of=2)
    # Eq. 13, with a word that occurs twice.
    passages = Passages([1], [2], Weighted(["w0", "w1", "the", "w2", "w1"], np.array([0.5, 0.3, 0.4, 0.9, 0.25])))
    setup, rng = having(replace(SAMPLER, weighting="softmax")), generator("acm")
    words = (set(acm.sides(request, passages, setup, rng).pos_query) - {7} for _ in range(2_000))
    total = np.exp(0.55) + np.exp(0.9)
    assert_drawn(map(tuple, words), {(8,): np.exp(0.55) / total, (9,): np.exp(0.9) / total})
    sides = acm.sides(replace(request, length=4), Passages([1], [2], PAGE), having(OFFICIAL), rng)
    assert sides.neg_query and sides.neg_query != sides.pos_query and 7 in sides.neg_query and 7 in sides.pos_query


def test_what_was_drawn_twice_and_is_equal_is_stored_once():
    record = stored(PairTokens([1, 2], [3], [1, 2], [4]), 9, 9)
    assert not record.neg_query and record.neg_doc == [4]
    copies = PairTokens([1], [3], [1], [4], more_docs=[[3], [5], []])  # a copy of the positive page is not a negative
    assert stored(copies, 9, 9).more_docs == [[5]]
    with pytest.raises(NoPair, match="sides-equal"):
        stored(PairTokens([1], [3], [1], [3]), 9, 9)
