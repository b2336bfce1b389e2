"""Pairs as Parquet files of texts, in the column conventions of sentence-transformers.

One folder per task, with files SPLIT-00000-of-00003.parquet, and a README.md through which `datasets.load_dataset(FOLDER, TASK)`
finds them. The columns, in this order:

    query, positive, negative: the two documents of a preference; or document, positive, negative: the two queries of a preference
    between queries (RQP), with the document as the anchor

Texts are decoded from token ids, so an uncased vocabulary has lower-cased them; a tokenizer with this vocabulary returns the same
ids. Memory does not grow with the data.
"""

import os
from collections.abc import Iterator

import pyarrow
import pyarrow.parquet

from harp_jax.base.errors import InputError
from harp_jax.base.files import output_folder
from harp_jax.base.made import InputPath, once
from harp_jax.input import records
from harp_jax.input.records import PAIR_FEATURES, TEXT_FEATURES, TEXT_TASK, Shard
from harp_jax.input.tfrecords import tensorflow
from harp_jax.text.tokenizer import Tokenizer

BATCH = 1024  # records in memory, and per row group


@once
def write_parquet(pairs: InputPath, output: str, tokenizer: InputPath = "") -> dict[str, int]:
    """Writes the pairs of a finished generation job as Parquet; returns the rows of each split ("qdm_train"). `tokenizer`: the
    job's tokenizer, if it is no longer at its path. Raises InputError for a directory that is unfinished or damaged, another
    tokenizer, and pairs that form no triplets."""
    manifest = records.read_manifest(pairs)
    ids = records.job_tokenizer(pairs, manifest, tokenizer)
    splits = {name: entry for name, entry in manifest["splits"].items() if entry["records"]}
    card: dict[str, list[str]] = {}  # task → lines of README.md
    with output_folder(output) as folder:
        for name, entry in splits.items():
            (task, _, split), shards = name.rpartition("_"), records.shards_of(pairs, entry)
            os.makedirs(f"{folder}/{task}", exist_ok=True)
            for number, shard in enumerate(shards):
                batches = _batches(shard, task, ids)
                if first := next(batches, None):
                    path = f"{folder}/{task}/{split}-{number:05d}-of-{len(shards):05d}.parquet"
                    with pyarrow.parquet.ParquetWriter(path, first.schema, compression="zstd") as writer:
                        for batch in (first, *batches):
                            writer.write_batch(batch)
            lines = card.setdefault(task, [f"- config_name: {task}", "  data_files:"])
            lines += [f"  - split: {split}", f"    path: {task}/{split}-*.parquet"]
        text = ["---", "configs:", *(line for lines in card.values() for line in lines), "---", ""]
        text.append("Written by harp_jax. Columns are in the order that sentence-transformers expects.\n")
        with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
            file.write("\n".join(text))
    return {name: entry["records"] for name, entry in splits.items()}


def _batches(shard: Shard, task: str, tokenizer: Tokenizer) -> Iterator[pyarrow.RecordBatch]:
    shard.check_content()
    tf = tensorflow()
    features = {name: tf.io.RaggedFeature(tf.int64) for name in (TEXT_FEATURES if task == TEXT_TASK else PAIR_FEATURES)}
    for batch in tf.data.TFRecordDataset(shard.path).batch(BATCH):
        ids = tf.io.parse_example(batch, features)
        texts = [[tokenizer.decode(each) if each else "" for each in ids[name].to_list()] for name in features]
        if task == TEXT_TASK:
            columns = {"text": texts[0]}
        else:
            queries, documents, other_queries, other_documents = texts
            if any(other_queries) and any(other_documents):
                problem = "the two sides of its pairs share neither query nor document, so they form no triplets"
                raise InputError(f"{shard.path}: {problem}")
            columns = {"query": queries, "positive": documents, "negative": other_documents}
            if any(other_queries):
                columns = {"document": documents, "positive": queries, "negative": other_queries}
        yield pyarrow.RecordBatch.from_pydict(columns)
