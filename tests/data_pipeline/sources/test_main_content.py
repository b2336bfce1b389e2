"""The main content of a page: one invented page for every kind of error found on real pages."""

import pytest

from benchmarks.main_content import all_text, extracted, labelled_pages, score
from data_pipeline.sources.html_pages import read_page
from tests.support.shared_data import shared

PROSE = "The lock of the canal was built by hand, and it has carried boats of every kind since that summer. "


def prose(word: str, sentences: int = 4) -> str:
    return f"<p>{word} {PROSE * sentences}</p>"


def read(page: str, split: str = "pages"):
    return read_page(page.encode(), "https://x.org/a", "w", {"max_page_bytes": 2 << 20, "split": split}, [])[0]


def first_words(page: str) -> list[str]:
    return [line.split()[0] for line in read(page).text.split("\n")]


LINKS = "".join(f"<li><a href=/{word}>{word} and more of it</a></li>" for word in ("News", "Sport", "Money"))
CONTENT, BODY, END = prose("Lead") + prose("Body"), prose("Body", 1), prose("End")


@pytest.mark.parametrize(
    "page",
    [
        f"<main></main><div>{CONTENT}</div>",
        f"<form action=/ id=aspnet>{CONTENT}</form>",
        f"<div>{CONTENT}</div><article><a href=/x>Another</a></article>",
        f"<div class='has-sidebar tag'>{CONTENT}</div>",
        "<main></main><p>Lead<p>Body",
        f"<div>{prose('Lead')}<div class=chapter id=language>{prose('Body', 2)}</div>{END}</div>",
        f"<h1>Site</h1><div><div><h2>Lead</h2>{BODY}<div class=sect>{prose('End', 9)}</div></div></div>",
        f"<main>{prose('Lead')}<aside class=topic>{BODY}</aside>{END}</main>",
        f"<main>{prose('Lead')}<div class='admonition admonition-register-first'>{BODY}</div>{END}</main>",
        f"<div class=sect1><p>Lead {PROSE}</p><table>{f'<tr><td>Body {PROSE}' * 20}</table></div>",
        f"<div class=section><h1>T</h1>{prose('Lead', 9)}</div><div class=section>{BODY}</div>",
        f"<div class=section>{prose('Lead')}<div><a id=x /><div>{BODY}</div></div>{END}</div>",
        f"<main>{prose('Lead')}<aside class=sidebar><p class=sidebar-title>Body</p>{BODY}</aside>{END}</main>",
    ],
)
def test_the_content_of_the_page_is_found(page):
    assert first_words(f"<body>{page}</body>")[:2] == ["Lead", "Body"]


@pytest.mark.parametrize(
    "boilerplate",
    [
        f"<ul>{LINKS}</ul>",
        "<div class='newsletter-box'><p>Receive our letter with all that is new about canals every week.</div>",
        "<section class='relatedArticles'><h2>More</h2><p>A bridge that opens by itself when a boat comes near.</section>",
        "<figure><img src=x><figcaption>The lock seen from the bridge.</figcaption></figure>",
        "<div class=teaser><a href=/y>A bridge that opens by itself</a> when a boat comes near it.</div>",
        "<p>by <a rel=author href=/z>Ana Bel</a> <a rel=tag href=/t>canals</a></p>",
    ],
)
def test_parts_of_the_site_are_left_out(boilerplate):
    page = f"<div class=article><h1>Locks</h1>{prose('Lead')}{boilerplate}{prose('Body')}</div>"
    assert first_words(page) in (["Lead", "Body"], ["Lead", "by", "Body"])


@pytest.mark.parametrize(
    "tag", ["section", "div class=section", "div class='section level2'", "div class=subsection-level-extent"]
)
def test_ids_of_sections_are_no_names(tag):
    """As in Sphinx, pandoc and Texinfo: words of the subject; links lead to the empty <span> of older ones."""
    names = ("comments", "paginating-a-list", "widgets")
    parts = [f"<{tag} id=s-{n}><span id={n}></span><h2>{n}</h2>{prose('Body', 30)}</{tag.split()[0]}>" for n in names]
    short = f"<{tag} id=related><h2>Related<a href='#related'>¶</a></h2><p>See <a href=b.html>bridges</a>.</{tag.split()[0]}>"
    page = f"<div role=main><div class=section id=locks><h1>Locks</h1>{prose('Lead', 9)}{''.join(parts)}{short}"
    words = ["Lead", *(word for name in names for word in (name, "Body")), "Related", "See"]
    assert first_words(page) == words and "¶" not in read(page).text
    outline = read(page, "auto").outline
    assert [outline.sections[outline.fragments[name]].title for name in names] == list(names)


@pytest.mark.parametrize(
    ("page", "title", "lines"),
    [
        (f"<div class=l><p>Canals</p><div class=d>1 May</div><h1>Locks</h1>{CONTENT}<h2>More</h2><div><ul>{LINKS}</ul></div></div>",
         "Locks", ["Lead", "Body"]),
        ("<h1><a href=/>Canals 2.1</a></h1><div><h1>Locks<a href='#l'>¶</a></h1><p>In short.</div>", "Locks", ["In"]),
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
    assert ours.f >= 0.92 and ours.f > everything.f + 0.2 and ours.precision > 0.88 and ours.recall > 0.93
