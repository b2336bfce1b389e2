"""The choices between the paper, its authors' code and the default: each does what it says, and presets combine them."""

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from data_pipeline.config import PRESETS, generation, plain
from data_pipeline.engine.local import LocalEngine, SerialEngine
from data_pipeline.engine.store import bucket_parts, read
from data_pipeline.links import link_graph
from data_pipeline.links.parsing import parse_documents
from data_pipeline.main import arguments_parser
from data_pipeline.pipeline import generate
from data_pipeline.tasks import acm, qdm, rdp, rqp
from data_pipeline.tasks.sampling import NoPair, Sampler, Weighted
from data_pipeline.tasks.task import Anchor, Passages, Request, Sentence, Setup
from data_pipeline.text.terms import Terms, load_terms
from harp_jax.base.errors import InputError
from harp_jax.base.randomness import generator
from harp_jax.input.records import read_manifest
from harp_jax.text.tokenizer import SPECIAL_TOKENS, Tokenizer, load_tokenizer
from tests.support import corpus

TERMS = Terms(Tokenizer.of_words((*SPECIAL_TOKENS, "the", *(f"w{i}" for i in range(40)), "##x")), frozenset({"the"}))
SAMPLER = Sampler(TERMS.is_term, weighting="normalised")
SETUP = Setup(generation().to_dict(), TERMS, SAMPLER)
OFFICIAL = replace(SETUP, sampler=replace(SAMPLER, sampling="official"))
WORDS = [f"w{i}" for i in range(10)]
PAGE = Weighted([f"w{i}" for i in range(30)], np.full(30, 1 / 30))
ANCHORS = [
    Anchor(0, "a", 0, 1, 7, 0, 0, 1, 1),
    Anchor(9, "b", 4, 6, 9, 0, 0, 1, 1),
    Anchor(20, "a", 8, 9, 7, 0, 0, 1, 1),
]
SENTENCE = Sentence(
    "p",
    0,
    WORDS,
    TERMS.ids(WORDS),
    np.linspace(0.01, 0.1, 10),
    np.full((3, 10), 0.1),
    ANCHORS,
    np.array([0.5, 0.2, 0.3]),
    np.ones(10, int),
)


def test_normal_lengths_are_integer_parts_from_one_on():
    sampler, rng = OFFICIAL.sampler, generator("normal")
    lengths = Counter(sampler.length(rng) for _ in range(20_000))
    cut = [stats.norm.sf(x - 3) for x in range(1, 6)]
    p = [(a - b) / cut[0] for a, b in pairwise(cut)] + [cut[-1] / cut[0]]
    observed = [lengths[x] for x in range(1, 5)]
    assert min(lengths) == 1
    assert stats.chisquare([*observed, 20_000 - sum(observed)], [20_000 * q for q in p]).pvalue > 0.01
    assert abs(sum(x * n for x, n in lengths.items()) / 20_000 - 2.56) < 0.03  # the authors' mean


def test_sampling_with_replacement_follows_the_distribution_each_time():
    sampler, rng = OFFICIAL.sampler, generator("replacement")
    text = Weighted(["w0", "w1", "w2"], np.array([0.5, 0.3, 0.2]))
    drawn = Counter(tuple(sampler.sample(rng, text, {"w2"}, 2, "text")) for _ in range(8_000))
    p = {"w0": 0.625, "w1": 0.375}
    expected = {(a, b): p[a] * p[b] for a in p for b in p}
    assert stats.chisquare([drawn[pair] for pair in expected], [8_000 * q for q in expected.values()]).pvalue > 0.01
    with pytest.raises(NoPair):
        sampler.sample(rng, text, set(text.words), 1, "text")


def test_attention_of_summed_heads_sharpens_the_softmax():
    text = Weighted(["w0", "w1"], np.array([0.3, 0.1]))
    _, p = Sampler(TERMS.is_term, attention_scale=12.0).distribution(text, set())
    np.testing.assert_allclose(p[0] / p[1], math.exp(12 * 0.2))


