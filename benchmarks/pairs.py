"""Pairs per second of the four tasks on real links, after tokenisation and term weights, and whether the cost is linear.

python benchmarks/pairs.py --wiki=DIR --vocabulary=vocab.txt [--stopwords=FILE --work=DIR --rounds=3]

DIR contains linked_pages.jsonl.xz, linked_table_rows.jsonl.xz, collection.jsonl.xz and redirects.tsv. The job runs with one worker
on three inputs: the pages; the pages and the table rows, which have many times the links; and the latter with the links of only
every eighth page. Then the stages from requests to records (sampling, the joins for negatives and passages, the pairs) run again,
alternating between the inputs, `rounds` times, in a worker that has already started and imported its modules. Prints pairs per
second and core by wall time and by CPU time (parent and worker), medians and extremes over rounds, per stage, and the ratios of
the time per pair. With --work the jobs are kept, and an interrupted run resumes.

The pages of the table rows are shorter than the others, which makes their pairs cheaper: tokens per pair are printed too. The
input with an eighth of the links has the same pages and about as many tokens per pair, so its ratio shows the effect of the
links alone.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from data_pipeline import pipeline
from data_pipeline.config import generation
from data_pipeline.engine import tables
from data_pipeline.engine.job import Job, Outputs
from data_pipeline.engine.local import LocalEngine
from data_pipeline.engine.store import bucket_parts, read
from data_pipeline.output.claim import WORK
from data_pipeline.tasks.maps import make_pairs
from data_pipeline.tasks.table import needs
from data_pipeline.weights import artefact
from harp_jax.base.files import lines, replacing
from harp_jax.base.randomness import hash64
from harp_jax.input.records import read_manifest
from harp_jax.input.tfrecords import tensorflow

ONE_IN = 8
FILES = ["linked_pages.jsonl.xz", "collection.jsonl.xz", "linked_table_rows.jsonl.xz"]
TASKS = ("rqp", "qdm", "rdp", "acm")
MADE = (
    "requests",
    "draws",
    "negatives",
    "assembled",
    "records",
    "validation",
    "token_counts",
)


def prepare(args: argparse.Namespace, name: str, files: list[str], preset: str = "") -> str:
    """Runs a job, keeping its tables; returns its output directory."""
    config = generation(preset)
    config.source.format = "linked_jsonl"
    config.source.paths = tuple(os.path.join(args.wiki, file) for file in files)
    config.source.redirects = (os.path.join(args.wiki, "redirects.tsv"),)
    config.tokenizer, config.encoder = args.vocabulary, "idf"
    config.stopwords = args.stopwords or config.stopwords
    config.min_article_words, config.tasks, config.workers, config.keep_work = 0, TASKS, 1, True
    output = os.path.join(args.work, name)
    pipeline.generate(config, output)
    return output


def thin(args: argparse.Namespace, name: str) -> str:
    """Writes the documents of a file with the links of only one page in `ONE_IN`; returns the path."""
    path = os.path.abspath(os.path.join(args.work, f"eighth-of-{name.split('.')[0]}.jsonl"))
    if not os.path.exists(path):
        with replacing(path) as file:
            for _, line in lines(os.path.join(args.wiki, name)):
                document = json.loads(line)
                if hash64("thin", document["id"]) % ONE_IN:
                    document["links"] = []
                file.write(json.dumps(document) + "\n")
    return path


def clock(job: Job, number: int, _: None) -> Outputs:
    """A map that imports TensorFlow in its worker and writes the CPU time that the worker has used."""
    tensorflow()
    with open(os.path.join(job.work, f"cpu-{number}"), "w") as file:
        file.write(repr(time.process_time()))
    return {}


def measure(output: str) -> tuple[int, dict[str, tuple[float, float]]]:
    """Pairs, and (seconds, CPU seconds) by stage, of one more run of the stages from requests to records."""
    config, work = read_manifest(output)["config"], os.path.join(output, WORK)
    stages = [
        "requests of sentences",
        "pairs",
        *(f"join {name}" for name in MADE),
        *map(clock_of, range(len(STAGES) + 1)),
    ]
    for name in [*MADE, *(f"{stage}.marks" for stage in stages)]:
        shutil.rmtree(os.path.join(work, name), ignore_errors=True)
    job = Job(config, work, output, os.path.join(output, artefact.FOLDER), needs=tuple(needs(config)))
    engine = LocalEngine(job, 1, config["memory_limit"])

    def cpu(number: int) -> float:
        engine.map(clock_of(number), clock, [(number, None)])
        with open(os.path.join(work, f"cpu-{number}")) as file:
            return time.process_time() + float(file.read())

    spent = {}
    try:
        before = cpu(0)
        for number, (stage, run) in enumerate(STAGES.items(), 1):
            start = time.perf_counter()
            run(engine)
            seconds, after = time.perf_counter() - start, cpu(number)
            spent[stage] = seconds, after - before
            before = after
    finally:
        engine.close()
    return read(job, tables.RECORDS, None, ["size"]).num_rows, spent


def clock_of(number: int) -> str:
    return f"clock-{number}"


STAGES: dict[str, Callable[[LocalEngine], None]] = {
    "requests": pipeline.make_pair_requests,  # and the join of the negatives
    "assembled": lambda engine: engine.join(tables.ASSEMBLED, pipeline.ASSEMBLED_SQL),
    "pairs": lambda engine: engine.map("pairs", make_pairs, bucket_parts(engine.job, tables.ASSEMBLED)),
}


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
        pages, collection, rows = FILES
        inputs = {
            "pages": [pages, collection],
            "eighth": [thin(args, pages), collection, thin(args, rows)],
            "pages-and-rows": FILES,
        }
        outputs = {name: prepare(args, name, files) for name, files in inputs.items()}
        manifests = {name: read_manifest(output) for name, output in outputs.items()}
        rounds = [{name: measure(output) for name, output in outputs.items()} for _ in range(args.rounds)]
    found = {name: report(name, manifests[name], [each[name] for each in rounds]) for name in inputs}
    for less in ("pages", "eighth"):
        for stage in ("all", *STAGES):
            ratios = sorted(more / one for one, more in zip(found[less][stage], found["pages-and-rows"][stage]))
            shown = f"{statistics.median(ratios):.3f}x ({ratios[0]:.3f} to {ratios[-1]:.3f})"
            print(f"CPU time per pair of pages-and-rows relative to {less}, {stage}: {shown}")


def report(
    name: str, manifest: dict[str, Any], rounds: list[tuple[int, dict[str, tuple[float, float]]]]
) -> dict[str, list[float]]:
    """Prints a job's rates; returns CPU seconds per pair, by stage and round."""
    pairs, tasks = rounds[0][0], manifest["tasks"]
    rates = sorted(pairs / sum(seconds for seconds, _ in spent.values()) for _, spent in rounds)
    found = {stage: [spent[stage][1] / pairs for _, spent in rounds] for stage in STAGES}
    found["all"] = [sum(cpu for _, cpu in spent.values()) / pairs for _, spent in rounds]
    by_cpu = sorted(1 / each for each in found["all"])
    tokens = sum(entry["tokens"] for entry in tasks.values()) / pairs
    print(
        f"{name}: {pairs} pairs of {tokens:.0f} tokens; {statistics.median(rates):.0f} pairs/s per core "
        f"({rates[0]:.0f} to {rates[-1]:.0f}), {statistics.median(by_cpu):.0f} by CPU time ({by_cpu[0]:.0f} to {by_cpu[-1]:.0f})"
    )
    print(f"  {json.dumps({task: entry['pairs'] for task, entry in tasks.items()})}")
    print(
        "  microseconds per pair: " + ", ".join(f"{s} {1e6 * statistics.median(found[s]):.0f}" for s in STAGES),
        flush=True,
    )
    return found


if __name__ == "__main__":
    main()
