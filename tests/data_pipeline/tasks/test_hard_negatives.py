import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.local import SerialEngine
from data_pipeline.engine.tables import unpack
from data_pipeline.pipeline import generate
from data_pipeline.tasks import hard_negatives
from data_pipeline.tasks.hard_negatives import Slice, drawn
from data_pipeline.text.terms import load_terms
from harp_jax.base.randomness import generator
from harp_jax.input.contrastive_groups import are_copies, copy_signature
from tests.support import corpus
from tests.support.distributions import assert_drawn
from tests.support.generation_job import table


def test_search_leaves_out_the_positive_and_its_copies_and_finds_whole_words_alone():
    texts = ["red fox", "red foxes run", "infrared lamp", "red lamp"]
    bits = np.array([[0, 0], [0, 0x1FFF], [0, 0], [0, 0xFFF]], np.int32)
    rows = [dict(doc=100 + i, in_links=i + 1, words=text, signature=bits[i].tobytes()) for i, text in enumerate(texts)]
    pages = Slice(rows, str, "en")
    for text, count, without, positive, expected in (
        ("red fox", 10, (), -1, [[0, 1, 3], []]),
        ("red fox", 1, (100, 103), -1, [[1], []]),
        ("red fox", 2, (), 0, [[1], [0]]),  # 3 is the other copy; 13 bits are too many
        ("fra", 10, (), -1, [[], []]),
    ):
        places = pages.search(text, count, without, np.array([positive] * 2, np.int32))
        assert [each.tolist() for each in places] == expected


def test_signatures_tell_copies_from_texts_of_the_same_words():
    ids = generator("text").integers(0, 30_000, 300).astype(np.int32)
    edited, mixed = ids.copy(), generator("mixed").permutation(ids)
    edited[::60] += 1  # five words of three hundred
    one, copy, other = (np.array(copy_signature(each), np.int32) for each in (ids, edited, mixed))
    assert are_copies(np.stack([one, copy, other]), one).tolist() == [True, True, False]


def test_a_mirror_of_the_pages_makes_no_negatives(tmp_path):
    folder = corpus.write(tmp_path, files=1)
    mirror = (
        page | {"id": f"m{page['id']}", "text": page["text"] + "Printed.", "links": []}
        for page in map(corpus.page, range(corpus.PAGES))
    )
    corpus.write_pages(folder / "pages-1.jsonl", mirror)
    config = corpus.config(folder, tasks=("acm", "title"), keep_work=True, text_pages="all")
    losses = generate(config, str(folder / "out"), SerialEngine)["losses"]
    assert losses["title-copy-of-the-positive"]["count"] > 0
    documents = {row["doc"]: row["id"].removeprefix("m") for row in table(folder / "out", tables.DOCUMENTS)}
    positives = {row["key"]: documents[row["positive"]] for row in table(folder / "out", tables.REQUESTS)}
    mined = table(folder / "out", tables.MINED)
    assert mined and all(documents[row["destination"]] != positives[row["key"]] for row in mined)


def test_negatives_are_drawn_in_proportion_to_in_links_or_uniformly_and_never_twice():
    rng, in_links = generator("drawn"), np.array([60, 25, 10, 5, 0])
    for popular, weights in ((True, np.maximum(in_links, 1) / 101), (False, np.full(5, 0.2))):
        draws = [drawn(in_links, 3, popular, rng) for _ in range(5_000)]
        assert all(len(set(places)) == 3 for places in draws)
        assert_drawn((places[0] for places in draws), dict(enumerate(weights)))
    assert sorted(drawn(in_links, 9, True, rng)) == list(range(5))


def test_negatives_share_a_word_with_the_query_and_are_neither_positive_nor_source(tmp_path, monkeypatch):
    monkeypatch.setattr(hard_negatives, "SLICE", 20)
    folder, output = corpus.write(tmp_path), tmp_path / "out"
    fields = dict(adp_queries=("window",), hard_negatives=3, negative_search="words", keep_work=True)
    losses = generate(corpus.config(folder, tasks=("adp",), **fields), str(output), SerialEngine)["losses"]
    ids = {row["doc"]: row["id"] for row in table(output, tables.PAGES)}
    words = {row["doc"]: set(row["words"].split()) for row in table(output, tables.PASSAGES)}
    requests = {row["key"]: row for row in table(output, tables.REQUESTS)}
    terms = load_terms(str(folder / "vocab.txt"), "")
    mined, of_anchor = table(output, tables.MINED), 0
    for row in mined:
        request, negative = requests[row["key"]], row["destination"]
        assert negative != request["positive"] and ids[negative] != request["page"]
        assert words[negative] & set(terms.tokenizer.decode(unpack(request["query"]).tolist()).split())
        of_anchor += bool(set(filter(terms.is_term, words[negative])) & set(request["anchor"].split()))
    assert len(requests) > len(mined) > of_anchor > 0.5 * len(mined) > 50
    assert losses["adp-no-page-shares-a-word-of-the-query"]["count"] > 0


def test_pages_without_links_are_no_negatives_where_text_tasks_read_them(tmp_path):
    """With PROP, the job has passages of all pages; if these were negatives, in-links would tell .98 of ADP's pairs apart."""
    folder = corpus.write(tmp_path)
    copies = [corpus.page(number) | {"id": f"copy-{number}", "links": []} for number in range(corpus.PAGES)]
    corpus.write_pages(folder / "pages-9.jsonl", copies)
    generate(corpus.config(folder, tasks=("adp", "prop"), keep_work=True), str(folder / "out"), SerialEngine)
    in_links = {row["doc"]: row["in_links"] for row in table(folder / "out", tables.PASSAGES)}
    mined = {row["destination"] for row in table(folder / "out", tables.MINED)}
    assert min(in_links.values()) == 0 and len(mined) > 20 and all(in_links[doc] for doc in mined)
