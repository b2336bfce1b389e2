import pytest

from data_pipeline.sources import urls
from data_pipeline.sources.html_pages import MAX_OPEN, read_page
from harp_jax.base.errors import InputError
from tests.support import source_files, source_reading

SOURCE = source_reading.source("html")
URL = "https://x.org/guide/index.html"


def read(page, url=URL, charset=None, **fields):
    dropped = []
    data = page if isinstance(page, bytes) else page.encode()
    return read_page(data, url, "w", SOURCE | fields, dropped, charset), dropped


def shown(page, url=URL):
    (document,), _ = read(page, url)
    return source_reading.shown(document).replace("->https://x.org", "->").replace("\n", "|")


@pytest.mark.parametrize(
    "page,expected",
    [
        ("<p>See <a href='intro.html#part'>the\n  <b>intro</b></a>.", "See [the intro->/guide/intro.html]."),
        ("<p>a<p>b<div>c<span> d</span></div>e<br>f", "a|b|c d|e f"),
        ("<nav><a href=n>n</a></nav>a<footer>f</footer><aside>s</aside><header>h</header>", "a"),
        ("<div role=navigation>n</div><div hidden>h</div><p style='display: none'>i</p>a<b aria-hidden=true>c</b>", "a"),
        ("a<script>'<a href=x>s</a>'</script><style>p{}</style><noscript>n</noscript><!-- c -->b", "ab"),
        ("<pre>a = 1\nb</pre><p>use <code>f()</code>", "a = 1 b|use f()"),
        ("<table><tr><td>a<td>b</table><table><tr><th>c<td>d</table>e", "a|b|c d|e"),
        ("<a href=x><div>block</div><div>more</div></a> z", "[block more->/guide/x] z"),
        ("<a href=x> a </a>b<a href=y><img src=i></a>", "[a->/guide/x] b"),
        ("<a href=x>a<a href=y>b</a></a>", "[a->/guide/x][b->/guide/y]"),
        ("<a name=x>a</a> <a href='#x'>b</a> <a href='mailto:c'>c</a> <a href='javascript:d()'>d</a>", "a b c d"),
        ("a&nbsp;b &amp;lt; &#xD800; &#0;c\u200bd\u00ade", "a b &lt; \ufffd \ufffdcde"),
        ("<base href='/other/'><a href=x>a</a>", "[a->/other/x]"),
        ("<p>a\x02\x03\x04\x05b &#2;0&#5;c&#3;&#4;d", "a b 0 c d"),
        ("</font>" * 300 + "<p>" + "".join(f"<font color={i}>" for i in range(300)) + "<p>word" * 300, "|".join(["word"] * 300)),
        ("<noscript><meta http-equiv=refresh content='0; url=x'></noscript><p>a", "a"),
        ("<h2>T<button>Copy</button></h2>a<pre>b<button>Copy</button></pre><div>c<button>More</button></div>", "T|a|b|c"),
        ("<p>See <a href=q>Abschnitt 4.5, „Drehen“</a>, <a href=r>Section 9.21</a>.", "See „[Drehen->/guide/q]“, Section 9.21."),
        ("<p><a href=q>Figure 8 knot</a>, <a href=r>Tables 1.1 and 1.2: Sizes</a>", "[Figure 8 knot->/guide/q], [Sizes->/guide/r]"),
        ("<p><a href=a>9.21</a> <a href=b>Part II</a> <a href=c>Sec. 3</a> <a href=d>Figures 3 and 4</a>",
         "9.21 Part II Sec. 3 Figures 3 and 4"),
        ("<link rel=prev href=a><link rel=up href=b><p>A page on saws.<div><a href=a>Lathes</a> | <a href=b>Tools</a></div>",
         "A page on saws."),
        ("<p>Nach <a href=q>§ 34 BDSG</a> und <a href=r>§§ 12, 13</a>", "Nach [§ 34 BDSG->/guide/q] und [§§ 12, 13->/guide/r]"),
        ("<b><template shadowrootmode=open><p>a <a href=b>c</a></template></b>", "a [c->/guide/b]"),
        ("<p hidden=until-found>d<p hidden>e<template>f</template>", "d"),
        ("<meta charset=gbk><p><a href='/中?wd=中文'>a</a>".encode("gbk"), "[a->/%E4%B8%AD?wd=%D6%D0%CE%C4]"),
        ("<svg>" + "<path d='M0'/>" * 3000 + "</svg><p>text", "text"),
        ("<p>a<script>" + "for(;i<e.length; i++);" * 1100 + "</SCRIPT >b<script>" + "a<b[0] " * 1100, "ab"),
    ],
)  # fmt: skip
def test_shows_what_a_reader_reads(page, expected):
    assert shown(page) == expected


