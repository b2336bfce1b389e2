"""Surveys the links of a site, for training and for tests without labels.

Writes to a folder

    docs.jsonl    the documents, {"id", "title", "text"}
    anchors.tsv   anchor texts of the pages that are not held out: docid<TAB>anchor text<TAB>count
    queries.tsv   anchor texts of held-out pages, and qrels.txt their destinations
    sources.tsv   qid<TAB>docid: the pages with these links, which are not candidates
    survey.json   the counts; written last

in one pass over the pages, with the fields of a generation config, so that `harp generate` keeps the same links.

Pages are held out as in the generation job: by the hash of the id, all sections of a page together, `validation_fraction` of the
pages. Their pairs are in the validation split, which no training reads. A query is an anchor text of a held-out page that no other
page uses, for any destination: a text that was trained on is not tested. Texts that equal the title of their destination are also
left out, since BM25 finds those without help. At most PER_PAGE queries come from one page, so that a single list of links is not
the whole test. Pages with the link are not candidates: they contain the words of the query and would rank first. Queries keep the
page's spelling; the ranker must fold case and accents as in its documents.
"""

import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypedDict

from ml_collections import ConfigDict

from data_pipeline.engine import tables
from data_pipeline.engine.job import Job, Outputs
from data_pipeline.engine.store import bucket_parts, buckets, read, rows
from data_pipeline.engine.tables import Row
from data_pipeline.links import link_graph
from data_pipeline.links.link_graph import most_first
from data_pipeline.links.web_sites import TITLE_SEPARATOR
from data_pipeline.output.collection import ANCHOR_TEXTS_SQL, counted_texts, linked_pages, write_rows
from data_pipeline.tasks.maps import split_of
from data_pipeline.text.terms import STOPWORDS, normalise_anchor, read_stopwords
from data_pipeline.weights.tokenised import texts_of
from harp_jax.base.files import replacing
from harp_jax.base.progress import stage
from harp_jax.base.randomness import hash64
from harp_jax.input.records import Loss
from harp_jax.text.languages import ENGLISH, phrases

ANCHOR_USE_SQL = """
    SELECT r.anchor AS anchor, CAST(SUM(1 - s.held) AS BIGINT) AS trained
    FROM resolved r JOIN source_pages s ON r.doc = s.doc WHERE r.problem = '' GROUP BY r.anchor
"""
HELD_OUT_SQL = """
    SELECT r.anchor, r.doc, r.link_start, r.link_end, r.sentence_start, r.sentence_end, r.bucket, p.id AS id, d.title AS title,
        u.trained, q.id AS source
    FROM resolved r
    JOIN source_pages s ON r.doc = s.doc
    JOIN pages q ON r.doc = q.doc
    JOIN pages p ON r.destination = p.doc
    JOIN documents d ON r.destination = d.doc
    JOIN anchor_use u ON r.anchor = u.anchor
    WHERE r.problem = '' AND s.held = 1
"""
COUNTS = ("links", "links_kept", "anchor_texts", "pages_with_links", "pages_held_out")
COUNTS_SQL = """
    SELECT COUNT(*), COUNT(CASE WHEN r.problem = '' THEN 1 END), COUNT(DISTINCT CASE WHEN r.problem = '' THEN r.anchor END),
        COUNT(DISTINCT CASE WHEN r.problem = '' THEN r.doc END),
        COUNT(DISTINCT CASE WHEN r.problem = '' AND s.held = 1 THEN r.doc END)
    FROM resolved r JOIN source_pages s ON r.doc = s.doc
"""
WAITING = 16  # texts held in memory for each query
PER_PAGE = 3  # maximum queries from one page
_WORD = re.compile(r"\w+")


@dataclass
class Query:
    """A held-out anchor text; `link`: a row of `held_out`, its first occurrence; `relevant`: its destinations; `sources`: held-out
    pages with such a link, which are not candidates; `is_title`: it is the title of a destination; `in_title`: all words occur in
    one."""

    link: Row
    relevant: dict[str, None] = field(default_factory=dict)
    sources: dict[str, None] = field(default_factory=dict)
    is_title: bool = False
    in_title: bool = False


