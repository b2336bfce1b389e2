"""A small finished site: documents, anchor texts, queries and a ranker with random weights."""

import json
import shutil
from dataclasses import replace

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


def write_site(folder, more=None, **changes):
    """Writes the directory as `harp site` does: `more` documents, docid → (title, text), and settings with `changes`."""
    pages, weights = folder / "pages", {"BM25": 1.0, "ranker": 0.5}
    pages.mkdir(parents=True)
    docs = DOCS | (more or {})
    rows = [{"id": docid, "title": title, "text": text} for docid, (title, text) in docs.items()]
    (pages / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (pages / "anchors.tsv").write_text(f"d1\tthe cat\t3\nd1\tpet {HOSTILE}\t1\nd2\tthe dog\t2\n")
    (pages / "queries.tsv").write_text("".join(f"q{n}\t{query}\n" for n, query in enumerate(QUERIES)))
    (pages / "sources.tsv").write_text("q4\td2\n")  # "blue" was taken from d2
    (folder / "verdict.json").write_text(json.dumps({"weights": weights, "line": "The sum is better than BM25."}))
    settings = Settings(weights=weights, parameters={"bm25": TUNED, "bm25f": {}}, models={"ranker": "ranker"})
    settings = replace(settings, **changes)
    settings.save(str(folder))
    save_hf(str(folder / "ranker"), CONFIG, random_params(CONFIG), small_tokenizer(), "")
    if settings.encoder:  # that of the ranker
        encoder = shutil.copytree(folder / "ranker", folder / settings.encoder)
        add_texts(documents(str(folder)), str(encoder), settings.windows, str(folder / "vectors"))
    return folder
