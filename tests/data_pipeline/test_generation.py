"""The whole job on an invented corpus: its output, that it is reproducible, and that bad input is rejected."""

import json
import os
import shutil
import subprocess

import duckdb
import pytest

from data_pipeline.config import PRESETS, generation
from data_pipeline.engine import tables
from data_pipeline.engine.local import SerialEngine, fitting
from data_pipeline.links import web_sites
from data_pipeline.output import manifest as manifest_file
from data_pipeline.output.inspection import inspect
from data_pipeline.pipeline import generate
from harp_jax.base.errors import InputError
from harp_jax.input.records import read_manifest
from harp_jax.text.tokenizer import load_tokenizer
from tests.support import corpus
from tests.support.generation_job import hashes, linked_documents, start, table
from tests.support.processes import none_left, wait_for
from tests.support.shared_data import shared
from tests.support.tiny_bert import save_encoder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = corpus.write(tmp_path_factory.mktemp("corpus"))
    output = folder / "out"
    # RDP needs weights that differ between words, as idf weights do.
    generate(corpus.config(folder, encoder="idf", workers=2, keep_work=True), str(output))
    return folder, output


def test_splits_go_by_page(made):
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(made[1]))
    pages: dict[str, set[bytes]] = {"train": set(), "validation": set()}
    for name in builder.info.splits:
        rows = tfds.as_numpy(builder.as_dataset(split=name))
        pages[name.partition("_")[2]] |= {row["page"] for row in rows}
    assert pages["train"] and pages["validation"] and not pages["train"] & pages["validation"]


def test_this_process_and_two_workers_write_the_same_shards(made, tmp_path, monkeypatch):
    """Also if redirects pass in several parts."""
    folder, output = made
    monkeypatch.setattr(web_sites, "REDIRECTS_PER_FILE", 5)
    generate(corpus.config(folder, encoder="idf"), str(tmp_path / "one"), SerialEngine)
    assert hashes(tmp_path / "one") == hashes(output)
    assert not (tmp_path / "one" / ".work").exists()


def test_finished_job_is_left_alone_and_another_config_is_refused(made, capfd, tmp_path):
    folder, output = made
    before = {path: path.stat().st_mtime_ns for path in output.glob("*") if path.is_file()}
    manifest = generate(corpus.config(folder, encoder="idf", workers=1), output)
    assert "already made" in capfd.readouterr().err and manifest == read_manifest(str(output))
    assert before == {path: path.stat().st_mtime_ns for path in output.glob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"was made with config.query_length=3.0, now 4.0"):
        generate(corpus.config(folder, encoder="idf", seed=5, query_length=4.0), str(output))
    # After a kill between the manifest and the record of the call, only the manifest says what made the directory. The next run
    # removes the work directory, unless keep_work is set.
    copy = shutil.copytree(output, tmp_path / "copy", ignore=shutil.ignore_patterns("made.json"))
    with pytest.raises(InputError, match=r"copy was begun with query_length=3.0, now 4.0"):
        generate(corpus.config(folder, encoder="idf", seed=5, query_length=4.0), str(copy))
    generate(corpus.config(folder, encoder="idf", workers=1), str(copy))
    assert (output / ".work").exists() and not (copy / ".work").exists()