def test_anchor_last_and_in_the_pools():
    setup, repeated, found = OFFICIAL, 0, 0
    lengths = set()
    for seed in range(200):
        (request,) = rqp.request(SENTENCE, 1, setup, generator("last", seed))
        sides = rqp.sides(request, Passages([1], None, PAGE), setup, generator("s2", seed))
        anchor = [6 + 4, 6 + 5]
        assert sides.pos_query[-2:] == anchor
        repeated += bool(set(sides.pos_query[:-2]) & set(anchor))
        found += bool(set(sides.neg_query) & set(anchor))
        lengths.add(len(sides.neg_query) - len(sides.pos_query))
    assert repeated and found and len(lengths) > 3


def test_qdm_takes_any_ten_occurrences_or_the_first():
    def anchor(i):
        return Anchor(0, "a", 0, 1, 7, 0, 0, 1, 3, i, 40)

    taken = {seed: [i for i in range(40) if qdm.chosen(anchor(i), 10, False, seed)] for seed in range(200)}
    assert all(len(found) == 10 for found in taken.values())
    assert stats.chisquare(list(Counter(i for found in taken.values() for i in found).values())).pvalue > 0.01
    assert [i for i in range(40) if qdm.chosen(anchor(i), 10, True, 0)] == list(range(10))
    assert all(qdm.chosen(anchor(i), 0, True, 0) for i in range(40))
    assert qdm.chosen(anchor(3)._replace(occurrences=5), 10, False, 0)


def test_rdp_directions_and_repeats():
    lengths = np.ones(10, int)
    cls = SENTENCE.cls
    b = ((cls[4] + cls[5]) / 2, 9)
    assert rdp.importance(SENTENCE, lengths) == {"a": (pytest.approx(cls[0] + cls[8]), 7), "b": pytest.approx(b)}
    assert rdp.importance(SENTENCE, lengths, summed=False) == {"a": (cls[0], 7), "b": pytest.approx(b)}
    assert rdp.importance(SENTENCE, lengths, "to_cls") == {"a": (0.8, 7), "b": (0.2, 9)}
    assert rdp.importance(SENTENCE, lengths, "to_cls", False) == {"a": (0.5, 7), "b": (0.2, 9)}


def test_rdp_all_pairs_keep_ties_and_equal_destinations():
    eta = np.array([0.3, 0.1, 0.3, 0.2])
    assert sorted(rdp.every_pair(eta)) == [(0, 1), (0, 2), (0, 3), (2, 1), (2, 3), (3, 1)]
    c = dict(rdp_direction="to_cls", rdp_pairs="all")
    found = rdp.request(SENTENCE, replace(SETUP, c=SETUP.c | c), generator("all"))
    assert [(r.key, r.positive, r.negative) for r in found] == [("p@0+0>1", 7, 9)]


def test_acm_queries_drawn_anew_differ_and_share_the_anchor():
    request = Request("acm", "k", "p", 1, (), ["w0"], 4, words_of=2)
    sides = acm.sides(request, Passages([1], [2], PAGE), OFFICIAL, generator("anew"))
    assert sides.neg_query and sides.neg_query != sides.pos_query and 6 in sides.neg_query and 6 in sides.pos_query
    assert not acm.sides(request, Passages([1], [2], PAGE), SETUP, generator("anew")).neg_query
    with pytest.raises(NoPair, match="documents-equal"):
        acm.sides(request, Passages([1], [1], PAGE), OFFICIAL, generator("anew"))


def test_wordpieces_as_units_escape_the_stopwords(tmp_path):
    folder = corpus.write(tmp_path)
    words, pieces = (load_terms(str(folder / "vocab.txt"), "", unit) for unit in ("words", "tokens"))
    text = "the bako, lobafi"
    (span, starts, ends), (cut, piece_starts, piece_ends) = (next(iter(t.split([text], 50))) for t in (words, pieces))
    assert span.tokens.tolist() == cut.tokens.tolist() and set(cut.lengths.tolist()) == {1}
    assert len(cut.lengths) > len(span.lengths)
    assert words.ids(span.words) == pieces.ids(cut.words) == span.tokens.tolist()
    # Spans of characters still find their words.
    assert text[piece_starts[-1] : piece_ends[-1]] == text[-(ends[-1] - piece_starts[-1]) :]


