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

import json
import os
import re
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import TypedDict

from ml_collections import ConfigDict

from data_pipeline.engine import tables
from data_pipeline.engine.job import Engine, Job, Outputs
from data_pipeline.engine.store import bucket_parts, buckets, read
from data_pipeline.engine.tables import Row, summary_of_dropped
from data_pipeline.links import link_graph
from data_pipeline.links.web_sites import TITLE_SEPARATOR
from data_pipeline.output.claim import once_for_config
from data_pipeline.output.collection import ANCHOR_TEXTS_SQL, counted_texts, linked_pages, resolved_links, write_rows
from data_pipeline.tasks.maps import split_of
from data_pipeline.text.terms import STOPWORDS, normalise_anchor, read_stopwords
from data_pipeline.weights.tokenised import texts_of
from harp_jax.base import files
from harp_jax.base.progress import stage
from harp_jax.base.randomness import hash64
from harp_jax.input.records import Loss
from harp_jax.text.languages import ENGLISH, phrases

SURVEY = "survey.json"
WRITTEN = ("docs.jsonl", "anchors.tsv", "queries.tsv", "qrels.txt", "sources.tsv", SURVEY)
PAGES_SQL = """
    SELECT COUNT(*), CAST(COALESCE(SUM(s.held), 0) AS BIGINT)
    FROM (SELECT DISTINCT doc FROM resolved WHERE problem = '') r JOIN source_pages s ON r.doc = s.doc
"""
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
WAITING = 16  # texts held in memory for each query
PER_PAGE = 3  # maximum queries from one page
_WORD = re.compile(r"\w+")


class Survey(TypedDict):
    """The content of survey.json; `text`: all of it in words."""

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
    held_out_trained: int
    held_out_titles: int
    held_out_texts: int
    held_out_in_title: int
    queries: int
    fraction: float
    losses: dict[str, Loss]
    words: int
    text: str


@once_for_config
def write_survey(config: ConfigDict, output: str, queries: int = 300, words: int = 0) -> Survey:
    """Writes the folder `output` and returns the content of its survey.json.

    config: a generation config; its tasks and encoder are not used. `queries`: maximum number; `words`: words of the anchor's
    sentence to add to each. Works out of core. Raises InputError for bad input.
    """
    written = {name: os.path.join(output, name) for name in WRITTEN}
    with linked_pages(config, output, list(written.values()), stages=4) as engine:
        resolved_links(engine)
        stage("held-out anchors")
        tabulate(engine)
        stage("written")
        sql = ANCHOR_TEXTS_SQL.format("JOIN source_pages s ON r.doc = s.doc", "AND s.held = 0")
        engine.join(tables.ANCHOR_TEXTS, sql, [tables.RESOLVED, tables.PAGES, tables.SOURCE_PAGES], partitioned=True)
        found = choose(engine.job, queries, words)
        documents, _ = write_rows(engine.job, written["docs.jsonl"])
        summary = _summary(engine, found, documents, words)
        with files.replacing(written["anchors.tsv"]) as file:
            file.writelines(f"{docid}\t{anchor}\t{n}\n" for docid, anchor, n in counted_texts(engine.job))
        _write_queries(found, output)
        with files.replacing(written[SURVEY]) as file:
            json.dump(summary, file, indent=1, ensure_ascii=False)
        return summary


@dataclass
class Query:
    """A held-out anchor text. `place` is (doc, start and end of the link, and of its sentence) of its first occurrence."""

    anchor: str
    place: tuple[int, int, int, int, int]
    relevant: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)  # held-out pages with such a link, which are not candidates
    in_title: bool = False  # all words of the anchor occur in the title of a destination
    text: str = ""


@dataclass
class HeldOut:
    """Counts of the links of held-out pages, and the queries made of them, in the order of a hash."""

    links: int = 0
    trained: int = 0  # links whose text other pages use
    titles: int = 0  # links whose text is the title of its destination
    texts: int = 0  # distinct anchor texts that are left
    in_title: int = 0  # of these, texts whose words all occur in the title of a destination
    queries: list[Query] = field(default_factory=list)


