from data_pipeline.sample import SampleWiki, write_sample_wiki
from tests.support.source_reading import read, source


def rows(path, separator="\t"):
    return [line.split(separator) for line in path.read_text().splitlines()]


def test_questions_have_one_relevant_document_and_are_held_out(tmp_path):
    write_sample_wiki(SampleWiki(), str(tmp_path))
    documents, _ = read(source("mediawiki", tmp_path / "wiki.xml.bz2"))
    queries, folds = rows(tmp_path / "queries.tsv"), dict(rows(tmp_path / "folds.tsv"))
    qrels = rows(tmp_path / "qrels.txt", " ")
    articles = {d.id for d in documents if not d.redirect and not d.is_disambiguation}
    assert {row[0] for row in rows(tmp_path / "docs.tsv")} == articles and len(articles) == 400
    assert len(queries) == len(folds) == len(qrels) == 216 and len(set(folds.values())) == 5
    assert {docid for _, _, docid, _ in qrels} <= articles
    assert len({docid for _, _, docid, _ in qrels}) == len({(docid, folds[qid]) for qid, _, docid, _ in qrels})
    text = "\n".join(d.text for d in documents)
    assert not any(question.rstrip("?.") in text for _, question in queries)
