"""Hours, disk and memory of :paper's generation job on English Wikipedia, stage by stage, from rates measured on this machine.

python benchmarks/enwiki_estimate.py --wiki=DIR --dump=enwiki-excerpt.xml.bz2 --vocabulary=vocab.txt [--work=DIR --cores=32]

Two jobs run with one worker: one on real pages with links to real lead sections (DIR has linked_pages.jsonl.xz,
collection.jsonl.xz and redirects.tsv), for all stages from links on; one on an excerpt of the dump, repeated to `megabytes`, for
parsing and for the contents of a megabyte of XML. The rate of a stage is the amount it processed (megabytes, links, tokens, pairs)
divided by its seconds. English Wikipedia is 100 GB of XML, 15.5 M pages and 38.19 M pairs (section 4.1.1 and Table 1 of the
paper), with as many links per megabyte as the excerpt. A pair of every link, which is what the job makes, would be about ten times
as many: --pairs=380e6.
Assumed: stages scale with the number of cores (parsing does with the dump's multistream index); start-up times are not scaled
down. Disk: all tables and the shards together. Memory of a worker: a fresh process makes the pairs of the largest bucket of the
sample; its memory above that of the imports is scaled to 1/512 of all pairs.

The term weights are not measured: tokens × 2 × 85 M parameters at --tflops sustained (100: an A100 at a third of its peak).
"""

import argparse
import bz2
import glob
import math
import multiprocessing
import os
import resource
import tempfile
from typing import Any

import pyarrow.parquet as pq

from data_pipeline.config import generation
from data_pipeline.engine import tables
from data_pipeline.engine.job import Job
from data_pipeline.engine.store import buckets, read
from data_pipeline.output.claim import WORK
from data_pipeline.pipeline import BUCKETS, SECONDS, generate
from data_pipeline.tasks.maps import make_pairs
from data_pipeline.tasks.table import needs
from data_pipeline.weights import term_weights
from harp_jax.base.files import open_bytes
from harp_jax.input.records import read_manifest
from harp_jax.input.tfrecords import tensorflow

XML_MB, PAGES, PAIRS = 100_000, 15.5e6, 38.19e6
ENCODER_PARAMETERS = 85e6  # of BERT-base's layers
# The amount that the time of a stage is proportional to.
STAGES = {
    "documents": "MB of XML", "links": "MB of XML", "mlm": "MB of pages", "link graph": "links", "tokenised": "tokens",
    "requests": "pairs", "assembled": "pairs", "pairs": "pairs", "shards": "pairs", "predictors": "pairs",
}  # fmt: skip
# The amount that the size of a table is proportional to; all others, and the shards: the pairs.
TABLES = {
    "MB of XML": "documents addresses places pages redirects aliases aliases_0 aliases_1 aliases_2 aliases_3",
    "links": "links targets resolved ranked link_counts anchor_destination colinked",
    "pages": "passages word_counts word_totals token_counts candidates passage_weights",
}
UNIT_OF = {name: unit for unit, names in TABLES.items() for name in names.split()}


def prepare(args: argparse.Namespace) -> str:
    """Runs the job on real links, keeping its tables; returns its output directory."""
    config = generation("paper")
    config.source.format = "linked_jsonl"
    config.source.paths = tuple(
        os.path.join(args.wiki, file) for file in ("linked_pages.jsonl.xz", "collection.jsonl.xz")
    )
    config.source.redirects = (os.path.join(args.wiki, "redirects.tsv"),)
    config.tokenizer, config.encoder = args.vocabulary, "idf"
    config.stopwords = args.stopwords or config.stopwords
    config.min_article_words, config.workers, config.keep_work = 0, 1, True
    config.tasks = ("rqp", "qdm", "rdp", "acm")
    output = os.path.join(args.work, "pages")
    generate(config, output)
    return output


