"""Pairs as Parquet files of texts, in the column conventions of sentence-transformers.

One folder per task, with files SPLIT-00000-of-00003.parquet that `datasets.load_dataset("parquet", data_files=…)` reads,
and a README.md through which `load_dataset(FOLDER, TASK)` finds them. The columns, in this order:

    query, positive, negative: the two documents of a preference; or document, positive, negative: the two queries of a preference
    between queries (RQP), with the document as the anchor

Texts of pairs are decoded from token ids, so an uncased vocabulary has lower-cased them; a tokenizer with this vocabulary
returns the same ids. Works in batches of BATCH records: memory does not grow with the data. The folder appears complete or not
at all, and replaces only a folder that this command wrote (`files.output_folder`).
"""

import os
from collections.abc import Iterable, Iterator

from harp_jax.base.errors import InputError, needs
from harp_jax.base.files import output_folder
from harp_jax.base.made import InputPath, once
from harp_jax.input.records import (
    PAIR_FEATURES,
    TEXT_FEATURES,
    TEXT_TASK,
    Shard,
    job_tokenizer,
    read_manifest,
    shards_of,
)
from harp_jax.input.tfrecords import tensorflow
from harp_jax.text.tokenizer import Tokenizer

BATCH = 1024  # records in memory, and per row group
Columns = dict[str, list[str]]


@once
def write_parquet(pairs: InputPath, output: str, tokenizer: InputPath = "") -> dict[str, int]:
    """Writes the pairs of a finished generation job as Parquet; returns the rows of each split ("qdm_train").

    `tokenizer`: the job's tokenizer, if it is no longer at its path. Raises InputError for a directory that is unfinished or
    damaged, another tokenizer, and pairs that form no triplets.
    """
    manifest = read_manifest(pairs)
    ids = job_tokenizer(pairs, manifest, tokenizer)
    counts: dict[str, int] = {}
    card: dict[
        str, list[str]
    ] = {}  # task → lines of README.md, through which load_dataset(FOLDER, TASK) finds the files
    with output_folder(output) as folder:
        for name, entry in manifest["splits"].items():
            (task, _, split), shards = name.rpartition("_"), shards_of(pairs, entry)
            if not entry["records"]:
                continue
            os.makedirs(f"{folder}/{task}", exist_ok=True)
            for number, shard in enumerate(shards):
                path = f"{folder}/{task}/{split}-{number:05d}-of-{len(shards):05d}.parquet"
                counts[name] = counts.get(name, 0) + _write(path, _columns(shard, task, ids))
            lines = card.setdefault(task, [f"- config_name: {task}", "  data_files:"])
            lines += [f"  - split: {split}", f"    path: {task}/{split}-*.parquet"]
        text = ["---", "configs:", *(line for lines in card.values() for line in lines), "---", ""]
        text.append("Written by harp_jax. Columns are in the order that sentence-transformers expects.\n")
        with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
            file.write("\n".join(text))
    return counts


def _columns(shard: Shard, task: str, tokenizer: Tokenizer) -> Iterator[Columns]:
    """The columns of a shard's records, BATCH records at a time. InputError for a shard that was changed or damaged."""
    shard.check_content()
    tf = tensorflow()
    features = {name: tf.io.RaggedFeature(tf.int64) for name in (TEXT_FEATURES if task == TEXT_TASK else PAIR_FEATURES)}
    for batch in tf.data.TFRecordDataset(shard.path).batch(BATCH):
        ids = tf.io.parse_example(batch, features)
        texts = [[tokenizer.decode(each) if each else "" for each in ids[name].to_list()] for name in features]
        if task == TEXT_TASK:
            yield {"text": texts[0]}
            continue
        queries, documents, other_queries, other_documents = texts
        if not any(other_queries):
            yield {"query": queries, "positive": documents, "negative": other_documents}
        elif not any(other_documents):
            yield {"document": documents, "positive": queries, "negative": other_queries}
        else:
            problem = "the two sides of its pairs share neither query nor document, so they form no triplets"
            raise InputError(f"{shard.path}: {problem}")


def _write(path: str, batches: Iterable[Columns]) -> int:
    """Writes batches of the same columns, each as a row group; returns the rows. No file without batches."""
    with needs("writing Parquet", "pyarrow", "data"):
        import pyarrow
        import pyarrow.parquet
    writer, rows = None, 0
    try:
        for columns in batches:
            batch = pyarrow.RecordBatch.from_pydict(columns)
            writer = writer or pyarrow.parquet.ParquetWriter(path, batch.schema, compression="zstd")
            writer.write_batch(batch)
            rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return rows
