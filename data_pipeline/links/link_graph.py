"""The link graph: links with their destination pages, redirects resolved, anchor texts counted.

A link is dropped for its text (a number or date, a navigation phrase, too many words), or for its frequency: the same anchor and
destination on most pages is a menu, and an anchor text with very many destinations describes none of them.

The SQL uses only what DuckDB and Spark SQL compute identically: equi-joins, integer aggregates, row_number over total orders.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from itertools import pairwise

from data_pipeline.engine import tables
from data_pipeline.engine.job import ALL_PAGES, OCCURRENCES, Config, Engine, Job, Outputs
from data_pipeline.engine.store import rows
from data_pipeline.engine.tables import DOCS_PER_CHUNK, EXAMPLES, DropCounts, Row
from data_pipeline.sources import formats
from data_pipeline.sources.document import Chunk, Dropped, Link, LinkedDocument
from data_pipeline.text.sentences import sentences
from data_pipeline.text.terms import count_words, normalise_anchor
from harp_jax.base.randomness import hash64, signed64
from harp_jax.input.records import LinkGraph, Loss
from harp_jax.text.languages import ENGLISH

# Navigation phrases without a topic.
NAVIGATION = frozenset(
    " ".join(phrase.split())
    for phrase in """here; click; click here; this page; this link; this article; link; links; more; read more; learn more;
    see more; show more; more info; more information; more details; details; continue; continue reading; full story; next;
    next page; previous; previous page; prev; back; back to top; home page; homepage; table of contents; edit; permalink;
    see also; website; web site; official website; official site; external link; log in; login; sign in; sign up;
    contact us; about us; privacy policy; terms of use; terms of service; sitemap; coordinates""".split(";")  # noqa: SIM905
)
RECURS_ON = 20  # minimum number of pages with the same link before it counts as a menu
MENU_SHARE = 0.5  # an anchor with one destination on more than this share of the pages (and on RECURS_ON) is a menu
MANY_DESTINATIONS = 1000  # an anchor text with more destinations describes none of them
LONGEST = 16  # words; longer anchors are whole clauses, not queries

_WORD = re.compile(r"\w+")
_OF_NUMBERS = re.compile(
    r"\d+(?:[年月日]\d+)*[年月日]?(?:st|nd|rd|th|s)?|january|february|march|april|may|june|july|august|september|october|november|"
    r"december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|ad|bc|bce|ce|c|ca|circa|century|centuries|am|pm"
)
SECTION_WORDS = 5  # minimum words of a section that is a document, unless `min_article_words` is lower


def parse_chunk(job: Job, number: int, chunk: Chunk) -> Outputs:
    """Map over chunks: documents, their addresses, redirects among them, and what was dropped. A document with a `problem`
    keeps its address, so that links to it are counted under that problem."""
    documents, dropped = formats.parse(chunk, job.config["source"])
    numbered = enumerate(documents, number * DOCS_PER_CHUNK)
    return tabulate(job.config, number // job.per_bucket, numbered, dropped)


def losses_of(dropped: Iterable[Dropped]) -> list[Row]:
    counts = DropCounts()
    for where, reason, example, times in dropped:
        counts.add(reason, where, example, times)
    return counts.rows()


def tabulate(c: Config, home: int, numbered: Iterable[tuple[int, LinkedDocument]], dropped: list[Dropped]) -> Outputs:
    """The tables of numbered documents, and of what was dropped; `home` is their bucket. Appends to `dropped`."""
    documents: list[tables.DocumentRow] = []
    addresses: list[Row] = []
    redirects: list[Row] = []
    for doc, document in numbered:
        text, lead_end = document.text, document.lead_end
        if document.redirect is not None:
            redirects.append(dict(address=document.address, target=document.redirect, priority=doc))
            continue
        if c["destination_text"] == "first_paragraph":
            lead = text[:lead_end]
            first = lead.find("\n", len(lead) - len(lead.lstrip()))
            lead_end = first if first >= 0 else lead_end
        # The reason why links to the page are dropped. Splitting at spaces is fast, and enough for most pages.
        wanted = min(c["min_article_words"], SECTION_WORDS) if document.is_section else c["min_article_words"]
        problem = ""
        if wanted and len(text.split()) < wanted and count_words(text) < wanted:
            problem = "link-to-short-page"
        elif document.is_disambiguation:
            problem = "link-to-disambiguation"
        elif not text[:lead_end].strip():
            problem = "link-to-empty-page"
        # Documents of one identity are one page: by number, or by a hash of the destination's text in lower case.
        identity = doc if c["page_identity"] == "id" else signed64("page", text[:lead_end].lower())
        row = dict(doc=doc, home=home, address=document.address, id=document.id, problem=problem, identity=identity)
        addresses.append(row | dict(disambiguation=int(document.is_disambiguation)))
        if problem == "link-to-short-page":
            dropped.append(Dropped(document.id, "page-too-short", document.title))
            continue
        documents.append(tables.DocumentRow(
            doc=doc, id=document.id, title=document.title, text=text, lead_end=lead_end, links=spans_of(document.links),
        ))  # fmt: skip
    made: Outputs = {tables.DOCUMENTS: documents, tables.ADDRESSES: addresses, tables.REDIRECTS: redirects}
    return made | {tables.LOSSES: losses_of(dropped)}


def spans_of(links: Iterable[Link]) -> list[tables.LinkSpan]:
    return [tables.LinkSpan(start=start, end=end, target=target) for start, end, target in links]


def extract_links(job: Job, number: int, payload: None) -> Outputs:
    """Map over documents: every link with its sentence. Only paragraphs with links are split into sentences."""
    links: list[Row] = []
    dropped: list[Dropped] = []
    for document in rows(job, tables.DOCUMENTS, number, ["doc", "id", "text", "links"]):
        if hash64("links", document["id"].partition("#")[0]) >= job.config["linking_pages"] * 2.0**64:
            continue
        for link, sentence in in_sentences(document["text"], document["links"], job.config["language"]):
            start, end, target = link["start"], link["end"], link["target"]
            shown = document["text"][start:end]
            anchor = normalise_anchor(shown)
            if reason := reason_to_drop(anchor, job.config) if sentence else "anchor-across-paragraphs":
                dropped.append(Dropped(document["id"], reason, f"{shown} -> {target}"))
                continue
            span = dict(link_start=start, link_end=end, sentence_start=sentence[0], sentence_end=sentence[1])
            links.append(dict(doc=document["doc"], anchor=anchor, target=target) | span)
    return {tables.LINKS: links, tables.LOSSES: losses_of(dropped)}


def in_sentences(
    text: str, links: list[tables.LinkSpan], language: str = ENGLISH
) -> list[tuple[tables.LinkSpan, list[int]]]:
    """Each link with [start, end] of its sentence; an empty list if the anchor spans paragraphs or is white space. A link
    across a sentence boundary (Yahoo! Inc.) joins the sentences. Linear in the text and in the links."""
    placed: list[tuple[tables.LinkSpan, list[int]]] = []
    bounds: list[tuple[int, int]] = []
    ends: list[int] = []
    joined: list[int] = []
    paragraph_end = joined_until = -1
    for link in links:
        if link["start"] >= paragraph_end:
            paragraph = text.rfind("\n", 0, link["start"]) + 1
            line_end = text.find("\n", link["start"])
            paragraph_end = len(text) if line_end < 0 else line_end
            spans = sentences(text[paragraph:paragraph_end], language)
            bounds = [(paragraph + start, paragraph + end) for start, end in spans]
            ends, joined_until = [end for _, end in bounds], -1
        first, last = bisect_right(ends, link["start"]), bisect_left(ends, link["end"])
        if last >= len(bounds) or bounds[first][0] > link["start"]:
            placed.append((link, []))
            continue
        if first > joined_until:
            joined = [*bounds[first]]
        # Links already found in these sentences share this list: their span grows, too.
        joined[1], joined_until = max(joined[1], ends[last]), max(joined_until, last)
        placed.append((link, joined))
    return placed


def reason_to_drop(anchor: str, c: Config) -> str:
    """Why a normalised anchor text is not a query, as a slug; empty for a good one."""
    if count_words(anchor) > LONGEST:
        return "anchor-too-long"
    if not c["drop_anchors"]:
        return ""
    return "anchor-number" if is_number(anchor) else "anchor-boilerplate" if anchor in NAVIGATION else ""


def is_number(anchor: str) -> bool:
    """Whether a text is a year, date, century or other number, or has no letters ("1990s", "5 may", "[1]", "—"). Dates are
    recognised in English and in Chinese characters; a number with a unit or a noun ("5 km", "1990 season") is not one."""
    if not any(character.isalpha() for character in anchor):
        return True
    if not any(character.isdigit() for character in anchor):
        return False
    return all(_OF_NUMBERS.fullmatch(word) for word in _WORD.findall(anchor))


# The first of several documents with one address, or with one id.
PLACES_SQL = """
    SELECT doc, home, home AS bucket, address, id, disambiguation, identity, problem FROM (
        SELECT *, row_number() OVER (PARTITION BY id ORDER BY doc) AS same_id
        FROM (SELECT *, row_number() OVER (PARTITION BY address ORDER BY doc) AS copy FROM addresses) WHERE copy = 1
    ) WHERE same_id = 1
