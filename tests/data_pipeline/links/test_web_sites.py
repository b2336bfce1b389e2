import pytest

from data_pipeline.engine import tables
from data_pipeline.engine.local import SerialEngine
from data_pipeline.links import web_sites
from data_pipeline.sources.html_pages import read_page
from tests.support import corpus
from tests.support.generation_job import linked_documents, table

URL = "https://x.org/lib/os.html"


def page_of(html: str):
    (page,) = read_page(html.encode(), URL, "w", {"max_page_bytes": 2 << 20, "split": "auto"}, [])
    return page


def split(html: str):
    """{fragment: (title, text)} of the documents, {fragment: fragment} of the redirects."""
    documents = web_sites.finished(page_of(html), True, lambda target: target, [])
    parts = {d.address.removeprefix(URL): (d.title, d.text) for d in documents if d.redirect is None}
    return parts, {d.address.removeprefix(URL): d.redirect.removeprefix(URL) for d in documents if d.redirect}


SPHINX = """<title>os</title><main><section id=module-os><span id=x></span><h1>os<a class=headerlink href=#module-os>¶</a></h1>
<p>Lead.</p><section id=paths><span id=old></span><h2>Paths<a href=#paths>¶</a></h2><p>About <a href=#os.join>joining</a>.</p>
<dl class="py function"><dt class="sig" id=os.join>os.<b>join</b>(a)<a class=headerlink href=#os.join>¶</a></dt>
<dd><p>Join paths.</p><dl class=field-list><dt>Returns</dt><dd>a path</dd></dl><p id=note>Note this.</p></dd></dl><p>After.</p>
</section><section id=empty><h2>Empty</h2><section id=below><h3>Below</h3><p>Text.</p></section></section></section></main>"""


def test_sections_and_terms_are_documents_with_their_path_as_title():
    documents, moved = split(SPHINX)
    assert documents == {
        "": ("os", "Lead."),
        "#paths": ("os: Paths", "About joining.\nAfter."),
        "#os.join": ("os: Paths: os.join(a)", "Join paths.\nReturns\na path\nNote this."),
        "#below": ("os: Empty: Below", "Text."),
    }
    assert moved == {"#empty": "#below"}


@pytest.mark.parametrize(
    "html,expected",
    [
        ("<h1>T</h1>a<h2 id=b>B</h2>b<h3 id=c>C</h3>c<h2 id=d>D</h2>d", {"": "a", "#b": "b", "#c": "c", "#d": "d"}),
        ("<h1>T</h1>a<h2>B</h2>b<a name=c></a><h2><a id=b href=#b>#</a>C</h2>c", {"": "a\nB\nb", "#c": "c"}),
        ("<dl><dt id=a>A<dt id=b>B<dd>both<dt>C<dd>none<dt id=d>D<dd>d</dl>", {"": "C\nnone", "#a": "both", "#d": "d"}),
        ("<h1>T</h1>a<a href=x><h2 id=b>B</h2>b</a>", {"": "a B b"}),
        ("<h2 id=a>Menu</h2>m<section><h1>T</h1>a<h2 id=b>B</h2>b</section>", {"": "Menu\nm\na", "#b": "b"}),
        ("<h1>T</h1>a<h2 id='b  c\u200b\xa0d'>B</h2>b<h2 id=' '>C</h2>c", {"": "a", "#b%20c%20d": "b\nC\nc"}),
    ],
)
def test_where_sections_begin(html, expected):
    assert {fragment: text for fragment, (_, text) in split(html)[0].items()} == expected


def test_links_keep_their_places_in_sections():
    html = f"<h1>T</h1><p>a <a href=y#f>b</a><h2 id=s>S</h2><p>c<p>d <a href=#s>e</a> <a href='{URL}#%C3%A4'>f</a> <a href=#>g</a>"
    whole, part = web_sites.finished(page_of(html), True, lambda target: target, [])
    shown = {d.text[a:b]: target for d in (whole, part) for a, b, target in d.links}
    assert shown == {"b": "https://x.org/lib/y#f", "e": URL + "#s", "f": URL + "#ä"}
    (page,) = web_sites.finished(page_of(html), False, lambda target: target, dropped := [])
    assert page.text == "a b\nS\nc\nd e f g" and [link.target for link in page.links] == ["https://x.org/lib/y"]
    assert [(each.reason, each.times) for each in dropped] == [("link-self", 2)]


