"""The link graph: from documents to links that lead to pages, with redirects resolved and anchor texts counted.

The SQL keeps to what DuckDB and Spark SQL compute alike: equi-joins, integer aggregates, row_number over total orders.
"""

from typing import Any

import pyarrow as pa

from data_pipeline import sources
from data_pipeline.engine import Job, LocalEngine, read
from data_pipeline.losses import Losses
from data_pipeline.sentences import sentences
from data_pipeline.sources import Chunk, LinkedDocument
from data_pipeline.tables import DOCS_PER_CHUNK, table
from data_pipeline.terms import normalise_anchor

# Chains of up to 2⁴ redirects are followed; MediaWiki itself follows one.
DOUBLINGS = 4


def parse_chunk(job: Job, number: int, chunk: Chunk) -> dict[str, pa.Table]:
    """Map over chunks: documents, their addresses, redirects among them, and what was dropped.

    A document with a `problem` keeps its address, so that links to it are counted under that problem.
    """
    c = job["config"]
    documents, lost = sources.parse(chunk, c["source"])
    losses = Losses()
    for loss in lost:
        losses.add(loss.reason, loss.where, loss.example)
    rows: list[dict[str, Any]] = []
    addresses: list[dict[str, Any]] = []
    redirects: list[dict[str, Any]] = []
    for position, document in enumerate(documents):
        doc = number * DOCS_PER_CHUNK + position
        if document.redirect is not None:
            redirects.append({"address": document.address, "target": document.redirect, "priority": doc})
            continue
        problem = _problem(document, c)
        home = number // job["per_bucket"]
        addresses.append(dict(doc=doc, home=home, address=document.address, id=document.id, problem=problem))
        if problem == "page-too-short":
            losses.add(problem, document.id, document.title)
            continue
        links = [dict(start=link.start, end=link.end, target=link.target) for link in document.links]
        rows.append(
            dict(
                doc=doc,
                id=document.id,
                title=document.title,
                text=document.text,
                lead_end=document.lead_end,
                links=links,
            )
        )
    return {
        "documents": table("documents", rows),
        "addresses": table("addresses", addresses),
        "redirects": table("redirects", redirects),
        "losses": losses.table(),
    }


def _problem(document: LinkedDocument, c: dict[str, Any]) -> str:
    """Why no link may lead to the page: a slug, or empty."""
    if c["min_article_words"] and len(document.text.split()) < c["min_article_words"]:
        return "page-too-short"
    if document.is_disambiguation and not c["keep_disambiguation"]:
        return "link-to-disambiguation"
    if not document.text[: document.lead_end].strip():
        return "link-to-empty-page"
    return ""


def extract_links(job: Job, number: int, _: Any) -> dict[str, pa.Table]:
    """Map over documents: every link with the sentence around it. Only paragraphs with links are cut into sentences."""
    rows: list[dict[str, Any]] = []
    losses = Losses()
    limit = job["config"]["max_anchor_words"]
    for batch in read(job, "documents", number).select(["doc", "id", "text", "links"]).to_batches(max_chunksize=256):
        for document in batch.to_pylist():
            for link, (start, end) in _in_sentences(document["text"], document["links"]):
                anchor = normalise_anchor(document["text"][link["start"] : link["end"]])
                if len(anchor.split()) > limit:
                    losses.add("anchor-too-long", document["id"], anchor)
                    continue
                rows.append(
                    dict(
                        doc=document["doc"], link_start=link["start"], link_end=link["end"], sentence_start=start, sentence_end=end,
                        anchor=anchor, target=link["target"],
                    )
                )  # fmt: skip
    return {"links": table("links", rows), "losses": losses.table()}


def _in_sentences(text: str, links: list[dict[str, Any]]) -> list[tuple[dict[str, Any], tuple[int, int]]]:
    """Each link with the span of its sentence; a link across sentence bounds (Yahoo! Inc.) joins the sentences."""
    found: list[tuple[dict[str, Any], tuple[int, int]]] = []
    bounds: list[tuple[int, int]] = []
    paragraph_end, at = -1, 0
    for link in links:
        if link["start"] >= paragraph_end:
            paragraph = text.rfind("\n", 0, link["start"]) + 1
            line_end = text.find("\n", link["start"])
            paragraph_end = len(text) if line_end < 0 else line_end
            spans = sentences(text[paragraph:paragraph_end])
            bounds, at = [(paragraph + start, paragraph + end) for start, end in spans], 0
        while at < len(bounds) and bounds[at][1] <= link["start"]:
            at += 1
        last = at
        while last < len(bounds) and bounds[last][1] < link["end"]:
            last += 1
        if last >= len(bounds) or bounds[at][0] > link["start"]:
            continue  # an anchor over two paragraphs, or of white space
        if last > at:
            joined = (bounds[at][0], bounds[last][1])
            bounds[at : last + 1] = [joined]
            # Links of the sentences before the join stand in the joined one as well.
            found = [(other, joined if joined[0] <= span[0] < joined[1] else span) for other, span in found]
        found.append((link, bounds[at]))
    return found


PAGES_SQL = """
    SELECT doc, home, home AS bucket, address, id, CASE WHEN excluded = 1 THEN 'link-to-excluded' ELSE problem END AS problem FROM (
        SELECT a.doc, a.home, a.address, a.id, a.problem, CASE WHEN e.address IS NULL THEN 0 ELSE 1 END AS excluded,
            row_number() OVER (PARTITION BY a.address ORDER BY a.doc) AS copy
        FROM addresses a LEFT JOIN excluded e ON a.address = e.address
    ) WHERE copy = 1
"""

