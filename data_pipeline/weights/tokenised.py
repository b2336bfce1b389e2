"""Maps from text to words and tokens: sentences with their anchors, destination passages, running text; how weights are stored."""

import itertools
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from typing import Any

import numpy as np

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_WEIGHTS, SENTENCE_ENDS, Job, Outputs
from data_pipeline.engine.store import rows
from data_pipeline.engine.tables import DropCounts, pack
from data_pipeline.text.sentences import sentences
from data_pipeline.text.terms import pack_words, terms_of
from harp_jax.input.contrastive_groups import copy_signature
from harp_jax.text.tokenizer import Tokenizer

LONGEST = 512  # see `longest`
BATCH = 512


def longest(config: Mapping[str, Any], tokenizer: Tokenizer) -> int:
    """Maximum tokens of a sentence, passage or piece of running text, special tokens included; longer ones are truncated. At least
    LONGEST, so that with short documents only sentences without punctuation (tables, code) are truncated."""
    return max(LONGEST, config["max_doc_tokens"] + tokenizer.template.around_text)


def tokenise_sentences(job: Job, number: int, payload: None) -> Outputs:
    """Map over the buckets of `ranked`: each sentence with links, as words, and its anchors as spans of words."""
    terms, counts = terms_of(job.config), DropCounts()
    links = list(rows(job, tables.RANKED, number, order=("doc", "link_start")))
    texts = texts_of(job, number, {link["doc"] for link in links})
    grouped = itertools.groupby(links, key=lambda link: (link["doc"], link["sentence_start"]))
    groups = [list(group) for _, group in grouped]
    made: list[tables.SentenceRow] = []
    for at in range(0, len(groups), BATCH):
        batch = groups[at : at + BATCH]
        parts = [texts[g[0]["doc"]][g[0]["sentence_start"] : g[0]["sentence_end"]] for g in batch]
        for group, (span, starts, ends) in zip(batch, terms.split(parts, job.window)):
            # Links as spans of the words that overlap their characters.
            anchors: list[tables.AnchorRow] = []
            for link in group:
                base = link["sentence_start"]
                start = int(np.searchsorted(ends, link["link_start"] - base, side="right"))
                end = int(np.searchsorted(starts, link["link_end"] - base, side="left"))
                if start < end:
                    anchors.append(tables.AnchorRow(
                        number=link["link_start"], text=link["anchor"], start=start, end=end, destination=link["destination"],
                        place=link["place"], first=link["first"], own=link["own"], total=link["total"],
                        occurrence=link["occurrence"], occurrences=link["occurrences"],
                    ))  # fmt: skip
                else:  # beyond the encoder's window, or only characters that the tokenizer drops
                    counts.add("anchor-outside-window", link["id"], link["anchor"])
            if anchors:
                first = group[0]
                made.append(tables.SentenceRow(
                    doc=first["doc"], page=first["id"], start=first["sentence_start"], anchors=anchors,
                    words=pack_words(span.words), tokens=pack(span.tokens), lengths=pack(span.lengths),
                ))  # fmt: skip
    return {tables.SENTENCES: made, tables.LOSSES: counts.rows()}


def texts_of(job: Job, number: int, wanted: Container[int]) -> dict[int, str]:
    """The texts of the `wanted` documents of a bucket."""
    documents = rows(job, tables.DOCUMENTS, number, ["doc", "text"], 1024)
    return {row["doc"]: row["text"] for row in documents if row["doc"] in wanted}


def tokenise_passages(job: Job, number: int, payload: None) -> Outputs:
    """Map over the buckets of `candidates`: the first section of each, truncated as in the records, as words. S2 is sampled from
    the truncated text: the model does not read later words. Also returns its sentence ends, the signature that tells copies, and
    the number of passages that contain each word (hashed)."""
    terms = terms_of(job.config)
    limit = min(job.window, job.config["max_doc_tokens"])
    with_sentences, language = SENTENCE_ENDS in job.needs, job.config["language"]
    in_links = {row["doc"]: row["in_links"] for row in rows(job, tables.CANDIDATES, number)}
    words = Counter[int]()
    made: list[tables.PassageRow] = []
    every = rows(job, tables.DOCUMENTS, number, ["doc", "title", "text", "lead_end"])
    while batch := list(itertools.islice(every, BATCH)):
        documents = [document for document in batch if document["doc"] in in_links]
        leads = [document["text"][: document["lead_end"]] for document in documents]
        if job.config["document_title"]:
            leads = [f"{document['title']}\n{lead}" for document, lead in zip(documents, leads)]
        for document, lead, (span, starts, _) in zip(documents, leads, terms.split(leads, limit)):
            doc, bounds = document["doc"], np.concatenate([[0], np.cumsum(span.lengths)])
            ends = [end for _, end in sentences(lead, language)] if with_sentences else []
            in_tokens = {int(bounds[np.searchsorted(starts, end, side="left")]) for end in ends}
            made.append(tables.PassageRow(
                doc=doc, in_links=in_links[doc], words=pack_words(span.words), tokens=pack(span.tokens),
                lengths=pack(span.lengths), sentences=pack(sorted(in_tokens - {0})),
                signature=pack(copy_signature(span.tokens)),
            ))  # fmt: skip
            words.update(set(map(terms.hashed, span.words)))
    return {tables.PASSAGES: made, tables.WORD_COUNTS: {"word": list(words), "n": list(words.values())}}


def in_links(job: Job, number: int) -> Iterator[tuple[int, str, int]]:
    """(doc, id, in-links) of a bucket's pages that may be documents of pairs."""
    counts = {row["doc"]: row["in_links"] for row in rows(job, tables.CANDIDATES, number)}
    for row in rows(job, tables.PAGES, number, ["doc", "id", "problem"]):
        if not row["problem"]:
            yield row["doc"], row["id"], counts.get(row["doc"], 0)


def weighed_passages(job: Job, number: int) -> list[tables.PassageRow]:
    """The passages of a bucket that need weights: link destinations; for some tasks all."""
    return [row for row in rows(job, tables.PASSAGES, number) if row["in_links"] > 0 or ALL_WEIGHTS in job.needs]


def to_bytes(weights: np.ndarray) -> bytes:
    """The stored form: float16."""
    return np.asarray(weights, np.float16).tobytes()


def from_bytes(data: bytes) -> np.ndarray:
    """The stored weights as [n] float64, so that later arithmetic gives the same bits on every machine."""
    return np.frombuffer(data, np.float16).astype(np.float64)
