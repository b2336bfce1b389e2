"""The generation job, stage by stage: every stage is a map over Parquet parts or a join in SQL.

documents → links → link graph → sentences, passages → term weights → requests → assembled → records → shards → manifest
"""

import json
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ml_collections import ConfigDict

from data_pipeline.config import plain
from data_pipeline.engine.job import ALL_WEIGHTS, LINKS, SENTENCES, Config, Engine, EngineFactory, Inputs, Job
from data_pipeline.engine.local import LocalEngine, mebibytes
from data_pipeline.engine.stage_tables import table
from data_pipeline.engine.store import bucket_parts, buckets, read, write
from data_pipeline.links import link_graph
from data_pipeline.links.parsing import parse_documents
from data_pipeline.output.claim import WORK, claim, fingerprint
from data_pipeline.output.manifest import SHARDED_SQL, Manifest, plan, remove_unfinished, write_manifest, write_shard
from data_pipeline.sources.document import CHUNK_BYTES
from data_pipeline.tasks import diagnostics
from data_pipeline.tasks.maps import make_pairs, make_records, make_requests
from data_pipeline.tasks.table import chosen, needs
from data_pipeline.tasks.task import Task
from data_pipeline.weights import artefact, tokenised
from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.base.progress import STAGES, Progress, progress, say, stage
from harp_jax.input.records import read_manifest
from harp_jax.input.tfrecords import require_tensorflow
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

# Maximum number of buckets, estimated from the size on disk; compressed files make a few times more.
BUCKETS = 512

ASSEMBLED_SQL = """
    SELECT r.task, r.key, r.page, r.query, r.anchor, r.context, r.length, r.bucket,
        p.tokens AS positive, p.in_links AS positive_in_links,
        n.tokens AS negative, n.in_links AS negative_in_links, m.more AS more, m.more_lengths AS more_lengths,
        w.words AS words, w.tokens AS tokens, w.sentences AS sentences, a.weights AS weights
    FROM requests r
    LEFT JOIN negatives d ON r.task = d.task AND r.key = d.key
    LEFT JOIN mined m ON r.task = m.task AND r.key = m.key
    LEFT JOIN passages p ON r.positive = p.doc
    LEFT JOIN passages n ON COALESCE(r.negative, d.destination, m.destination) = n.doc
    LEFT JOIN passages w ON r.words_of = w.doc
    LEFT JOIN passage_weights a ON r.words_of = a.doc
"""


def generate(config: ConfigDict, output: str | os.PathLike[str], engine: EngineFactory = LocalEngine) -> Manifest:
    """Runs the job of a config into the directory `output` and returns its manifest (the content of manifest.json).

        from data_pipeline.config import generation
        from data_pipeline.pipeline import generate

        config = generation()
        config.source.format, config.source.paths = "linked_jsonl", ("pages.jsonl",)
        config.tokenizer, config.encoder = "vocab.txt", "uniform"
        manifest = generate(config, "pairs")

    An unfinished job with the same config resumes; for a finished one only the manifest is read. `engine` creates the engine:
    `LocalEngine`, or `functools.partial(SparkEngine, master=URL)`. The local engine starts processes, so a script that calls this
    needs `if __name__ == "__main__":`.

    Raises InputError for bad input and for an output directory that belongs to another job.
    """
    require_tensorflow()
    with progress(unit=STAGES) as bar:
        return _generate(plain(config), os.fspath(output), engine, bar)