"""

# A page has priority over a redirect of the same address, an earlier redirect over a later one.
ALIASES_SQL = """
    SELECT address, target FROM (
        SELECT r.address, r.target, row_number() OVER (PARTITION BY r.address ORDER BY r.priority, r.target) AS copy
        FROM redirects r LEFT JOIN places p ON r.address = p.address
        WHERE p.address IS NULL
    ) WHERE copy = 1
"""

# Doubles the length of the chains followed; cycles never reach a page.
FOLLOW_SQL = """
    SELECT a.address AS address, COALESCE(b.target, a.target) AS target FROM {0} a LEFT JOIN {0} b ON a.target = b.address
"""

# Excluding a redirect excludes its target page.
EXCLUDED = """
    excluded e LEFT JOIN places p ON e.address = p.address
    LEFT JOIN aliases a ON e.address = a.address LEFT JOIN places q ON a.target = q.address
"""
# `same`: links to a page lead to the first page of the same identity.
PAGES_SQL = f"""
    SELECT doc, home, home AS bucket, address, id, disambiguation, problem, {{}} AS same FROM (
        SELECT s.doc, s.home, s.address, s.id, s.disambiguation, s.identity,
            CASE WHEN x.doc IS NULL THEN s.problem ELSE 'link-to-excluded' END AS problem
        FROM places s LEFT JOIN (SELECT DISTINCT COALESCE(p.doc, q.doc) AS doc FROM {EXCLUDED}) x ON s.doc = x.doc
    )