def repeat(dump: str, path: str, megabytes: float) -> None:
    """Writes a dump that repeats the pages, one bzip2 stream per repetition."""
    with open_bytes(dump) as file:
        text = file.read()
    start, end = text.index(b"<page>"), text.rindex(b"</page>") + len(b"</page>")
    pages = bz2.compress(text[start:end] + b"\n")
    with open(path, "wb") as file:
        file.write(bz2.compress(text[:start]))
        for _ in range(max(1, math.ceil(megabytes * 1e6 / (end - start)))):
            file.write(pages)
        file.write(bz2.compress(text[end:]))


def job_of(output: str) -> Job:
    """The job of a finished directory, to read its tables."""
    work, config = os.path.join(output, WORK), read_manifest(output)["config"]
    return Job(config, work, output, os.path.join(output, term_weights.FOLDER), needs=tuple(needs(config)))


def rows(folder: str) -> int:
    """Rows of the Parquet files below a folder."""
    paths = glob.glob(os.path.join(folder, "**", "*.parquet"), recursive=True)
    return sum(pq.ParquetFile(path).metadata.num_rows for path in paths)


def size(folder: str) -> int:
    """Bytes below a folder."""
    return sum(
        os.path.getsize(path) for path in glob.glob(os.path.join(folder, "**"), recursive=True) if os.path.isfile(path)
    )


def tokens(job: Job, table: tables.Table) -> float:
    parts = (read(job, table, bucket).column("tokens").to_pylist() for bucket in buckets(job, table))
    return sum(len(data) for part in parts for data in part) / 4


