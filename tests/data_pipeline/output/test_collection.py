"""`harp documents`: pages of every format as a collection."""

import json
import os
import shutil

import pytest

from data_pipeline.output.collection import write_documents
from data_pipeline.sources.formats import format_of_content, language_of
from harp_jax.base.errors import InputError
from tests.support import source_reading
from tests.support.commands import command
from tests.support.readers import READERS
from tests.support.source_files import HEAD, TAIL, record

LOCK = "<p>A gate for boats, see <a href='weir.html#w'>the weir</a> and <a href='weir.html#f'>fish</a>."
PAGES = {
    "lock.html": f"<!doctype html><title>t</title><h1>Lock</h1>{LOCK}",
    "weir.html": "<!doctype html><h1>Weir</h1><p>A low dam.<h2 id=w>Water</h2><p>It falls.<h2 id=f>Fish</h2><p>They jump.",
    "other.html": "<!doctype html><link rel=canonical href=lock.html><p>A gate.",
}


def site(folder):
    folder.mkdir(parents=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page)
    return str(folder)


def rows(path) -> list[tuple[str, str, str]]:
    return [tuple(json.loads(line).values()) for line in path.read_text().splitlines()]


def test_a_folder_of_html(tmp_path, capsys):
    output, folder = tmp_path / "docs.jsonl", site(tmp_path / "site")
    command("documents", folder, "--base-url=https://x.org/", output=output)
    assert rows(output) == [
        ("https://x.org/lock.html", "Lock", "A gate for boats, see the weir and fish."),
        ("https://x.org/weir.html", "Weir", "A low dam."),
        ("https://x.org/weir.html#w", "Weir: Water", "It falls."),
        ("https://x.org/weir.html#f", "Weir: Fish", "They jump."),
    ]
    # Two pages with one address are one document, which the output says.
    assert "4 documents, 2 of them sections of pages" in (printed := capsys.readouterr().out)
    assert "left out: page-duplicate 1" in printed


@pytest.mark.parametrize("name", ["linked_jsonl", "wikiextractor", "harp_json", "html", "warc", "warc.gz", "dump"])
def test_the_format_of_a_file_is_told_by_its_content(name, tmp_path):
    (file,) = READERS[name].valid(tmp_path)
    assert format_of_content(str(tmp_path / file)) == {"warc.gz": "warc", "dump": "mediawiki"}.get(name, name)


def test_a_folder_of_pages_is_found_among_other_files(tmp_path):
    folder = site(tmp_path / "site")
    (sources := tmp_path / "site" / "_sources").mkdir()  # Sphinx's; CMake's has 1,934 files before the first page
    for number in range(1001):
        (sources / f"{number}.txt").write_text("A gate.\n")
    (tmp_path / "site" / "manifest.json").write_text('{"name": "a web app"}')
    assert format_of_content(folder) == "html"
    (crawls := tmp_path / "crawls").mkdir()
    (crawls / "a.warc").write_bytes(record("https://x.org/lock", PAGES["lock.html"]))
    with pytest.raises(InputError, match="crawls is a folder of warc files; name the files"):
        format_of_content(str(crawls))


SILENT = "<html><p>text"
KANA = "<html><p>" + "この道具は写真の一部を切り抜きます。まず範囲を選び、それから大きさを決めてください。" * 6
UMLAUT = "<html><p>" + "Mit diesem Werkzeug wird ein Teil des Bildes geschnitten. Wählen Sie zuerst den Bereich. " * 4


@pytest.mark.parametrize(
    ("pages", "tag", "origin"),
    [
        (("<html lang=ja>", '<html class=x lang="JA">', SILENT), "ja", "by <html lang> or <body lang> of 2 of the 2 first pages"),
        (("<html><body lang='de' class=x><p>text",), "de", "by <html lang>"), ((SILENT,), "en", "assumed"),
        ((KANA, KANA, UMLAUT, SILENT), "ja", "by the words of 2 of the 3"),
        ((HEAD + TAIL,), "de", "by the head of the dump"),
    ],
)  # fmt: skip
def test_the_language_is_read_from_the_pages(tmp_path, pages, tag, origin):
    for number, page in enumerate(pages):
        (tmp_path / f"{number}.html").write_text(page)
    kind = "html" if pages[0].startswith("<html") else "mediawiki"
    language = language_of(source_reading.source(kind, tmp_path / "*.html"))
    assert language.tag == tag and language.origin.startswith(origin)


def test_a_kill_while_the_work_directory_is_removed_does_not_stop_the_next_run(tmp_path, monkeypatch):
    folder, output, remove = site(tmp_path / "site"), str(tmp_path / "docs.jsonl"), shutil.rmtree

    def killed(path, **options):
        if not path.endswith(".work"):
            return remove(path, **options)
        os.remove(os.path.join(path, "lock"))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "rmtree", killed)
        write_documents(folder, output)
    assert write_documents(folder, output).documents == 4 and not os.path.exists(f"{output}.work")


def test_an_output_among_the_pages_or_over_other_files_is_refused(tmp_path):
    folder = site(tmp_path / "site")
    with pytest.raises(InputError, match=r"lock\.html: it is the input .*lock\.html, which would be lost"):
        write_documents(folder, f"{folder}/lock.html")
    assert (tmp_path / "site" / "lock.html").read_text() == PAGES["lock.html"]
    output, work = str(tmp_path / "docs.jsonl"), tmp_path / "docs.jsonl.work"
    work.mkdir()
    (work / "mine").write_text("x")
    with pytest.raises(InputError, match=r"docs\.jsonl\.work is needed as a work directory but holds other files"):
        write_documents(folder, output)
    assert (work / "mine").exists()