def test_a_bad_record_ends_the_job_and_another_config_cannot_resume_it(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    (folder / "pages-1.jsonl").write_text('{"id": 3}\n')
    with pytest.raises(InputError, match=r"pages-1.jsonl line 1"):
        generate(corpus.config(folder), str(tmp_path / "out"))
    assert not (tmp_path / "out" / "manifest.json").exists()
    with pytest.raises(InputError, match="was begun with seed=0, now 5"):
        generate(corpus.config(folder, seed=5), str(tmp_path / "out"))


def test_an_unfinished_job_resumes_after_its_inputs_were_moved(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(manifest_file, "SHARD_BYTES", 20_000)
    folder = corpus.write(tmp_path / "corpus", files=1)
    (folder / "judged.txt").write_text("p3\np4\np4711\n")
    options = dict(
        qdm_negative="occurrence", acm_negative="in_links", weighting="normalised", context_in_page=True, document_title=True,
        exclude_destinations=str(folder / "judged.txt"), stopwords=str(folder / "judged.txt"), keep_work=True, workers=1,
    )  # fmt: skip
    manifest = generate(corpus.config(folder, **options), tmp_path / "out", SerialEngine)
    assert manifest["losses"]["link-to-excluded"]["count"] > 10
    assert "1 line(s) match no page, for example 'p4711'" in capfd.readouterr().err
    assert len(manifest["splits"]["rqp_train"]["shards"]) > 1
    assert all(shard["bytes"] <= 20_000 for split in manifest["splits"].values() for shard in split["shards"])
    for name in ("manifest.json", "made.json"):
        (tmp_path / "out" / name).unlink()
    moved = folder.rename(tmp_path / "moved")
    options |= {name: str(moved / "judged.txt") for name in ("exclude_destinations", "stopwords")}
    again = generate(corpus.config(moved, **options), tmp_path / "out", SerialEngine)
    assert again["splits"] == manifest["splits"]
    with pytest.raises(InputError, match="was made with config.exclude_destinations"):
        generate(corpus.config(moved, **options | {"exclude_destinations": ""}), tmp_path / "out")


def test_inspect_reports_and_finds_damage(made, tmp_path):
    copy = shutil.copytree(made[1], tmp_path / "copy", ignore=shutil.ignore_patterns(".work", "term_weights"))
    assert all(len(examples) == 5 for examples in inspect(str(copy), 5).examples.values())
    (copy / "harp-qdm_train.tfrecord-00000-of-00002").touch()
    with pytest.raises(InputError, match="00000-of-00002 is not in the manifest"):
        inspect(str(copy), 5)
    shard = copy / "harp-qdm_train.tfrecord-00000-of-00001"
    content = shard.read_bytes()
    shard.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(InputError, match="harp-qdm_train.*sha256"):
        inspect(str(copy), 5)


def test_a_relative_tokenizer_is_found_from_other_folders_and_after_a_move(tmp_path, monkeypatch):
    folder = corpus.write(tmp_path / "work" / "corpus")
    monkeypatch.chdir(folder)
    generate(corpus.config(folder, tokenizer="vocab.txt", tasks=("mlm",), workers=1), "../pairs", SerialEngine)
    monkeypatch.chdir(tmp_path)
    os.rename("work", "moved")
    assert all(isinstance(record["text"], str) for record in inspect("moved/pairs", 3).examples["mlm"])
    os.rename("moved/corpus", "corpus")
    assert all(isinstance(record["text"], list) for record in inspect("moved/pairs", 3).examples["mlm"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(unit="letters"), "config.unit='letters' is not allowed; use one of words, tokens"),
        (dict(sampling="official", context_in_page=True), "context_in_page"),
        (dict(preset="authors"), "unknown preset 'authors'"),
        (dict(tasks=("prop",), encoder="", prop_distribution="contrastive"), "config.encoder is not set"),
        (dict(memory_limit="4"), "memory_limit"),
        (dict(source={"paths": ()}), "paths"),
    ],
)
def test_choices_that_make_no_sense_are_refused_before_the_job(tmp_path, fields, message):
    (tmp_path / "vocab.txt").touch()
    (tmp_path / "pages-0.jsonl").touch()
    with pytest.raises(InputError, match=message):
        generate(corpus.config(tmp_path, **fields), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_official_preset_runs(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    config = corpus.config(folder, "official", encoder="idf", stopwords="inquery", workers=1, keep_work=True)
    manifest = generate(config, tmp_path / "out", SerialEngine)
    given = {"stopwords": manifest["config"]["stopwords"]}  # the preset has none
    assert manifest["config"] == manifest["config"] | PRESETS["official"] | given
    assert all(entry["pairs"] > 10 for entry in manifest["tasks"].values())
    requests = table(tmp_path / "out", tables.REQUESTS)
    vocabulary = load_tokenizer(str(folder / "vocab.txt")).vocab
    assert all(word in vocabulary for row in requests for word in row["anchor"].split())


def test_pages_of_one_text_are_one_page_by_choice(tmp_path):
    folder, output = corpus.write(tmp_path / "corpus", files=0), tmp_path / "out"
    link = {"start": 4, "end": 9, "target": "p2"}
    texts = (("p0", "See gates.", [link]), ("p1", "A gate.", []), ("p2", "A GATE.", []))
    pages = [json.dumps({"id": i, "title": "", "text": text, "links": links}) + "\n" for i, text, links in texts]
    (folder / "pages-0.jsonl").write_text("".join(pages))
    linked_documents(corpus.config(folder, page_identity="text", workers=1), output)
    numbers = {row["id"]: row["doc"] for row in table(output, tables.PAGES)}
    assert [row["destination"] for row in table(output, tables.RESOLVED)] == [numbers["p1"]]
    assert numbers["p2"] not in {row["doc"] for row in table(output, tables.CANDIDATES)}


def test_a_fraction_of_the_pages_makes_pairs_of_its_links_and_destinations_of_all(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    links = {}
    for share in (1.0, 0.3):
        linked_documents(corpus.config(folder, linking_pages=share, workers=1), tmp_path / f"{share}")
        links[share] = {
            (row["doc"], row["link_start"]): row["destination"] for row in table(tmp_path / f"{share}", tables.RESOLVED)
        }
    pages = {doc for doc, _ in links[0.3]}
    assert 5 < len(pages) < 25  # of 48
    assert links[0.3] == {key: destination for key, destination in links[1.0].items() if key[0] in pages}
    assert set(links[0.3].values()) - pages


class Full(SerialEngine):
    """A disk that is full when the first join writes: DuckDB's error names no file of the user's."""

    def join(self, output, sql):
        raise duckdb.IOException("IO Error: Could not write to file: No space left on device")


def test_joins_stay_within_the_memory_of_a_container(capfd):
    assert fitting("64GB", "1.6 GiB") == "1228MiB"
    assert "memory_limit=64GB, but this machine or container" in capfd.readouterr().err
    assert fitting("500MB", "1.6 GiB") == "500MB" and fitting("1MB") == "1MB" and fitting("900TB") != "900TB"


def test_a_full_disk_names_the_output(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    with pytest.raises(InputError, match=r"cannot write \S+/out: No space left on device; free space and run the same"):
        generate(corpus.config(folder, tasks=("mlm",), workers=1), str(tmp_path / "out"), Full)


@pytest.mark.faults
def test_of_two_jobs_started_together_one_writes(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    config = corpus.write_config(tmp_path / "config.py", folder, tasks=("mlm",), workers=1)
    jobs = [start(config, tmp_path / "out", stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [job.communicate(timeout=300)[1] for job in jobs]
    # The second one either finds the job finished, or is rejected.
    assert sorted(job.returncode for job in jobs) in ([0, 0], [0, 2])
    for job, text in zip(jobs, said):
        errors = [line for line in text.splitlines() if "error" in line.lower()]
        assert len(errors) == (job.returncode == 2) and "Traceback" not in text
        assert not errors or "another process is writing" in errors[0]
    assert inspect(str(tmp_path / "out"), 1).examples["mlm"]


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


@pytest.mark.real
def test_linked_pages_into_the_collection(tmp_path):
    config = generation()
    pages = tuple(shared("wiki", f"{name}.jsonl.xz") for name in ("linked_pages", "collection"))
    config.source.update(format="linked_jsonl", paths=pages, redirects=(shared("wiki", "redirects.tsv"),))
    vocabulary = shared("vocab", "bert-base-uncased-vocab.txt")
    config.update(tokenizer=vocabulary, stopwords=shared("vocab", "inquery_stopwords.txt"))
    config.update(tasks=("rqp", "qdm", "rdp", "acm"), encoder="idf")
    # The collection has lead sections, not articles; all links are kept, as in the counts of the data's README.
    config.update(min_article_words=0, drop_anchors=False)
    manifest = generate(config, str(tmp_path / "out"))
    losses = {reason: entry["count"] for reason, entry in manifest["losses"].items()}
    # 80,420 links, 29,968 of them into the collection, some through redirects.
    assert 29_900 <= 80_420 - losses["link-unresolved"] <= 30_100
    pairs = {task: entry["pairs"] for task, entry in manifest["tasks"].items()}
    lost = sum(count for reason, count in losses.items() if reason.startswith(("rqp-", "anchor-", "link-to")))
    assert pairs["rqp"] + lost + losses["link-unresolved"] == 80_420
    assert pairs["rqp"] > 25_000 and pairs["qdm"] > 3_000 and pairs["rdp"] > 2_000 and pairs["acm"] > 10_000
    assert all(entry["predictor_pairs"] > 20 for entry in manifest["tasks"].values())
    assert 5 < manifest["tasks"]["rqp"]["mean_query_tokens"] < 8
