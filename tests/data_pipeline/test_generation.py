"""The whole job on an invented corpus: its output, that it is reproducible, and how it resumes."""

import itertools
import runpy
import shutil

import numpy as np
import pytest

from data_pipeline.config import PRESETS, validated_dict
from data_pipeline.engine import tables
from data_pipeline.engine.local import SerialEngine
from data_pipeline.links import web_sites
from data_pipeline.output import manifest as manifest_file
from data_pipeline.output.inspection import as_text, inspect
from data_pipeline.pipeline import generate
from harp_jax.base.errors import InputError
from harp_jax.base.files import locked
from harp_jax.input.records import read_manifest
from harp_jax.text.tokenizer import load_tokenizer
from tests.support import ROOT, corpus
from tests.support.generation_job import hashes, linked_documents, records, start, table
from tests.support.processes import none_left, wait_for
from tests.support.tiny_bert import save_encoder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = corpus.write(tmp_path_factory.mktemp("corpus"))
    # RDP needs weights that differ between words, as idf weights do.
    generate(corpus.config(folder, encoder="idf", workers=2, keep_work=True), str(folder / "out"))
    return folder, folder / "out"


def test_tfds_reads_the_records_and_splits_go_by_page(made):
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(made[1]))
    theirs, ours = tfds.as_numpy(builder.as_dataset(split="acm_train")), records(made[1], "acm_train")
    for one, other in zip(theirs, ours, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)
    train, validation = (
        {row["page"] for row in records(made[1], *(name for name in builder.info.splits if name.endswith(split)))}
        for split in ("train", "validation")
    )
    assert ours and train and validation and not train & validation


def test_this_process_and_two_workers_write_the_same_shards(made, tmp_path, monkeypatch):
    """Also if redirects pass in several parts."""
    folder, output = made
    monkeypatch.setattr(web_sites, "REDIRECTS_PER_FILE", 5)
    generate(corpus.config(folder, encoder="idf"), str(tmp_path / "one"), SerialEngine)
    assert hashes(tmp_path / "one") == hashes(output)
    assert not (tmp_path / "one" / ".work").exists()


def test_a_job_that_was_killed_after_its_manifest_is_finished_and_another_is_refused(made, tmp_path):
    """Before there is a record of the call: only the manifest says what made the directory."""
    folder, output = made
    config = corpus.config(folder, encoder="idf", workers=1)
    assert generate(config, output) == read_manifest(str(output))
    copy = shutil.copytree(output, tmp_path / "copy", ignore=shutil.ignore_patterns("made.json"))
    with pytest.raises(InputError, match=r"copy was begun with query_length=3.0, now 4.0"):
        generate(corpus.config(folder, encoder="idf", seed=5, query_length=4.0), str(copy))
    with locked(str(copy / ".work" / "lock"), ""), pytest.raises(InputError, match="another process is writing to"):
        generate(config, str(copy))
    generate(config, str(copy))
    assert (output / ".work").exists() and not (copy / ".work").exists()  # only the first job keeps it


