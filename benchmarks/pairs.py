"""Pairs a second of the four tasks on real links, after tokenisation and term weights, and whether their cost is linear.

python benchmarks/pairs.py --wiki=DIR --vocabulary=vocab.txt [--stopwords=FILE --work=DIR --rounds=3]

DIR holds linked_pages.jsonl.xz, linked_table_rows.jsonl.xz, collection.jsonl.xz and redirects.tsv. The job runs twice with one
worker, on the pages alone and with the table rows, which bring many times the links; then its stages from requests to
records (sampling, the joins for negatives and passages, the pairs) run again, `rounds` times, in a worker that has started
and imported what it needs. Prints pairs a second of one core by the clock and by CPU time (parent and worker), medians over
rounds, and the ratio of the time a pair. With --work the jobs are kept, and an interrupted run continues.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from typing import Any

import pyarrow as pa

from data_pipeline import pipeline, weights
from data_pipeline.config import generation
from data_pipeline.engine import Job, LocalEngine, bucket_parts, read
from data_pipeline.examples import make_pairs, tensorflow
from data_pipeline.manifest import load_manifest
from data_pipeline.output import WORK

TASKS = ("rqp", "qdm", "rdp", "acm")
MADE = (
    "requests",
    "qdm_draws",
    "acm_draws",
    "wlp_draws",
    "negatives",
    "assembled",
    "records",
    "validation",
    "token_counts",
)


def prepare(args: argparse.Namespace, name: str, files: list[str]) -> str:
    """The finished job with its tables kept."""
    config = generation()
    config.source.format = "linked_jsonl"
    config.source.paths = tuple(os.path.join(args.wiki, file) for file in files)
    config.source.redirects = (os.path.join(args.wiki, "redirects.tsv"),)
    config.tokenizer, config.stopwords, config.encoder = args.vocabulary, args.stopwords, "idf"
    config.min_article_words, config.tasks, config.workers, config.keep_work = 0, TASKS, 1, True
    output = os.path.join(args.work, name)
    pipeline.generate(config, output)
    return output


def clock(job: Job, number: int, _: Any) -> dict[str, pa.Table]:
    """A map that warms its process up and writes down the CPU time it has used."""
    tensorflow()
    with open(os.path.join(job["work"], f"cpu-{number}"), "w") as file:
        file.write(repr(time.process_time()))
    return {}


def measure(output: str) -> tuple[int, float, float]:
    """(pairs, seconds, CPU seconds) of one more run of the stages from requests to records."""
    config, work = load_manifest(output)["config"], os.path.join(output, WORK)
    for name in [*MADE, "requests.marks", "pairs.marks", "before.marks", "after.marks"]:
        shutil.rmtree(os.path.join(work, name), ignore_errors=True)
    job: Job = {"config": config, "work": work, "output": output, "per_bucket": 1}
    job["elsewhere"] = {name: os.path.join(output, "term_weights", name) for name in weights.TABLES}
    engine = LocalEngine(job, 1, config["memory_limit"])
    try:
        engine.map("before", clock, [(0, None)])
        cpu, start = time.process_time(), time.perf_counter()
        pipeline._requests(engine)
        pipeline._assemble(engine)
        engine.map("pairs", make_pairs, bucket_parts(job, "assembled"))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        engine.map("after", clock, [(1, None)])
    finally:
        engine.close()
    before, after = (float(open(os.path.join(work, f"cpu-{i}")).read()) for i in (0, 1))
    return read(job, "records").num_rows, seconds, cpu + after - before


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wiki", required=True)
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--stopwords", default="")
    parser.add_argument("--work", default="")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        args.work = args.work or temporary
        pages = ["linked_pages.jsonl.xz", "collection.jsonl.xz"]
        found = {}
        for name, files in (("pages", pages), ("pages-and-rows", [*pages, "linked_table_rows.jsonl.xz"])):
            output = prepare(args, name, files)
            rounds = [measure(output) for _ in range(args.rounds)]
            pairs = rounds[0][0]
            wall, cpu = (statistics.median(each[i] for each in rounds) / pairs for i in (1, 2))
            found[name] = cpu
            print(f"{name}: {pairs} pairs, {1 / wall:.0f} pairs/s a core ({1 / cpu:.0f} by CPU time)", flush=True)
            tasks = {task: entry["pairs"] for task, entry in load_manifest(output)["tasks"].items()}
            print(f"  {json.dumps(tasks)}")
        print(f"time a pair with the table rows: {found['pages-and-rows'] / found['pages']:.3f}x (CPU time)")


if __name__ == "__main__":
    main()