class Survey(TypedDict):
    """The content of survey.json; text: all of it in words."""

    format: str
    language: str
    language_from: str
    documents: int
    links: int
    links_kept: int
    anchor_texts: int
    pages_with_links: int
    pages_held_out: int
    held_out_links: int
    held_out_trained: int  # whose text other pages use
    held_out_titles: int  # whose text is the title of their destination
    held_out_texts: int  # distinct texts of the others
    held_out_in_title: int  # those whose words all occur in the title of a destination
    queries: int
    losses: dict[str, Loss]
    text: str


def write_survey(config: ConfigDict, output: str, queries: int, words: int) -> Survey:
    """Writes the new folder `output` and returns the content of its survey.json. config: a generation config; its tasks and encoder
    are not used. `queries`: maximum number; `words`: words of the anchor's sentence to add to each. Works out of core. Raises
    InputError for bad input."""
    with linked_pages(config, output, stages=4) as engine:
        job, c = engine.job, engine.job.config
        stage("held-out anchors")
        engine.map("source pages", mark_sources, bucket_parts(job, tables.PAGES))
        engine.join(tables.ANCHOR_USE, ANCHOR_USE_SQL)
        engine.join(tables.HELD_OUT, HELD_OUT_SQL)
        stage("written")
        sql = ANCHOR_TEXTS_SQL.format("JOIN source_pages s ON r.doc = s.doc", "AND s.held = 0")
        engine.join(tables.ANCHOR_TEXTS, sql)
        chosen, counts = choose(job, queries)
        documents, _ = write_rows(job, os.path.join(output, "docs.jsonl"))
        made: Any = {"format": c["source"]["format"], "language": c["language"], "language_from": c["language_from"]}
        made |= {"documents": documents} | dict(zip(COUNTS, engine.query(COUNTS_SQL)[0])) | counts
        survey: Survey = made | {"queries": len(chosen), "losses": link_graph.losses(engine, with_links=True)}
        survey["text"] = as_text(survey)
        numbered = [(f"a{number}", query) for number, query in enumerate(chosen, 1)]
        # A source that another page links to with the same text may be an answer.
        apart = ((qid, docid) for qid, query in numbered for docid in query.sources if docid not in query.relevant)
        for name, lines in (
            ("anchors.tsv", (f"{docid}\t{anchor}\t{n}\n" for docid, anchor, n in counted_texts(job))),
            ("queries.tsv", (f"{qid}\t{text}\n" for (qid, _), text in zip(numbered, query_texts(job, chosen, words)))),
            ("qrels.txt", (f"{qid} 0 {docid} 1\n" for qid, query in numbered for docid in query.relevant)),
            ("sources.tsv", (f"{qid}\t{docid}\n" for qid, docid in apart)),
            ("survey.json", [json.dumps(survey, indent=1, ensure_ascii=False)]),
        ):
            with replacing(os.path.join(output, name)) as file:
                file.writelines(lines)
        return survey


def mark_sources(job: Job, number: int, payload: None) -> Outputs:
    """Map over the buckets of `pages`: which pages are held out."""
    pages, fraction = read(job, tables.PAGES, number, ["doc", "id"]).to_pydict(), job.config["validation_fraction"]
    held = [int(split_of(page, fraction) == "validation") for page in pages["id"]]
    return {tables.SOURCE_PAGES: {"doc": pages["doc"], "held": held}}


