"""The link graph of an invented dump, and a complete report of losses."""

from collections import Counter

import pytest

from data_pipeline.config import generation, plain
from data_pipeline.engine import tables
from data_pipeline.engine.job import Job
from data_pipeline.engine.local import SerialEngine
from data_pipeline.engine.store import bucket_parts, read, write
from data_pipeline.engine.tables import DropCounts
from data_pipeline.links import link_graph
from data_pipeline.links.link_graph import in_sentences
from data_pipeline.links.web_sites import parse_documents
from data_pipeline.sources.document import LinkedDocument
from data_pipeline.sources.wikitext import Site
from tests.support.source_files import HEAD, TAIL, page
from tests.support.steps import check_linear

FILLER = " ".join(["prose"] * 12)
# Page "Article N" links to the menu page, to its neighbour, and with an ambiguous anchor text to one of three pages.
ARTICLES = 24
MEANINGS = ["Mercury (planet)", "Mercury (element)", "Mercury (god)"]

LINKS = [  # on the page Hub
    ("[[mill race|old]]", "Mill race"),  # first letter, space, anchor text
    ("[[Mill_race#Wheel|wheel]]", "Mill race"),  # underscore, fragment
    ("[[Sluice]]", "Mill race"),  # redirect
    ("[[Old_mill race|other]]", "Mill race"),  # redirect from another file
    ("[[leat#Top|leat]]", "Mill race"),  # chain of two, with a fragment in the redirect
    ("[[Chain 0]]", "Mill race"),  # chain of sixteen
    ("[[Too long 0]]", "link-unresolved"),  # chain of seventeen
    ("[[Round]]", "link-unresolved"),  # cycle of two
    ("[[Narcissus]]", "link-unresolved"),  # redirect to itself
    ("[[Blind alley]]", "link-unresolved"),  # redirect to no page
    ("[[Nowhere]]", "link-unresolved"),
    ("[[Weir]]", "Weir"),  # a page wins over a redirect with its name
    ("[[Twin]]", "Twin"),
    ("[[Second of one id]]", "link-unresolved"),
    ("[[hub]]", "link-to-itself"),
    ("[[Centre]]", "link-to-itself"),  # through a redirect
    ("[[Alder (disambiguation)|alders]]", "link-to-disambiguation"),
    ("[[Birch]]", "link-to-disambiguation"),  # by template
    ("[[Cedar]]", "link-to-disambiguation"),  # by category
    ("[[Stub]]", "link-to-short-page"),
    ("[[Judged one|judge]]", "link-to-excluded"),
    ("[[Judged two]]", "link-to-excluded"),  # excluded under the name of a redirect to it
    ("[[Mill race|1990]]", "anchor-number"),
    ("[[Mill race|5 May 1821]]", "anchor-number"),
    ("[[Mill race|Read more]]", "anchor-boilerplate"),
    (f"[[Mill race|{'one ' * 17}]]", "anchor-too-long"),
    ("[[Diskussion:Mill race]]", None),
    ("[[fr:Bief]] [[wikt:mill|mill]]", None),
    ("[[#Wheel|above]]", None),
]
REDIRECTS = {
    "Sluice": "mill_race", "Leat": "Sluice#Gate", "Round": "Square", "Square": "Round", "Narcissus": "Narcissus",
    "Blind alley": "Nowhere", "Centre": "hub", "Judge": "Judged two", "Chain 15": "Mill race", "Too long 16": "Mill race",
    **{f"Chain {i}": f"Chain {i + 1}" for i in range(15)}, **{f"Too long {i}": f"Too long {i + 1}" for i in range(16)},
}  # fmt: skip


def dump() -> str:
    pages = [("Hub", f"{FILLER}. " + " and ".join(link for link, _ in LINKS) + ".")]
    pages += [(title, FILLER) for title in ("Mill race", "Weir", "Twin", "Judged one", "Judged two", "Menu", *MEANINGS)]
    pages += [("Alder (disambiguation)", FILLER), ("Birch", FILLER + "{{disambig}}")]
    pages += [("Cedar", FILLER + "\n[[Kategorie:Begriffsklärung]]"), ("Stub", "Short.")]
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


def plain_config(source=None, **fields):
    c = generation()
    c.update(tokenizer="t", encoder="uniform", language="en", source=source or {"paths": ("x",)}, **fields)
    return plain(c)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    (folder / "wiki.xml").write_text(dump())
    (folder / "judged.txt").write_text("judged_one#Top\nJudge\n\n  No such page \nDiskussion:Hub\n")
    (folder / "more.tsv").write_text("old_mill race\tmill_race\n")
    source = {"paths": (str(folder / "wiki.xml"),), "redirects": (str(folder / "more.tsv"),)}
    config = plain_config(source, min_article_words=5, workers=1, exclude_destinations=str(folder / "judged.txt"))
    engine = SerialEngine(Job(config, str(folder / "work")), 1, "500MB")
    try:
        parse_documents(engine)
        engine.map("links", link_graph.extract_links, bucket_parts(engine.job, tables.DOCUMENTS))
        link_graph.build(engine)
        yield engine, link_graph.losses(engine, with_links=True)
    finally:
        engine.close()


