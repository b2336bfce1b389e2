"""Statistics of the link graph, and what its joins dropped: counts, and the first examples in a total order.

Maps count what they drop (anchors, namespaces, short pages …) themselves: see engine/dropped.py.
"""

from typing import Any

from data_pipeline.engine.dropped import EXAMPLES
from data_pipeline.engine.job import Engine
from data_pipeline.engine.store import read
from data_pipeline.links import anchors
from data_pipeline.links.link_graph import EXCLUDED

# (reason, count, location, example) of what the joins dropped; the count is in the first row of a reason, the others have 0.
_EXAMPLES = f"""
    SELECT reason, CASE WHEN place = 1 THEN total ELSE 0 END, location, example FROM (
        SELECT d.reason, d.location, d.example, t.total,
            row_number() OVER (PARTITION BY d.reason ORDER BY d.location, d.example) AS place
        FROM ({{0}}) d JOIN (SELECT reason, COUNT(*) AS total FROM ({{0}}) GROUP BY reason) t ON d.reason = t.reason
    ) WHERE place <= {EXAMPLES}
"""
_DROPPED_PAGES = """
    SELECT 'page-duplicate' AS reason, a.id AS location, a.address AS example
    FROM addresses a LEFT JOIN places p ON a.doc = p.doc WHERE p.doc IS NULL
"""
_DROPPED_REDIRECTS = """
    SELECT CASE WHEN n.address IS NULL THEN 'redirect-to-no-page' ELSE 'redirect-endless' END AS reason,
        a.address AS location, a.target AS example
    FROM aliases a LEFT JOIN places p ON a.target = p.address LEFT JOIN aliases n ON a.target = n.address
    WHERE p.address IS NULL
"""
# The address belongs to a page, or to an earlier redirect with another target.
_REDIRECT_DUPLICATES = """
    SELECT 'redirect-duplicate' AS reason, r.address AS location, r.target AS example
    FROM redirects r LEFT JOIN aliases_0 a ON r.address = a.address AND r.target = a.target WHERE a.address IS NULL
"""
_DROPPED_EXCLUSIONS = f"""
    SELECT 'exclusion-of-no-page' AS reason, e.line AS location, e.address AS example FROM {EXCLUDED}
    WHERE COALESCE(p.doc, q.doc) IS NULL
"""
_DROPPED_LINKS = """
    SELECT r.problem AS reason, p.id AS location, r.anchor || ' -> ' || r.target AS example
    FROM resolved r JOIN pages p ON r.doc = p.doc WHERE r.problem <> ''
"""


def dropped(engine: Engine, with_links: bool) -> list[tuple[str, int, str, str]]:
    """(reason, count, location, example) of the pages, redirects, exclusions and links that the joins dropped."""
    rows = engine.query(_EXAMPLES.format(_DROPPED_PAGES), ["addresses", "places"])
    rows += engine.query(_EXAMPLES.format(_DROPPED_REDIRECTS), ["aliases", "places"])
    rows += engine.query(_EXAMPLES.format(_REDIRECT_DUPLICATES), ["redirects", "aliases_0"])
    rows += engine.query(_EXAMPLES.format(_DROPPED_EXCLUSIONS), ["excluded", "places", "aliases"])
    if with_links:
        rows += engine.query(_EXAMPLES.format(_DROPPED_LINKS), ["resolved", "pages"])
    return rows


def dropped_counts(engine: Engine, with_links: bool) -> dict[str, int]:
    """Reason → count of what the maps and the joins dropped, the largest first."""
    counts: dict[str, int] = {}
    recorded = engine.query("SELECT reason, n, location, example FROM losses", ["losses"])
    for reason, n, _, _ in recorded + dropped(engine, with_links):
        counts[reason] = counts.get(reason, 0) + n
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def summary(engine: Engine, with_links: bool) -> dict[str, Any]:
    """The manifest's `link_graph`: counts of pages, redirects, links and anchor texts."""
    sql = "SELECT COUNT(*), COUNT(CASE WHEN problem = '' THEN 1 END), CAST(COALESCE(SUM(disambiguation), 0) AS BIGINT) FROM pages"
    pages, destinations, disambiguation = engine.query(sql, ["pages"])[0]
    redirects = engine.query("SELECT COUNT(*) FROM redirects", ["redirects"])[0][0]
    found = {
        "pages": pages,
        "destinations": destinations,
        "disambiguation_pages": disambiguation,
        "redirects": redirects,
    }
    if with_links:
        links = engine.query("SELECT COUNT(*), COUNT(CASE WHEN problem = '' THEN 1 END) FROM resolved", ["resolved"])[0]
        found |= {"links": links[0], "links_kept": links[1]}
        found["anchors"] = anchors.summarise(read(engine.job, "anchor_summaries").to_pylist())
    return found
