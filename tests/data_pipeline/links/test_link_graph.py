"""The link graph of an invented dump: redirects, duplicates, namespaces, filters, and a report in which nothing is missing."""

import json
import math
from collections import Counter, defaultdict

import pytest

from data_pipeline.config import generation, plain
from data_pipeline.engine.local import LocalEngine
from data_pipeline.engine.store import bucket_parts, read, write
from data_pipeline.engine.tables import SCHEMAS, DropCounts, summary_of_dropped, table
from data_pipeline.links import anchors, link_graph
from data_pipeline.links.link_graph import in_sentences
from data_pipeline.links.parsing import parse_documents
from data_pipeline.sources.document import LinkedDocument
from data_pipeline.sources.wikitext import Site
from tests.support.mediawiki_dump import HEAD, TAIL, page
from tests.support.steps import check_linear

FILLER = " ".join(["prose"] * 12)
# Page "Article N" links to the menu page, to its neighbour, and by an ambiguous name to one of three pages.
ARTICLES = 24
MEANINGS = ["Mercury (planet)", "Mercury (element)", "Mercury (god)"]

LINKS = {
    "Hub": [
        ("[[mill race|old]]", "Mill race"),  # first letter, space, anchor text
        ("[[Mill_race#Wheel|wheel]]", "Mill race"),  # underscore, fragment
        ("[[Sluice]]", "Mill race"),  # redirect
        ("[[leat#Top|leat]]", "Mill race"),  # chain of two, with a fragment in the redirect
        ("[[Chain 0]]", "Mill race"),  # chain of sixteen
        ("[[Too long 0]]", "link-unresolved"),  # chain of seventeen
        ("[[Round]]", "link-unresolved"),  # cycle of two
        ("[[Narcissus]]", "link-unresolved"),  # redirect to itself
        ("[[Blind alley]]", "link-unresolved"),  # redirect to no page
        ("[[Nowhere]]", "link-unresolved"),
        ("[[Weir]]", "Weir"),  # a page wins over a redirect of its name
        ("[[Twin]]", "Twin"),
        ("[[Second of one id]]", "link-unresolved"),
        ("[[hub]]", "link-to-itself"),
        ("[[Centre]]", "link-to-itself"),  # through a redirect
        ("[[Alder (disambiguation)|alders]]", "link-to-disambiguation"),
        ("[[Birch]]", "link-to-disambiguation"),  # by template
        ("[[Cedar]]", "link-to-disambiguation"),  # by category
        ("[[Stub]]", "link-to-short-page"),
        ("[[Judged one|judge]]", "link-to-excluded"),
        ("[[Judged two]]", "link-to-excluded"),  # excluded by the name of a redirect to it
        ("[[Mill race|1990]]", "anchor-number"),
        ("[[Mill race|5 May 1821]]", "anchor-number"),
        ("[[Mill race|Read more]]", "anchor-boilerplate"),
        (f"[[Mill race|{'one ' * 17}]]", "anchor-too-long"),
        ("[[Diskussion:Mill race]]", None),
        ("[[fr:Bief]] [[wikt:mill|mill]]", None),
        ("[[#Wheel|above]]", None),
    ]
}
REDIRECTS = {
    "Sluice": "mill_race",
    "Leat": "Sluice#Gate",
    "Round": "Square",
    "Square": "Round",
    "Narcissus": "Narcissus",
    "Blind alley": "Nowhere",
    "Centre": "hub",
    "Judge": "Judged two",
    **{f"Chain {i}": f"Chain {i + 1}" for i in range(15)},
    "Chain 15": "Mill race",
    **{f"Too long {i}": f"Too long {i + 1}" for i in range(16)},
    "Too long 16": "Mill race",
}


def dump() -> str:
    pages = [("Hub", f"{FILLER}. " + " and ".join(link for link, _ in LINKS["Hub"]) + ".")]
    pages += [(title, FILLER) for title in ("Mill race", "Weir", "Twin", "Judged one", "Judged two", "Menu", *MEANINGS)]
    pages += [("Alder (disambiguation)", FILLER), ("Birch", FILLER + "{{disambig}}")]
    pages += [("Cedar", FILLER + "\n[[Kategorie:Begriffsklärung]]"), ("Stub", "Short.")]
    for i in range(ARTICLES):
        # 12 links to the planet, 8 to the element, 4 to the god.
        meaning = MEANINGS[(i % 6 > 2) + (i % 6 > 4)]
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
    (folder / "more.tsv").write_text("old_mill race\tmill_race\n")
    c = generation()
    c.source.paths, c.source.redirects = (str(folder / "wiki.xml"),), (str(folder / "more.tsv"),)
    c.tokenizer, c.encoder, c.min_article_words, c.workers = "t", "uniform", 5, 1
    c.exclude_destinations = str(folder / "judged.txt")
    config = plain(c)
    engine = LocalEngine({"config": config, "work": str(folder / "work"), "per_bucket": 1, "needs": []}, 1, "500MB")
    try:
        parse_documents(engine)
        engine.map("links", link_graph.extract_links, bucket_parts(engine.job, "documents"))
        link_graph.build(engine)
        rows = engine.query("SELECT reason, n, location, example FROM losses", ["losses"])
        rows += link_graph.dropped(engine, with_links=True)
        yield engine, summary_of_dropped(rows)
    finally:
        engine.close()


