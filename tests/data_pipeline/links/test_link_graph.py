"""The link graph of an invented dump, and a complete report of losses."""

from collections import Counter
from pathlib import Path

import pytest

from data_pipeline.config import validated_dict
from data_pipeline.engine import tables
from data_pipeline.engine.job import Job
from data_pipeline.engine.local import SerialEngine
from data_pipeline.engine.store import read, write
from data_pipeline.links import link_graph
from data_pipeline.links.link_graph import in_sentences
from data_pipeline.sources.document import LinkedDocument
from data_pipeline.sources.wikitext import Site
from tests.support import corpus
from tests.support.generation_job import linked_documents
from tests.support.source_files import HEAD, TAIL, page
from tests.support.steps import check_linear

FILLER = " ".join(["prose"] * 12)
# Page "Article N" links to the menu page, to its neighbour, and with an ambiguous anchor text to one of three pages.
ARTICLES = 24
MEANINGS = ["Mercury (planet)", "Mercury (element)", "Mercury (god)"]

LINKS = [  # on the page Hub
    ("[[mill_race#Wheel|wheel]]", "Mill race"),  # first letter, underscore, fragment
    ("[[Old_mill race|other]]", "Mill race"),  # redirect from another file
    ("[[leat#Top|leat]]", "Mill race"),  # chain of two, with a fragment in the redirect
    ("[[Chain 1]]", "Mill race"),  # chain of sixteen
    ("[[Chain 0]]", "link-unresolved"),  # chain of seventeen
    ("[[Round]]", "link-unresolved"),  # cycle of two
    ("[[Blind alley]]", "link-unresolved"),  # redirect to no page
    ("[[Weir]]", "Weir"),  # a page wins over a redirect with its name
    ("[[Twin]]", "Twin"),
    ("[[Second of one id]]", "link-unresolved"),
    ("[[hub]]", "link-to-itself"),
    ("[[Centre]]", "link-to-itself"),  # through a redirect
    ("[[Birch]]", "link-to-disambiguation"),
    ("[[Stub]]", "link-to-short-page"),
    ("[[Judged one|judge]]", "link-to-excluded"),
    ("[[Judged two]]", "link-to-excluded"),  # excluded under the name of a redirect to it
    ("[[Mill race|1990]]", "anchor-number"),
    ("[[Mill race|Read more]]", "anchor-boilerplate"),
    (f"[[Mill race|{'one ' * 17}]]", "anchor-too-long"),
]
REDIRECTS = {
    "Sluice": "mill_race", "Leat": "Sluice#Gate", "Round": "Square", "Square": "Round",
    "Blind alley": "Nowhere", "Centre": "hub", "Judge": "Judged two", "Chain 16": "Mill race",
    **{f"Chain {i}": f"Chain {i + 1}" for i in range(16)},
}  # fmt: skip


def dump() -> str:
    pages = [("Hub", f"{FILLER}. " + " and ".join(link for link, _ in LINKS) + ".")]
    pages += [(title, FILLER) for title in ("Mill race", "Weir", "Twin", "Judged one", "Judged two", "Menu", *MEANINGS)]
    pages += [("Birch", FILLER + "{{disambig}}"), ("Stub", "Short.")]
    for i in range(ARTICLES):
        meaning = MEANINGS[(i % 6 > 2) + (i % 6 > 4)]  # 12 links to the planet, 8 to the element, 4 to the god
        body = f"{FILLER} [[Menu|All articles]] near [[Article {(i + 1) % ARTICLES}]] has [[{meaning}|Mercury]]."
        pages.append((f"Article {i}", body))
    text = HEAD + "".join(page(title, body, i + 1) for i, (title, body) in enumerate(pages))
    text += page("Twin", "The second page of that name. [[Weir]] " + FILLER, 900)
    text += page("Second of one id", FILLER + " [[Weir]]", 1)
    text += page("Weir", "#WEITERLEITUNG [[Hub]]", 901, redirect="Hub")
    for i, (title, target) in enumerate(REDIRECTS.items()):
        text += page(title, f"#WEITERLEITUNG [[{target}]]", 1000 + i, redirect=target.partition("#")[0])
    text += page("Diskussion:Hub", "talk", 2000, ns=1)
    return text + TAIL


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    (folder / "wiki.xml").write_text(dump())
    (folder / "judged.txt").write_text("judged_one#Top\nJudge\n\n  No such page \nDiskussion:Hub\n")
    (folder / "redirects.tsv").write_text("old_mill race\tmill_race\n")
    c = corpus.config(folder, min_article_words=5, workers=1, exclude_destinations=str(folder / "judged.txt"))
    c.source.format, c.source.paths = "mediawiki", (str(folder / "wiki.xml"),)
    linked_documents(c, folder, SerialEngine)
    engine = SerialEngine(Job(validated_dict(c), str(folder / ".work")), 1, "500MB")
    return engine, link_graph.losses(engine, with_links=True)


def resolved(engine):
    pages = {row["doc"]: row["address"] for row in read(engine.job, tables.PAGES).to_pylist()}
    for row in read(engine.job, tables.RESOLVED).to_pylist():
        yield pages[row["doc"]], row["anchor"], row["target"], row["problem"] or pages[row["destination"]]


