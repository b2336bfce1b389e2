"""The generation job on real Wikipedia: prose with links into a collection of lead sections, and a dump excerpt."""

import pytest

from data_pipeline.commands.inspect import as_text, report
from data_pipeline.config import generation
from data_pipeline.pipeline import generate
from harp_jax.input.records import read_manifest
from tests.support.shared_data import shared

pytestmark = pytest.mark.real


def wiki_config():
    config = generation()
    config.source.format = "linked_jsonl"
    config.source.paths = (shared("wiki", "linked_pages.jsonl.xz"), shared("wiki", "collection.jsonl.xz"))
    config.source.redirects = (shared("wiki", "redirects.tsv"),)
    config.tokenizer = shared("vocab", "bert-base-uncased-vocab.txt")
    config.stopwords = shared("vocab", "inquery_stopwords.txt")
    config.min_article_words = 0  # the collection holds lead sections, not articles
    config.tasks = ("rqp", "qdm", "rdp", "acm")
    config.encoder = "idf"
    return config


def test_linked_pages_into_the_collection(tmp_path):
    config = wiki_config()
    config.drop_anchors = False  # the paper's links, and the counts of the data's README
    generate(config, str(tmp_path / "out"))
    manifest = read_manifest(str(tmp_path / "out"))
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


def test_dump_excerpt(tmp_path):
    config = generation()
    config.source.paths = (shared("dumps", "enwiki-excerpt.xml.bz2"),)
    config.tokenizer = shared("vocab", "bert-base-uncased-vocab.txt")
    config.encoder = "uniform"
    config.keep_work = True
    generate(config, str(tmp_path / "out"))
    from data_pipeline.engine.store import read

    job = {"work": str(tmp_path / "out" / ".work")}
    addresses, redirects = (read(job, name).to_pylist() for name in ("addresses", "redirects"))
    assert len(addresses) == 106 and len(redirects) == 99
    manifest = read_manifest(str(tmp_path / "out"))
    assert manifest["tasks"]["rqp"]["pairs"] > 50 and manifest["tasks"]["mlm"]["pairs"] > 500
    report(str(tmp_path / "out"), 1)