def resolved(engine):
    pages = {row["doc"]: row["address"] for row in read(engine.job, "pages").to_pylist()}
    for row in read(engine.job, "resolved").to_pylist():
        yield pages[row["doc"]], row["anchor"], row["target"], row["problem"] or pages[row["destination"]]


def test_where_links_lead(built):
    engine, report = built
    found = {(anchor, target): end for source, anchor, target, end in resolved(engine) if source == "Hub"}
    site = Site({"Diskussion": 1})
    expected = {}
    for link, end in LINKS["Hub"]:
        target, _, anchor = link.strip("[]").partition("|")
        if end and not end.startswith("anchor-"):
            expected[(anchor or target).casefold(), site.resolve(target).address] = end
    assert found == expected


def test_every_link_is_kept_or_counted(built):
    engine, report = built
    for reason, count in Counter(end for _, end in LINKS["Hub"] if end and "-" in end).items():
        assert report[reason]["count"] == count, reason
    assert report["page-too-short"] == {"count": 1, "examples": [["14", "Stub"]]}
    assert report["link-namespace"]["count"] == report["link-self"]["count"] == 1
    assert report["link-interwiki"]["count"] == 2
    assert report["link-boilerplate"]["count"] == ARTICLES
    kept = sum("-" not in end for *_, end in resolved(engine))
    dropped = sum(entry["count"] for reason, entry in report.items() if reason.startswith(("link-", "anchor-")))
    # Redirects are no links; the second page of a name or of an id is no source: its link goes with it.
    assert report["link-outside-prose"]["count"] == 1  # the category
    written = dump().count("[[") - len(REDIRECTS) - 1 - 2
    assert kept + dropped == written


def test_pages_redirects_and_exclusions_are_reported(built):
    engine, report = built
    assert report["page-duplicate"] == {"count": 2, "examples": [["1", "Second of one id"], ["900", "Twin"]]}
    assert report["page-namespace"]["count"] == 1
    assert report["redirect-to-no-page"] == {"count": 1, "examples": [["Blind alley", "Nowhere"]]}
    assert report["redirect-duplicate"] == {"count": 1, "examples": [["Weir", "Hub"]]}
    # The cycles, and the first page of the chain that is too long.
    assert report["redirect-endless"]["count"] == 4
    assert [example[0] for example in report["redirect-endless"]["examples"]] == ["Narcissus", "Round", "Square"]
    assert report["exclusion-of-no-page"] == {
        "count": 2, "examples": [["Diskussion:Hub", "Diskussion:Hub"], ["No such page", "No such page"]],
    }  # fmt: skip
    pages = {row["address"]: row for row in read(engine.job, "pages").to_pylist()}
    flagged = {address for address, row in pages.items() if row["disambiguation"]}
    assert flagged == {"Alder (disambiguation)", "Birch", "Cedar"}
    aliases = {row["address"]: row["target"] for row in read(engine.job, "aliases").to_pylist()}
    assert aliases["Old mill race"] == "Mill race"
    examples = report["link-to-excluded"]["examples"]
    assert examples == [["1", "judge -> Judged one"], ["1", "judged two -> Judged two"]]


def test_anchor_statistics_against_counting(built):
    engine, _ = built
    expected = defaultdict(Counter)
    for _, anchor, _, end in resolved(engine):
        if "-" not in end:
            expected[anchor][end] += 1
    found = {row["anchor"]: row for row in read(engine.job, "anchors").to_pylist()}
    assert found.keys() == expected.keys()
    for anchor, counts in expected.items():
        n = sum(counts.values())
        bits = sum(count / n * math.log2(n / count) for count in counts.values())
        row = found[anchor]
        assert (row["n"], row["destinations"]) == (n, len(counts)) and row["entropy"] == pytest.approx(bits, abs=1e-12)
    assert found["mercury"]["n"] == ARTICLES and found["mercury"]["destinations"] == 3
    summary = link_graph.graph_summary(engine, with_links=True)
    assert summary["anchors"]["texts"] == len(expected) and summary["anchors"]["ambiguous"] == 1
    assert summary["anchors"]["most_ambiguous"][0]["anchor"] == "mercury"
    total = sum(sum(counts.values()) for counts in expected.values())
    assert summary["links_kept"] == total
    bits = sum(row["n"] * row["entropy"] for row in found.values()) / total
    assert summary["anchors"]["mean_entropy_bits"] == pytest.approx(bits, abs=1e-6)
    assert summary["disambiguation_pages"] == 3
    json.dumps(summary)


