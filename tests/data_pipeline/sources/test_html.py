import pytest

from data_pipeline.sources import urls
from data_pipeline.sources.html_pages import MAX_OPEN, read_page
from harp_jax.base.errors import InputError
from tests.support import source_reading

SOURCE = source_reading.source("html")
HOST, URL, OTHER = "https://x.org", "https://x.org/guide", "https://y.org/a/guide"


def read(page, charset=None):
    dropped = []
    data = page if isinstance(page, bytes) else page.encode()
    return read_page(data, f"{URL}/index.html", "w", SOURCE, dropped, charset), dropped


@pytest.mark.parametrize("page,expected", [
    ("<p>See <a href='intro.html#part'>the\n  <b>intro</b></a>.", "See [the intro->/guide/intro.html]."),
    ("<p>a<p>b<div>c<span> d</span></div>e<br>f", "a|b|c d|e f"),
    ("<nav><a href=n>n</a></nav>a<footer>f</footer><aside>s</aside><header>h</header>", "a"),
    ("<div role=navigation>n</div><div hidden>h</div><p style='display: none'>i</p>a<b aria-hidden=true>c</b>", "a"),
    ("a<script>'<a href=x>s</a>'</script><style>p{}</style><noscript>n</noscript><!-- c -->b", "ab"),
    ("<pre>a = 1\nb</pre><p>use <code>f()</code>", "a = 1 b|use f()"),
    ("<table><tr><td>a<td>b</table><table><tr><th>c<td>d</table>e", "a|b|c d|e"),
    ("<a href=x><div>block</div><div>more</div></a> z", "[block more->/guide/x] z"),
    ("<a name=x>a</a> <a href='#x'>b</a> <a href='mailto:c'>c</a> <a href='javascript:d()'>d</a>", "a b c d"),
    ("a&nbsp;b &amp;lt; &#xD800; &#0;c\u200bd\u00ade", "a b &lt; \ufffd \ufffdcde"),
    ("<base href='/other/'><a href=x>a</a>", "[a->/other/x]"),
    ("<p>a\x02\x03\x04\x05b &#2;0&#5;c&#3;&#4;d", "a b 0 c d"),
    ("</font>" * 300 + "<p>" + "".join(f"<font color={i}>" for i in range(300)) + "<p>word" * 300, "|".join(["word"] * 300)),
    ("<p>See <a href=q>Abschnitt 4.5, „Drehen“</a>, <a href=r>Section 9.21</a>.", "See „[Drehen->/guide/q]“, Section 9.21."),
    ("<p><a href=q>Figure 8 knot</a>, <a href=r>Tables 1.1 and 1.2: Sizes</a>", "[Figure 8 knot->/guide/q], [Sizes->/guide/r]"),
    ("<link rel=prev href=a><link rel=up href=b><p>A page.<div><a href=a>Lathes</a> <a href=b>Up</a></div>", "A page."),
    ("<p>Nach <a href=q>§ 34 BDSG</a> und <a href=r>§§ 12, 13</a>", "Nach [§ 34 BDSG->/guide/q] und [§§ 12, 13->/guide/r]"),
    ("<b><template shadowrootmode=open><p>a</template></b><p hidden=until-found>d<p hidden>e<template>f</template>", "a|d"),
    ("<meta charset=gbk><p><a href='/中?wd=中文'>a</a>".encode("gbk"), "[a->/%E4%B8%AD?wd=%D6%D0%CE%C4]"),
    ("<svg>" + "<path d='M0'/>" * 3000 + "</svg><p>text", "text"),
    ("<p>a<script>" + "for(;i<e.length; i++);" * 1100 + "</SCRIPT >b<script>" + "a<b[0] " * 1100, "ab"),
])  # fmt: skip
def test_shows_what_a_reader_reads(page, expected):
    (document,), _ = read(page)
    assert source_reading.shown(document).replace(f"->{HOST}", "->").replace("\n", "|") == expected


NUMBERED = [
    *("4.5. Drehen", "Kapitel 3: Drehen", "第3章 Drehen", "9.21 Drehen", "IV. Drehen", "Part II. Drehen"),
    "<span class=header-section-number>1</span> Drehen",
    "Drehen<a href=m.html#f><span class=viewcode-link><span>[source]</span></span></a><a href=x.html#f>¶</a>",
]
OTHERS = ["2001: A Space Odyssey", "3.11 Release", "Part C compiler", "7 Wonders", "3D", "Figure 8-knot", "§ 12"]


