"""Groups for fine-tuning: which documents are negatives, and that a draw depends only on its key."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harp_jax import config as configs
from harp_jax.base.errors import InputError
from harp_jax.corpus.documents import Documents
from harp_jax.corpus.trec import Ranking, split_queries
from harp_jax.input.ranking_groups import RankingData, RankingDataset
from tests.support.distributions import assert_drawn
from tests.support.tiny_bert import small_tokenizer

TOKENIZER = small_tokenizer()
# Each document is one token, so that token ids identify it.
WORDS = [word for word in TOKENIZER.tokens[5:30] if word.isalpha()]
DOCS = {f"D{i}": word for i, word in enumerate(WORDS)}
QUERIES = {"q1": "the cat", "q2": "red", "q3": "one", "q4": "two", "q5": "dog"}
QRELS = {"q1": {"D0": 1, "D1": 2, "D2": 0}, "q2": {"D9": 1}}  # D9 is not among the candidates
QRELS |= {"q3": {"D3": 0}, "q4": {"D4": 1}, "q6": {"D4": 1}, "q5": {"D5": 1, "E1": 1}}
CANDIDATES = {"q1": ["D1", "D2", "D3", "D4", "D5", "D6"], "q2": ["D3", "D4"], "q3": ["D3"], "q5": ["D5", "D7"]}


def data(path, candidates=CANDIDATES, **options) -> RankingData:
    (path / "docs.tsv").write_text("".join(f"{d}\t\t\t{text}\n" for d, text in DOCS.items()))
    run = {qid: Ranking.of(docids, range(0, -len(docids), -1)) for qid, docids in candidates.items()}
    config = configs.finetune()
    config.update(options)
    return RankingData(config, TOKENIZER, RankingDataset(Documents.open(str(path / "docs.tsv")), QUERIES, QRELS, run))


def names(unit) -> list[str]:
    return [f"D{WORDS.index(TOKENIZER.tokens[document[0]])}" for _, document in unit]


def test_units_and_what_is_left_out(tmp_path):
    found = data(tmp_path, missed_positives=True)
    assert found.units == [("q1", "D0"), ("q1", "D1"), ("q2", "D9"), ("q5", "D5")]
    lost = ("judged, not among the queries", "no relevant document", "no candidates", "document not found")
    assert found.report == dict.fromkeys(lost, 1)
    # By default, relevant documents that the first stage missed are left out: D0 of q1, and q2.
    found = data(tmp_path)
    assert found.units == [("q1", "D1"), ("q5", "D5")] and found.report["not retrieved"] == 2
    with pytest.raises(InputError, match=r"candidate E7 of query q1 is not in .*docs\.tsv"):
        data(tmp_path, {**CANDIDATES, "q1": ["D1", "E7"]})
    with pytest.raises(InputError, match="no query can be trained on"):
        data(tmp_path, {"q9": ["D1"]})


def test_positive_first_then_uniform_candidates_not_judged_relevant(tmp_path):
    found = data(tmp_path, negatives=2, missed_positives=True)
    counts: Counter = Counter()
    for epoch in range(2000):
        unit, _ = found.unit(epoch, 0)
        positive, *negatives = names(unit)
        assert positive == "D0" and len(set(negatives)) == 2
        counts.update(negatives)
    assert_drawn(counts, dict.fromkeys(("D2", "D3", "D4", "D5", "D6"), 0.2))
    assert {tuple(query) for query, _ in unit} == {tuple(TOKENIZER.encode("the cat"))}
    positive, *negatives = names(data(tmp_path, negatives=3, missed_positives=True).unit(0, 2)[0])
    assert (positive, sorted(negatives)) == ("D9", ["D3", "D4"])


def test_a_unit_depends_on_its_key_only(tmp_path):
    options = {"negatives": 2, "missed_positives": True}
    one, two = data(tmp_path, **options, seed=3), data(tmp_path, dict(reversed(CANDIDATES.items())), **options, seed=3)
    keys = [(epoch, i) for epoch in range(6) for i in range(len(one))]
    drawn, again = ({key: names(found.unit(*key)[0]) for key in keys[::way]} for found, way in ((one, 1), (two, -1)))
    other = data(tmp_path, **options, seed=4)
    assert drawn == again != {key: names(other.unit(*key)[0]) for key in keys}


levels = st.dictionaries(st.integers(0, 30).map(str), st.integers(-1, 2), max_size=3)


@given(st.dictionaries(st.integers(0, 40).map(str), levels, min_size=1), st.floats(0, 1), st.integers(0, 5))
def test_split_never_shares_a_relevant_document(qrels, fraction, seed):
    train, held = split_queries(qrels, fraction, seed)
    assert {**train, **held} == qrels and not train.keys() & held.keys()
    assert len(held) <= round(fraction * len(qrels))
    first, second = (
        {doc for judged in part.values() for doc, level in judged.items() if level > 0} for part in (train, held)
    )
    assert not first & second
    assert split_queries(dict(reversed(qrels.items())), fraction, seed)[1].keys() == held.keys()
    many = {f"q{i}": {f"D{i // 2}": 1} for i in range(400)}
    one, two = (split_queries(many, 0.1, seed)[1].keys() for seed in (0, 1))
    assert len(one) == 40 and one != two
