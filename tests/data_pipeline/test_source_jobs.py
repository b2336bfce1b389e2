import gzip
import importlib
import json

import pytest

from data_pipeline.config import PRESETS, plain
from data_pipeline.engine.local import SerialEngine
from data_pipeline.engine.stage_tables import DropCounts
from data_pipeline.links import parsing, web_sites
from data_pipeline.pipeline import generate
from data_pipeline.sources import formats, warc
from data_pipeline.sources.document import Link, LinkedDocument
from harp_jax.input.records import read_manifest
from tests.support import corpus, source_reading
from tests.support.corpus_site import web_page, write_site
from tests.support.generation_job import linked_documents, records, table
from tests.support.source_files import HEAD, TAIL, record
from tests.support.source_files import page as xml_page


def config(folder, format_, paths, **fields):
    c = corpus.config(folder, encoder="idf", keep_work=True, workers=1, **fields)
    c.source.format, c.source.paths, c.source.redirects = format_, paths, ()
    return c


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return corpus.write(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def site(folder):
    c = config(folder, "html", (write_site(folder / "site"),))
    c.source.base_url = "https://x.org/"
    generate(c, str(folder / "html"), SerialEngine)
    return folder / "html"


def test_a_folder_of_html_becomes_shards(site):
    manifest = read_manifest(str(site))
    dropped = manifest["losses"]
    assert dropped["link-boilerplate"]["count"] == 3 * corpus.PAGES
    assert dropped["paragraph-boilerplate"]["count"] == 3 * corpus.PAGES
    assert dropped["link-outside-content"]["count"] == corpus.PAGES == dropped["link-unresolved"]["count"]
    assert all(entry["pairs"] > 10 for entry in manifest["tasks"].values()) and set(manifest["tasks"]) > {"rqp", "acm"}
    documents = {row["id"]: row for row in table(site, "documents")}
    for number in (0, 17):
        page, row = corpus.page(number), documents[f"https://x.org/p{number}"]
        lead_end, heading = page["lead_end"], "\nmore"
        assert row["text"] == page["text"][:lead_end] + heading + page["text"].strip()[lead_end:]
        assert (row["lead_end"], row["title"]) == (lead_end, f"p{number}")
        for side in ("start", "end"):
            expected = [link[side] + len(heading) * (link["start"] > lead_end) for link in page["links"]]
            assert [link[side] for link in row["links"]] == expected
    assert all(link["problem"] in ("", "link-to-itself", "link-unresolved") for link in table(site, "resolved"))


def resolved(output) -> list[int]:
    """Number of links that lead to a page, and of links that lead nowhere."""
    problems = [row["problem"] for row in table(output, "resolved")]
    return [problems.count(problem) for problem in ("", "link-unresolved")]


def test_a_crawl_of_the_site_gives_the_same_documents(site, folder, monkeypatch):
    monkeypatch.setattr(warc, "CHUNK_BYTES", 4000)
    crawl = [record(f"http://x.org/p{number}/", web_page(number)) for number in range(corpus.PAGES)]
    for number in range(0, corpus.PAGES, 5):
        moved = f"Location: /p{number}\r\n"
        crawl.append(record(f"https://x.org/old{number}/", status="301 Moved", headers=moved))
    for part in (0, 1):
        (folder / f"{part}.warc.gz").write_bytes(b"".join(map(gzip.compress, crawl[part::2])))
    ours = linked_documents(config(folder, "warc", (str(folder / "*.warc.gz"),)), folder / "crawl")
    theirs = table(site, "documents")
    assert ours.keys() == {row["id"] for row in theirs}
    for row in theirs:
        for field in ("text", "title", "lead_end", "links"):
            assert ours[row["id"]][field] == row[field]
    assert resolved(folder / "crawl") == resolved(site)
    assert sum(row["n"] for row in table(folder / "crawl", "losses") if row["reason"] == "link-boilerplate") == 144


GERMAN = HEAD.replace(' xml:lang="de"', "").replace("<case>", "<dbname>dewiki</dbname><case>")
ABBREVIATED = "Der Fluss fließt z. B. nach [[{}|große Städt]]en, sagte Dr. Müller am 3. Mai. Danach wird er breiter."


def test_a_german_dump_becomes_pairs_by_the_rules_of_german(folder):
    pages = []
    for n in range(40):
        text = f"'''Übung {n}''' hat {' '.join(corpus.WORDS[n : n + 9])}.\n== Lage ==\n"
        text += f"{ABBREVIATED.format(f'übung {(n + 1) % 40}')} [[Datei:x.png|mini]] [[Kategorie:Fluss]]"
        pages.append(xml_page(f"Übung {n}", text, n))
    (folder / "dewiki.xml").write_text(GERMAN + "".join(pages) + TAIL)
    c = config(folder, "mediawiki", (str(folder / "dewiki.xml"),), language="", tasks=("rqp", "mlm"))
    manifest = generate(c, str(folder / "german"), SerialEngine)
    assert manifest["config"]["language"] == "de" and manifest["tasks"]["rqp"]["pairs"] > 10
    assert resolved(folder / "german") == [40, 0]
    whole = ABBREVIATED.format("").replace("[[|", "").replace("]]", "").partition(" Danach")[0]
    texts = {row["doc"]: row["text"] for row in table(folder / "german", "documents")}
    ranked = table(folder / "german", "ranked")
    assert {row["anchor"] for row in ranked} == {"große städten"}  # the tokenizer lowercases, but keeps ß
    assert {texts[row["doc"]][row["sentence_start"] : row["sentence_end"]].strip() for row in ranked} == {whole}


SILENT = "<html><p>text"
KANA = "<html><p>" + "この道具は写真の一部を切り抜きます。まず範囲を選び、それから大きさを決めてください。" * 6
UMLAUT = "<html><p>" + "Mit diesem Werkzeug wird ein Teil des Bildes geschnitten. Wählen Sie zuerst den Bereich. " * 4


@pytest.mark.parametrize(
    ("pages", "tag", "origin"),
    [
        (("<html lang=ja>", '<html class=x lang="JA">', SILENT), "ja", "by <html lang> or <body lang> of 2 of the 2 first pages"),
        (("<html><body lang='de' class=x><p>text",), "de", "by <html lang> or <body lang> of 1"),
        ((SILENT, SILENT), "en", "assumed: no <html lang>"),
        ((KANA, KANA, UMLAUT, SILENT), "ja", "by the words of 2 of the 3"),
        ((UMLAUT,), "de", "by the words of 1 of the 1"),
        ((HEAD + TAIL,), "de", "by the head of the dump"),
        ((GERMAN + TAIL,), "de", "by the head of the dump"),
        ((GERMAN.replace("dewiki", "pt_brwiki") + TAIL,), "pt", "by the head of the dump"),
    ],
)  # fmt: skip
def test_the_language_is_read_from_the_pages(tmp_path, pages, tag, origin):
    kind = "html" if pages[0].startswith("<html") else "mediawiki"
    for number, page in enumerate(pages):
        (tmp_path / f"{number}.html").write_text(page)
    found = formats.language_of(source_reading.source(kind, tmp_path / "*.html"))
    assert found.tag == tag and found.origin.startswith(origin)


def test_passages_and_running_text_are_as_long_as_max_doc_tokens_says(folder, tmp_path):
    pages = [corpus.page(n) for n in range(corpus.PAGES)]
    for page in pages:
        more = " ".join(corpus.WORDS * 3) + ".\n"
        moved = [{**link, "start": link["start"] + len(more), "end": link["end"] + len(more)} for link in page["links"]]
        page |= {"text": more + page["text"], "lead_end": page["lead_end"] + len(more), "links": moved}
    (tmp_path / "long.jsonl").write_text("".join(json.dumps(page) + "\n" for page in pages))
    longest = {}
    for limit in (300, 900):
        c = config(folder, "linked_jsonl", (str(tmp_path / "long.jsonl"),), tasks=("rqp", "mlm"), max_doc_tokens=limit)
        generate(c, str(tmp_path / str(limit)), SerialEngine)
        for row in records(tmp_path / str(limit)):
            kind = row["task"].decode()
            size = len(row["text"] if kind == "mlm" else row["pos_doc"])
            longest[limit, kind] = max(size, longest.get((limit, kind), 0))
    assert longest == {(300, "rqp"): 300, (300, "mlm"): 510, (900, "rqp"): 900, (900, "mlm"): 900}


@pytest.mark.parametrize("name", ["enwiki", "harp_json", "html", "linked_jsonl", "warc", "wikiextractor"])
def test_configs_are_valid_with_every_preset(name):
    for preset in ("", *PRESETS):
        c = importlib.import_module(f"configs.data.{name}").get_config(preset)
        c.tokenizer, c.encoder = c.tokenizer or "t", c.encoder or "uniform"
        c.language = "en"  # otherwise read from the source files
        assert plain(c)["source"]["format"] in formats.FORMATS and (c.unit == "tokens") == (preset == "official")


def test_redirect_files_pass_in_parts(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(parsing, "REDIRECTS_PER_FILE", 5)
    generate(corpus.config(folder, tasks=("mlm",), keep_work=True, workers=1), str(tmp_path), SerialEngine)
    rows = table(tmp_path, "redirects")
    assert sorted(row["priority"] - (1 << 62) for row in rows) == list(range(22))
    assert len(list((tmp_path / ".work" / "redirects").rglob("*.parquet"))) == 5


def test_boilerplate_leaves_offsets_and_first_section_right():
    text = "Home | Docs\nSee Docs and this.\nHome\nThe end, Home."
    spans = [(0, 4, "h"), (7, 11, "d"), (16, 20, "d"), (25, 29, "t"), (31, 35, "h"), (45, 49, "h")]
    links = [Link(*span) for span in spans]
    document = LinkedDocument("https://x.org/a", "a", "T", text, tuple(links), 35)
    dropped = DropCounts()
    found = web_sites._without(document, {("h", "Home"), ("d", "Docs")}, dropped)
    assert found.text == "See Docs and this.\nThe end, Home." and found.text[: found.lead_end] == "See Docs and this."
    assert [(found.text[link.start : link.end], link.target) for link in found.links] == [("this", "t")]
    lost = {row["reason"]: row["n"] for row in dropped.table().to_pylist() if row["n"]}
    assert lost == {"link-boilerplate": 5, "paragraph-boilerplate": 2}
    menu_first = LinkedDocument("https://x.org/a", "a", "T", "Home\nText.", (Link(0, 4, "h"),), 4)
    assert web_sites._without(menu_first, {("h", "Home")}, dropped).lead_end == len("Text.")