@pytest.mark.parametrize(
    "given, title",
    [
        ("4.5. Drehen", "Drehen"), ("Kapitel 3: Bar", "Bar"), ("第3章 概要", "概要"), ("9.21 Foo", "Foo"), ("A.1. Foo", "Foo"),
        ("IV. Foo", "Foo"), ("Part II. The SQL Language", "The SQL Language"), ("Chapter 3: .NET", ".NET"),
        ("Sections 3.1–3.4: Foo", "Foo"), ("<span class=header-section-number>1</span> Setup", "Setup"),
        *(2 * (title,) for title in ("2001: A Space Odyssey", "3.11 Release", "Part I", "2.0 Foo", "Part C compiler", "7 Wonders")),
        *(2 * (title,) for title in ("Figure 8-knot", "3D", "Example usage", "Section 9.21", "§ 12", "Section 1.")),
        ("f()<a href=m.html#f><span class=viewcode-link><span>[source]</span></span></a><a href=x.html#f>¶</a>", "f()"),
    ],
)  # fmt: skip
def test_the_number_of_a_title_is_no_word(given, title):
    assert read(f"<h1>{given}</h1><p>a")[0][0].title == title


def test_every_link_that_is_no_anchor_of_the_text_is_counted():
    page = "<nav><a href=1>a</a><a href=2>b</a></nav><p>c <a href=3><img></a> <a href='#'>d</a><a href='tel:1'>e</a><a href='http://['>f</a>"
    (document,), dropped = read(page)
    counts = {"link-empty": 1, "link-invalid": 1, "link-outside-content": 2, "link-scheme": 1, "link-self": 1}
    assert {each.reason: each.times for each in dropped} == counts and document.links == ()


CHAPTERS = "<title>AUTOINCREMENT</title><h1>{0}Summary</h1><p>Lead.<h1>{0}Keyword</h1><p>Body."


@pytest.mark.parametrize(
    ("page", "title", "lead"),
    [
        ("<title>Site</title><h1> The <i>title</i></h1><p>Lead.<p>More.<h2>A</h2><p>Body.", "The title", "Lead.\nMore."),
        (CHAPTERS.format("1. "), "AUTOINCREMENT", "Lead."), (CHAPTERS.format(""), "Summary", "Lead."),
        ("<h1 class=chapter>2 Packages</h1><p>a", "Packages", "a"), ("<title>Only\n title</title>text", "Only title", "text"),
    ],
)  # fmt: skip
def test_first_section_and_title(page, title, lead):
    (document,), _ = read(page)
    assert (document.title, document.text[: document.lead_end]) == (title, lead)
    assert document.address == document.id == "https://x.org/guide"


OTHER = "https://y.org/a/guide"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("<link rel='shortlink canonical' href='/Guide/'>", [("/guide", "/Guide", ""), ("/Guide", None, "")]),
        ("<link rel=canonical href='index.html'>", [("/guide", None, "")]),
        ("<meta http-equiv=Refresh content=' 0; URL=\"../new/\"'>", [("/guide", "/new", "")]),
        # A path on a disk, or another host, does not replace the address.
        ("<link rel=canonical href='file:///usr/doc/index.html'>", [("/guide", None, "")]),
        ("<link rel=canonical href='//y.org/'>", [("/guide", None, "https://y.org")]),
        (f"<link rel=canonical href='{OTHER}'>", [(OTHER, "/guide", ""), ("/guide", None, OTHER)]),
    ],
)  # fmt: skip
def test_canonical_links_and_moved_pages_are_redirects(head, expected):
    documents, dropped = read(f"{head}<p>a <a href=x>b</a>")
    shown = [(d.address, d.redirect or "", d.canonical) for d in documents]
    host = "https://x.org"
    assert [(a.removeprefix(host), b.removeprefix(host) or None, c) for a, b, c in shown] == expected and dropped == []


