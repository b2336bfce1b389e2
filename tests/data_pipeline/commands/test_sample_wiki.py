import hashlib
from collections import Counter

import pytest

from data_pipeline.commands import sample_wiki
from data_pipeline.commands.sample_words import ENGLISH, LANGUAGES
from harp_jax.base.errors import InputError
from tests.support.source_reading import read, source


@pytest.fixture(scope="module", params=LANGUAGES)
def output(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    sample_wiki.write(str(path), 400, 0, language=request.param)
    return path


def rows(output, name, separator="\t"):
    return [line.split(separator) for line in (output / name).read_text().splitlines()]


def test_same_seed_same_bytes(output, tmp_path):
    def digests(path):
        return [hashlib.sha256((path / name).read_bytes()).hexdigest() for name in sample_wiki.FILES]

    language = output.name[:2]
    sample_wiki.write(str(tmp_path / "again"), 400, 0, language=language)
    sample_wiki.write(str(tmp_path / "other"), 400, 1, language=language)
    assert digests(tmp_path / "again") == digests(output)
    assert not set(digests(tmp_path / "other")[:3]) & set(digests(output))
    with pytest.raises(InputError, match="3 pages are too few"):
        sample_wiki.write(str(tmp_path / "few"), 3, 0)


@pytest.mark.parametrize(("informative", "least", "most"), [(True, 1.0, 1.0), (False, 0.01, 0.09)])
def test_links_tell_the_truth_and_nothing_in_the_control(informative, least, most):
    """In the control, 2 of 48 facts are right by chance."""
    found = []
    for page in sample_wiki.world(400, 0, informative=informative):
        wordings = {w for fact in page.facts for w in ENGLISH.facts[page.kind][fact.number].split(" | ")}
        found += [fact.link in wordings for fact in page.facts]
    assert least <= sum(found) / len(found) <= most


def test_questions_have_one_relevant_document_and_are_held_out(output):
    documents, _ = read(source("mediawiki", output / "wiki.xml.bz2"))
    queries, folds = rows(output, "queries.tsv"), dict(rows(output, "folds.tsv"))
    qrels = rows(output, "qrels.txt", " ")
    articles = {d.id for d in documents if not d.redirect and not d.is_disambiguation}
    assert {row[0] for row in rows(output, "docs.tsv")} == articles and len(articles) == 400
    assert len(queries) == len(folds) == len(qrels) == 216 and len(set(folds.values())) == 5
    assert {docid for _, _, docid, _ in qrels} <= articles
    assert len({docid for _, _, docid, _ in qrels}) == len({(docid, folds[qid]) for qid, _, docid, _ in qrels})
    text = "\n".join(d.text for d in documents)
    assert not any(question.rstrip("?.") in text for _, question in queries)


def test_no_question_is_worded_like_its_page_or_a_link_to_it():
    pages = sample_wiki.world(400, 0)
    asked = {page.id for _, _, page, _ in sample_wiki.questions(pages, 0)}
    wordings = {True: Counter(), False: Counter()}
    for page in pages:
        for fact in page.facts:
            table = ENGLISH.facts[page.kind][fact.number].split(" | ")
            assert fact.lead in table[:2] and fact.question == table[2] and fact.link in {*table} - {fact.lead}
            wordings[page.id in asked][table.index(fact.link)] += 1
    assert len(asked) == 216 and set(wordings[True]) == {0, 1} and set(wordings[False]) == {2}
