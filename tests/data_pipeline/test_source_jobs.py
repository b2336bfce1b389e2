"""The whole job from other sources than JSONL: a web site as folder and as crawl, a multistream dump, extracted text."""

import bz2
import gzip
import html
import json

import corpus
import pytest
from test_generation import hashes, records, table
from test_mediawiki import HEAD, TAIL
from test_mediawiki import page as xml_page
from test_warc import record

from data_pipeline import boilerplate
from data_pipeline.losses import Losses
from data_pipeline.manifest import load_manifest
from data_pipeline.pipeline import generate
from data_pipeline.sources import Link, LinkedDocument

MENU = "".join(f"<li><a href='/p{number}/'>{word}</a>" for number, word in enumerate(("ba", "ko", "ri")))


def linked(number: int, markup) -> tuple[str, str]:
    """Lead and body of an invented page, links written by `markup(target, anchor)`."""
    page = corpus.page(number)
    text, position = "", 0
    for link in page["links"]:
        anchor = page["text"][link["start"] : link["end"]]
        text += page["text"][position : link["start"]] + markup(link["target"].replace("alias-", "old"), anchor)
        position = link["end"]
    lead, _, body = (text + page["text"][position:]).partition("\n")
    return lead, body


def web_page(number: int) -> str:
    lead, body = linked(number, lambda target, anchor: f"<a href='../{target}/index.html#top'>{anchor}</a>")
    return (
        f"<!doctype html><meta charset=utf-8><title>{number}</title><div class=menu><ul>{MENU}</ul></div>"
        f"<h1>p{number}</h1><p>{lead}</p><h2>more</h2><p>{body}</p><footer><a href='/about'>about</a></footer>"
    )