@pytest.mark.parametrize(
    "data,charset,text,replaced",
    [
        ("<p>ä".encode(), None, "ä", False), ("<p>ä".encode("latin-1"), "iso-8859-1", "ä", False),
        ("<meta charset=windows-1252><p>“ä”".encode("cp1252"), None, "“ä”", False),
        ("<meta http-equiv=content-type content='text/html; charset=Shift_JIS'><p>日本".encode("shift_jis"), None, "日本", False),
        ("<meta charset=utf-16><p>ä".encode(), None, "ä", False),
        ("\ufeff<p>ä".encode("utf-16"), "utf-8", "ä", False), (b"<p>\xff\xfe", None, "\ufffd\ufffd", True),
        ("<meta charset=x-sjis><p>①".encode("cp932"), None, "①", False),
        (b"<p>\xed\xa0\x80", "punycode", "\ufffd\ufffd\ufffd", True), (b"<p>a\0b", "utf-8", "a\ufffdb", False),
    ],
)  # fmt: skip
def test_encodings(data, charset, text, replaced):
    (document,), dropped = read(data, charset=charset)
    assert document.text == text
    assert [each.reason for each in dropped] == ["characters-replaced"] * replaced


@pytest.mark.parametrize(
    "one,other",
    [
        ("https://x.org/a/", "HTTP://X.org:80/a#f"), ("https://x.org", "https://x.org/index.html"),
        ("https://x.org/a", "https://x.org/a/Index.php"), ("https://x.org/~a/%C3%A4", "https://x.org/%7ea/ä"),
        ("https://x.org/x", "https://x.org/a/%2e%2e/x"), ("file:///a/b.html", "file:///a/c/../b.html"),
        ("https://xn--bcher-kva.de/?q=1", "http://bücher.de/index.htm?q=1"), ("https://x.org/A_(b)", "https://x.org/A_%28b%29"),
    ],
)  # fmt: skip
def test_urls_of_one_page_are_one_address(one, other):
    assert urls.address(one) == urls.address(other) is not None


def test_urls_that_stay_apart_and_those_that_are_none():
    apart = ("a", "A", "a?b", "a%2Fb", "a/b", "a.html", "a:b", "a/default.html")
    assert len({urls.address(f"https://x.org/{path}") for path in apart}) == len(apart)
    assert urls.site(urls.address("https://x.org:8000/?p=1/2")) == "x.org:8000" and urls.site("file:///?a") == ""
    invalid = ("x", "ftp://x.org/", "https://", "https://[::1", "https://x:99999/", "https://a b/")
    assert {urls.address(url) for url in (*invalid, f"https://x/{'a' * 3000}", f"https://{'é' * 300}/")} == {None}


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("<meta charset=utf-8><p>日本語の文章です。".encode("cp932"), "page-encoding"),
        ("<div>" * (MAX_OPEN + 1) + "x", "page-too-tangled"), ("<x/>" * 3000, "page-too-tangled"),
        (f"<p>before <a {''.join(f'x{i}=1 ' for i in range(6000))}>after</a>", "page-too-tangled"),
    ],
)  # fmt: skip
def test_pages_that_cannot_be_read_are_counted(page, reason):
    documents, dropped = read(page)
    assert documents == [] and [each.reason for each in dropped] == [reason]


def write(folder, pages):
    for name, page in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        source_files.write(folder / name, page)
    return folder


def read_folder(*paths, **fields):
    return source_reading.read(source_reading.source("html", *paths, **fields))


def test_folders(tmp_path):
    pages = {
        "index.html": "<p>a <a href='guide/'>guide</a> <a href='/b%20c.htm'>b</a> <a href='https://x.org/docs/guide/'>u</a>",
        "guide/index.html": "<p>b <a href='../index.html'>up</a>", "b c.htm": "<p>c", "large.html": b"x" * 5000,
        "image.png": b"\x89PNG", ".git/x.html": "hidden",
    }  # fmt: skip
    folder = write(tmp_path / "site", pages)
    documents, dropped = read_folder(folder, max_page_bytes=4000)
    addresses = {document.address: document.redirect for document in documents}
    without_suffix = {"file:///b%20c": "file:///b%20c.htm"}
    assert addresses == dict.fromkeys(["file://", "file:///guide", "file:///b%20c.htm"]) | without_suffix
    targets = [link.target for document in documents for link in document.links if document.address == "file://"]
    assert targets == ["file:///guide", "file:///b%20c.htm", "https://x.org/docs/guide"]
    assert [(each.where, each.reason) for each in dropped] == [(str(folder / "large.html"), "page-too-large")]
    documents, _ = read_folder(folder / "*.htm*", folder / "guide", base_url="x.org/docs")
    assert "https://x.org/docs/b%20c.htm" in [document.address for document in documents]
    for wrong in ("https://x.org/?v=2", "https://x.org/\n", "http://[bad"):
        with pytest.raises(InputError, match="base_url"):
            read_folder(folder, base_url=wrong)


