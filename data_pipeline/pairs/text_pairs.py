"""Pairs that need no links: the maps of ICT and PROP from text to records, for a linked corpus or a plain collection."""

import os
from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa

from data_pipeline.config import contrastive
from data_pipeline.engine.job import Engine, Job
from data_pipeline.engine.store import bucket_parts, read
from data_pipeline.engine.tables import Row, unpack
from data_pipeline.pairs import term_collection
from data_pipeline.pairs.examples import Examples, pair_record
from data_pipeline.pairs.requests import make_sampler
from data_pipeline.tasks import ict, prop
from data_pipeline.tasks.sampling import NoPair
from data_pipeline.text.terms import Span, Terms, Word, load_terms
from data_pipeline.weights.word_weights import from_bytes
from data_pipeline.weights.wordpieces import running_text
from harp_jax.base.randomness import generator

# Consecutive articles among which "other_article" draws a negative.
ARTICLES = 256


def build(engine: Engine) -> None:
    """Runs ICT and PROP as configured; for PROP the words of the collection are counted first."""
    job = engine.job
    if "ict" in job["config"]["tasks"]:
        engine.map("ict pairs", make_ict, bucket_parts(job, "documents"))
    if "prop" in job["config"]["tasks"]:
        engine.map("term counts", count_terms, bucket_parts(job, "passages"))
        engine.join("term_totals", term_collection.TERM_TOTALS_SQL, ["term_counts"], partitioned=True)
        folder = os.path.join(job["work"], "collection")
        if not os.path.exists(os.path.join(folder, "complete")):
            pages = engine.query("SELECT COUNT(*) FROM passages", ["passages"])[0][0]
            term_collection.save(job, folder, pages)
        engine.map("prop pairs", make_prop, bucket_parts(job, "passages"))


def make_ict(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over the buckets of `documents`: one pair per passage of at least two sentences."""
    c = job["config"]
    out = Examples(c, load_terms(c["tokenizer"], c["stopwords"], c["unit"]).tokenizer.size)
    in_links = {row["id"]: row["in_links"] for row in _in_links(job, number)}
    wanted = {page for page, n in in_links.items() if n or c["text_pages"] == "all"}
    for articles in _batches(job, number, wanted):
        for which, (page, passages) in enumerate(articles):
            for at, passage in enumerate(passages):
                key = f"{page}#{at}"
                rng = generator(c["seed"], ict.TASK, key)
                other = which
                if c["ict_negative"] == "other_article" and len(articles) > 1:
                    other = int(rng.integers(len(articles) - 1))
                    other += other >= which
                others = articles[other][1], at if other == which else None
                try:
                    record = pair_record(
                        ict.TASK, key, page, ict.sides(passage, *others, c["ict_keep"], rng), c["max_query_tokens"],
                        c["max_doc_tokens"],
                    )  # fmt: skip
                except NoPair as reason:
                    out.dropped.add(f"{ict.TASK}-{reason}", key)
                    continue
                out.add_pair(record, in_links[page], in_links[articles[other][0]])
    return out.tables()


def _batches(job: Job, number: int, wanted: Collection[str]) -> Iterator[list[tuple[str, list[ict.Passage]]]]:
    """The wanted articles as passages, `ARTICLES` at a time."""
    batch: list[tuple[str, list[ict.Passage]]] = []
    for page, sentences in running_text(job, number):
        passages = ict.passages(sentences, job["config"]["ict_passage_tokens"])
        if passages and page in wanted:
            batch.append((page, passages))
        if len(batch) == ARTICLES:
            yield batch
            batch = []
    if batch:
        yield batch


def _in_links(job: Job, number: int) -> Iterator[Row]:
    """Rows {doc, id, in_links} of a bucket's pages that may be documents of pairs."""
    counts = {row["doc"]: row["in_links"] for row in read(job, "candidates", number).to_pylist()}
    for row in read(job, "pages", number).select(["doc", "id", "problem"]).to_pylist():
        if not row["problem"]:
            yield row | {"in_links": counts.get(row["doc"], 0)}


def count_terms(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over the buckets of `passages`: how often each term occurs, or its shares of attention in units of 2⁻³²."""
    c = job["config"]
    terms = load_terms(c["tokenizer"], c["stopwords"], c["unit"])
    counts: dict[Word, int] = {}
    for _, _, amounts in _pages(job, number, terms):
        for word, amount in amounts.items():
            counts[word] = counts.get(word, 0) + (
                round(amount * term_collection.UNIT) if contrastive(c) else int(amount)
            )
    return {"term_counts": term_collection.counted(counts)}


def make_prop(job: Job, number: int, payload: None) -> dict[str, pa.Table]:
    """Map over the buckets of `passages`: `prop_pairs` pairs of word sets per page."""
    c = job["config"]
    terms = load_terms(c["tokenizer"], c["stopwords"], c["unit"])
    sampler = make_sampler(c, terms)
    collection = term_collection.TermCollection(os.path.join(job["work"], "collection"), contrastive(c))
    mu = c["prop_mu"] or collection.mean_length
    out = Examples(c, terms.tokenizer.size)
    pages = {row["doc"]: row for row in _in_links(job, number)}
    for doc, tokens, amounts in _pages(job, number, terms):
        page = pages[doc]
        if c["text_pages"] == "linked" and not page["in_links"]:
            continue
        if not amounts:
            out.dropped.add(f"{prop.TASK}-page-has-too-few-terms", page["id"])
            continue
        model: prop.Smoothed | prop.Contrastive
        if contrastive(c):
            model = prop.Contrastive(amounts, collection)
        else:
            model = prop.Smoothed({word: int(n) for word, n in amounts.items()}, collection, mu)
        for at in range(c["prop_pairs"]):
            key = f"{page['id']}#{at}"
            rng = generator(c["seed"], prop.TASK, key)
            try:
                sides = prop.sides(model, tokens, sampler, rng)
                record = pair_record(prop.TASK, key, page["id"], sides, c["max_query_tokens"], c["max_doc_tokens"])
            except NoPair as reason:
                out.dropped.add(f"{prop.TASK}-{reason}", key)
                continue
            out.add_pair(record, page["in_links"], None)
    return out.tables()


def _pages(job: Job, number: int, terms: Terms) -> Iterator[tuple[int, list[int], dict[Word, float]]]:
    """(doc, tokens, amounts) of each passage: the counts of its terms, or their shares of the attention from [CLS]."""
    weights: dict[int, bytes] = {}
    if contrastive(job["config"]):
        weights = {row["doc"]: row["weights"] for row in read(job, "passage_weights", number).to_pylist()}
    for batch in read(job, "passages", number).to_batches(max_chunksize=512):
        for row in batch.to_pylist():
            words = Span(unpack(row["tokens"]), unpack(row["lengths"])).words()
            # float16 stores tiny weights as 0; such a word keeps a small probability.
            each = np.maximum(from_bytes(weights[row["doc"]]), 2.0**-25).tolist() if weights else [1.0] * len(words)
            amounts: dict[Word, float] = {}
            for word, amount in zip(words, each):
                if word in amounts:
                    amounts[word] += amount
                elif terms.is_term(word):
                    amounts[word] = amount
            if weights:
                total = sum(amounts.values())
                amounts = {word: amount / total for word, amount in amounts.items()}
            yield row["doc"], unpack(row["tokens"]).tolist(), amounts