def test_sentences_of_very_many_links_make_linearly_many_pairs(tmp_path):
    job = {"work": str(tmp_path)}
    rows = [
        dict.fromkeys(SCHEMAS["ranked"].names, 0) | dict(link_start=i, destination=i, anchor="a", id="p")
        for i in range(2000)
    ]
    write(job, "ranked", 0, "links", 0, table("ranked", rows))
    engine = LocalEngine(job, 1, "500MB")
    found = engine.query(f"SELECT COUNT(*), MAX(one) FROM ({link_graph.COLINKED_SQL})", ["ranked"])
    assert found == [(link_graph.TOGETHER**2, link_graph.TOGETHER - 1)]


def test_file_names_that_are_not_utf8_can_be_reported():
    lost = DropCounts()
    lost.add("page-empty", "caf\udce9.html", "\udce9")
    assert lost.table().column("location").to_pylist() == ["caf\\udce9.html"]


def test_entropy():
    assert anchors.entropy([7]) == 0.0 and math.copysign(1, anchors.entropy([7])) == 1
    assert anchors.entropy([1, 1, 1, 1]) == 2.0
    assert anchors.entropy([1, 3]) == anchors.entropy([3, 1]) == pytest.approx(0.8112781244591328)


@pytest.mark.parametrize(
    ("expected", "texts"),
    [
        (
            True,
            "1990|1990s|1990–91|$5|3.5%|[1]|—|5 may 1821|may 5, 1821|19th|19th century|c. 300 bc|1990年|1990年5月|1/2",
        ),
        (False, "may|1990 season|apollo 11|5 km|september|mix 3|1st avenue|b2b"),
    ],
)
def test_numbers_are_no_queries(expected, texts):
    assert [anchors.is_number(text) for text in texts.split("|")] == [expected] * len(texts.split("|"))


def test_pages_and_anchors_without_spaces_have_their_length():
    """Chinese pages are not one word long, and a clause of them is no short anchor."""
    c = plain_config()
    for text, problem in (("北京是首都。" * 50, ""), ("北京是首都。" * 30, "link-to-short-page")):
        document = LinkedDocument("北京市", "1", "北京市", text, (), len(text))
        assert link_graph._problem(document, c) == problem
    assert anchors.reason_to_drop("中华人民共和国", c) == ""
    assert anchors.reason_to_drop("北京是首都" * 8, c) == "anchor-too-long"


def test_filters_can_be_turned_off():
    c = plain_config(drop_anchors=False)
    assert anchors.reason_to_drop("1990", c) == ""
    assert anchors.reason_to_drop("click here", c) == ""
    assert min(anchors.limits(c, 10**9)) > 10**12
    c = plain_config()
    assert anchors.limits(c, 10) == (20, 1000) and anchors.limits(c, 1000) == (500, 1000)


def plain_config(**fields):
    c = generation()
    c.source.paths, c.tokenizer, c.encoder = ("x",), "t", "uniform"
    c.update(fields)
    return plain(c)


def link(text, anchor, after=0):
    start = text.index(anchor, after)
    return {"start": start, "end": start + len(anchor), "target": "t"}


def test_links_across_sentence_bounds_join_them():
    text = "He left Yahoo! The Firm. It was sold. Then (cf. Fig. A. B. end) it closed.\nNew one. Two."
    first, second, third = link(text, "left"), link(text, "Yahoo! The Firm. It"), link(text, "sold")
    fourth, across, last = link(text, "Then"), link(text, "closed.\nNew"), link(text, "Two")
    spans = [span for _, span in in_sentences(text, [first, second, third, fourth, across, last])]
    assert [text[start:end] for start, end in spans[:3]] == ["He left Yahoo! The Firm. It was sold."] * 3
    assert text[slice(*spans[3])] == "Then (cf. Fig. A. B. end) it closed."
    assert spans[4] == [] and text[slice(*spans[5])] == "Two."


def test_sentences_of_many_links_take_linear_steps():
    def page_of(n):
        text = "Ab stops. Cd " * n
        return text, [{"start": 13 * i + 3, "end": 13 * i + 12, "target": "t"} for i in range(n)]

    check_linear(lambda n: in_sentences(*page_of(n)), most=2.1)
    assert len(in_sentences(*page_of(60_000))) == 60_000  # minutes, where each join looks at every link before it