def reached(documents):
    """Anchor text → page that the link leads to, after redirects, or None."""
    pages = {document.address: document.redirect for document in documents}
    ends = {}
    for document in documents:
        for start, end, target in document.links:
            for _ in range(3):
                target = pages.get(target) or target
            ends[document.text[start:end]] = target.removeprefix("https://x.org") if target in pages else None
    return ends


HTML = "<!DOCTYPE html><title>t</title>"
SERVED = ("guide", "guide/intro", "view?id=1&x=2", "v1.2", "x.php", "deep/", "?lang=de")


@pytest.mark.parametrize("adjusted", [False, True])
@pytest.mark.parametrize("base", ["https://x.org/", "https://"])
def test_a_mirror_whose_links_were_not_converted(tmp_path, base, adjusted):
    """As saved by `wget --mirror`, with and without -E; links stay as on the server: absolute, or without a suffix."""
    links = "".join(f"<a href='{'https://x.org/' * (i % 2)}{href}'>{href}</a> " for i, href in enumerate(SERVED))
    saved = ("guide/intro", "view?id=1&x=2", "v1.2", "x.php", "index.html?lang=de")
    pages = {f"{name}{'.html' * adjusted}": f"{HTML}<p>{name}" for name in saved}
    # A file and a folder cannot have the same name: wget keeps the folder.
    pages |= {"index.html": f"{HTML}{links}", "deep/index.html": "folder", "guide.html": f"{HTML}<p>guide"}
    others = {"i.png": b"\x89PNG", "robots.txt": "User", "index.html.orig": HTML + "<p>copy"}
    write(tmp_path / "site" / ("x.org" if base == "https://" else ""), pages | others)
    documents, dropped = read_folder(tmp_path / "site", base_url=base)
    assert dropped == [] and len([each for each in documents if each.redirect is None]) == len(pages)
    ends = reached(documents)
    assert all(ends.values()) and len(set(ends.values())) == len(ends) == len(SERVED), ends


def test_file_names_are_escaped_as_links_are(tmp_path):
    """Colons of wikis and ports, and queries as wget -k escapes them."""
    names = {"Talk:A&B": "./Talk:A&amp;B", "view?id=1&x=2": "view%3Fid=1&amp;x=2", "100%": "100%25", "a#b": "a%23b"}
    index = "".join(f"<a href='{link}.html'>{link}</a> " for link in names.values())
    folder = tmp_path / "site" / "localhost:8000"
    write(folder, {f"{name}.html": "<p>t" for name in names} | {"index.html": index})
    for path, base in ((folder, "https://x.org"), (folder, ""), (tmp_path / "site", "http://")):
        ends = reached(read_folder(path, base_url=base)[0])
        assert all(ends.values()) and len(set(ends.values())) == 4, ends


def test_symbolic_links_lead_to_pages(tmp_path):
    """Links within the folder are other names of a page, links out of it are followed, and cycles end."""
    pages = {
        "2.1/a.html": "<p>a <a href='../latest/b.html'>b</a>", "2.1/b.html": "<p>b <a href='home.html'>h</a>",
        "c.html": "<p>c <a href='/latest/a'>a</a> <a href=far/d.html>d</a>",
    }  # fmt: skip
    folder, elsewhere = write(tmp_path / "site", pages), write(tmp_path / "elsewhere", {"d.html": "<p>d"})
    for link, target in {
        "latest": "2.1", "2.1/home.html": "../c.html", "far": elsewhere, "loop": ".", "up": "..", "2.1/back": folder,
        "broken.html": "nowhere.html", elsewhere / "round": elsewhere,
    }.items():  # fmt: skip
        (folder / link).symlink_to(target)
    documents, dropped = read_folder(folder, base_url="https://x.org")
    assert dropped == [] and sorted(each.text[0] for each in documents if each.redirect is None) == ["a", "b", "c", "d"]
    assert reached(documents) == dict(b="/2.1/b.html", h="/c.html", a="/2.1/a.html", d="/far/d.html")
