"""Pairs as Parquet files of texts, in the column conventions of sentence-transformers.

One folder per task, with files SPLIT-00000-of-00003.parquet that `datasets.load_dataset("parquet", data_files=…)` reads,
and a README.md through which `load_dataset(FOLDER, TASK)` finds them. The columns, in this order:

    query, positive, negative: the two documents of a preference; or document, positive, negative: the two queries of a preference
    between queries (RQP), with the document as the anchor

Texts of pairs are decoded from token ids, so an uncased vocabulary has lower-cased them; a tokenizer with this vocabulary
returns the same ids. Works in batches of BATCH records: memory does not grow with the data. The folder appears complete or not
at all, and replaces only a folder that this command wrote (`files.output_folder`).
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence

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
    split_name,
)
from harp_jax.input.tfrecords import find_shards, tensorflow
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
    held = [name.rpartition("_")[::2] for name, split in manifest["splits"].items() if split.get("records")]
    ids = job_tokenizer(pairs, manifest, tokenizer)
    counts = {}
    with output_folder(output) as folder:
        for task, split in held:
            shards = find_shards(pairs, task, split)
            counts[split_name(task, split)] = sum(
                _write(f"{folder}/{task}/{split}-{n:05d}-of-{len(shards):05d}.parquet", _pairs(shard, task, ids))
                for n, shard in enumerate(shards)
            )
        _write_card(folder, held)
    return counts


def _pairs(shard: Shard, task: str, tokenizer: Tokenizer) -> Iterator[Columns]:
    """The columns of a shard's records, BATCH records at a time. InputError for a shard that was changed or damaged."""
    shard.check_content()
    tf = tensorflow()
    features = {name: tf.io.RaggedFeature(tf.int64) for name in (TEXT_FEATURES if task == TEXT_TASK else PAIR_FEATURES)}
    for batch in tf.data.TFRecordDataset(shard.path).batch(BATCH):
        found = tf.io.parse_example(batch, features)
        texts = [[tokenizer.decode(ids) if ids else "" for ids in found[name].to_list()] for name in features]
        if task == TEXT_TASK:
            yield {"text": texts[0]}
            continue
        queries, documents, other_queries, other_documents = texts
        if not any(other_queries):
            yield {"query": queries, "positive": documents, "negative": other_documents}
        elif not any(other_documents):
            yield {"document": documents, "positive": queries, "negative": other_queries}
        else:
            raise InputError(
                f"{shard.path}: the two sides of its pairs share neither query nor document, so they form no triplets"
            )


def _write(path: str, batches: Iterable[Columns]) -> int:
    """Writes batches of the same columns, each as a row group; returns the rows."""
    with needs("writing Parquet", "pyarrow", "data"):
        import pyarrow
        import pyarrow.parquet
    os.makedirs(os.path.dirname(path), exist_ok=True)
    writer, rows = None, 0
    with contextlib.ExitStack() as opened:
        for columns in batches:
            batch = pyarrow.RecordBatch.from_pydict(columns)
            if writer is None:
                writer = opened.enter_context(pyarrow.parquet.ParquetWriter(path, batch.schema, compression="zstd"))
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def _write_card(folder: str, splits: Sequence[tuple[str, str]]) -> None:
    """Writes README.md, which lists the files of each data set for `load_dataset(FOLDER, TASK)`."""
    lines = ["---", "configs:"]
    for task in dict.fromkeys(task for task, _ in splits):
        lines += [f"- config_name: {task}", "  data_files:"]
        for split in (split for name, split in splits if name == task):
            lines += [f"  - split: {split}", f"    path: {task}/{split}-*.parquet"]
    lines += ["---", "", "Written by harp_jax. Columns are in the order that sentence-transformers expects."]
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
