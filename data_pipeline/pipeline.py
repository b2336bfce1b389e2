"""The generation job, from top to bottom; every stage is a map over Parquet parts or a join in SQL.

documents → links → link graph → sentences, passages → term weights → requests → assembled → records → shards → manifest
"""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from ml_collections import ConfigDict

from data_pipeline.config import validated_dict, weighed
from data_pipeline.engine import tables
from data_pipeline.engine.job import LINKS, SENTENCES, Config, Engine, EngineFactory, Inputs, Job
from data_pipeline.engine.local import LocalEngine, fitting
from data_pipeline.engine.store import bucket_parts, buckets, read, write
from data_pipeline.links import link_graph
from data_pipeline.links.web_sites import parse_documents
from data_pipeline.output.claim import WORK, claimed, fingerprint, once_for_config
from data_pipeline.output.manifest import SHARDED_SQL, plan, write_manifest, write_shard
from data_pipeline.sources.document import CHUNK_BYTES
from data_pipeline.tasks import diagnostics
from data_pipeline.tasks.maps import make_pairs, make_records, make_requests
from data_pipeline.tasks.table import chosen, needs
from data_pipeline.weights import term_weights, tokenised
from data_pipeline.weights.word_counts import FREQUENCY, WordCounts
from harp_jax.base.errors import InputError
from harp_jax.base.files import full_disk_refused
from harp_jax.base.made import Speed
from harp_jax.base.progress import STAGES, Progress, progress, say, stage
from harp_jax.input.records import Manifest, read_manifest
from harp_jax.input.tfrecords import require_tensorflow
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

BUCKETS = 512  # maximum, estimated from the size on disk; compressed files make a few times more
SECONDS = "seconds.tsv"  # in the work directory: stage<TAB>seconds

ASSEMBLED_SQL = """
    SELECT r.task, r.key, r.page, r.query, r.anchor, r.context, r.length, r.bucket,
        p.tokens AS positive, p.in_links AS positive_in_links,
        n.tokens AS negative, n.in_links AS negative_in_links, p.signature AS copied, n.signature AS copy,
        m.more AS more, m.more_lengths AS more_lengths,
        w.words AS words, w.tokens AS tokens, w.sentences AS sentences, a.weights AS weights
    FROM requests r
    LEFT JOIN negatives d ON r.task = d.task AND r.key = d.key
    LEFT JOIN mined m ON r.task = m.task AND r.key = m.key
    LEFT JOIN passages p ON r.positive = p.doc
    LEFT JOIN passages n ON COALESCE(r.negative, d.destination, m.destination) = n.doc
    LEFT JOIN passages w ON r.words_of = w.doc
    LEFT JOIN passage_weights a ON r.words_of = a.doc
"""
# The first of the draws that are allowed.
FIRST_SQL = """
    SELECT task, key, destination FROM (
        SELECT task, key, destination, row_number() OVER (PARTITION BY task, key ORDER BY draw) AS position FROM ({})
    ) WHERE position = 1
"""


@once_for_config
def generate(
    config: ConfigDict, output: str | os.PathLike[str], engine: Speed[EngineFactory] = LocalEngine
) -> Manifest:
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
    directory, c = os.path.abspath(output), validated_dict(config)
    with progress(unit=STAGES) as bar, full_disk_refused(os.fspath(output)):
        memory = fitting(c["memory_limit"])
        tokenizer = load_tokenizer(c["tokenizer"])
        stage("fingerprint")
        inputs = fingerprint(c, tokenizer.sha256)
        with claimed(os.fspath(output), c, inputs) as finished:
            if not finished:
                wanted = ", ".join(task.name for task in chosen(c))
                megabytes = sum(file["size"] for file in inputs["source"]) / 1e6
                resume = "if interrupted, run the command again to resume"
                say(f"pairs of {wanted} from {megabytes:.1f} MB of pages; {resume}")
                with closing(engine(job_of(c, inputs, directory, tokenizer), c["workers"], memory)) as running:
                    run(running, inputs, tokenizer, bar)
    return read_manifest(directory)


