"""The whole job on an invented corpus: its output, that it is reproducible, and that bad input is rejected."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from data_pipeline.commands.inspect import as_text, report
from data_pipeline.config import PRESETS, generation
from data_pipeline.engine.local import SerialEngine
from data_pipeline.main import arguments_parser
from data_pipeline.output import manifest as manifest_file
from data_pipeline.pipeline import generate
from harp_jax.base.errors import InputError
from harp_jax.input.records import read_manifest
from harp_jax.text.tokenizer import load_tokenizer
from tests.support import corpus
from tests.support.generation_job import hashes, linked_documents, records, start, table
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


def test_anchor_statistics_against_a_dict(made):
    kept = [link for link in table(made[1], "resolved") if link["problem"] == ""]
    expected: dict[str, set[int]] = {}
    for link in kept:
        expected.setdefault(link["anchor"], set()).add(link["destination"])
    ranked = table(made[1], "ranked")
    assert len(ranked) == len(kept)
    for link in ranked:
        destinations = sorted(expected[link["anchor"]])
        rank = destinations.index(link["destination"])
        assert (link["first"], link["own"], link["total"]) == (rank, 1, len(destinations))
    in_links = Counter(link["destination"] for link in kept)
    assert {row["doc"]: row["in_links"] for row in table(made[1], "candidates")} == in_links


def test_every_task_has_pairs_and_the_manifest_counts_them(made):
    manifest, rows = read_manifest(str(made[1])), records(made[1])
    assert set(manifest["tasks"]) == {"rqp", "qdm", "rdp", "acm", "mlm"}
    for task, entry in manifest["tasks"].items():
        mine = [row for row in rows if row["task"] == task.encode()]
        splits = [split for name, split in manifest["splits"].items() if name.startswith(f"{task}_")]
        assert entry["pairs"] == len(mine) == sum(split["records"] for split in splits) > 10, task
        if task != "mlm":
            # A negative that equals the positive is stored as an empty list.
            tokens = {side: sum(len(row[f"pos_{side}"]) + (len(row[f"neg_{side}"]) or len(row[f"pos_{side}"])) for row in mine)
                      for side in ("query", "doc")}  # fmt: skip
            assert entry["tokens"] == tokens["query"] + tokens["doc"]
            assert entry["mean_query_tokens"] == pytest.approx(tokens["query"] / (2 * len(mine)))
            assert entry["mean_doc_tokens"] == pytest.approx(tokens["doc"] / (2 * len(mine)))


def test_splits_go_by_page(made):
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(str(made[1]))
    pages: dict[str, set[bytes]] = {"train": set(), "validation": set()}
    for name in builder.info.splits:
        rows = tfds.as_numpy(builder.as_dataset(split=name))
        pages[name.partition("_")[2]] |= {row["page"] for row in rows}
    assert pages["train"] and pages["validation"] and not pages["train"] & pages["validation"]


def test_acm_negatives_are_never_linked_beside_the_anchor_page(made):
    together = {(row["one"], row["other"]) for row in table(made[1], "colinked")}
    source = {row["key"]: row["words_of"] for row in table(made[1], "requests") if row["task"] == "acm"}
    negatives = [row for row in table(made[1], "negatives") if row["task"] == "acm"]
    assert len(negatives) > 20
    assert not any((source[row["key"]], row["destination"]) in together for row in negatives)


def test_this_process_and_two_workers_write_the_same_shards(made, tmp_path):
    folder, output = made
    generate(corpus.config(folder, encoder="idf"), str(tmp_path / "one"), SerialEngine)
    assert hashes(tmp_path / "one") == hashes(output)
    assert not (tmp_path / "one" / ".work").exists()


def test_term_weights_serve_another_seed_and_not_other_input(made, tmp_path):
    folder, output = made
    given = dict(encoder="", term_weights=str(output / "term_weights"), tasks=("rqp",))
    mine = generate(corpus.config(folder, **given, seed=1), tmp_path / "seed1", SerialEngine)
    assert mine["term_weights_sha256"] == read_manifest(str(output))["term_weights_sha256"]
    assert hashes(tmp_path / "seed1", "harp-rqp*") != hashes(output, "harp-rqp*")
    with pytest.raises(InputError, match="made for other input"):
        generate(corpus.config(folder, **given, document_title=True), str(tmp_path / "out"))


def test_finished_job_is_left_alone_and_another_config_is_refused(made, capfd, tmp_path):
    folder, output = made
    before = {path: path.stat().st_mtime_ns for path in output.glob("*") if path.is_file()}
    manifest = generate(corpus.config(folder, encoder="idf", workers=1), output)
    assert "nothing to do" in capfd.readouterr().err and manifest == read_manifest(str(output))
    assert before == {path: path.stat().st_mtime_ns for path in output.glob("*") if path.is_file()}
    # The next run removes a work directory left by a kill after the manifest, unless keep_work is set.
    copy = shutil.copytree(output, tmp_path / "copy")
    (copy / "manifest.json").write_text(json.dumps(manifest | {"config": manifest["config"] | {"keep_work": False}}))
    generate(corpus.config(folder, encoder="idf", workers=1), str(copy))
    assert (output / ".work").exists() and not (copy / ".work").exists()
    with pytest.raises(InputError, match=r"another config; differing keys: query_length \(3.0 there, 4.0 here\); seed"):
        generate(corpus.config(folder, encoder="idf", seed=5, query_length=4.0), str(output))


def test_unfinished_directory_of_another_config_is_refused(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    (folder / "pages-1.jsonl").write_text('{"id": 3}\n')
    with pytest.raises(InputError, match=r"pages-1.jsonl line 1"):
        generate(corpus.config(folder), str(tmp_path / "out"))
    assert not (tmp_path / "out" / "manifest.json").exists()
    with pytest.raises(InputError, match="differing keys: seed"):
        generate(corpus.config(folder, seed=5), str(tmp_path / "out"))
    corpus.write(folder)
    with pytest.raises(InputError, match="differing keys: source"):
        generate(corpus.config(folder), str(tmp_path / "out"))


def test_options_of_the_field_notes_run(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(manifest_file, "SHARD_BYTES", 20_000)
    folder = corpus.write(tmp_path / "corpus", files=1)
    (folder / "judged.txt").write_text("p3\np4\np4711\n")
    options = dict(
        qdm_negative="occurrence", acm_negative="in_links", weighting="normalised", temperature=0.5, context_in_page=True,
        exclude_destinations=str(folder / "judged.txt"), stopwords=str(folder / "judged.txt"), document_title=True, keep_work=True,
        query_length=0.5, workers=1,
    )  # fmt: skip
    manifest = generate(corpus.config(folder, **options), tmp_path / "out", SerialEngine)
    assert manifest["losses"]["link-to-excluded"]["count"] > 10
    assert "1 line(s) match no page, for example 'p4711'" in capfd.readouterr().err
    assert "exclusion-of-no-page" in as_text(report(str(tmp_path / "out"), 1))
    assert len(manifest["splits"]["rqp_train"]["shards"]) > 1
    assert all(shard["bytes"] <= 20_000 for split in manifest["splits"].values() for shard in split["shards"])
    for task, fields in (("acm", dict(acm_negative="corpus")), ("mlm", dict(encoder=""))):
        config = corpus.config(folder, tasks=(task,), workers=1, **fields)
        assert set(generate(config, tmp_path / task, SerialEngine)["tasks"]) == {task}
    # An unfinished job resumes after its inputs were moved.
    (tmp_path / "out" / "manifest.json").unlink()
    moved = folder.rename(tmp_path / "moved")
    options |= {name: str(moved / "judged.txt") for name in ("exclude_destinations", "stopwords")}
    again = generate(corpus.config(moved, **options), tmp_path / "out", SerialEngine)
    assert again["splits"] == manifest["splits"]
    with pytest.raises(InputError, match="differing keys: exclude_destinations .*; source"):
        generate(corpus.config(moved, **options | {"exclude_destinations": ""}), tmp_path / "out")


def test_inspect_reports_and_finds_damage(made, tmp_path):
    copy = shutil.copytree(made[1], tmp_path / "copy", ignore=shutil.ignore_patterns(".work", "term_weights"))
    found = report(str(copy), 5)
    assert all(len(examples) == 5 for examples in found["examples"].values())
    lines = ("Table 1", "Link graph: pages 48", "links kept", "bits per link", "bits from uniform", "link-unresolved\n")
    assert all(line in as_text(found) for line in lines)
    (copy / "harp-qdm_train.tfrecord-00000-of-00002").touch()
    with pytest.raises(InputError, match="00000-of-00002 is not in the manifest"):
        report(str(copy), 5)
    shard = copy / "harp-qdm_train.tfrecord-00000-of-00001"
    content = shard.read_bytes()
    shard.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    with pytest.raises(InputError, match="harp-qdm_train.*sha256"):
        report(str(copy), 5)
    shard.unlink()
    with pytest.raises(InputError, match="harp-qdm_train.*missing"):
        report(str(copy), 5)


def test_a_relative_tokenizer_is_found_from_other_folders_and_after_a_move(tmp_path, monkeypatch):
    folder = corpus.write(tmp_path / "work" / "corpus")
    monkeypatch.chdir(folder)
    generate(corpus.config(folder, tokenizer="vocab.txt", tasks=("mlm",), workers=1), "../pairs", SerialEngine)
    monkeypatch.chdir(tmp_path)
    os.rename("work", "moved")
    assert all(isinstance(record["text"], str) for record in report("moved/pairs", 3)["examples"]["mlm"])
    os.rename("moved/corpus", "corpus")
    assert all(isinstance(record["text"], list) for record in report("moved/pairs", 3)["examples"]["mlm"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (dict(unit="letters"), "config.unit='letters' is not allowed; use one of words, tokens"),
        (dict(sampling="official", context_in_page=True), "context_in_page"),
        (dict(preset="authors"), "unknown preset 'authors'"),
        (dict(tasks=("prop",), encoder="", prop_distribution="contrastive"), "config.encoder is not set"),
        (dict(memory_limit="4"), "memory_limit"),
        (dict(source={"max_page_bytes": 0}), "max_page_bytes"),
        (dict(source={"paths": ()}), "paths"),
        (dict(source={"index": ("i",)}), "index"),
        (dict(source={"split": "chapters"}), "config.source.split='chapters'"),
    ],
)
def test_choices_that_make_no_sense_are_refused_before_the_job(tmp_path, fields, message):
    (tmp_path / "vocab.txt").touch()
    (tmp_path / "pages-0.jsonl").touch()
    with pytest.raises(InputError, match=message):
        generate(corpus.config(tmp_path, **fields), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_official_preset_runs_and_the_command_line_wins(tmp_path):
    folder = corpus.write(tmp_path / "corpus")
    job = corpus.write_config(tmp_path / "job.py", folder, encoder="idf", workers=1, keep_work=True)
    arguments = [f"--config={job}:official", "--config.rdp_pairs=sampled", f"--output={tmp_path / 'out'}"]
    parsed = arguments_parser().parse_args(arguments)
    manifest = generate(parsed.config, parsed.output, SerialEngine)
    assert manifest["config"] == manifest["config"] | PRESETS["official"] | {"rdp_pairs": "sampled"}
    assert all(entry["pairs"] > 10 for entry in manifest["tasks"].values())
    requests = table(tmp_path / "out", "requests")
    vocabulary = load_tokenizer(str(folder / "vocab.txt")).vocab
    assert all(word in vocabulary for row in requests for word in row["anchor"].split())


def test_pages_of_one_text_are_one_page_by_choice(tmp_path):
    folder = corpus.write(tmp_path / "corpus", files=1)
    path = folder / "pages-0.jsonl"
    pages = [json.loads(line) for line in path.read_text().splitlines()]
    lead = pages[1]["text"][: pages[1]["lead_end"]]
    pages[2] |= {"text": lead.upper(), "lead_end": len(lead), "links": []}  # p2 has p1's text in capitals
    path.write_text("".join(json.dumps(page) + "\n" for page in pages))
    output = tmp_path / "out"
    linked_documents(corpus.config(folder, page_identity="text", workers=1, tasks=("rqp", "qdm")), output)
    numbers = {row["id"]: row["doc"] for row in table(output, "pages")}
    links = table(output, "resolved")
    to_second = [link for link in links if link["target"] == "p2"]
    assert to_second and {link["destination"] for link in to_second} == {numbers["p1"]}
    assert not any(row["doc"] == numbers["p2"] for row in table(output, "candidates"))


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
    print(as_text(report(str(tmp_path / "out"), 1)))


@pytest.mark.faults
def test_killed_and_rerun_writes_the_same_bytes(tmp_path):
    folder = corpus.write(tmp_path / "corpus", files=6)
    config = corpus.write_config(tmp_path / "config.py", folder, encoder="idf", workers=2)
    assert start(config, tmp_path / "whole").wait(timeout=300) == 0
    output = tmp_path / "killed"
    for stage in ("documents", "resolved", "sentences", "requests of sentences", "pairs", "shards"):
        process = start(config, output, start_new_session=True)
        wait_for(output / ".work" / (stage if stage == "resolved" else f"{stage}.marks"), process, 0.1)
        process.kill()
        process.wait()
        assert not (output / "manifest.json").exists()
        assert none_left(process.pid), "a worker outlives its parent"
    assert start(config, output).wait(timeout=300) == 0
    assert hashes(output) == hashes(tmp_path / "whole")
    assert not list(output.glob("*.tmp.*")) and not (output / ".work").exists()


@pytest.mark.faults
def test_ctrl_c_is_one_line_and_the_job_resumes(tmp_path):
    folder = corpus.write(tmp_path / "corpus", files=6)
    config = corpus.write_config(tmp_path / "config.py", folder, tasks=("mlm",), workers=2)
    output = tmp_path / "out"
    # In a separate process group, so that Ctrl-C reaches the workers too.
    job = start(config, output, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list((output / ".work").glob("documents.marks/0*")):
        assert job.poll() is None
        time.sleep(0.005)
    os.killpg(job.pid, signal.SIGINT)
    said = job.communicate(timeout=300)[1]
    assert job.returncode == 130 and "interrupted" in said and "Traceback" not in said, said
    assert start(config, output).wait(timeout=300) == 0 and (output / "manifest.json").exists()


@pytest.mark.faults
def test_killed_while_weighing_terms_the_finished_files_are_kept(tmp_path):
    """Term weights are resumed by file."""
    folder = corpus.write(tmp_path / "corpus", files=6)
    encoder = save_encoder(str(folder / "hf"), load_tokenizer(str(folder / "vocab.txt")), 512)
    config = corpus.write_config(tmp_path / "config.py", folder, encoder=encoder, workers=2)
    assert start(config, tmp_path / "whole").wait(timeout=300) == 0
    output = tmp_path / "killed"
    marks = output / ".work" / "term_weights.marks"
    process = start(config, output)
    while len(_finished(marks)) < 2:
        assert process.poll() is None, "the job ended before the term weights"
        time.sleep(0.002)
    process.kill()
    process.wait()
    finished = _finished(marks)
    assert 2 <= len(finished) < 12
    weights = output / "term_weights"
    files = [next(weights.glob(f"{table[:-1]}_weights/bucket={bucket}/*.parquet")) for table, bucket in finished]
    before = [file.stat().st_mtime_ns for file in files]
    assert start(config, output).wait(timeout=300) == 0
    assert [file.stat().st_mtime_ns for file in files] == before
    assert hashes(output) == hashes(tmp_path / "whole")


def _finished(marks: Path) -> list[list[str]]:
    """[table, bucket] of each finished mark; unfinished ones have longer names."""
    return [mark.name.split("-") for mark in marks.glob("*") if re.fullmatch(r"[a-z]+-[0-9]+", mark.name)]