def choose(job: Job, count: int) -> tuple[list[Query], dict[str, int]]:
    """At most `count` queries in the order of a hash, and the counts of survey.json that begin with held_out. Memory grows with
    `count`, not with the pages: of too many texts those with the lowest hashes are kept (WAITING for each query), and the counts of
    texts are then estimates."""
    key, limit = partial(hash64, "held-out"), 1 << 64
    texts: dict[str, Query] = {}
    links = trained = titles = 0
    order = ("doc", "link_start")
    every = (rows(job, tables.HELD_OUT, bucket, order=order) for bucket in buckets(job, tables.HELD_OUT))
    for link in itertools.chain.from_iterable(every):
        anchor, links = link["anchor"], links + 1
        if link["trained"] > 0:
            trained += 1
            continue
        title = is_title(anchor, link["title"])
        titles += title
        if key(anchor) >= limit:
            continue
        query = texts.setdefault(anchor, Query(link))
        query.relevant[link["id"]] = query.sources[link["source"]] = None
        query.is_title |= title
        query.in_title |= set(_WORD.findall(anchor)) <= set(_WORD.findall(link["title"].lower()))
        while len(texts) > WAITING * count:
            limit //= 2
            texts = {text: query for text, query in texts.items() if key(text) < limit}
    left = {anchor: query for anchor, query in texts.items() if not query.is_title}
    in_title = sum(query.in_title for query in left.values())
    counts = dict(links=links, trained=trained, titles=titles)
    counts |= dict(texts=len(left) * (1 << 64) // limit, in_title=in_title * (1 << 64) // limit)
    # At most PER_PAGE of one page.
    pages: Counter[str] = Counter()
    chosen: list[Query] = []
    for anchor in sorted(left, key=lambda anchor: (key(anchor), anchor)):
        page = next(iter(left[anchor].sources)).partition("#")[0]
        pages[page] += 1
        if pages[page] <= PER_PAGE and len(chosen) < count:
            chosen.append(left[anchor])
    return chosen, {f"held_out_{name}": number for name, number in counts.items()}


def is_title(anchor: str, title: str) -> bool:
    """Whether a normalised anchor text is the title, or one of the headings in the title of a section."""
    return anchor in map(normalise_anchor, (title, *title.split(TITLE_SEPARATOR)))


def query_texts(job: Job, queries: list[Query], words: int) -> list[str]:
    """The anchors as their pages spell them, each with up to `words` words of its sentence."""
    links, texts, language = [query.link for query in queries], dict[int, str](), job.config["language"]
    for bucket in buckets(job, tables.DOCUMENTS):
        texts |= texts_of(job, bucket, {link["doc"] for link in links})
    stopwords = read_stopwords(job.config["stopwords"], language)
    made = []
    for link in links:
        first, sentence = link["sentence_start"], texts[link["doc"]][link["sentence_start"] : link["sentence_end"]]
        place = link["link_start"] - first, link["link_end"] - first
        made.append(in_context(sentence, *place, words, language, stopwords))
    return made


def in_context(
    sentence: str, start: int, end: int, words: int, language: str = ENGLISH, stopwords: Container[str] = STOPWORDS
) -> str:
    """The anchor [start, end) with the `words` nearest other words of its sentence, without stopwords and numbers, in order."""
    pattern, anchor = phrases(language), " ".join(sentence[start:end].split())
    own = set(pattern.findall(anchor.lower()))
    near: dict[str, tuple[int, int, str]] = {}
    for match in pattern.finditer(sentence):
        word, distance = match[0], max(start - match.end(), match.start() - end)
        folded = word.lower()
        if distance >= 0 and folded not in own and folded not in stopwords and not word.isnumeric():
            place = (distance, match.start(), word)
            near[folded] = min(near.get(folded, place), place)
    around = sorted((place, word) for _, place, word in sorted(near.values())[:words])
    return " ".join(word for _, word in sorted([*around, (start, anchor)]))


def as_text(s: Survey) -> str:
    """The survey as lines: what was read, what was dropped and why, what can be tested."""
    share = f"{s['held_out_in_title'] / s['held_out_texts']:.0%}" if s["held_out_texts"] else "none"
    dropped = []
    for reason, count in most_first(s["losses"]).items():
        where, what = s["losses"][reason]["examples"][0]
        dropped.append(f"  {reason} {count:,}: {f'{what} ({where})' if what and what != where else where}")
    lines = [
        f"{s['documents']:,} documents ({s['format']}), language {s['language']} ({s['language_from']}), {s['links']:,} links, "
        f"{s['links_kept']:,} of them kept, with {s['anchor_texts']:,} anchor texts on {s['pages_with_links']:,} documents",
        "dropped, each with an example:",
        *dropped,
        f"held out: {s['pages_held_out']:,} documents with {s['held_out_links']:,} links; {s['held_out_trained']:,} use a "
        f"text that other pages also use, {s['held_out_titles']:,} the title of their destination",
        f"{s['held_out_texts']:,} texts remain, {share} of them made up of words of the title; {s['queries']:,} are queries",
    ]
    return "\n".join(lines)
