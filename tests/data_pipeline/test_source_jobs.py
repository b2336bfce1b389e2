import importlib
import json

import pytest

from data_pipeline.config import PRESETS, plain
from data_pipeline.engine import tables
from data_pipeline.engine.local import SerialEngine
from data_pipeline.pipeline import generate
from data_pipeline.sources import formats
from harp_jax.base.errors import InputError
from harp_jax.input.records import read_manifest
from tests.support import corpus, source_reading
from tests.support.corpus_site import write_site
from tests.support.generation_job import linked_documents, records, table
from tests.support.source_files import HEAD, TAIL
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
    documents = {row["id"]: row for row in table(site, tables.DOCUMENTS)}
    for number in (0, 17):
        page, row = corpus.page(number), documents[f"https://x.org/p{number}"]
        lead_end, heading = page["lead_end"], "\nmore"
        assert row["text"] == page["text"][:lead_end] + heading + page["text"].strip()[lead_end:]
        assert (row["lead_end"], row["title"]) == (lead_end, f"p{number}")
        for side in ("start", "end"):
            expected = [link[side] + len(heading) * (link["start"] > lead_end) for link in page["links"]]
            assert [link[side] for link in row["links"]] == expected
    assert all(link["problem"] in ("", "link-to-itself", "link-unresolved") for link in table(site, tables.RESOLVED))


GERMAN = HEAD.replace(' xml:lang="de"', "").replace("<case>", "<dbname>dewiki</dbname><case>")
ABBREVIATED = "Er fließt z. B. nach [[Große Stadt|große Städt]]en, sagte Dr. Müller am 3. Mai. Danach wird er breiter."


def test_a_german_dump_is_read_by_the_rules_of_german(folder):
    pages = xml_page("Fluss", ABBREVIATED, 1) + xml_page("Große Stadt", "Viele wohnen dort.", 2)
    (folder / "dewiki.xml").write_text(GERMAN + pages + TAIL)
    c = config(folder, "mediawiki", (str(folder / "dewiki.xml"),), language="")
    texts = {row["doc"]: row["text"] for row in linked_documents(c, folder / "german", SerialEngine).values()}
    (link,) = table(folder / "german", tables.RANKED)
    assert link["anchor"] == "große städten"  # the tokenizer lowercases, but keeps ß
    sentence = texts[link["doc"]][link["sentence_start"] : link["sentence_end"]].strip()
    assert sentence == "Er fließt z. B. nach große Städten, sagte Dr. Müller am 3. Mai."


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
        ((HEAD + TAIL,), "de", "by the head of the dump"),
        ((GERMAN + TAIL,), "de", "by the head of the dump"),
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
        page |= {"text": page["text"] * 9, "lead_end": 9 * len(page["text"])}
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
        if preset == "official":
            with pytest.raises(InputError, match="1,321 words"):
                plain(c)
            c.stopwords = "inquery"
        assert plain(c)["source"]["format"] in formats.FORMATS and (c.unit == "tokens") == (preset == "official")