def mark_sources(job: Job, number: int, payload: None) -> Outputs:
    """Map over the buckets of `pages`: which pages are held out."""
    fraction = job.config["validation_fraction"]
    pages = read(job, tables.PAGES, number, ["doc", "id"])
    docs, ids = pages.column("doc").to_pylist(), pages.column("id").to_pylist()
    held = [int(split_of(page, fraction) == "validation") for page in ids]
    return {tables.SOURCE_PAGES: {"doc": docs, "held": held}}


def tabulate(engine: Engine) -> None:
    """From `pages` and `resolved` to `source_pages`, `anchor_use` and `held_out`."""
    engine.map("source pages", mark_sources, bucket_parts(engine.job, tables.PAGES))
    engine.join(tables.ANCHOR_USE, ANCHOR_USE_SQL, [tables.RESOLVED, tables.SOURCE_PAGES])
    inputs = [tables.RESOLVED, tables.SOURCE_PAGES, tables.PAGES, tables.DOCUMENTS, tables.ANCHOR_USE]
    engine.join(tables.HELD_OUT, HELD_OUT_SQL, inputs, partitioned=True)


def choose(job: Job, count: int, words: int = 0) -> HeldOut:
    """At most `count` queries, each the anchor with up to `words` words of its sentence around it.

    If there are too many texts, those with the lowest hashes are kept: memory grows with `count` (WAITING texts for each), and the
    number of texts is then an estimate.
    """
    found = HeldOut()
    kept: dict[str, Query] = {}
    titles: set[str] = set()
    limit = 1 << 64
    for row in _rows(job):
        anchor = row["anchor"]
        found.links += 1
        found.trained += row["trained"] > 0
        title = not row["trained"] and is_title(anchor, row["title"])
        found.titles += title
        if row["trained"] or _key(anchor) >= limit:
            continue
        if title:
            titles.add(anchor)
        _add(kept, row)
        while len(kept) > WAITING * count:
            limit //= 2
            kept = {anchor: query for anchor, query in kept.items() if _key(anchor) < limit}
            titles = {anchor for anchor in titles if _key(anchor) < limit}
    left = [query for anchor, query in kept.items() if anchor not in titles]
    found.texts = round(len(left) * ((1 << 64) / limit))
    found.in_title = round(sum(query.in_title for query in left) / max(1, len(left)) * found.texts)
    pages: Counter[str] = Counter()
    for query in sorted(left, key=lambda query: (_key(query.anchor), query.anchor)):
        page = query.sources[0].partition("#")[0]
        pages[page] += 1
        if pages[page] <= PER_PAGE and len(found.queries) < count:
            found.queries.append(query)
    _write_texts(job, found.queries, words)
    return found


def _key(anchor: str) -> int:
    return hash64("held-out", anchor)


def _rows(job: Job) -> Iterator[Row]:
    order = [("doc", "ascending"), ("link_start", "ascending")]
    for bucket in buckets(job, tables.HELD_OUT):
        for batch in read(job, tables.HELD_OUT, bucket).sort_by(order).to_batches(max_chunksize=4096):
            yield from batch.to_pylist()


def _add(kept: dict[str, Query], row: Row) -> None:
    query = kept.get(row["anchor"])
    if query is None:
        place = (row["doc"], row["link_start"], row["link_end"], row["sentence_start"], row["sentence_end"])
        query = kept[row["anchor"]] = Query(row["anchor"], place)
    if row["id"] not in query.relevant:
        query.relevant.append(row["id"])
    if row["source"] not in query.sources:
        query.sources.append(row["source"])
    query.in_title |= set(_WORD.findall(row["anchor"])) <= set(_WORD.findall(row["title"].lower()))


def is_title(anchor: str, title: str) -> bool:
    """Whether a normalised anchor text is the title, or one of the headings in the title of a section."""
    return anchor in map(normalise_anchor, (title, *title.split(TITLE_SEPARATOR)))