def test_presets_name_fields_and_differ_from_the_default(tmp_path):
    default = generation()
    for name, fields in PRESETS.items():
        config = generation(name)
        assert set(fields) <= set(default) and any(config[field] != default[field] for field in fields), name
        plain(corpus.config(tmp_path, preset=name))
    with pytest.raises(InputError, match="unknown preset 'authors'"):
        generation("authors")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(unit="letters"), "config.unit='letters' is not allowed; use one of words, tokens"),
        (dict(sampling="official", context_in_page=True), "context_in_page"),
        (dict(qdm_positives=-1), "qdm_positives"),
        (dict(tasks=("prop",), encoder="", prop_distribution="contrastive"), "config.encoder is not set"),
    ],
)
def test_choices_that_make_no_sense_are_one_line(tmp_path, fields, message):
    (tmp_path / "vocab.txt").touch()
    with pytest.raises(InputError, match=message):
        plain(corpus.config(tmp_path, **fields))


def test_the_official_preset_runs_and_the_command_line_wins(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    arguments = [f"--config={folder}/job.py:official", "--config.rdp_pairs=sampled", f"--output={tmp_path / 'out'}"]
    (folder / "job.py").write_text(
        "from data_pipeline.config import generation\n"
        "def get_config(preset=''):\n"
        "    c = generation(preset)\n"
        f"    c.source.format, c.source.paths = 'linked_jsonl', ('{folder}/pages-*.jsonl',)\n"
        f"    c.source.redirects = ('{folder}/redirects.tsv',)\n"
        f"    c.tokenizer, c.encoder = '{folder}/vocab.txt', 'idf'\n"
        "    c.min_article_words, c.workers, c.keep_work = 0, 1, True\n"
        "    return c\n"
    )
    parsed = arguments_parser().parse_args(arguments)
    generate(parsed.config, parsed.output, SerialEngine)
    manifest = read_manifest(str(tmp_path / "out"))
    assert manifest["config"] == manifest["config"] | PRESETS["official"] | {"rdp_pairs": "sampled"}
    assert all(entry["pairs"] > 10 for entry in manifest["tasks"].values())
    requests = read({"work": str(tmp_path / "out" / ".work")}, "requests").to_pylist()
    vocabulary = load_tokenizer(str(folder / "vocab.txt")).vocab
    assert all(word in vocabulary for row in requests for word in row["anchor"].split())


def test_pages_of_one_text_are_one_page_by_choice(tmp_path):
    folder = corpus.write(tmp_path / "corpus", files=1)
    path = folder / "pages-0.jsonl"
    pages = [json.loads(line) for line in path.read_text().splitlines()]
    lead = pages[1]["text"][: pages[1]["lead_end"]]
    # p2 says what p1 says, in capitals.
    pages[2] |= {"text": lead.upper() + pages[2]["text"][pages[2]["lead_end"] :]}
    shift = len(lead) - pages[2]["lead_end"]
    pages[2]["links"] = [link | {side: link[side] + shift for side in ("start", "end")} for link in pages[2]["links"]]
    pages[2]["lead_end"] = len(lead)
    path.write_text("".join(json.dumps(page) + "\n" for page in pages))
    c = plain(corpus.config(folder, page_identity="text", workers=1, tasks=("rqp", "qdm")))
    job = {"config": c, "work": str(tmp_path / "work"), "output": str(tmp_path), "per_bucket": 1, "needs": []}
    engine = LocalEngine(job, 1, "500MB")
    try:
        parse_documents(engine)
        engine.map("links", link_graph.extract_links, bucket_parts(job, "documents"))
        link_graph.build(engine)
    finally:
        engine.close()
    numbers = {row["id"]: row["doc"] for row in read(job, "pages").to_pylist()}
    links = read(job, "resolved").to_pylist()
    to_second = [link for link in links if link["target"] == "p2"]
    assert to_second and {link["destination"] for link in to_second} == {numbers["p1"]}
    assert not any(row["doc"] == numbers["p2"] for row in read(job, "candidates").to_pylist())