def resolved(engine):
    pages = {row["doc"]: row["address"] for row in read(engine.job, tables.PAGES).to_pylist()}
    for row in read(engine.job, tables.RESOLVED).to_pylist():
        yield pages[row["doc"]], row["anchor"], row["target"], row["problem"] or pages[row["destination"]]


def test_where_links_lead(built):
    ends = {(anchor, target): end for source, anchor, target, end in resolved(built[0]) if source == "Hub"}
    expected = {}
    for link, end in LINKS:
        target, _, anchor = link.strip("[]").partition("|")
        if end and not end.startswith("anchor-"):
            expected[(anchor or target).casefold(), Site({"Diskussion": 1}).resolve(target).address] = end
    assert ends == expected


def test_everything_is_kept_or_reported(built):
    engine, report = built
    counts = Counter(end for _, end in LINKS if end and "-" in end)
    counts |= {"link-namespace": 1, "link-self": 1, "link-interwiki": 2, "link-outside-prose": 1}
    counts |= {"link-boilerplate": ARTICLES, "page-too-short": 1, "page-duplicate": 2, "page-namespace": 1}
    # Endless: the cycles, and the first page of the chain that is too long.
    counts |= {"exclusion-of-no-page": 2, "redirect-to-no-page": 1, "redirect-duplicate": 1, "redirect-endless": 4}
    assert {reason: entry["count"] for reason, entry in report.items()} == counts
    examples = {
        "redirect-to-no-page": [["Blind alley", "Nowhere"]],
        "redirect-endless": [[title, title] for title in ("Narcissus", "Round", "Square")],
        "link-to-excluded": [["1", "judge -> Judged one"], ["1", "judged two -> Judged two"]],
    }
    assert {reason: report[reason]["examples"] for reason in examples} == examples
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
    summary = link_graph.graph_summary(engine, with_links=True)
    assert (summary["links_kept"], summary["anchor_texts"]) == (len(good), len(distinct))
    assert summary["ambiguous_anchor_texts"] == sum(n > 1 for n in distinct.values()) > 0 and distinct["mercury"] == 3


def test_sentences_of_very_many_links_make_linearly_many_pairs(tmp_path):
    engine = SerialEngine(Job({}, str(tmp_path)), 1, "500MB")
    row = dict.fromkeys(tables.RANKED.schema.names, 0) | {"anchor": "a", "id": "p"}
    rows = [row | {"link_start": i, "destination": i} for i in range(2000)]
    write(engine.job, tables.RANKED, 0, "links", 0, rows)
    counts = engine.query(f"SELECT COUNT(*), MAX(one) FROM ({link_graph.COLINKED_SQL})")
    assert counts == [(link_graph.TOGETHER**2, link_graph.TOGETHER - 1)]


def test_file_names_that_are_not_utf8_can_be_reported():
    lost = DropCounts()
    lost.add("page-empty", "caf\udce9.html", "\udce9")
    assert [row["location"] for row in lost.rows()] == ["caf\\udce9.html"]


def test_numbers_are_no_queries():
    numbers = "1990|1990s|1990–91|$5|3.5%|[1]|—|5 may 1821|may 5, 1821|19th|19th century|c. 300 bc|1990年|1990年5月|1/2"
    others = "may|1990 season|apollo 11|5 km|september|mix 3|1st avenue|b2b"
    assert [text for text in f"{numbers}|{others}".split("|") if link_graph.is_number(text)] == numbers.split("|")
    assert not link_graph.is_number(f"{'1' * 10_000}x")  # must not be exponential in the digits


def tabulated(text, lead_end, **fields):
    """The row of a document, and the problem of links to it."""
    made = link_graph.tabulate(plain_config(**fields), 0, [(0, LinkedDocument("a", "a", "", text, (), lead_end))], [])
    return (made[tables.DOCUMENTS] or [None])[0], made[tables.ADDRESSES][0]["problem"]


@pytest.mark.parametrize(
    ("text", "lead_end", "shown"), [("A b.\nC d.\nE", 9, "A b."), ("\n A b.\nC", 8, "\n A b."), ("A b.", 4, "A b.")]
)
def test_the_first_paragraph_of_the_first_section_ends_at_the_first_line_break_after_text(text, lead_end, shown):
    row, _ = tabulated(text, lead_end, min_article_words=0, destination_text="first_paragraph")
    assert row["text"][: row["lead_end"]] == shown and row["text"] == text
    assert tabulated(text, lead_end, min_article_words=0)[0]["lead_end"] == lead_end


def test_texts_without_spaces_have_their_length():
    assert tabulated("北京是首都。" * 50, 9)[1] == "" and tabulated("北京是首都。" * 30, 9)[1] == "link-to-short-page"
    assert link_graph.reason_to_drop("北京是首都" * 8, plain_config()) == "anchor-too-long"


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