def _generate(c: Config, output: str, engine: EngineFactory, bar: Progress) -> Manifest:
    mebibytes(c["memory_limit"])  # a wrong value is reported before the work starts
    tokenizer = load_tokenizer(c["tokenizer"])
    stage("fingerprint")
    inputs = fingerprint(c, tokenizer.sha256)
    lock = claim(output, c, inputs)
    if lock is None:
        say(f"{output} is complete: nothing to do")
        return read_manifest(output)
    work = os.path.join(os.path.abspath(output), WORK)
    size = sum(file["size"] for file in inputs["source"])
    longest = tokenised.longest(c, tokenizer)
    longest = min(longest, inputs["encoder_content"].get("positions", longest))
    per_bucket = max(1, size // (CHUNK_BYTES * BUCKETS))
    job: Job = {
        "config": c, "work": work, "output": os.path.abspath(output), "per_bucket": per_bucket,
        "window": longest - tokenizer.template.around_text,
        "needs": needs(c),
    }  # fmt: skip
    remove_unfinished(output)
    wanted, megabytes = ", ".join(task.name for task in chosen(c)), size / 1e6
    say(f"pairs of {wanted} from {megabytes:.1f} MB of pages; if interrupted, run the command again to resume")
    running = engine(job, c["workers"], c["memory_limit"])
    with lock:
        try:
            _run(running, inputs, tokenizer, bar)
        finally:
            running.close()
        if not c["keep_work"]:
            shutil.rmtree(work, ignore_errors=True)
    return read_manifest(output)


def _run(engine: Engine, inputs: Inputs, tokenizer: Tokenizer, bar: Progress) -> None:
    job, tasks = engine.job, chosen(engine.job["config"])
    stages: dict[str, Callable[[], Any]] = {"documents": lambda: parse_documents(engine)}
    if LINKS in job["needs"]:
        stages["links"] = lambda: engine.map("links", link_graph.extract_links, bucket_parts(job, "documents"))
        stages["link graph"] = lambda: link_graph.build(engine)
        stages["tokenised"] = lambda: _tokenise(engine)
        if {SENTENCES, ALL_WEIGHTS} & set(job["needs"]):
            stages["term weights"] = lambda: artefact.provide(engine, inputs)
    else:
        stages["pages"] = lambda: link_graph.index(engine)
    if any(task.requests for task in tasks):
        stages["requests"] = lambda: make_pair_requests(engine)
        stages["assembled"] = lambda: assemble(engine)
        stages["pairs"] = lambda: engine.map("pairs", make_pairs, bucket_parts(job, "assembled"))
    stages |= {task.name: partial(_make_records, engine, task) for task in tasks if task.records}
    stages["shards"] = lambda: _shards(engine)
    stages["predictors"] = lambda: _predict(engine, tokenizer.size)
    bar.total = 1 + len(stages)  # and the fingerprint
    timed = _Clock(os.path.join(job["work"], "seconds.json"))
    made = {name: timed(name, run) for name, run in stages.items()}
    write_manifest(engine, inputs, made.get("term weights"), tokenizer)
    timed.report()


def _tokenise(engine: Engine) -> None:
    if SENTENCES in engine.job["needs"]:
        engine.map("sentences", tokenised.tokenise_sentences, bucket_parts(engine.job, "ranked"))
    engine.map("passages", tokenised.tokenise_passages, bucket_parts(engine.job, "candidates"))
    path = os.path.join(engine.job["work"], artefact.FREQUENCY)
    if not os.path.exists(path):
        engine.join(
            "word_totals", "SELECT word, CAST(SUM(n) AS BIGINT) AS n FROM word_counts GROUP BY word", ["word_counts"]
        )
        totals = read(engine.job, "word_totals")
        columns = {name: totals.column(name).to_numpy() for name in ("word", "n")}
        artefact.save_frequency(path, columns, _count(engine, "passages"))


def make_pair_requests(engine: Engine) -> None:
    """Makes the requests of the tasks that have them, and their negatives."""
    job, c = engine.job, engine.job["config"]
    tasks = [task for task in chosen(c) if task.requests]
    job["candidates"] = _count(engine, "candidates")
    job["unlinked"] = engine.query("SELECT COUNT(*) FROM candidates WHERE in_links = 0", ["candidates"])[0][0]
    for reads in dict.fromkeys(task.reads for task in tasks):
        engine.map(f"requests of {reads}", make_requests, [(bucket, reads) for bucket in buckets(job, reads)])
    if SENTENCES in job["needs"]:
        engine.map("sharpness", diagnostics.measure_sharpness, bucket_parts(job, "sentences"))
    for task in tasks:
        if task.prepare:
            task.prepare(engine)
    if drawn := [task.negatives(c) for task in tasks if task.negatives]:
        sql = " UNION ALL ".join(f"SELECT task, key, destination FROM ({part})" for part in drawn)
        engine.join("negatives", sql, sorted({name for task in tasks for name in task.drawn_from}))


def assemble(engine: Engine) -> None:
    inputs = ["requests", "negatives", "mined", "passages", "passage_weights"]
    engine.join("assembled", ASSEMBLED_SQL, inputs, partitioned=True)


def _make_records(engine: Engine, task: Task) -> None:
    if task.prepare:
        task.prepare(engine)
    engine.map(f"{task.name} records", make_records, [(n, task.name) for n in buckets(engine.job, task.reads)])


def _shards(engine: Engine) -> None:
    job = engine.job
    sizes = engine.query("SELECT task, split, CAST(SUM(size) AS BIGINT) FROM records GROUP BY task, split", ["records"])
    if not sizes:
        raise InputError("the input produced no pairs and no text; check config.source and config.min_article_words")
    splits = plan(sizes)
    write(job, "splits", 0, "plan", 0, table("splits", splits))
    engine.join("sharded", SHARDED_SQL, ["records", "splits"], partitioned=True)
    parts = [
        (row["first"] + shard, (row["task"], row["split"], shard, row["shards"]))
        for row in splits
        for shard in range(row["shards"])
    ]
    engine.map("shards", write_shard, parts)


def _predict(engine: Engine, vocab_size: int) -> None:
    path = os.path.join(engine.job["work"], "predictors.npz")
    if not os.path.exists(path):
        sql = "SELECT task, side, token, CAST(SUM(n) AS BIGINT) FROM token_counts GROUP BY task, side, token"
        counts = engine.query(sql, ["token_counts"])
        diagnostics.save_tables(path, vocab_size, counts)
    engine.map("predictors", diagnostics.predict, bucket_parts(engine.job, "validation"))


def _count(engine: Engine, name: str) -> int:
    return engine.query(f"SELECT COUNT(*) FROM {name}", [name])[0][0]


class _Clock:
    """Seconds of each stage, summed over restarts."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.seconds: dict[str, float] = {}
        if os.path.exists(path):
            with open(path) as file:
                self.seconds = json.load(file)

    def __call__(self, name: str, run: Callable[[], Any]) -> Any:
        stage(name)
        start = time.monotonic()
        result = run()
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.monotonic() - start, 2)
        with replacing(self.path) as file:
            json.dump(self.seconds, file)
        return result

    def report(self) -> None:
        say("seconds: " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in self.seconds.items()))