"""
SAME_SQL = {"id": "doc", "text": "MIN(doc) OVER (PARTITION BY identity, problem)"}

TARGETS_SQL = """
    SELECT l.*, COALESCE(p.same, q.same) AS destination,
        CASE WHEN COALESCE(p.doc, q.doc) IS NULL THEN 'link-unresolved'
            WHEN COALESCE(p.same, q.same) = s.same THEN 'link-to-itself'
            ELSE COALESCE(p.problem, q.problem) END AS problem
    FROM links l JOIN pages s ON l.doc = s.doc LEFT JOIN pages p ON l.target = p.address
    LEFT JOIN aliases a ON l.target = a.address LEFT JOIN pages q ON a.target = q.address
"""

# Each anchor text and destination once, with the reason to drop these links. Arguments: maximum pages with the same link, maximum
# destinations of an anchor text.
LINK_COUNTS_SQL = """
    SELECT anchor, destination, CASE
        WHEN pages > {} THEN 'link-boilerplate'
        WHEN COUNT(*) OVER (PARTITION BY anchor) > {} THEN 'anchor-boilerplate' ELSE '' END AS problem
    FROM (
        SELECT anchor, destination, COUNT(*) AS pages
        FROM (SELECT DISTINCT anchor, destination, doc FROM targets WHERE problem = '') GROUP BY anchor, destination
    )
"""

RESOLVED_SQL = """
    SELECT t.doc, t.link_start, t.link_end, t.sentence_start, t.sentence_end, t.anchor, t.target, t.bucket, t.destination,
        CASE WHEN t.problem = '' THEN COALESCE(b.problem, '') ELSE t.problem END AS problem
    FROM targets t LEFT JOIN (SELECT anchor, destination, problem FROM link_counts WHERE problem <> '') b
        ON t.anchor = b.anchor AND t.destination = b.destination