def test_an_unfinished_job_resumes_after_its_inputs_were_moved(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(manifest_file, "SHARD_BYTES", 20_000)
    folder, output = corpus.write(tmp_path / "corpus", files=1), tmp_path / "out"
    (folder / "judged.txt").write_text("p3\np4\np4711\n")
    options = dict(
        qdm_negative="occurrence", acm_negative="in_links", weighting="normalised", context_in_page=True, document_title=True,
        exclude_destinations=str(folder / "judged.txt"), stopwords=str(folder / "judged.txt"), keep_work=True, workers=1,
    )  # fmt: skip
    manifest = generate(corpus.config(folder, **options), output, SerialEngine)
    assert manifest["losses"]["link-to-excluded"]["count"] > 10
    assert "1 line(s) match no page, for example 'p4711'" in capfd.readouterr().err
    assert len(manifest["splits"]["rqp_train"]["shards"]) > 1
    assert all(shard["bytes"] <= 20_000 for split in manifest["splits"].values() for shard in split["shards"])
    for name in ("manifest.json", "made.json"):
        (output / name).unlink()
    moved = folder.rename(tmp_path / "moved")
    options |= {name: str(moved / "judged.txt") for name in ("exclude_destinations", "stopwords")}
    with pytest.raises(InputError, match="was begun with exclude_destinations=true, now false"):
        generate(corpus.config(moved, **options | {"exclude_destinations": ""}), output)
    assert generate(corpus.config(moved, **options), output, SerialEngine)["splits"] == manifest["splits"]


def test_inspect_reports_and_finds_damage(made, tmp_path):
    copy = shutil.copytree(made[1], tmp_path / "copy", ignore=shutil.ignore_patterns(".work", "term_weights"))
    report = inspect(str(copy), 5)
    assert all(len(examples) == 5 for examples in report.examples.values())
    assert f"{report.manifest['tasks']['qdm']['pairs']:,}" in as_text(report)
    shard = copy / "harp-qdm_train.tfrecord-00000-of-00001"
    content = shard.read_bytes()
    shard.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(InputError, match="harp-qdm_train.*sha256"):
        inspect(str(copy))


def test_the_official_preset_runs(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    config = corpus.config(folder, "official", encoder="idf", stopwords="inquery")
    manifest = generate(config, tmp_path / "out", SerialEngine)
    assert all(entry["pairs"] > 10 for entry in manifest["tasks"].values())


def test_pages_of_one_text_are_one_page_by_choice_and_sentences_follow_the_language(tmp_path):
    folder, output = corpus.write(tmp_path / "corpus", files=0), tmp_path / "out"
    link = {"start": 22, "end": 27, "target": "p2"}
    texts = (("p0", "Am 3. Mai kam er nach Gates.", [link]), ("p1", "A gate.", []), ("p2", "A GATE.", []))
    pages = ({"id": name, "title": "", "text": text, "links": links} for name, text, links in texts)
    corpus.write_pages(folder / "pages-0.jsonl", pages)
    linked_documents(corpus.config(folder, page_identity="text", language="de"), output, SerialEngine)
    numbers = {row["id"]: row["doc"] for row in table(output, tables.PAGES)}
    (row,) = table(output, tables.RESOLVED)
    assert (row["destination"], row["sentence_start"], row["sentence_end"]) == (numbers["p1"], 0, 28)
    assert numbers["p2"] not in {row["doc"] for row in table(output, tables.CANDIDATES)}


def test_a_fraction_of_the_pages_makes_pairs_of_its_links_and_destinations_of_all(tmp_path):
    folder, links = corpus.write(tmp_path / "corpus"), []
    for share in (1.0, 0.3):
        linked_documents(corpus.config(folder, linking_pages=share), tmp_path / f"{share}", SerialEngine)
        rows = table(tmp_path / f"{share}", tables.RESOLVED)
        links.append({(row["doc"], row["link_start"]): row["destination"] for row in rows})
    pages = {doc for doc, _ in links[1]}
    assert 5 < len(pages) < 25  # of 48
    assert links[1] == {key: destination for key, destination in links[0].items() if key[0] in pages}
    assert set(links[1].values()) - pages


def test_a_folder_of_html_becomes_shards(tmp_path):
    folder, output = corpus.write(tmp_path / "corpus"), tmp_path / "out"
    source = dict(format="html", paths=(corpus.write_site(folder / "site"),), redirects=(), base_url="https://x.org/")
    config = corpus.config(folder, encoder="idf", keep_work=True, source=source)
    manifest = generate(config, str(output), SerialEngine)
    dropped = {reason: loss["count"] for reason, loss in manifest["losses"].items()}
    assert dropped["link-boilerplate"] == dropped["paragraph-boilerplate"] == 3 * corpus.PAGES
    assert dropped["link-outside-content"] == dropped["link-unresolved"] == corpus.PAGES
    assert all(entry["pairs"] > 10 for entry in manifest["tasks"].values()) and set(manifest["tasks"]) > {"rqp", "acm"}
    documents = {row["id"]: row for row in table(output, tables.DOCUMENTS)}
    page, row = corpus.page(17), documents["https://x.org/p17"]
    assert row["text"].replace("\nmore\n", "\n") == page["text"].strip()
    of_page, of_row = ([each["text"][x["start"] : x["end"]] for x in each["links"]] for each in (page, row))
    assert of_page == of_row


def test_passages_and_running_text_are_as_long_as_max_doc_tokens_says(tmp_path):
    folder = corpus.write(tmp_path / "corpus", files=0)
    pages = map(corpus.page, range(corpus.PAGES))
    long = (page | {"text": page["text"] * 9, "lead_end": 9 * len(page["text"])} for page in pages)
    corpus.write_pages(folder / "pages-0.jsonl", long)
    generate(corpus.config(folder, tasks=("rqp", "mlm"), max_doc_tokens=900), str(tmp_path / "out"), SerialEngine)
    rows = records(tmp_path / "out")
    assert max(len(row["pos_doc"]) for row in rows) == max(len(row["text"]) for row in rows) == 900


def test_configs_are_valid_with_every_preset():
    for path, preset in itertools.product((ROOT / "configs" / "data").glob("[a-z]*.py"), ("", *PRESETS)):
        c = runpy.run_path(str(path))["get_config"](preset)
        c.tokenizer, c.encoder, c.stopwords = c.tokenizer or "t", c.encoder or "uniform", "inquery"
        c.source.format, c.language = c.source.format or "html", "en"  # otherwise read from the source files
        assert (validated_dict(c)["unit"] == "tokens") == (preset == "official"), path


@pytest.mark.faults
def test_killed_and_rerun_writes_the_same_bytes(tmp_path):
    folder = corpus.write(tmp_path / "corpus", files=6)
    encoder = save_encoder(str(folder / "hf"), load_tokenizer(str(folder / "vocab.txt")), 512)
    config = corpus.write_config(tmp_path / "config.py", folder, encoder=encoder, workers=2)
    assert start(config, tmp_path / "whole").wait(timeout=300) == 0
    output = tmp_path / "killed"
    for stage in ("documents", "resolved", "sentences", "weigh sentences", "requests of sentences", "pairs", "shards"):
        process = start(config, output, start_new_session=True)
        wait_for(output / ".work" / (stage if stage == "resolved" else f"{stage}.marks"), process, 0.1)
        process.kill()
        process.wait()
        assert not (output / "manifest.json").exists()
        assert none_left(process.pid), "a worker outlives its parent"
    weights = {path: path.stat().st_mtime_ns for path in (output / "term_weights").rglob("*.parquet")}
    assert start(config, output).wait(timeout=300) == 0
    assert weights == {path: path.stat().st_mtime_ns for path in weights} != {}  # not computed again
    assert hashes(output) == hashes(tmp_path / "whole")
    assert not list(output.glob("*.tmp.*")) and not (output / ".work").exists()
