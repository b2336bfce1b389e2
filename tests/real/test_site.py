"""`harp site --train=ranker` end to end on an invented site, from scratch: killed, repeated, with labels, and its results."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import harp_jax as hj
from harp_jax.site import ranker
from harp_jax.site.search import LABELLED
from tests.support import site_pages
from tests.support.commands import python
from tests.support.processes import none_left

pytestmark = pytest.mark.real


@pytest.fixture
def pages(tmp_path) -> Path:
    return site_pages.write(tmp_path / "pages")


# `harp site` measures how many steps fit into its minutes; here the number is fixed, so that results do not depend on the machine.
PROGRAM = """
from harp_jax.__main__ import main
from harp_jax.site import ranker

ranker.steps_within = lambda *_: 24
main()
"""


def words(pages: Path, output: Path, queries: int) -> list[str]:
    usual = f"--encoder=none --train=ranker --depth=5 --max_queries={queries}"
    return ["-c", PROGRAM, "site", str(pages), f"--output={output}", *usual.split()]


def test_from_pages_to_a_ranker_and_a_verdict(pages, tmp_path):
    output = tmp_path / "x"
    said = python(*words(pages, output, 120)).stdout
    assert "training pairs are few" in said and "steps of training" in said
    verdict = json.loads((output / "verdict.json").read_text())
    assert verdict["queries"] >= 50 and verdict["words"] in said and "\nranker " in said  # its row of the table
    systems = [row["system"] for row in verdict["rows"]]
    assert systems[1:] == ["anchor texts (BM25F)", "in-links", "ranker", "recommended"]
    model = hj.Reranker.from_pretrained(str(output / "ranker"))
    assert model.predict([("a gate", "water gate"), ("a gate", "mill")]).shape == (2,)
    again = python(*words(pages, output, 120)).stdout
    assert verdict["words"] in again and again.count("already done") == again.count("·")

    docs = [json.loads(line) for line in (output / "pages" / "docs.jsonl").read_text().splitlines()]
    labels = [f"{' '.join(site_pages.own_words(n)[:2])}\t{docs[n]['id']}\t1\n" for n in range(24)]
    (tmp_path / "labels.tsv").write_text("".join(labels))
    labelled = python(*words(pages, output, 120), f"--labels={tmp_path / 'labels.tsv'}").stdout
    by_labels = json.loads((output / "verdict.json").read_text())
    assert "24 queries (labels of" in labelled and by_labels["words"] in labelled
    assert "Train the ranker ·" not in labelled and by_labels["rows"][-2]["system"] == LABELLED
    assert hj.CombinedSearch(str(output)).search("water gate")


def test_the_library_reads_trains_and_fits(pages, tmp_path, monkeypatch):
    monkeypatch.setattr(ranker, "steps_within", lambda *_: 24)
    site = hj.Site.from_pages(pages, base_url="https://x.org/")
    queries, qrels = site.held_out()
    assert len(site.documents) == 150 and next(iter(site.documents)).startswith("https://x.org/")
    hits = [any(docid in qrels[qid] for docid, _ in site.bm25(text, k=3)) for qid, text in queries.items()]
    assert sum(hits) > 0.9 * len(hits)  # the page with the link also has the words
    model = hj.Reranker.pretrain(site, str(tmp_path / "x"), encoder="none", depth=3, max_queries=60)
    few = dict(list(queries.items())[:20])
    fitted = model.fit(few, {qid: qrels[qid] for qid in few}, site.documents, str(tmp_path / "fitted"), epochs=1.0)
    assert fitted.predict([("a gate", "water gate")]) != model.predict([("a gate", "water gate")])


KILLS = 6


def results(output: Path) -> dict[str, object]:
    """Name → content of the results: documents, shards, runs, weights, and the verdict."""
    kinds = ("*.jsonl", "*.tfrecord-*", "*.trec", "model.safetensors", "vocab.txt", "queries.tsv", "qrels.txt")
    files = {str(path.relative_to(output)): path for kind in kinds for path in output.rglob(kind)}
    # Metrics have times; hidden folders are those of a killed measurement.
    kept = {name: files[name].read_bytes() for name in files if not re.search(r"(^|/)\.|metrics\.jsonl", name)}
    return kept | {"verdict": json.loads((output / "verdict.json").read_text().replace(str(output), "x"))}


def test_a_site_that_was_killed_has_the_same_bytes(pages, tmp_path):
    began = time.monotonic()
    python(*words(pages, tmp_path / "whole", 60))
    duration = time.monotonic() - began
    killed, rate, rates = 0, tmp_path / "x" / "training" / "rate.json", set()
    variables = os.environ | {"JAX_NUM_CPU_DEVICES": "1"}
    for _ in range(KILLS):
        command = [sys.executable, *words(pages, tmp_path / "x", 60)]
        with subprocess.Popen(command, env=variables, start_new_session=True) as running:
            try:
                running.wait(timeout=duration / KILLS + 4)  # 4 seconds until the first unfinished step begins
            except subprocess.TimeoutExpired:
                running.kill()
                killed += 1
        assert none_left(running.pid)  # the running step has ended too
        rates |= {rate.read_text()} if rate.exists() else set()
    python(*words(pages, tmp_path / "x", 60))
    rates |= {rate.read_text()}
    assert killed >= KILLS // 2 and len(rates) == 1  # measured once, so the number of steps stays
    expected, after = results(tmp_path / "whole"), results(tmp_path / "x")
    assert after.keys() == expected.keys() and len(expected) > 10
    assert [name for name in expected if after[name] != expected[name]] == []