def of_wiki(output: str) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Seconds by stage, bytes by table and amounts of the job on real links."""
    job = job_of(output)
    seconds: dict[str, float] = {}
    with open(os.path.join(job.work, SECONDS)) as file:
        for stage, _, spent in (line.partition("\t") for line in file):
            seconds[stage] = seconds.get(stage, 0.0) + float(spent)
    disk: dict[str, float] = {name: size(os.path.join(job.work, name)) for name in os.listdir(job.work)}
    disk |= {table.name: size(os.path.join(job.weights, table.name)) for table in term_weights.TABLES}
    disk["shards"] = sum(os.path.getsize(path) for path in glob.glob(os.path.join(output, "harp-*")))
    passages, sentences = tokens(job, tables.PASSAGES), tokens(job, tables.SENTENCES)
    amounts = {
        "links": rows(os.path.join(job.work, "links")),
        "pages": rows(os.path.join(job.work, "passages")),
        "pairs": rows(os.path.join(job.work, "records")),
        "tokens": passages + sentences,
        "passage tokens": passages,
        "sentence tokens": sentences,
    }
    return seconds, disk, amounts


def of_dump(args: argparse.Namespace) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """The same for a job on the repeated excerpt, used for parsing, links and running text.

    Running text is counted once per page ("MB of pages"), and nearly all records are texts: few links lead to pages of the excerpt.
    """
    dump = os.path.join(args.work, "dump.xml.bz2")
    if not os.path.exists(dump):
        repeat(args.dump, dump, args.megabytes)
    config = generation("paper")
    config.source.paths, config.tokenizer, config.encoder = (dump,), args.vocabulary, "uniform"
    config.tasks, config.workers, config.keep_work = ("rqp", "mlm"), 1, True
    output = os.path.join(args.work, "dump")
    generate(config, output)
    seconds, disk, amounts = of_wiki(output)
    with bz2.open(dump) as file:
        amounts["MB of XML"] = sum(len(block) for block in iter(lambda: file.read(1 << 24), b"")) / 1e6
    with bz2.open(args.dump) as file:
        amounts["MB of pages"] = len(file.read()) / 1e6
    return seconds, disk, amounts


def memory(job: Job, bucket: int) -> tuple[float, float]:
    """Peak RSS in MiB of a process that makes the pairs of a bucket: after the imports, and at the end."""
    tensorflow()
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    make_pairs(job, bucket, None)
    return start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def worker_memory(output: str, pairs: float) -> float:
    """GiB of a worker for a bucket with 1/512 of the pairs."""
    job = job_of(output)
    sizes: dict[int, int] = {
        b: rows(os.path.join(job.work, "assembled", f"bucket={b}")) for b in buckets(job, tables.ASSEMBLED)
    }
    largest = max(sizes, key=sizes.__getitem__)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        start, peak = pool.apply(memory, (job, largest))
    return (start + (peak - start) / sizes[largest] * pairs / BUCKETS) / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wiki", required=True)
    parser.add_argument("--dump", required=True)
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--stopwords", default="")
    parser.add_argument("--work", default="")
    parser.add_argument("--megabytes", type=float, default=60)
    parser.add_argument("--pairs", type=float, default=PAIRS)
    parser.add_argument("--cores", type=int, default=32)
    parser.add_argument("--memory_limit", type=float, default=64, help="GB of the joins, as in configs/data/enwiki.py")
    parser.add_argument("--tflops", type=float, default=100)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        args.work = args.work or temporary
        estimate(args)


def estimate(args: argparse.Namespace) -> None:
    dump_seconds, dump_disk, dump_amounts = of_dump(args)
    output = prepare(args)
    seconds, disk, sample = of_wiki(output)
    sample |= {unit: dump_amounts[unit] for unit in ("MB of XML", "MB of pages")}
    passages, sentences = sample["passage tokens"] / sample["pages"], sample["sentence tokens"] / sample["pairs"]
    enwiki: dict[str, Any] = {"MB of XML": XML_MB, "MB of pages": XML_MB, "pages": PAGES, "pairs": args.pairs}
    enwiki["links"] = dump_amounts["links"] / dump_amounts["MB of XML"] * XML_MB
    enwiki["tokens"] = passages * PAGES + sentences * args.pairs
    total = 0.0
    print(f"{'stage':14}{'measured rate per core':>32}{'English Wikipedia':>28}{'hours':>8}")
    for stage, unit in STAGES.items():
        spent = (dump_seconds if unit.startswith("MB") else seconds)[stage]
        hours = spent / sample[unit] * enwiki[unit] / args.cores / 3600
        total += hours
        print(f"{stage:14}{sample[unit] / spent:>20,.1f} {unit + '/s':11}{enwiki[unit]:>17,.0f} {unit:12}{hours:>8.2f}")
    hours = enwiki["tokens"] * 2 * ENCODER_PARAMETERS / (args.tflops * 1e12) / 3600
    print(f"{'term weights':14}{'(not measured)':>32}{enwiki['tokens']:>17,.0f} {'tokens':12}{hours:>8.2f}")
    print(f"{'all':14}{total + hours:>70.2f}  on {args.cores} cores and an accelerator of {args.tflops:.0f} TFLOP/s")
    grown = {}
    for name, used in disk.items():
        unit = UNIT_OF.get(name, "pairs")
        used, of = (dump_disk.get(name, 0), dump_amounts["MB of XML"]) if unit == "MB of XML" else (used, sample[unit])
        grown[name] = used / of * enwiki[unit] / 1e9
    for name in ("records", "sharded", "shards"):
        grown[f"{name} of text"] = dump_disk[name] / sample["MB of pages"] * XML_MB / 1e9
    shown = sorted(grown.items(), key=lambda item: -item[1])[:8]
    print(f"disk: {sum(grown.values()):.0f} GB ({', '.join(f'{name} {used:.0f}' for name, used in shown)} ...)")
    worker = worker_memory(output, args.pairs)
    joins = args.memory_limit * 1e9 / 2**30
    print(
        f"memory: {args.cores * worker + joins:.0f} GiB: {args.cores} workers of {worker:.1f}, and {joins:.0f} in a join "
        "(while the workers keep their memory)"
    )


if __name__ == "__main__":
    main()