"""

ANCHOR_DESTINATION_SQL = {
    # Each destination of an anchor text once:
    False: """
        SELECT anchor, destination, row_number() OVER (PARTITION BY anchor ORDER BY destination) - 1 AS rank
        FROM (SELECT DISTINCT anchor, destination FROM resolved WHERE problem = '')
    """,
    # Each occurrence; those of one destination have consecutive ranks:
    True: """
        SELECT anchor, destination, row_number() OVER (PARTITION BY anchor ORDER BY destination, doc, link_start) - 1 AS rank
        FROM resolved WHERE problem = ''
    """,
}

# The pages that negatives are drawn from, ordered by in-links; only their passages are read.
CANDIDATES_SQL = """
    SELECT doc, home AS bucket, in_links, row_number() OVER (ORDER BY in_links, doc) - 1 AS place FROM (
        SELECT p.doc AS doc, p.home AS home, COALESCE(c.n, 0) AS in_links
        FROM pages p {} JOIN (SELECT destination, COUNT(*) AS n FROM resolved WHERE problem = '' GROUP BY destination) c
            ON p.doc = c.destination
        WHERE p.problem = ''
    )
"""

RANKED_SQL = """
    SELECT l.*, p.id AS id, c.place AS place, o.first AS first, o.own AS own, t.total AS total,
        row_number() OVER (PARTITION BY l.anchor ORDER BY l.doc, l.link_start) - 1 AS occurrence,
        COUNT(*) OVER (PARTITION BY l.anchor) AS occurrences
    FROM resolved l JOIN pages p ON l.doc = p.doc JOIN candidates c ON l.destination = c.doc
    JOIN (SELECT anchor, destination, MIN(rank) AS first, COUNT(*) AS own FROM anchor_destination
          GROUP BY anchor, destination) o ON l.anchor = o.anchor AND l.destination = o.destination
    JOIN (SELECT anchor, COUNT(*) AS total FROM anchor_destination GROUP BY anchor) t ON l.anchor = t.anchor
    WHERE l.problem = ''
"""

# Links per sentence whose pairs are recorded: links beyond the encoder's window make no pair, and all pairs would be quadratic.
TOGETHER = 512
_IN_SENTENCE = f"""
    SELECT doc, sentence_start, destination FROM (
        SELECT doc, sentence_start, destination,
            row_number() OVER (PARTITION BY doc, sentence_start ORDER BY first_start) AS position
        FROM (SELECT doc, sentence_start, destination, MIN(link_start) AS first_start
              FROM ranked GROUP BY doc, sentence_start, destination)
    ) WHERE position <= {TOGETHER}
"""
COLINKED_SQL = f"""
    SELECT DISTINCT a.destination AS one, b.destination AS other
    FROM ({_IN_SENTENCE}) a JOIN ({_IN_SENTENCE}) b ON a.doc = b.doc AND a.sentence_start = b.sentence_start