def test_where_links_lead(built):
    ends = {(anchor, target): end for source, anchor, target, end in resolved(built[0]) if source == "Hub"}
    expected = {}
    for link, end in LINKS:
        target, _, anchor = link.strip("[]").partition("|")
        if not end.startswith("anchor-"):
            expected[(anchor or target).casefold(), Site({"Diskussion": 1}).resolve(target).address] = end
    assert ends == expected


def test_everything_is_kept_or_reported(built):
    engine, report = built
    counts = Counter(end for _, end in LINKS if "-" in end)
    # Endless: the cycles, and the first page of the chain that is too long.
    counts |= {"redirect-endless": 3, "redirect-to-no-page": 1, "redirect-duplicate": 1, "exclusion-of-no-page": 2}
    counts |= {"link-boilerplate": ARTICLES, "page-too-short": 1, "page-duplicate": 2, "page-namespace": 1}
    assert {reason: entry["count"] for reason, entry in report.items()} == counts
    examples = [["1", "judge -> Judged one"], ["1", "judged two -> Judged two"]]
    assert report["link-to-excluded"]["examples"] == examples
    kept = sum("-" not in end for *_, end in resolved(engine))
    dropped = sum(count for reason, count in counts.items() if reason.startswith(("link-", "anchor-")))
    # Redirects are not links; links of a second page with the same name or id are dropped with it.
    assert kept + dropped == dump().count("[[") - len(REDIRECTS) - 1 - 2


def test_in_links_and_anchor_texts_against_counting(built):
    engine, _ = built
    good = [(anchor, end) for _, anchor, _, end in resolved(engine) if "-" not in end]
    in_links, distinct = Counter(end for _, end in good), Counter(anchor for anchor, _ in set(good))
    pages = {row["doc"]: row["address"] for row in read(engine.job, tables.PAGES).to_pylist()}
    assert {pages[row["doc"]]: row["in_links"] for row in read(engine.job, tables.CANDIDATES).to_pylist()} == in_links
    counts = len(good), len(distinct), sum(n > 1 for n in distinct.values())
    summary = link_graph.graph_summary(engine, with_links=True)
    assert tuple(summary[name] for name in ("links_kept", "anchor_texts", "ambiguous_anchor_texts")) == counts


def test_sentences_of_very_many_links_make_linearly_many_pairs(tmp_path):
    engine = SerialEngine(Job({}, str(tmp_path)), 1, "500MB")
    row = dict.fromkeys(tables.RANKED.schema.names, 0) | {"anchor": "a", "id": "p"}
    write(engine.job, tables.RANKED, 0, "links", 0, [row | {"destination": i} for i in range(2000)])
    assert engine.query(f"SELECT COUNT(*) FROM ({link_graph.COLINKED_SQL})") == [(link_graph.TOGETHER**2,)]


def test_numbers_are_no_queries():
    numbers = ["1990s", "1990–91", "$5", "3.5%", "—", "5 may 1821", "19th century", "c. 300 bc", "1990年5月"]
    others = ["may", "1990 season", "5 km", "1st avenue", "b2b"]
    assert [text for text in numbers + others if link_graph.is_number(text)] == numbers
    assert not link_graph.is_number(f"{'1' * 10_000}x")  # must not be exponential in the digits


def tabulated(text, lead_end, **fields):
    """The end of the destination's text, and the problem of links to it."""
    c = validated_dict(corpus.config(Path("x"), **fields))
    made = link_graph.tabulate(c, 0, [(0, LinkedDocument("a", "a", "", text, (), lead_end))], [])
    return [row["lead_end"] for row in made[tables.DOCUMENTS]], made[tables.ADDRESSES][0]["problem"]


def test_the_first_paragraph_and_the_length_of_a_destination():
    for text, lead_end, expected in (("A b.\nC d.\nE", 9, 4), ("\n A b.\nC", 8, 6), ("A b.", 4, 4)):
        assert tabulated(text, lead_end, destination_text="first_paragraph") == ([expected], "")
    # Of texts without spaces, too.
    for times, made in ((50, ([9], "")), (30, ([], "link-to-short-page"))):
        assert tabulated("北京是首都。" * times, 9, min_article_words=100) == made
    assert link_graph.reason_to_drop("北京是首都" * 8, {"drop_anchors": True}) == "anchor-too-long"


def test_links_across_sentence_bounds_join_them():
    text = "He left Yahoo! The Firm. It was sold. Then (cf. Fig. A. B. end) it closed.\nNew one. Two."
    anchors = ("left", "Yahoo! The Firm. It", "sold", "Then", "closed.\nNew", "Two")
    links = [{"start": text.index(each), "end": text.index(each) + len(each), "target": "t"} for each in anchors]
    shown = [text[slice(*span)] if span else "" for _, span in in_sentences(text, links)]
    joined = 3 * ["He left Yahoo! The Firm. It was sold."]
    assert shown == [*joined, "Then (cf. Fig. A. B. end) it closed.", "", "Two."]


def test_sentences_of_many_links_take_linear_steps():
    def read_page(n):
        links = [{"start": 13 * i + 3, "end": 13 * i + 12, "target": "t"} for i in range(n)]
        return in_sentences("Ab stops. Cd " * n, links)

    check_linear(read_page, most=2.1)
    assert len(read_page(60_000)) == 60_000  # would take minutes if each join read all links before it
