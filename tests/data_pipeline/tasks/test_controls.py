"""The control tasks: ICT, WLP and PROP against slow versions and their distributions, and a job with all of them."""

import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from data_pipeline.config import generation
from data_pipeline.engine import tables
from data_pipeline.engine.local import SerialEngine
from data_pipeline.engine.tables import pack
from data_pipeline.pipeline import generate
from data_pipeline.tasks import adp, prop, running_text, wlp
from data_pipeline.tasks.diagnostics import NAMES
from data_pipeline.tasks.sampling import NoPair, Sampler
from data_pipeline.tasks.task import Passages, Setup
from data_pipeline.text.terms import Terms, load_terms
from data_pipeline.weights.word_counts import UNIT, WordCounts
from harp_jax.base.randomness import generator
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer
from tests.support import corpus
from tests.support.distributions import assert_drawn
from tests.support.generation_job import records, table

SETUP = Setup(generation().to_dict(), None, Sampler(lambda word: True), candidates=100)
TASKS = ("rqp", "qdm", "rdp", "acm", "adp", "title", "ict", "wlp", "prop")


def test_passages_and_running_text_are_whole_sentences_in_order():
    text = [[1] * 4, [2] * 3, [], [3] * 12, [4] * 6, [5] * 4]
    assert running_text.passages(text, 10) == [[[1] * 4, [2] * 3], [[3] * 10], [[4] * 6, [5] * 4]]
    pieces = {piece.key: list(piece.text) for piece in running_text.pieces("p", [*text[:3], [3] * 23, [4] * 2], 10)}
    assert pieces == {"p#0": [1] * 4 + [2] * 3, "p#1": [3] * 10, "p#2": [3] * 10, "p#3": [3] * 3 + [4] * 2}


def test_ict_takes_any_sentence_and_leaves_it_in_a_tenth_of_the_time():
    passage, whole = [[1, 2], [3], [4, 5, 6]], [1, 2, 3, 4, 5, 6]
    passages, rng = [[[7], [8]], passage, [[9], [10]], [[11]]], generator("ict")
    chosen, wholes, negatives = [], [], []
    for _ in range(6_000):
        query, document, neg_query, neg_document, _ = running_text.sides(passages, 1, rng)
        assert not neg_query and document in (whole, [token for token in whole if token not in query])
        chosen.append(tuple(query))
        wholes.append(document == whole)
        # The negative loses a sentence exactly if the positive does, and is never left empty by that.
        assert len(neg_document) == (2 if document == whole else 1)
        negatives += [] if document == whole else neg_document
    assert_drawn(chosen, dict.fromkeys(map(tuple, passage), 1 / 3))
    assert_drawn(negatives, dict.fromkeys((7, 8, 9, 10), 1 / 4))
    assert_drawn(wholes, {True: 0.1, False: 0.9})


def test_wlp_candidates_are_the_other_destinations_and_the_sentence_any_of_the_page():
    rng, firsts = generator("wlp"), []
    for _ in range(3_000):
        (request,) = wlp.request("b", 3, [5, 7, 9, 11], 1, 40, SETUP, rng)
        assert (request.positive, request.words_of) == (3, 7) and {draw["one"] for draw in request.draws} == {7}
        drawn = [draw["doc"] for draw in request.draws]
        assert sorted(drawn) == [5, 9, 11]
        firsts.append(drawn[0])
    assert_drawn(firsts, dict.fromkeys((5, 9, 11), 1 / 3))
    passages = Passages([1], [2], page=[10, 11, 12, 13, 14, 15], sentences=[2, 3, 6])
    chosen = (tuple(wlp.sides(request, passages, SETUP, rng).pos_query) for _ in range(3_000))
    assert_drawn(chosen, dict.fromkeys([(10, 11), (12,), (13, 14, 15)], 1 / 3))