def _write_texts(job: Job, queries: list[Query], words: int) -> None:
    """Sets `Query.text`. The added words are those nearest to the anchor that are not stopwords, in order."""
    wanted, texts = {query.place[0] for query in queries}, dict[int, str]()
    for bucket in buckets(job, tables.DOCUMENTS):
        texts |= texts_of(job, bucket, wanted)
    language = job.config["language"]
    stopwords = read_stopwords(job.config["stopwords"], language)
    for query in queries:
        doc, start, end, first, last = query.place
        query.text = in_context(texts[doc][first:last], start - first, end - first, words, language, stopwords)


def in_context(
    sentence: str, start: int, end: int, words: int, language: str = ENGLISH, stopwords: Container[str] = STOPWORDS
) -> str:
    """The anchor [start, end) with the `words` nearest other words of its sentence, without stopwords and numbers."""
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
    before = [word for place, word in around if place < start]
    return " ".join([*before, anchor, *(word for place, word in around if place >= start)])


def _summary(engine: Engine, found: HeldOut, documents: int, words: int) -> Survey:
    source = engine.job.config["source"]
    (pages, links, kept, texts) = engine.query(
        "SELECT COUNT(DISTINCT doc), COUNT(*), COUNT(CASE WHEN problem = '' THEN 1 END), "
        "COUNT(DISTINCT CASE WHEN problem = '' THEN anchor END) FROM resolved",
        [tables.RESOLVED],
    )[0]
    sources, held = engine.query(PAGES_SQL, [tables.RESOLVED, tables.SOURCE_PAGES])[0]
    summary: Survey = {
        "format": source["format"],
        "language": engine.job.config["language"],
        "language_from": engine.job.config["language_from"],
        "links": links,
        "links_kept": kept,
        "anchor_texts": texts,
        "pages_with_links": sources,
        "pages_held_out": held,
        "held_out_links": found.links,
        "held_out_trained": found.trained,
        "held_out_titles": found.titles,
        "held_out_texts": found.texts,
        "held_out_in_title": found.in_title,
        "queries": len(found.queries),
        "fraction": engine.job.config["validation_fraction"],
        "losses": summary_of_dropped(link_graph.dropped(engine, with_links=True)),
        "documents": documents,
        "words": words,
        "text": "",
    }
    return summary | {"text": as_text(summary)}


def _write_queries(found: HeldOut, output: str) -> None:
    numbered = [(f"a{number}", query) for number, query in enumerate(found.queries, 1)]
    with files.replacing(os.path.join(output, "queries.tsv")) as file:
        file.writelines(f"{qid}\t{query.text}\n" for qid, query in numbered)
    with files.replacing(os.path.join(output, "qrels.txt")) as file:
        file.writelines(f"{qid} 0 {docid} 1\n" for qid, query in numbered for docid in query.relevant)
    with files.replacing(os.path.join(output, "sources.tsv")) as file:
        # A source that another page links to with the same text may be an answer.
        sources = ((qid, docid) for qid, query in numbered for docid in query.sources if docid not in query.relevant)
        file.writelines(f"{qid}\t{docid}\n" for qid, docid in sources)


def as_text(summary: Survey) -> str:
    """The survey as lines: what was found, what was dropped and why, what can be tested."""
    s = summary
    largest = sorted(s["losses"].items(), key=lambda item: (-item[1]["count"], item[0]))
    lines = [
        f"{s['documents']:,} documents ({s['format']}), language {s['language']} ({s['language_from']}), {s['links']:,} links, "
        f"{s['links_kept']:,} of them kept, with {s['anchor_texts']:,} anchor texts on {s['pages_with_links']:,} documents",
        "dropped, each with an example:",
        *(f"  {reason} {entry['count']:,}: {_example(entry)}" for reason, entry in largest),
        f"held out: {s['pages_held_out']:,} documents with {s['held_out_links']:,} links; {s['held_out_trained']:,} use a "
        f"text that other pages also use, {s['held_out_titles']:,} the title of their destination",
        f"{s['held_out_texts']:,} texts remain, {_share(s['held_out_in_title'], s['held_out_texts'])} of them made up of words "
        f"of the title; {s['queries']:,} are queries",
    ]
    return "\n".join(lines)


def _example(entry: Loss) -> str:
    where, what = entry["examples"][0]
    return f"{what} ({where})" if what and what != where else where


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "none"
