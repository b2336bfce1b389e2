"""A small finished site: documents, anchor texts, queries and a ranker with random weights."""

import json

from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.ranking.combined import Settings
from tests.support.tiny_bert import CONFIG, random_params, small_tokenizer

TUNED = {"k1": 2.0, "b": 0.1}
HOSTILE = "<img src=x onerror=alert(1)>"
DOCS = {
    "d1": ("Red cat", "the red cat sat on the mat and ran"),
    "d2": ("Blue dog", f"a blue dog ran after {HOSTILE} the cat"),
    "d3": ("Green mat " + HOSTILE, "one green mat"),
    "d4": ("", "two dogs sat in the red mat"),
}
QUERIES = ("red cat", "green mat", "dog", "two dogs", "blue", "cats ran")


def write_site(folder):
    """Writes the directory as `harp site` does."""
    survey = folder / "survey"
    survey.mkdir(parents=True)
    rows = [{"id": docid, "title": title, "text": text} for docid, (title, text) in DOCS.items()]
    (survey / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (survey / "anchors.tsv").write_text(f"d1\tthe cat\t3\nd1\tpet {HOSTILE}\t1\nd2\tthe dog\t2\n")
    (survey / "queries.tsv").write_text("".join(f"q{n}\t{query}\n" for n, query in enumerate(QUERIES)))
    (survey / "sources.tsv").write_text("q4\td2\n")  # "blue" was taken from d2
    weights = {"BM25": 1.0, "ranker": 0.5}
    (folder / "verdict.json").write_text(json.dumps({"weights": weights, "words": "The sum is better than BM25."}))
    Settings(
        docs="survey/docs.jsonl", fields=("title", "body"), anchors="survey/anchors.tsv", weights=weights,
        parameters={"bm25": TUNED, "bm25f": {}}, models={"ranker": "ranker"},
    ).save(str(folder))  # fmt: skip
    (folder / "bm25.json").write_text(json.dumps({"model": "bm25", "parameters": TUNED}))
    save_hf(str(folder / "ranker"), CONFIG, random_params(CONFIG), small_tokenizer(), "")
    return folder