"""

LINKED_SQL = "SELECT DISTINCT doc AS one, destination AS other FROM ranked"


def index(engine: Engine) -> None:
    """`pages`, one for each address and id, and `aliases`, with chains of redirects followed to their end."""
    engine.join(tables.PLACES, PLACES_SQL)
    engine.join(tables.ALIASES_STEPS[0], ALIASES_SQL)
    for shorter, longer in pairwise((*tables.ALIASES_STEPS, tables.ALIASES)):
        engine.join(longer, FOLLOW_SQL.format(shorter.name))
    engine.join(tables.PAGES, PAGES_SQL.format(SAME_SQL[engine.job.config["page_identity"]]))


def resolve(engine: Engine) -> None:
    """From `addresses`, `redirects` and `links` to `link_counts` and `resolved`: links with destinations, or why they have none."""
    index(engine)
    engine.join(tables.TARGETS, TARGETS_SQL)
    most_pages = most_destinations = 1 << 62
    if engine.job.config["drop_anchors"]:
        (with_links,) = engine.query("SELECT COUNT(DISTINCT doc) FROM targets")[0]
        most_pages, most_destinations = max(RECURS_ON, int(MENU_SHARE * with_links)), MANY_DESTINATIONS
    engine.join(tables.LINK_COUNTS, LINK_COUNTS_SQL.format(most_pages, most_destinations))
    engine.join(tables.RESOLVED, RESOLVED_SQL)


def build(engine: Engine) -> None:
    """From `addresses`, `redirects` and `links` to `ranked`, `candidates`, `anchor_destination`."""
    resolve(engine)
    needs = engine.job.needs
    engine.join(tables.ANCHOR_DESTINATION, ANCHOR_DESTINATION_SQL[OCCURRENCES in needs])
    engine.join(tables.CANDIDATES, CANDIDATES_SQL.format("LEFT" if ALL_PAGES in needs else ""))
    engine.join(tables.RANKED, RANKED_SQL)


# What the maps dropped, and what each join dropped.
_LOSSES = f"""
    SELECT reason, n, location, example FROM losses
    UNION ALL
    SELECT 'page-duplicate' AS reason, 1 AS n, a.id AS location, a.address AS example
    FROM addresses a LEFT JOIN places p ON a.doc = p.doc WHERE p.doc IS NULL
    UNION ALL
    SELECT CASE WHEN n.address IS NULL THEN 'redirect-to-no-page' ELSE 'redirect-endless' END AS reason, 1 AS n,
        a.address AS location, a.target AS example
    FROM aliases a LEFT JOIN places p ON a.target = p.address LEFT JOIN aliases n ON a.target = n.address
    WHERE p.address IS NULL
    UNION ALL -- the address belongs to a page, or to an earlier redirect with another target
    SELECT 'redirect-duplicate' AS reason, 1 AS n, r.address AS location, r.target AS example
    FROM redirects r LEFT JOIN aliases_0 a ON r.address = a.address AND r.target = a.target WHERE a.address IS NULL
    UNION ALL
    SELECT 'exclusion-of-no-page' AS reason, 1 AS n, e.line AS location, e.address AS example FROM {EXCLUDED}
    WHERE COALESCE(p.doc, q.doc) IS NULL
"""
_LOST_LINKS = """
    UNION ALL
    SELECT r.problem AS reason, 1 AS n, p.id AS location, r.anchor || ' -> ' || r.target AS example
    FROM resolved r JOIN pages p ON r.doc = p.doc WHERE r.problem <> ''
"""


def losses(engine: Engine, with_links: bool) -> dict[str, Loss]:
    """Reason → what the maps dropped, and the pages, redirects, exclusions and links that the joins dropped, with examples."""
    sql = f"""
        SELECT reason, CAST(total AS BIGINT), location, example FROM (
            SELECT reason, location, example, SUM(n) OVER (PARTITION BY reason) AS total,
                row_number() OVER (PARTITION BY reason ORDER BY location, example) AS place
            FROM ({_LOSSES}{_LOST_LINKS if with_links else ""})
        ) WHERE place <= {EXAMPLES} ORDER BY reason, place
    """
    by_reason: dict[str, Loss] = {}
    for reason, total, location, example in engine.query(sql):
        by_reason.setdefault(reason, {"count": total, "examples": []})["examples"].append([location, example])
    return by_reason


def most_first(losses: Mapping[str, Loss]) -> dict[str, int]:
    """Reason → count, the largest first."""
    counts = ((reason, loss["count"]) for reason, loss in losses.items())
    return dict(sorted(counts, key=lambda item: (-item[1], item[0])))


def graph_summary(engine: Engine, with_links: bool) -> LinkGraph:
    """The manifest's `link_graph`: counts of pages, redirects, links and anchor texts."""
    good = "COUNT(CASE WHEN problem = '' THEN 1 END)"
    pages = f"SELECT COUNT(*), {good}, CAST(COALESCE(SUM(disambiguation), 0) AS BIGINT) FROM pages"
    summary = LinkGraph(redirects=engine.query("SELECT COUNT(*) FROM redirects")[0][0])
    summary["pages"], summary["destinations"], summary["disambiguation_pages"] = engine.query(pages)[0]
    if with_links:
        summary["links"], summary["links_kept"] = engine.query(f"SELECT COUNT(*), {good} FROM resolved")[0]
        anchors = "SELECT anchor, COUNT(*) AS n FROM link_counts WHERE problem = '' GROUP BY anchor"
        anchors = f"SELECT COUNT(*), COUNT(CASE WHEN n > 1 THEN 1 END) FROM ({anchors})"
        summary["anchor_texts"], summary["ambiguous_anchor_texts"] = engine.query(anchors)[0]
    return summary