def job_of(c: Config, inputs: Inputs, directory: str, tokenizer: Tokenizer) -> Job:
    """The job of a config: where its tables are, how many buckets they have, how many tokens the encoder reads."""
    longest = tokenised.longest(c, tokenizer)
    longest = min(longest, inputs["encoder_content"].get("positions", longest))
    return Job(
        config=c,
        work=os.path.join(directory, WORK),
        output=directory,
        weights=os.path.join(directory, term_weights.FOLDER),
        per_bucket=max(1, sum(file["size"] for file in inputs["source"]) // (CHUNK_BYTES * BUCKETS)),
        window=longest - tokenizer.template.around_text,
        needs=tuple(needs(c)),
    )


def run(engine: Engine, inputs: Inputs, tokenizer: Tokenizer, bar: Progress) -> None:
    """All stages in order, up to manifest.json."""
    job, tasks = engine.job, chosen(engine.job.config)
    linked, weights = LINKS in job.needs, weighed(job.config)
    from_requests, from_pages = [task for task in tasks if task.attempts], [task for task in tasks if task.records]
    bar.total = 4 + (3 if linked else 1) + weights + 3 * bool(from_requests) + len(from_pages)  # with the fingerprint
    clock, weights_sha256 = partial(clocked, job), None

    # Pages as text with links, then links with the pages that they lead to.
    with clock("documents"):
        parse_documents(engine)
    if linked:
        with clock("links"):
            engine.map("links", link_graph.extract_links, bucket_parts(job, tables.DOCUMENTS))
        with clock("link graph"):
            link_graph.build(engine)
        # Words and tokens of sentences and passages, and a weight for each word.
        with clock("tokenised"):
            tokenise(engine)
    else:
        with clock("pages"):
            link_graph.index(engine)
    if weights:
        with clock("term weights"):
            weights_sha256 = term_weights.provide(engine, inputs)

    # Tasks that need other pages: what they need, a join that reads it, the pairs. Then the tasks that need no other page.
    if from_requests:
        with clock("requests"):
            make_pair_requests(engine)
        with clock("assembled"):
            engine.join(tables.ASSEMBLED, ASSEMBLED_SQL)  # requests with the passages that they need
        with clock("pairs"):
            engine.map("pairs", make_pairs, bucket_parts(job, tables.ASSEMBLED))
    for task in from_pages:
        with clock(task.name):
            if task.prepare:
                task.prepare(engine)
            engine.map(f"{task.name} records", make_records, [(n, task.name) for n in buckets(job, task.reads)])

    with clock("shards"):
        write_shards(engine)
    with clock("predictors"):
        predict(engine, tokenizer.size)
    write_manifest(engine, inputs, weights_sha256, tokenizer)


def tokenise(engine: Engine) -> None:
    """From `ranked` and `candidates` to `sentences` and `passages`; the document frequencies of words, as a file."""
    job = engine.job
    if SENTENCES in job.needs:
        engine.map("sentences", tokenised.tokenise_sentences, bucket_parts(job, tables.RANKED))
    engine.map("passages", tokenised.tokenise_passages, bucket_parts(job, tables.CANDIDATES))
    path = os.path.join(job.work, FREQUENCY)
    if not os.path.exists(path):
        sql = "SELECT word, CAST(SUM(n) AS BIGINT) AS n FROM word_counts GROUP BY word"
        engine.join(tables.WORD_TOTALS, sql)
        passages = engine.query("SELECT COUNT(*) FROM passages")[0][0]
        WordCounts.save(path, read(job, tables.WORD_TOTALS), passages)


def make_pair_requests(engine: Engine) -> None:
    """From `sentences`, `ranked` and `passages` to `requests` and `negatives`: which pages the pairs need."""
    job, c = engine.job, engine.job.config
    tasks = [task for task in chosen(c) if task.attempts]
    candidates, unlinked = engine.query("SELECT COUNT(*), COUNT(CASE WHEN in_links = 0 THEN 1 END) FROM candidates")[0]
    for reads in dict.fromkeys(task.reads for task in tasks):
        parts = [(bucket, (reads, candidates, unlinked)) for bucket in buckets(job, reads)]
        engine.map(f"requests of {reads.name}", make_requests, parts)
    for task in tasks:
        if task.prepare:
            task.prepare(engine)
    if allowed := [
        f"SELECT task, key, draw, destination FROM ({task.negatives(c)})" for task in tasks if task.negatives
    ]:
        engine.join(tables.NEGATIVES, FIRST_SQL.format(" UNION ALL ".join(allowed)))


def write_shards(engine: Engine) -> None:
    """From `records` to the shards, listed in `shard_files`."""
    sizes = engine.query("SELECT task, split, CAST(SUM(size) AS BIGINT) FROM records GROUP BY task, split")
    if not sizes:
        raise InputError("the input produced no pairs and no text; check config.source and config.min_article_words")
    splits = plan(sizes)
    write(engine.job, tables.SPLITS, 0, "plan", 0, splits)
    engine.join(tables.SHARDED, SHARDED_SQL)
    shards = [(row, number) for row in splits for number in range(row["shards"])]
    parts = [(row["first"] + number, (row["task"], row["split"], number, row["shards"])) for row, number in shards]
    engine.map("shards", write_shard, parts)


def predict(engine: Engine, vocab_size: int) -> None:
    """From `validation` and `token_counts` to `predictions`: the accuracies of trivial predictors."""
    path = os.path.join(engine.job.work, "predictors.npz")
    if not os.path.exists(path):
        sql = "SELECT task, side, token, CAST(SUM(n) AS BIGINT) FROM token_counts GROUP BY task, side, token"
        diagnostics.save_tables(path, vocab_size, engine.query(sql))
    engine.map("predictors", diagnostics.predict, bucket_parts(engine.job, tables.VALIDATION))


@contextmanager
def clocked(job: Job, name: str) -> Iterator[None]:
    """Announces a stage and adds its seconds to seconds.tsv of the work directory, which a resumed job continues."""
    stage(name)
    start = time.monotonic()
    yield
    with open(os.path.join(job.work, SECONDS), "a", encoding="utf-8") as file:
        file.write(f"{name}\t{time.monotonic() - start:.2f}\n")