def test_lead_takes_the_sentence_of_its_query_out_of_the_page_and_as_many_tokens_off_the_negatives():
    terms = Terms(Tokenizer.of_words((*SPECIAL_TOKENS, ".", *(f"w{i}" for i in range(40)))), frozenset())
    words = [*(f"w{i}" for i in range(30)), ".", *(f"w{i}" for i in range(30, 40)), "."]
    page = {"id": "p", "doc": 3, "words": " ".join(words), "lengths": pack([1] * 42), "sentences": pack([31, 42])}
    tokens, setup = terms.ids(words), replace(SETUP, terms=terms)
    passages = Passages([], [1] * 70, page=tokens, sentences=[31, 42], more=[[2] * 20])
    sentences_of: Counter = Counter()
    for number in range(2_000):
        (request,) = adp.lead_request(page, setup, generator("lead", number))
        query = [terms.tokenizer.tokens[token] for token in request.query]
        assert f" {' '.join(query)} " in f" {page['words']} " and request.positive == request.words_of == 3
        assert f" {' '.join(request.anchor)} " in f" {' '.join(query)} " and len(request.anchor) == 2
        sides = adp.lead_sides(request, passages, setup, generator("sides"))
        rest = tokens[:31] if request.length else tokens[31:]
        gone = 42 - len(rest)
        assert sides.pos_doc == rest and not set(rest) & set(request.query)
        assert (sides.neg_doc, sides.more_docs) == ([1] * (70 - gone), [[2] * max(10, 20 - gone)])
        sentences_of[request.length] += 1
    assert_drawn(sentences_of)


SHARES = {"a": 5 / 20, "b": 3 / 20, "c": 8 / 20, "de": 2 / 20, "f": 2 / 20}
COLLECTION = SimpleNamespace(
    share=SHARES.get, draw=lambda rng: list(SHARES)[rng.choice(len(SHARES), p=list(SHARES.values()))]
)
PAGE = {"a": 2, "de": 1, "c": 1}
LISTED = replace(SETUP, terms=SimpleNamespace(ids=list), sampler=Sampler(None, 1.0))  # a word is its own id


def slow_smoothed(word, mu):
    return (PAGE.get(word, 0) + mu * SHARES[word]) / (4 + mu)


@pytest.mark.parametrize("mu", [1e-9, 6.0])
def test_prop_draws_from_the_smoothed_model_over_the_whole_vocabulary(mu):
    model, rng = prop.Smoothed(PAGE, COLLECTION, mu), generator("prop", str(mu))
    p = {word: slow_smoothed(word, mu) for word in SHARES}
    assert sum(p.values()) == pytest.approx(1)
    expected = {(a, b): p[a] * p[b] / (1 - p[a]) for a in p for b in p if a != b and p[a] * p[b] > 1e-6}
    assert_drawn((tuple(model.sample(rng, 2)) for _ in range(8_000)), expected)


def test_prop_prefers_the_likelier_set_of_the_same_length():
    model, made = prop.Smoothed(PAGE, COLLECTION, 6.0), 0
    for seed in range(200):
        try:
            better, _, worse, *_ = prop.sides(model, [9, 9], LISTED, generator("sides", seed))
        except NoPair:  # the sets are equally likely, or there are too few terms
            continue
        made += 1
        assert len(better) == len(worse) == len(set(better)) == len(set(worse))
        scores = [sum(math.log(slow_smoothed(word, 6.0)) for word in words) for words in (better, worse)]
        assert scores[0] > scores[1]
    assert made > 100


