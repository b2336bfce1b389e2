"""A small finished site: documents, anchor texts, queries and a ranker with random weights."""

import json
import shutil

from harp_jax.checkpoints.huggingface import save_hf
from harp_jax.ranking.vectors import add_texts
from harp_jax.site.search import Settings, documents
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
    pages = folder / "pages"
    pages.mkdir(parents=True)
    rows = [{"id": docid, "title": title, "text": text} for docid, (title, text) in DOCS.items()]
    (pages / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (pages / "anchors.tsv").write_text(f"d1\tthe cat\t3\nd1\tpet {HOSTILE}\t1\nd2\tthe dog\t2\n")
    (pages / "queries.tsv").write_text("".join(f"q{n}\t{query}\n" for n, query in enumerate(QUERIES)))
    (pages / "sources.tsv").write_text("q4\td2\n")  # "blue" was taken from d2
    weights = {"BM25": 1.0, "ranker": 0.5}
    (folder / "verdict.json").write_text(json.dumps({"weights": weights, "line": "The sum is better than BM25."}))
    settings = Settings(weights=weights, parameters={"bm25": TUNED, "bm25f": {}}, models={"ranker": "ranker"})
    settings.save(str(folder))
    save_hf(str(folder / "ranker"), CONFIG, random_params(CONFIG), small_tokenizer(), "")
    return folder


def add_vectors(folder, windows=1):
    """Embeds the documents with the ranker's encoder."""
    shutil.copytree(folder / "ranker", folder / "encoder", dirs_exist_ok=True)
    return add_texts(documents(str(folder)), str(folder / "encoder"), windows, str(folder / "vectors"))