def test_index_and_search_pages_are_no_sources_of_links():
    items = [f"<li><a href=p{n}.html#t>term number {n}</a></li>" for n in range(40)]
    genindex = "https://x.org/genindex-A.html"
    for html, url in (("".join(items), URL), ("".join(items[:11]), URL), ("<a href=b>b</a>", genindex)):
        dropped = []
        (page,) = read_page(html.encode(), url, "w", {"max_page_bytes": 2 << 20}, dropped)
        assert page.links == () and [each.reason for each in dropped] == ["page-index", "link-on-index-page"]
    prose = "<li>A description of what follows it, number {0}: <a href=p{0}.html>page</a>.</li>"
    assert len(page_of("".join(map(prose.format, range(40)))).links) == 40


def documents_of(tmp_path, pages, **fields):
    """Documents by id, and the id that each anchor leads to."""
    for name, body in pages.items():
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(f"<!doctype html><title>{name}</title>{body}")
    c = corpus.config(tmp_path, encoder="idf", workers=1, min_article_words=2)
    source = dict(format="html", paths=(str(tmp_path / "site"),), redirects=(), base_url="https://x.org/")
    c.source.update(source | fields)
    documents = linked_documents(c, tmp_path / "out", SerialEngine)
    ids = {row["doc"]: row["id"].removeprefix("https://x.org/") for row in table(tmp_path / "out", tables.PAGES)}
    return documents, {row["anchor"]: ids.get(row["destination"]) for row in table(tmp_path / "out", tables.RESOLVED)}


DOCS = {
    "glossary.html": "<h1>Glossary</h1><dl><dt id=term-lock>lock<dd><p>A gate for boats, see <a href=#term-weir>the weir</a>."
    "<dt id=term-weir>weir<dd><p id=w>A low dam across a river.</dl>",
    "guide.html": "<link rel=canonical href='file:///usr/share/doc/guide.html'><h1>Guide</h1><p>Of canals and a "
    "<a href=glossary.html#term-lock>good lock</a>, a <a href=glossary.html#w>low dam</a>, <a href=glossary.html#gone>gone terms"
    "</a>, <a href=moved.html#term-weir>moved weirs</a> and <a href=glossary.html>all terms</a>.",
    "moved.html": "<meta http-equiv=refresh content='0; url=glossary.html'>",
}


def test_links_of_documentation_lead_to_sections(tmp_path):
    documents, links = documents_of(tmp_path, DOCS)
    assert {i.removeprefix("https://x.org/"): d["title"] for i, d in documents.items()} == {
        "glossary.html#term-lock": "Glossary: lock", "glossary.html#term-weir": "Glossary: weir", "guide.html": "Guide",
    }  # fmt: skip
    lock, weir = "glossary.html#term-lock", "glossary.html#term-weir"
    assert {anchor for anchor, end in links.items() if end == weir} == {"the weir", "low dam", "moved weirs"}
    assert {anchor for anchor, end in links.items() if end == lock} == {"good lock", "gone terms", "all terms"}


def test_pages_of_other_sites_stay_whole(tmp_path):
    documents, links = documents_of(tmp_path, DOCS, split="pages")
    assert len(documents) == 2 and documents["https://x.org/glossary.html"]["text"].startswith("lock\nA gate")
    assert set(links.values()) == {"glossary.html"} and "the weir" not in links
    plain = {f"p{n}.html": f"<p>Page {n} leads to <a href=p{n + 1}.html>the next page {n}</a>." for n in range(12)}
    assert len(documents_of(tmp_path / "auto", {**DOCS, **plain})[0]) == 3 + len(plain) - 1


def test_a_page_has_the_address_of_its_canonical_link_if_that_host_is_crawled(tmp_path):
    moved = "<link rel=canonical href='https://b.org/q'><p>It leads to <a href=https://b.org/r>another</a>."
    pages = {"a.org/p": moved, "b.org/r": "<p>It leads to <a href=https://a.org/p>the first</a>."}
    links = documents_of(tmp_path, pages, base_url="https://")[1]
    assert links == {"another": "https://b.org/r", "the first": "https://b.org/q"}