@pytest.mark.parametrize("heading", NUMBERED + OTHERS)
def test_the_number_of_a_title_is_no_word(heading):
    assert read(f"<h1>{heading}</h1><p>a")[0][0].title == ("Drehen" if heading in NUMBERED else heading)


def test_every_link_that_is_no_anchor_of_the_text_is_counted():
    page = "<nav><a href=1>a</a><a href=2>b</a></nav><p>c <a href=3><img></a> <a href='#'>d</a><a href='tel:1'>e</a><a href='http://['>f</a>"
    (document,), dropped = read(page)
    counts = {"link-empty": 1, "link-invalid": 1, "link-outside-content": 2, "link-scheme": 1, "link-self": 1}
    assert {each.reason: each.times for each in dropped} == counts and document.links == ()


CHAPTERS = "<title>AUTOINCREMENT</title><h1>{0}Summary</h1><p>Lead.<h1>{0}Keyword</h1><p>Body."


@pytest.mark.parametrize(("page", "title", "lead"), [
    ("<title>Site</title><h1> The <i>title</i></h1><p>Lead.<p>More.<h2>A</h2><p>Body.", "The title", "Lead.\nMore."),
    (CHAPTERS.format("1. "), "AUTOINCREMENT", "Lead."), (CHAPTERS.format(""), "Summary", "Lead."),
    ("<h1 class=chapter>2 Packages</h1><p>a", "Packages", "a"), ("<title>Only\n title</title>text", "Only title", "text"),
])  # fmt: skip
def test_first_section_and_title(page, title, lead):
    (document,), _ = read(page)
    assert (document.title, document.text[: document.lead_end]) == (title, lead)


@pytest.mark.parametrize(("head", "expected"), [
    ("<link rel='shortlink canonical' href='/Guide/'>", [(URL, f"{HOST}/Guide", ""), (f"{HOST}/Guide", None, "")]),
    ("<meta http-equiv=Refresh content=' 0; URL=\"../new/\"'>", [(URL, f"{HOST}/new", "")]),
    (f"<link rel=canonical href='{OTHER}'>", [(OTHER, URL, ""), (URL, None, OTHER)]),
])  # fmt: skip
def test_canonical_links_and_moved_pages_are_redirects(head, expected):
    documents, dropped = read(f"{head}<p>a <a href=x>b</a>")
    assert [(d.address, d.redirect, d.canonical) for d in documents] == expected and dropped == []


@pytest.mark.parametrize("data,charset,text,replaced", [
    ("<p>ä".encode(), None, "ä", False), ("<p>ä".encode("latin-1"), "latin-1", "ä", False),
    ("<meta http-equiv=content-type content='text/html; charset=Shift_JIS'><p>日本".encode("shift_jis"), None, "日本", False),
    ("\ufeff<p>ä".encode("utf-16"), "utf-8", "ä", False), (b"<p>\xff\xfe", None, "\ufffd\ufffd", True),
    (b"<p>\xed\xa0\x80", "punycode", "\ufffd\ufffd\ufffd", True), (b"<p>a\0b", "utf-8", "a\ufffdb", False),
])  # fmt: skip
def test_encodings(data, charset, text, replaced):
    (document,), dropped = read(data, charset=charset)
    assert document.text == text and [each.reason for each in dropped] == ["characters-replaced"] * replaced


def test_urls_of_one_page_are_one_address_others_stay_apart_and_some_have_none():
    for one, other in {
        "https://x.org/a/": "HTTP://X.org:80/a#f", "https://x.org": "https://x.org/index.html",
        "https://x.org/a": "https://x.org/b/%2e%2e/a/Index.php", "https://x.org/~a/%C3%A4": "https://x.org/%7ea/ä",
        "https://xn--bcher-kva.de/?q=1": "http://bücher.de/index.htm?q=1", "https://x.org/A_(b)": "https://x.org/A_%28b%29",
    }.items():  # fmt: skip
        assert urls.address(one) == urls.address(other) is not None
    apart = ("a", "A", "a?b", "a%2Fb", "a/b", "a.html", "a:b", "a/default.html")
    assert len({urls.address(f"https://x.org/{path}") for path in apart}) == len(apart)
    invalid = ("x", "ftp://x.org/", "https://", "https://[::1", "https://x:99999/", "https://a b/")
    assert {urls.address(url) for url in (*invalid, f"https://x/{'a' * 3000}")} == {None}