def config(folder, format_, paths, **fields):
    c = corpus.config(folder, encoder="idf", keep_work=True, workers=1, **fields)
    c.source.format, c.source.paths, c.source.redirects = format_, paths, ()
    return c


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return corpus.write(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def site(folder):
    for number in range(corpus.PAGES):
        (folder / "site" / f"p{number}").mkdir(parents=True)
        (folder / "site" / f"p{number}" / "index.html").write_text(web_page(number))
        if number % 5 == 0:
            (folder / "site" / f"old{number}").mkdir()
            moved = f"<meta http-equiv=refresh content='0; url=../p{number}/'>"
            (folder / "site" / f"old{number}" / "index.html").write_text(moved)
    c = config(folder, "html", (str(folder / "site"),))
    c.source.base_url = "https://x.org/"
    generate(c, str(folder / "html"))
    return folder / "html"


def test_a_folder_of_html_becomes_shards(site):
    manifest = load_manifest(str(site))
    losses = manifest["losses"]
    assert losses["link-boilerplate"]["count"] == 3 * corpus.PAGES
    assert losses["paragraph-boilerplate"]["count"] == 3 * corpus.PAGES
    assert losses["link-outside-content"]["count"] == corpus.PAGES == losses["link-unresolved"]["count"]
    assert all(entry["pairs"] > 10 for entry in manifest["tasks"].values()) and set(manifest["tasks"]) > {"rqp", "acm"}
    assert len(records(site)) == sum(split["records"] for split in manifest["splits"].values())
    documents = {row["id"]: row for row in table(site, "documents")}
    for number in (0, 17):
        page, row = corpus.page(number), documents[f"https://x.org/p{number}"]
        assert row["text"] == page["text"].strip() and row["lead_end"] == page["lead_end"]
        assert [(link["start"], link["end"]) for link in row["links"]] == [
            (k["start"], k["end"]) for k in page["links"]
        ]
        assert row["title"] == f"p{number}"
    assert all(link["problem"] in ("", "link-to-itself", "link-unresolved") for link in table(site, "resolved"))
    (entry,) = [entry for entry in manifest["source"] if entry["name"] == "site"]
    assert entry["files"] == corpus.PAGES + len(range(0, corpus.PAGES, 5))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crawl_of_the_site_gives_the_same_documents(site, folder, workers):
    crawl = []
    for number in range(corpus.PAGES):
        crawl.append(record(f"http://x.org/p{number}/", web_page(number)))
        if number % 5 == 0:
            moved = record(f"https://x.org/old{number}/", status="301 Moved", headers=f"Location: /p{number}\r\n")
            crawl.append(moved)
    for part in (0, 1):
        (folder / f"{part}.warc.gz").write_bytes(b"".join(map(gzip.compress, crawl[part::2])))
    paths = (str(folder / "*.warc.gz"),)
    output = folder / f"crawl{workers}"
    c = config(folder, "warc", paths, tasks=("rqp",))
    c.workers = workers
    generate(c, str(output))
    fields = ("id", "text", "lead_end", "links")
    ours, theirs = (
        sorted(([row[k] for k in fields] for row in table(o, "documents")), key=str) for o in (output, site)
    )
    assert ours == theirs
    assert load_manifest(str(output))["losses"]["link-boilerplate"]["count"] == 3 * corpus.PAGES
    if workers == 2:
        assert hashes(output) == hashes(folder / "crawl1")


def test_multistream_and_plain_dump_write_the_same_shards(folder):
    streams, lines = [bz2.compress(HEAD.encode())], []
    for start in range(0, corpus.PAGES, 6):
        pages = ""
        for number in range(start, start + 6):
            lead, body = linked(number, lambda target, anchor: f"[[{target}|{anchor}]]")
            pages += xml_page(f"P{number}", f"{lead}\n== More ==\n{body}", number + 1)
            lines.append(f"{sum(map(len, streams))}:{number + 1}:P{number}")
        streams.append(bz2.compress(pages.encode()))
    (folder / "dump.xml.bz2").write_bytes(b"".join([*streams, bz2.compress(TAIL.encode())]))
    (folder / "index.txt").write_text("\n".join(lines) + "\n")
    aliases = "".join(f"Old{number}\tP{number}\n" for number in range(0, corpus.PAGES, 5))
    (folder / "aliases.tsv").write_text(aliases)
    for name, index in (("plain", ()), ("multistream", (str(folder / "index.txt"),))):
        c = config(folder, "mediawiki", (str(folder / "dump.xml.bz2"),), tasks=("rqp", "qdm", "mlm"))
        c.source.index, c.source.redirects = index, (str(folder / "aliases.tsv"),)
        generate(c, str(folder / name))
    assert hashes(folder / "multistream") == hashes(folder / "plain")
    assert load_manifest(str(folder / "plain"))["losses"]["link-unresolved"]["count"] == corpus.PAGES


def test_extracted_text_and_the_authors_format_run(folder):
    (folder / "extracted" / "AA").mkdir(parents=True)
    lines, theirs = [], []
    for number in range(corpus.PAGES):
        text = "\n\n".join(linked(number, lambda target, anchor: f'<a href="{target}">{anchor}</a>'))
        lines.append(json.dumps({"id": str(number), "title": f"P{number}", "text": html.escape(text, quote=False)}))
        page = corpus.page(number)
        for link in page["links"]:
            tokens = page["text"][: link["end"]].split()
            at = len(page["text"][: link["start"]].split())
            passage = page["text"] if link["target"] == "nowhere" else f"about {link['target'].replace('-', ' ')}"
            anchor = {"text": tokens[at], "pos": [at, at], "passage": passage}
            theirs.append(json.dumps({"sentence": "", "tokenized_sentence": tokens, "anchors": [[anchor]]}))
    (folder / "extracted" / "AA" / "wiki_00").write_text("\n".join(lines))
    (folder / "theirs.jsonl").write_text("\n".join(theirs))
    for format_, path in (("wikiextractor", folder / "extracted"), ("harp_json", folder / "theirs.jsonl")):
        generate(config(folder, format_, (str(path),), tasks=("rqp",)), str(folder / format_))
        assert load_manifest(str(folder / format_))["tasks"]["rqp"]["pairs"] > 100


def test_boilerplate_leaves_offsets_and_first_section_right():
    text = "Home | Docs\nSee Docs and this.\nHome\nThe end, Home."
    links = [
        Link(0, 4, "h"),
        Link(7, 11, "d"),
        Link(16, 20, "d"),
        Link(25, 29, "t"),
        Link(31, 35, "h"),
        Link(45, 49, "h"),
    ]
    document = LinkedDocument("https://x.org/a", "a", "T", text, tuple(links), 35)
    losses = Losses()
    found = boilerplate._without(document, {("h", "Home"), ("d", "Docs")}, losses)
    assert found.text == "See Docs and this.\nThe end, Home." and found.text[: found.lead_end] == "See Docs and this."
    assert [(found.text[link.start : link.end], link.target) for link in found.links] == [("this", "t")]
    assert {row["reason"]: row["n"] for row in losses.table().to_pylist() if row["n"]} == {
        "link-boilerplate": 5,
        "paragraph-boilerplate": 2,
    }
    menu_first = LinkedDocument("https://x.org/a", "a", "T", "Home\nText.", (Link(0, 4, "h"),), 4)
    assert boilerplate._without(menu_first, {("h", "Home")}, losses).lead_end == len("Text.")