# A page wins over a redirect of the same address, the first redirect over later ones.
ALIASES_SQL = """
    SELECT address, target FROM (
        SELECT r.address, r.target, row_number() OVER (PARTITION BY r.address ORDER BY r.priority, r.target) AS copy
        FROM redirects r LEFT JOIN pages p ON r.address = p.address
        WHERE p.address IS NULL
    ) WHERE copy = 1
"""

# Twice the reach of the step before; what runs in a cycle never arrives at a page.
FOLLOW_SQL = """
    SELECT a.address AS address, COALESCE(b.target, a.target) AS target FROM {0} a LEFT JOIN {0} b ON a.target = b.address
"""

RESOLVED_SQL = """
    SELECT l.doc, l.link_start, l.link_end, l.sentence_start, l.sentence_end, l.anchor, l.target, l.bucket,
        COALESCE(p.doc, q.doc) AS destination,
        CASE WHEN COALESCE(p.doc, q.doc) IS NULL THEN 'link-unresolved'
            WHEN COALESCE(p.doc, q.doc) = l.doc THEN 'link-to-itself'
            ELSE COALESCE(p.problem, q.problem) END AS problem
    FROM links l
    JOIN pages s ON l.doc = s.doc
    LEFT JOIN pages p ON l.target = p.address
    LEFT JOIN aliases a ON l.target = a.address
    LEFT JOIN pages q ON a.target = q.address
"""

ANCHOR_DESTINATION_SQL = {
    # Every destination of an anchor text once:
    "uniform": """
        SELECT anchor, destination, row_number() OVER (PARTITION BY anchor ORDER BY destination) - 1 AS rank
        FROM (SELECT DISTINCT anchor, destination FROM resolved WHERE problem = '')
    """,
    # Every occurrence; those of one destination have consecutive ranks:
    "occurrence": """
        SELECT anchor, destination,
            row_number() OVER (PARTITION BY anchor ORDER BY destination, doc, link_start) - 1 AS rank
        FROM resolved WHERE problem = ''
    """,
}

# What negatives are drawn from, in the order of in-links; only these pages' passages are read.
CANDIDATES_SQL = """
    SELECT doc, home AS bucket, in_links, row_number() OVER (ORDER BY in_links, doc) - 1 AS place FROM (
        SELECT p.doc AS doc, p.home AS home, COALESCE(c.n, 0) AS in_links
        FROM pages p
        {} JOIN (SELECT destination, COUNT(*) AS n FROM resolved WHERE problem = '' GROUP BY destination) c
            ON p.doc = c.destination
        WHERE p.problem = ''
    )
"""

RANKED_SQL = """
    SELECT l.doc, l.link_start, l.link_end, l.sentence_start, l.sentence_end, l.anchor, l.destination, l.bucket, p.id AS id,
        c.place AS place, o.first AS first, o.own AS own, t.total AS total
    FROM resolved l
    JOIN pages p ON l.doc = p.doc
    JOIN candidates c ON l.destination = c.doc
    JOIN (SELECT anchor, destination, MIN(rank) AS first, COUNT(*) AS own FROM anchor_destination
          GROUP BY anchor, destination) o ON l.anchor = o.anchor AND l.destination = o.destination
    JOIN (SELECT anchor, COUNT(*) AS total FROM anchor_destination GROUP BY anchor) t ON l.anchor = t.anchor
    WHERE l.problem = ''
"""

COLINKED_SQL = """
    SELECT DISTINCT a.destination AS one, b.destination AS other
    FROM ranked a JOIN ranked b ON a.doc = b.doc AND a.sentence_start = b.sentence_start
"""

DUPLICATES_SQL = """
    SELECT 'page-duplicate', COUNT(*), MIN(a.id), MIN(a.address)
    FROM addresses a LEFT JOIN pages p ON a.doc = p.doc WHERE p.doc IS NULL HAVING COUNT(*) > 0
"""
PROBLEMS_SQL = """
    SELECT problem, COUNT(*), '', MIN(target) FROM resolved WHERE problem <> '' GROUP BY problem
"""


def index(engine: LocalEngine) -> None:
    """`pages`: of several documents with one address, the first."""
    engine.join("pages", PAGES_SQL, ["addresses", "excluded"], partitioned=True)


def build(engine: LocalEngine) -> None:
    """The joins from `addresses`, `redirects` and `links` to `ranked`, `candidates`, `anchor_destination`, `colinked`."""
    c = engine.job["config"]
    index(engine)
    engine.join("aliases_0", ALIASES_SQL, ["redirects", "pages"])
    for step in range(DOUBLINGS):
        name = "aliases" if step == DOUBLINGS - 1 else f"aliases_{step + 1}"
        engine.join(name, FOLLOW_SQL.format(f"aliases_{step}"), [f"aliases_{step}"])
    engine.join("resolved", RESOLVED_SQL, ["links", "pages", "aliases"], partitioned=True)
    engine.join("anchor_destination", ANCHOR_DESTINATION_SQL[c["qdm_negative"]], ["resolved"])
    join = "LEFT" if c["acm_negative"] == "corpus" else ""
    engine.join("candidates", CANDIDATES_SQL.format(join), ["pages", "resolved"], partitioned=True)
    inputs = ["resolved", "pages", "candidates", "anchor_destination"]
    engine.join("ranked", RANKED_SQL, inputs, partitioned=True)
    if "acm" in c["tasks"]:
        engine.join("colinked", COLINKED_SQL, ["ranked"])
