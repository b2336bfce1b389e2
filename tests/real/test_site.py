"""`harp site` end to end on an invented site, from scratch: killed, repeated, with labels, and its results. Minutes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harp_jax.experiments.site_plan import LABELLED_ROW

import harp_jax as hj
from tests.support import site_pages
from tests.support.commands import python

pytestmark = pytest.mark.real


@pytest.fixture
def pages(tmp_path) -> Path:
    return site_pages.write(tmp_path / "pages")


def command(pages: Path, output: Path, *options: str) -> list[str]:
    words = [str(pages), f"--output={output}", "--minutes=0.4", "--depth=5", "--max_queries=120"]
    return ["-m", "harp_jax", "site", *words, *options]


def started(words: list[str]) -> subprocess.Popen:
    one = os.environ | {"JAX_NUM_CPU_DEVICES": "1"}
    return subprocess.Popen(
        [sys.executable, *words], env=one, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def kill(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()
    time.sleep(3)  # until the running step has ended too


def test_from_pages_to_a_ranker_and_a_verdict(pages, tmp_path):
    output = tmp_path / "x"
    process = started(command(pages, output))
    while not list(output.glob("harp-*/metrics.jsonl")):
        assert process.poll() is None, "ended before the training"
        time.sleep(0.1)
    kill(process)
    begun = [path.name for path in output.glob("harp-*")]
    said = python(*command(pages, output)).stdout
    assert [path.name for path in output.glob("harp-*")] == begun  # the same folder: same number of steps
    assert (
        "documents (html)" in said and "no shortcut" in said and "from scratch" in said and "Then ranking for" in said
    )
    verdict = json.loads((output / "verdict.json").read_text())
    assert verdict["queries"] >= 50 and said.count(verdict["words"].partition(". ")[2]) == 1
    kept = "ranker" in verdict["weights"]
    assert kept == verdict["rungs"][-1]["kept"] and (output / "ranker_not_used").exists() != kept
    assert (output / "report.html").read_text().startswith("<!doctype html>")
    model = hj.Reranker.from_pretrained(str(output / ("ranker" if kept else "ranker_not_used")))
    assert model.predict([("a gate", "water gate"), ("a gate", "mill")]).shape == (2,)
    again = python(*command(pages, output)).stdout
    assert "[1/1]" not in again and verdict["words"][:20] in again

    docs = [json.loads(line) for line in (output / "survey" / "docs.jsonl").read_text().splitlines()]
    labels = [f"{' '.join(site_pages.own_words(n)[:2])}\t{docs[n]['id']}\t1\n" for n in range(24)]
    (tmp_path / "labels.tsv").write_text("".join(labels))
    labelled = python(*command(pages, output, f"--labels={tmp_path / 'labels.tsv'}")).stdout
    assert "24 queries (labels of" in labelled and "verdict_labels" in labelled and "pairs:" not in labelled
    by_labels = json.loads((output / "verdict.json").read_text())
    assert labelled.count(by_labels["words"].partition(". ")[2]) == 1
    used = output / ("ranker" if by_labels["weights"].keys() & {"ranker", LABELLED_ROW} else "ranker_not_used")
    card = (used / "README.md").read_text()
    assert "| BM25 | RR@10 |" in card and "--baseline=BM25" in card
    # A model trained on labels does not replace a better one without them. One model per table: the card has its figures.
    better = output.glob("labelled-*" if LABELLED_ROW in by_labels["weights"] else "model-*")
    assert used.resolve() in [path.resolve() for path in better]
    assert json.loads((output / "anchors_verdict.json").read_text())["queries"] == verdict["queries"]


def test_the_library_reads_trains_and_fits(pages, tmp_path):
    site = hj.Site.from_pages(pages, base_url="https://x.org/")
    queries, qrels = site.held_out()
    assert len(site.documents) == 150 and next(iter(site.documents)).startswith("https://x.org/")
    hits = [any(docid in qrels[qid] for docid, _ in site.bm25(text, k=3)) for qid, text in queries.items()]
    assert sum(hits) > 0.9 * len(hits)  # the page with the link also has the words
    model = hj.Reranker.pretrain(site, str(tmp_path / "x"), minutes=1.0, depth=3, max_queries=60)
    few = dict(list(queries.items())[:20])
    fitted = model.fit(few, {qid: qrels[qid] for qid in few}, site.documents, str(tmp_path / "fitted"), epochs=1.0)
    assert fitted.predict([("a gate", "water gate")]) != model.predict([("a gate", "water gate")])


KILLS = 8

# With a fixed number of steps: `harp site` measures how many fit into its minutes.
PLAN = """
from harp_jax.experiments.site_plan import site_plan

def get_plan():
    pages = dict(format="html", base_url="https://x.org/", max_queries=60)
    return site_plan(({pages!r},), **pages, steps=12, depth=5, tasks=("adp",))
"""


def handed_over(output: Path) -> dict[str, object]:
    """Name → content of the results: documents, shards, runs, weights, and the verdict."""
    kinds = ("*.jsonl", "*.tfrecord-*", "*.trec", "model.safetensors", "vocab.txt", "queries.tsv", "qrels.txt")
    files = [path for kind in kinds for path in output.rglob(kind) if path.name != "metrics.jsonl"]
    files = [path for path in files if "/." not in str(path.relative_to(output.parent))]  # not of a killed measurement
    found: dict[str, object] = {str(path.relative_to(output)): path.read_bytes() for path in files}
    verdict = next(output.glob("verdict-*"))
    return found | {"verdict": json.loads((verdict / "verdict.json" if verdict.is_dir() else verdict).read_text())}


def test_a_site_that_was_killed_hands_over_the_same_bytes(pages, tmp_path):
    (tmp_path / "plan.py").write_text(PLAN.format(pages=str(pages)))
    words = ["-m", "harp_jax", "plan", str(tmp_path / "plan.py")]
    began = time.monotonic()
    python(*words, f"--output={tmp_path / 'whole'}")
    duration = time.monotonic() - began
    killed = 0
    for _ in range(KILLS):
        running = started([*words, f"--output={tmp_path / 'x'}"])
        try:
            running.communicate(timeout=duration / KILLS + 4)  # 4 seconds until the first unfinished step begins
        except subprocess.TimeoutExpired:
            kill(running)
            killed += 1
    assert killed >= KILLS // 2
    python(*words, f"--output={tmp_path / 'x'}")
    expected, found = handed_over(tmp_path / "whole"), handed_over(tmp_path / "x")
    assert found.keys() == expected.keys() and len(expected) > 10
    assert [name for name in expected if found[name] != expected[name]] == []
