"""The main content of a page: one invented page for every kind of error found on real pages."""

import pytest
from selectolax.lexbor import LexborHTMLParser

from benchmarks.main_content import all_text, extracted, labelled_pages, score
from data_pipeline.sources.html_pages import read_page
from data_pipeline.sources.main_content import MainContent
from tests.support.shared_data import shared

PROSE = "The lock of the canal was built by hand, and it has carried boats of every kind since that summer. "


def prose(word: str, sentences: int = 4) -> str:
    return f"<p>{word} {PROSE * sentences}</p>"


def read(page: str):
    return read_page(page.encode(), "https://x.org/a", "w", {"max_page_bytes": 2 << 20}, [])[0]


def first_words(page: str) -> list[str]:
    return [line.split()[0] for line in read(page).text.split("\n")]


LINKS = "".join(f"<li><a href=/{word}>{word} and more of it</a></li>" for word in ("News", "Sport", "Money"))
CONTENT = prose("Lead") + prose("Body")


@pytest.mark.parametrize(
    "page",
    [
        f"<main></main><div>{CONTENT}</div>",
        f"<form action=/ id=aspnet>{CONTENT}</form>",
        f"<div>{CONTENT}</div><article><a href=/x>Another</a></article>",
        f"<div class='has-sidebar tag'>{CONTENT}</div>",
        f"<div class=page>{CONTENT}</div><div><div>{prose('Lower', 1)}</div></div>",
        "<main></main><p>Lead<p>Body",
        f"<div>{prose('Lead')}<div class=chapter id=language>{prose('Body', 2)}</div>{prose('End')}</div>",
        f"<h1>Site</h1><div><div><h2>Lead</h2>{prose('Body', 1)}<div class=sect>{prose('End', 9)}</div></div></div>",
        f"<main>{prose('Lead')}<aside class=topic>{prose('Body', 1)}</aside>{prose('End')}</main>",
        f"<main>{prose('Lead')}<div class='admonition admonition-register-first'>{prose('Body', 1)}</div>{prose('End')}</main>",
        f"<div class=sect1><p>Lead {PROSE}</p><table>{f'<tr><td>Body {PROSE}' * 20}</table></div>",
        f"<div class=section><h1>T</h1>{prose('Lead', 9)}</div><div class=section>{prose('Body', 1)}</div>",
        f"<div class=section>{prose('Lead')}<div><a id=x /><div>{prose('Body', 1)}</div></div>{prose('End')}</div>",
        f"<main>{prose('Lead')}<aside class=sidebar><p class=sidebar-title>Body</p>{prose('More', 1)}</aside>{prose('End')}</main>",
    ],
)
def test_the_content_of_the_page_is_found(page):
    assert first_words(f"<body>{page}</body>")[:2] == ["Lead", "Body"]


@pytest.mark.parametrize(
    "boilerplate",
    [
        f"<ul>{LINKS}</ul>",
        "<div class='newsletter-box'><p>Receive our letter with all that is new about canals every week.</div>",
        "<div id=comments><p>What a fine lock that is, I was there myself with a boat of my own last year.</div>",
        "<section class='relatedArticles'><h2>More</h2><p>A bridge that opens by itself when a boat comes near.</section>",
        "<figure><img src=x><figcaption>The lock seen from the bridge.</figcaption></figure>",
        "<div class=teaser><a href=/y>A bridge that opens by itself</a> when a boat comes near it.</div>",
        "<p>by <a rel=author href=/z>Ana Bel</a> <a rel=tag href=/t>canals</a></p>",
        "<div class=sidebar><p>Receive our letter with all that is new about canals every week.</p></div>",
    ],
)
def test_parts_of_the_site_are_left_out(boilerplate):
    page = f"<div class=article><h1>Locks</h1>{prose('Lead')}{boilerplate}{prose('Body')}</div>"
    assert first_words(page) in (["Lead", "Body"], ["Lead", "by", "Body"])


def test_sections_of_documentation_are_content():
    """Ids of sections and classes inside code are words of the subject; a short section is not an appendix."""
    page = (
        f"<div role=main><section id=locks><h1>Locks<a class=headerlink href='#locks'>¶</a></h1>{prose('Lead', 9)}"
        f"<section id=comments><h2>Comments<a href='#comments'>¶</a></h2>{prose('Body', 30)}</section>"
        "<section id=related-work><h2>Related</h2><p>See <a href=b.html>bridges</a>.</section>"
        "<section id=share><h2>Share</h2><pre>a <span class='hljs-comment'># note</span></pre></section></section></div>"
    )
    assert first_words(page) == ["Lead", "Comments", "Body", "Related", "See", "Share", "a"]
    assert "a # note" in read(page).text and "¶" not in read(page).text


@pytest.mark.parametrize("kind", ["section", "section level2", "subsection-level-extent"])
def test_ids_of_older_sections_are_no_names(kind):
    """As in old Sphinx (before <section>), pandoc and Texinfo; links lead to the empty <span>."""
    names = ("comments", "paginating-a-list", "widgets")
    parts = [f"<div class='{kind}' id=s-{n}><span id={n}></span><h2>{n}</h2>{prose('Body', 30)}</div>" for n in names]
    page = f"<div role=main><div class=section id=locks><h1>Locks</h1>{prose('Lead', 9)}{''.join(parts)}"
    assert first_words(page) == ["Lead", *(word for name in names for word in (name, "Body"))]
    content = MainContent(LexborHTMLParser(page))
    assert [content.sections[content.fragments[name]].title for name in names] == list(names)


@pytest.mark.parametrize(
    ("page", "title", "lines"),
    [
        (f"<div class=l><p>Canals</p><div class=d>1 May</div><h1>Locks</h1>{CONTENT}<h2>More</h2><div><ul>{LINKS}</ul></div></div>",
         "Locks", ["Lead", "Body"]),
        ("<div><h1><a href=/>Canals 2.1</a></h1></div><div><h1>Locks<a href='#l'>¶</a></h1><p>In short.</div>", "Locks", ["In"]),
        ("<div class=nav>Menu</div><div class=chapter id=GIN><h2>GIN</h2><div class=toc><dl><dt><a href=a.html>Operators</a>"
         "<dt><a href=b.html>Updates</a></dl></div></div>", "", ["GIN", "Operators", "Updates"]),
    ],
)  # fmt: skip
def test_what_stands_around_the_article_is_left_out_unless_it_is_the_article(page, title, lines):
    assert (read(page).title, first_words(page)) == (title, lines)


@pytest.mark.real
def test_main_content_of_labelled_pages():
    pages = labelled_pages(shared("main_content", "pages.jsonl.xz"))
    ours = score(pages, [extracted(page.html) for page in pages])
    everything = score(pages, [all_text(page.html) for page in pages])
    print(ours, everything)
    assert ours.f >= 0.92 and ours.f > everything.f + 0.2
    assert ours.precision > 0.88 and ours.recall > 0.93