def test_bprop_scores_divergence_from_randomness():
    shares = {"a": 0.5, "c": 0.3, "f": 0.2}
    model, rng = prop.Contrastive(shares, COLLECTION), generator("bprop")
    gamma = {"a": -0.5 * math.log2(5 / 20), "c": -0.3 * math.log2(8 / 20), "f": -0.2 * math.log2(2 / 20)}
    assert model.log_likelihood(["a", "f"]) == pytest.approx(gamma["a"] + gamma["f"])
    z = sum(math.exp(g) for g in gamma.values())
    assert_drawn((model.sample(rng, 2)[0] for _ in range(6_000)), {word: math.exp(g) / z for word, g in gamma.items()})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A job with two excluded pages; B-PROP needs weights for every page."""
    folder = corpus.write(tmp_path_factory.mktemp("controls"))
    output = folder / "out"
    (folder / "judged.txt").write_text("p3\np4\n")
    fields = dict(encoder="idf", workers=1, keep_work=True, prop_distribution="contrastive")
    fields["exclude_destinations"] = str(folder / "judged.txt")
    manifest = generate(corpus.config(folder, tasks=TASKS, **fields), str(output), SerialEngine)
    terms = load_terms(str(folder / "vocab.txt"), "")
    return SimpleNamespace(output=output, manifest=manifest, rows=records(output), terms=terms)


def test_every_task_reports_every_trivial_predictor_and_reads_no_excluded_page(made):
    manifest = made.manifest
    assert set(manifest["tasks"]) == set(TASKS)
    for task, entry in manifest["tasks"].items():
        assert entry["pairs"] > 10 and entry["predictor_pairs"] > 5 and set(entry["predictors"]) == set(NAMES), task
    # Excluded pages have links: WLP drops them, ICT and PROP do not read them.
    assert manifest["losses"]["wlp-page-not-shown"]["count"] > 1
    pages = {row["page"] for row in made.rows if row["task"] in (b"ict", b"wlp", b"prop")}
    assert len(pages) > 40 and not pages & {b"p3", b"p4"}


def test_negatives_are_pages_that_the_link_graph_allows(made):
    """WLP's do not link to the query's page, ACM's are not linked beside it, QDM's are what the drawn ranks lead to."""
    linked, colinked = (
        {(row["one"], row["other"]) for row in table(made.output, each)} for each in (tables.LINKED, tables.COLINKED)
    )
    ranks = {(row["anchor"], row["rank"]): row["destination"] for row in table(made.output, tables.ANCHOR_DESTINATION)}
    drawn = {row["key"]: (row["anchor"], row["rank"]) for row in table(made.output, tables.DRAWS)}
    negatives = {(row["task"], row["key"]): row["destination"] for row in table(made.output, tables.NEGATIVES)}
    requests = {(row["task"], row["key"]): row for row in table(made.output, tables.REQUESTS)}
    for (task, key), negative in negatives.items():
        positive, a = requests[task, key]["positive"], requests[task, key]["words_of"]
        assert negative != positive
        if task == "wlp":
            assert {(positive, a), (positive, negative)} <= linked and (negative, a) not in linked
        elif task == "acm":
            assert (a, negative) not in colinked
        else:
            assert negative == ranks[drawn[key]]
    assert min(Counter(task for task, _ in negatives).values()) > 20
    # The texts of WLP's pairs: a sentence of A's lead, which is the whole lead here, and the leads of both pages.
    pages = {row["doc"]: corpus.page(int(row["id"][1:])) for row in table(made.output, tables.PAGES)}
    leads = {doc: made.terms.tokenizer.encode(page["text"][: page["lead_end"]]) for doc, page in pages.items()}
    for row in (row for row in made.rows if row["task"] == b"wlp"):
        request, negative = (each["wlp", row["key"].decode()] for each in (requests, negatives))
        texts = [row[name].tolist() for name in ("pos_query", "pos_doc", "neg_doc")]
        assert texts == [leads[doc] for doc in (request["words_of"], request["positive"], negative)]


def test_random_term_distribution_is_the_mean_over_pages(made):
    passages, weighed = (table(made.output, each) for each in (tables.PASSAGES, tables.PASSAGE_WEIGHTS))
    weights = {row["doc"]: np.frombuffer(row["weights"], np.float16) for row in weighed}
    mean: Counter = Counter()
    for row in passages:
        beta: Counter = Counter()
        for word, weight in zip(row["words"].split(" "), weights[row["doc"]]):
            if made.terms.is_term(word):
                beta[word] += max(float(weight), 2.0**-25)
        for word, value in beta.items():
            mean[word] += value / sum(beta.values()) / len(passages)
    counts = WordCounts(str(made.output / ".work" / prop.COLLECTION), True)
    assert counts.total == pytest.approx(len(passages) * UNIT, rel=1e-7)
    for word, value in mean.items():
        assert counts.share(word) == pytest.approx(value, rel=1e-7)
    rng, top = generator("draw"), dict(mean.most_common(20))
    words = (counts.draw(rng) for _ in range(5_000))
    assert_drawn((word if word in top else "" for word in words), top | {"": 1 - sum(top.values())})


def test_plain_collections_without_links_make_ict_and_prop(tmp_path):
    folder = corpus.write(tmp_path, files=1)
    corpus.write_pages(
        folder / "pages-0.jsonl", (corpus.page(number) | {"links": []} for number in range(corpus.PAGES))
    )
    config = corpus.config(folder, encoder="", tasks=("ict", "prop"))
    config.source.redirects = ()
    manifest = generate(config, tmp_path / "out", SerialEngine)
    assert manifest["term_weights_sha256"] is None
    assert manifest["tasks"]["prop"]["pairs"] + manifest["losses"]["prop-no-contrast"]["count"] == 5 * corpus.PAGES
    assert manifest["tasks"]["ict"]["pairs"] > 10
