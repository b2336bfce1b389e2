"""The whole job on an invented corpus: what comes out, that it comes out again, and that bad input is refused."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from data_pipeline.commands.inspect import as_text, report
from data_pipeline.engine.local import SerialEngine
from data_pipeline.output import manifest as manifest_file
from data_pipeline.pipeline import generate
from data_pipeline.text.terms import load_terms
from harp_jax.base.errors import InputError
from harp_jax.input.records import read_manifest
from tests.support import ROOT, corpus
from tests.support.generation_job import hashes, records, table


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = corpus.write(tmp_path_factory.mktemp("corpus"))
    output = folder / "out"
    # idf weights differ from word to word, so that RDP finds contrast.
    generate(corpus.config(folder, encoder="idf", workers=2, keep_work=True), str(output))
    return folder, output


def test_redirects_are_followed_and_every_lost_link_is_counted(made):
    _, output = made
    links = table(output, "resolved")
    assert len(links) == corpus.PAGES * 12
    assert all(
        link["problem"] == ""
        for link in links
        if link["target"].startswith("alias-") and link["destination"] != link["doc"]
    )
    dropped = read_manifest(str(output))["losses"]
    assert dropped["link-unresolved"]["count"] == corpus.PAGES
    assert dropped["link-to-itself"]["count"] == sum(link["destination"] == link["doc"] for link in links)
    assert not any(
        row["address"] == row["target"] for row in table(output, "aliases") if row["address"].startswith("alias")
    )


def test_the_manifest_has_a_sentence_with_its_weights_and_pairs(made):
    _, output = made
    worked = read_manifest(str(output))["worked"]
    weights = [weight for _, weight, _ in worked["words"]]
    assert max(weights) == 1.0 and min(weights) == 0.0 and any(anchor for _, _, anchor in worked["words"])
    assert not any(weight for _, weight, anchor in worked["words"] if anchor)
    tasks = [pair["task"] for pair in worked["pairs"]]
    assert len(tasks) == len(set(tasks)) > 2 and set(tasks) <= set(read_manifest(str(output))["tasks"])
    # The pairs are records of the shards, decoded.
    decode = load_terms(read_manifest(str(output))["config"]["tokenizer"], "", "words").tokenizer.decode
    made_pairs = {(r["task"].decode(), decode(r["pos_query"])) for r in records(output) if r["task"] != b"mlm"}
    assert all((pair["task"], pair["pos_query"]) in made_pairs for pair in worked["pairs"])
    assert "A sentence, [weights]" in as_text(report(str(output), 0))


def test_anchor_statistics_against_a_dict(made):
    _, output = made
    kept = [link for link in table(output, "resolved") if link["problem"] == ""]
    expected: dict[str, set[int]] = {}
    for link in kept:
        expected.setdefault(link["anchor"], set()).add(link["destination"])
    ranked = table(output, "ranked")
    assert len(ranked) == len(kept)
    for link in ranked:
        destinations = sorted(expected[link["anchor"]])
        assert (link["first"], link["own"], link["total"]) == (
            destinations.index(link["destination"]),
            1,
            len(destinations),
        )
    in_links: dict[int, int] = {}
    for link in kept:
        in_links[link["destination"]] = in_links.get(link["destination"], 0) + 1
    assert {row["doc"]: row["in_links"] for row in table(output, "candidates")} == in_links


def test_every_task_has_pairs_and_the_manifest_counts_them(made):
    _, output = made
    manifest = read_manifest(str(output))
    rows = records(output)
    assert set(manifest["tasks"]) == {"rqp", "qdm", "rdp", "acm", "mlm"}
    for task, entry in manifest["tasks"].items():
        mine = [row for row in rows if row["task"] == task.encode()]
        assert entry["pairs"] == len(mine) > 10, task
        if task != "mlm":
            sides = [
                (
                    row["neg_query"] if len(row["neg_query"]) else row["pos_query"],
                    row["neg_doc"] if len(row["neg_doc"]) else row["pos_doc"],
                )
                for row in mine
            ]
            queries = sum(len(row["pos_query"]) for row in mine) + sum(len(query) for query, _ in sides)
            docs = sum(len(row["pos_doc"]) for row in mine) + sum(len(doc) for _, doc in sides)
            assert entry["tokens"] == queries + docs
            assert entry["mean_query_tokens"] == pytest.approx(queries / (2 * len(mine)))
            assert entry["mean_doc_tokens"] == pytest.approx(docs / (2 * len(mine)))
            assert set(entry["predictors"]) == {"overlap", "length", "query_only", "document_only", "in_links", "idf"}
            assert all(0 <= value <= 1 for value in entry["predictors"].values())
    assert (
        manifest["splits"]["rqp_train"]["records"] + manifest["splits"]["rqp_validation"]["records"]
        == manifest["tasks"]["rqp"]["pairs"]
    )


def test_splits_go_by_page(made):
    import tensorflow_datasets as tfds

    _, output = made
    builder = tfds.builder_from_directory(str(output))
    pages = {
        split: {
            row["page"]
            for name in builder.info.splits
            if name.endswith(split)
            for row in tfds.as_numpy(builder.as_dataset(split=name))
        }
        for split in ("train", "validation")
    }
    assert pages["train"] and pages["validation"] and not pages["train"] & pages["validation"]


def words_of(ids, terms) -> list[str]:
    return terms.tokenizer.decode(ids).split()


def test_s1_and_s2_are_equally_long_and_no_anchor_word_is_in_s2(made):
    folder, output = made
    terms = load_terms(str(folder / "vocab.txt"), "")
    anchors = {
        f"p{int(r['doc'] % 2**24) * 3 + int(r['doc'] // 2**24)}@{r['link_start']}": r["anchor"]
        for r in table(output, "ranked")
    }
    seen = 0
    for row in records(output):
        if row["task"] == b"rqp":
            s1, s2 = words_of(row["pos_query"], terms), words_of(row["neg_query"], terms)
            assert len(s1) == len(s2) >= 2
            anchor = set(words_of(terms.tokenizer.encode(anchors[row["key"].decode()]), terms))
            assert anchor <= set(s1) and not anchor & set(s2)
            assert all(terms.is_term(word) for word in s2)
            assert not len(row["neg_doc"])
            seen += 1
    assert seen > 100


def test_no_pair_has_two_equal_sides_and_mlm_pieces_fit(made):
    for row in records(made[1]):
        if row["task"] == b"mlm":
            assert 0 < len(row["text"]) <= 510
        else:
            same_query = not len(row["neg_query"]) or list(row["neg_query"]) == list(row["pos_query"])
            same_doc = not len(row["neg_doc"]) or list(row["neg_doc"]) == list(row["pos_doc"])
            assert not (same_query and same_doc)


def test_acm_negatives_are_never_linked_beside_the_anchor_page(made):
    _, output = made
    together = {(row["one"], row["other"]) for row in table(output, "colinked")}
    source = {row["key"]: row["words_of"] for row in table(output, "requests") if row["task"] == "acm"}
    negatives = [row for row in table(output, "negatives") if row["task"] == "acm"]
    assert len(negatives) > 20
    assert not any((source[row["key"]], row["destination"]) in together for row in negatives)


def test_one_and_two_workers_write_the_same_shards(made, tmp_path):
    folder, output = made
    generate(corpus.config(folder, encoder="idf", workers=1), str(tmp_path / "one"))
    assert hashes(tmp_path / "one") == hashes(output)
    assert not (tmp_path / "one" / ".work").exists()


def test_another_seed_writes_other_pairs_and_the_same_splits(made, tmp_path):
    folder, output = made
    config = corpus.config(folder, encoder="", term_weights=str(output / "term_weights"), seed=1, tasks=("rqp",))
    generate(config, str(tmp_path / "seed1"), SerialEngine)
    theirs, mine = read_manifest(str(output)), read_manifest(str(tmp_path / "seed1"))
    assert mine["term_weights_sha256"] == theirs["term_weights_sha256"]
    name = "harp-rqp_train.tfrecord-00000-of-00001"
    assert hashes(tmp_path / "seed1")[name] != hashes(output)[name]


def test_term_weights_of_other_input_are_refused(made, tmp_path):
    folder, output = made
    config = corpus.config(folder, encoder="", term_weights=str(output / "term_weights"), document_title=True)
    with pytest.raises(InputError, match="made for other input"):
        generate(config, str(tmp_path / "out"))


def test_finished_job_is_left_alone_and_another_config_is_refused(made, capfd, tmp_path):
    folder, output = made
    before = {path: path.stat().st_mtime_ns for path in output.glob("*") if path.is_file()}
    generate(corpus.config(folder, encoder="idf", workers=1), str(output))
    assert "nothing to do" in capfd.readouterr().err
    assert before == {path: path.stat().st_mtime_ns for path in output.glob("*") if path.is_file()}
    # What a kill after the manifest leaves goes with the next run, unless it is wanted.
    shutil.copytree(output, tmp_path / "copy")
    given = read_manifest(str(tmp_path / "copy"))
    (tmp_path / "copy" / "manifest.json").write_text(
        json.dumps(given | {"config": given["config"] | {"keep_work": False}})
    )
    generate(corpus.config(folder, encoder="idf", workers=1), str(tmp_path / "copy"))
    assert (output / ".work").exists() and not (tmp_path / "copy" / ".work").exists()
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
        exclude_destinations=str(folder / "judged.txt"), document_title=True, keep_work=True, query_length=0.5, workers=1,
    )  # fmt: skip
    generate(corpus.config(folder, **options), str(tmp_path / "out"), SerialEngine)
    manifest = read_manifest(str(tmp_path / "out"))
    assert manifest["losses"]["link-to-excluded"]["count"] > 10
    assert "1 line(s) name no page, for example 'p4711'" in capfd.readouterr().err
    assert "exclusion-of-no-page" in as_text(report(str(tmp_path / "out"), 1))
    assert len(manifest["splits"]["rqp_train"]["shards"]) > 1
    assert all(shard["bytes"] <= 20_000 for split in manifest["splits"].values() for shard in split["shards"])
    generate(
        corpus.config(folder, acm_negative="corpus", tasks=("acm",), workers=1),
        str(tmp_path / "corpus-negatives"),
        SerialEngine,
    )
    generate(corpus.config(folder, encoder="", tasks=("mlm",), workers=1), str(tmp_path / "text"), SerialEngine)
    assert set(read_manifest(str(tmp_path / "text"))["tasks"]) == {"mlm"}


def test_inspect_reports_and_finds_damage(made, tmp_path):
    _, output = made
    found = report(str(output), 5)
    assert all(len(examples) == 5 for examples in found["examples"].values())
    text = as_text(found)
    for line in ("Table 1", "Link graph: pages 48", "links kept", "bits per link", "link-unresolved\n"):
        assert line in text
    json.dumps(found)
    for harm, message in ((flip, "sha256"), (cut, "bytes"), (os.remove, "missing")):
        copy = tmp_path / harm.__name__
        shutil.copytree(output, copy, ignore=shutil.ignore_patterns(".work", "term_weights"))
        harm(copy / "harp-qdm_train.tfrecord-00000-of-00001")
        with pytest.raises(InputError, match=f"harp-qdm_train.*{message}"):
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


def test_inspect_counts_and_finds_what_the_manifest_does_not_say(made, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(made[1], copy, ignore=shutil.ignore_patterns(".work", "term_weights"))
    shard = copy / "harp-qdm_train.tfrecord-00000-of-00001"
    text = (copy / "manifest.json").read_text()

    def refused(message, change):
        manifest = json.loads(text)
        change(manifest)
        (copy / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(InputError, match=message):
            report(str(copy), 5)
        (copy / "manifest.json").write_text(text)

    def one_more(manifest):
        for entry in (manifest["splits"]["qdm_train"]["shards"][0], manifest["splits"]["qdm_train"]):
            entry["records"] += 1

    refused(r"qdm_train.*holds \d+ records", one_more)
    stray = shutil.copy(shard, copy / "harp-qdm_train.tfrecord-00000-of-00002")
    refused("00000-of-00002 is not in the manifest", lambda manifest: None)
    os.remove(stray)
    os.remove(copy / "dataset_info.json")
    refused("dataset_info.json is missing", lambda manifest: None)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def command(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config=configs/data/demo.py", "--config.speed=3"], "speed"),
        (["--config=configs/data/demo.py", "--config.weighting=loud", "--config.tokenizer={vocab}"], "weighting"),
        (["--config=configs/data/demo.py", "--config.encoder=absent", "--config.tokenizer={vocab}"], "absent"),
    ],
)
def test_bad_usage_is_one_line_and_status_2(tmp_path, arguments, message):
    folder = corpus.write(tmp_path / "corpus")
    given = [argument.replace("{vocab}", str(folder / "vocab.txt")) for argument in arguments]
    result = command("data_pipeline.main", *given, f"--output={tmp_path / 'out'}")
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert result.returncode == 2 and len(lines) == 1 and message in lines[0], result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_inspect_command_exits_with_2_on_an_unfinished_directory(tmp_path):
    result = command("harp_jax", "inspect", str(tmp_path))
    assert result.returncode == 2 and "manifest.json" in result.stderr and "Traceback" not in result.stderr


def test_inspect_ends_quietly_when_its_reader_does(made):
    """`harp inspect … | head`: a real pipe, closed after the first bytes."""
    arguments = [sys.executable, "-m", "harp_jax", "inspect", str(made[1]), "--examples=400"]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(20)
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(120) == 1
    assert "Traceback" not in errors and "Broken pipe" not in errors and "error" not in errors


def test_generate_is_a_function_that_returns_the_manifest(tmp_path):
    """From Python: a ConfigDict and a path in, the manifest out; a second call reads it."""
    config = corpus.config(corpus.write(tmp_path / "corpus", files=1), tasks=("mlm",), workers=1)
    manifest = generate(config, tmp_path / "out", SerialEngine)
    assert (
        manifest == json.loads((tmp_path / "out" / "manifest.json").read_text()) == generate(config, tmp_path / "out")
    )
    assert manifest["tasks"]["mlm"]["pairs"] > 0 and manifest["splits"]["mlm_train"]["records"] > 0