@pytest.mark.parametrize(("page", "reason"), [
    ("<meta charset=utf-8><p>日本語の文章です。".encode("cp932"), "page-encoding"),
    ("<div>" * (MAX_OPEN + 1) + "x", "page-too-tangled"), ("<x/>" * 3000, "page-too-tangled"),
    (f"<p>before <a {''.join(f'x{i}=1 ' for i in range(6000))}>after</a>", "page-too-tangled"),
])  # fmt: skip
def test_pages_that_cannot_be_read_are_counted(page, reason):
    documents, dropped = read(page)
    assert documents == [] and [each.reason for each in dropped] == [reason]


def write(folder, pages):
    for name, page in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(page.encode())
    return folder


def read_folder(*paths, **fields):
    return source_reading.read(source_reading.source("html", *paths, **fields))


def test_folders(tmp_path):
    pages = {
        "index.html": "<p>a <a href='guide/'>guide</a> <a href='/b%20c.htm'>b</a> <a href='https://x.org/docs/guide/'>u</a>",
        "guide/index.html": "<p>b", "b c.htm": "<p>c", "large.html": "x" * 5000, "i.png": "PNG", ".git/x.html": "hidden",
    }  # fmt: skip
    folder = write(tmp_path / "site", pages)
    # Symbolic links within the folder are other names of a page, links out of it are followed, and cycles end.
    (write(tmp_path / "elsewhere", {"d.html": "<p>d"}) / "round").symlink_to(".")
    for link, target in {"latest": "guide", "far": "../elsewhere", "up": "..", "broken.xhtml": "nowhere"}.items():
        (folder / link).symlink_to(target)
    documents, dropped = read_folder(folder, max_page_bytes=4000)
    addresses = dict.fromkeys(["file://", "file:///guide", "file:///b%20c.htm", "file:///far/d.html"])
    for page in ("b%20c.htm", "far/d.html"):  # servers leave out the suffix
        addresses[f"file:///{page.partition('.')[0]}"] = f"file:///{page}"
    addresses["file:///latest"] = "file:///guide"
    assert {document.address: document.redirect for document in documents} == addresses
    targets = [link.target for document in documents for link in document.links]
    assert targets == ["file:///guide", "file:///b%20c.htm", "https://x.org/docs/guide"]
    assert [(each.where, each.reason) for each in dropped] == [(str(folder / "large.html"), "page-too-large")]
    documents, _ = read_folder(folder / "*.htm*", folder / "guide", base_url="x.org/docs")
    assert "https://x.org/docs/b%20c.htm" in [document.address for document in documents]
    for wrong in ("https://x.org/?v=2", "https://x.org/\n", "http://[bad"):
        with pytest.raises(InputError, match="base_url"):
            read_folder(folder, base_url=wrong)


HTML = "<!DOCTYPE html><title>t</title>"
# Colons of wikis, and names escaped as wget -k does.
SERVED = ["guide", "guide/intro", "view?id=1&x=2", "v1.2", "deep/", "?lang=de", "./Talk:A&amp;B", "100%25", "a%23b"]


@pytest.mark.parametrize("adjusted", [False, True])
@pytest.mark.parametrize("base", ["https://x.org/", "https://"])
def test_a_mirror_whose_links_were_not_converted(tmp_path, base, adjusted):
    """As saved by `wget --mirror`, with and without -E; links stay as on the server: absolute, or without a suffix."""
    links = "".join(f"see <a href='{'https://x.org/' * (i % 2)}{href}'>{href}</a> " for i, href in enumerate(SERVED))
    saved = ("guide/intro", "view?id=1&x=2", "v1.2", "index.html?lang=de", "Talk:A&B", "100%", "a#b")
    pages = {f"{name}{'.html' * adjusted}": f"{HTML}<p>{name}" for name in saved}
    # A file and a folder cannot have the same name: wget keeps the folder.
    pages |= {"index.html": f"{HTML}{links}", "deep/index.html": "folder", "guide.html": f"{HTML}<p>guide"}
    others = {"i.png": "PNG", "robots.txt": "User", "index.html.orig": HTML + "<p>copy"}
    write(tmp_path / "site" / ("x.org" if base == "https://" else ""), pages | others)
    documents, dropped = read_folder(tmp_path / "site", base_url=base)
    redirects = {each.address: each.redirect for each in documents}
    assert dropped == [] and list(redirects.values()).count(None) == len(pages)
    (index,) = (each for each in documents if each.address == HOST)
    ends = [redirects[link.target] or link.target for link in index.links]
    assert len(set(ends)) == len(ends) == len(SERVED), ends
