"""Pairs and ranking groups as Parquet files of texts, in the column conventions of sentence-transformers.

A folder a task (or `groups`), with files SPLIT-00000-of-00003.parquet that `datasets.load_dataset("parquet", data_files=…)` reads,
and a README.md through which `load_dataset(FOLDER, TASK)` finds them. Layouts, by the order of their columns:

    triplet   query, positive, negative: the two documents of a preference; or document, positive, negative: the two queries of a
              preference between queries (RQP), with the document as the anchor
    labelled  query, document, label: two rows a preference, the positive (1) before the negative (0)
    group     query, positive, negative_1, …, negative_n: a judged document and candidates that are not relevant

Texts of pairs are decoded from token ids, so an uncased vocabulary has lower-cased them; a tokenizer with this vocabulary
returns the same ids. Works in batches of BATCH records: memory does not grow with the data.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from harp_jax.base.errors import InputError, needs
from harp_jax.input.manifest import Shard, read_manifest
from harp_jax.input.ranking_groups import RankingData
from harp_jax.input.records import PAIR_FEATURES, SPLITS, TEXT_FEATURES, TEXT_TASK, split_name
from harp_jax.input.tfrecords import find_shards, tensorflow
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

LAYOUTS = ("triplet", "labelled")
BATCH = 1024  # records in memory, and rows of a row group
ROWS = 50_000  # of a file of groups
Row = dict[str, str | int]


def pairs_to_parquet(
    directory: str, output: str, tasks: Sequence[str] = (), layout: str = "triplet", tokenizer: str = ""
) -> dict[str, int]:
    """Writes the pairs of a finished generation job, all tasks or some; returns the rows of each split ("qdm_train").

    `tokenizer`: where the one of the job is no longer at its path. The folder appears complete or not at all. Raises InputError
    for a directory that is unfinished or damaged, an unknown task or layout, another tokenizer, and an output that exists.
    """
    if layout not in LAYOUTS:
        raise InputError(f"--layout={layout} is unknown; choose from {', '.join(LAYOUTS)}")
    manifest = read_manifest(directory)
    present = [split for split in manifest["splits"] if manifest["splits"][split].get("records")]
    wanted = {split_name(task, split): (task, split) for task in tasks or _tasks(present) for split in SPLITS}
    chosen = {name: at for name, at in wanted.items() if name in present}
    absent = [task for task in tasks if not {split_name(task, split) for split in SPLITS} & chosen.keys()]
    if absent or not chosen:
        raise InputError(
            f"{directory} has no records of {', '.join(absent) or 'any task'}, only of {', '.join(_tasks(present)) or 'none'}; "
            "change --tasks"
        )
    ids = job_tokenizer(directory, manifest, tokenizer)
    with _folder(output) as folder:
        counts = {}
        for name, (task, split) in chosen.items():
            shards = find_shards(directory, task, split)
            counts[name] = sum(
                _write(_path(folder, task, split, number, len(shards)), _pair_rows(shard, task, ids, layout))
                for number, shard in enumerate(shards)
            )
        _write_card(folder, list(chosen.values()), layout)
    return counts


def groups_to_parquet(data: RankingData, output: str) -> tuple[int, int]:
    """Writes the groups of judged queries, with the negatives of the first epoch; returns (rows, groups left out).

    A query with fewer than `data.negatives` candidates that are not relevant is left out: all rows have the same columns. The
    folder appears complete or not at all. InputError if nothing is left, or the output exists.
    """
    full = [i for i in range(len(data)) if len(data.chosen(0, i)[2]) == data.negatives]
    if not full:
        raise InputError(f"no query has {data.negatives} candidates that are not relevant; lower --negatives")
    files = [full[start : start + ROWS] for start in range(0, len(full), ROWS)]
    with _folder(output) as folder:
        for number, units in enumerate(files):
            rows = (_group_row(data, index) for index in units)
            _write(_path(folder, "groups", "train", number, len(files)), rows)
        _write_card(folder, [("groups", "train")], "group")
    return len(full), len(data) - len(full)


def job_tokenizer(directory: str, manifest: dict[str, Any], given: str = "") -> Tokenizer:
    """The tokenizer of a generation job: `given`, or where the manifest says. InputError unless its vocabulary is the job's."""
    recorded = manifest.get("config", {}).get("tokenizer", "")
    relative = manifest.get("tokenizer", recorded)
    for path in [given] if given else [os.path.join(directory, relative), recorded] if recorded else []:
        if not os.path.exists(path) and not given:
            continue
        tokenizer = load_tokenizer(path)
        if tokenizer.sha256 == manifest["tokenizer_sha256"]:
            return tokenizer
        if given:
            raise InputError(f"--tokenizer={given} is not the one that {directory} was made with; use that one")
    raise InputError(f"the tokenizer of {directory} is not found; name it with --tokenizer")


def _tasks(splits: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(split.rpartition("_")[0] for split in splits))


def _pair_rows(shard: Shard, task: str, tokenizer: Tokenizer, layout: str) -> Iterator[Row]:
    names = TEXT_FEATURES if task == TEXT_TASK else PAIR_FEATURES
    for ids in _records(shard, names):
        texts = [tokenizer.decode(one) if len(one) else "" for one in ids]
        if task == TEXT_TASK:
            yield {"text": texts[0]}
            continue
        query, document, other_query, other_document = texts
        if layout == "labelled":
            yield {"query": query, "document": document, "label": 1}
            yield {"query": other_query or query, "document": other_document or document, "label": 0}
        elif not other_query:
            yield {"query": query, "positive": document, "negative": other_document}
        elif not other_document:
            yield {"document": document, "positive": query, "negative": other_query}
        else:
            raise InputError(
                f"{shard.path}: the sides of a pair share no text, which no triplet holds; use --layout=labelled"
            )


def _records(shard: Shard, names: Sequence[str]) -> Iterator[list[Any]]:
    """The features of every record of a shard, [tokens] int64 each. InputError for a shard that is not what was written."""
    shard.check_content()
    tf = tensorflow()
    features = {name: tf.io.RaggedFeature(tf.int64) for name in names}
    for batch in tf.data.TFRecordDataset(shard.path).batch(BATCH):
        parsed = tf.io.parse_example(batch, features)
        columns = [parsed[name].to_list() for name in names]
        yield from map(list, zip(*columns))


def _group_row(data: RankingData, index: int) -> Row:
    qid, positive, negatives = data.chosen(0, index)
    row: Row = {"query": data.queries[qid], "positive": data.docs[positive]}
    return row | {f"negative_{n}": data.docs[docid] for n, docid in enumerate(negatives, 1)}


def _path(folder: str, task: str, split: str, number: int, count: int) -> str:
    os.makedirs(os.path.join(folder, task), exist_ok=True)
    return os.path.join(folder, task, f"{split}-{number:05d}-of-{count:05d}.parquet")


def _write(path: str, rows: Iterator[Row]) -> int:
    """Writes rows of equal columns, BATCH at a time; returns how many. InputError where the columns change."""
    with needs("writing Parquet", "pyarrow", "data"):
        import pyarrow
        import pyarrow.parquet as parquet
    writer: parquet.ParquetWriter | None = None
    count = 0
    try:
        for some in _batches(rows):
            if writer is None:
                kinds = [(name, pyarrow.int32() if name == "label" else pyarrow.string()) for name in some[0]]
                schema: pyarrow.Schema = pyarrow.schema(kinds)
                writer = parquet.ParquetWriter(path, schema, compression="zstd")
            if any(list(row) != schema.names for row in some):
                raise InputError(
                    f"{os.path.basename(path)}: its pairs differ in what their sides share, so they have no common columns; "
                    "use --layout=labelled"
                )
            writer.write_table(pyarrow.Table.from_pylist(some, schema))
            count += len(some)
    finally:
        if writer is not None:
            writer.close()
    return count


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    some: list[Row] = []
    for row in rows:
        some.append(row)
        if len(some) == BATCH:
            yield some
            some = []
    if some:
        yield some


@contextlib.contextmanager
def _folder(output: str) -> Iterator[str]:
    """A new folder that appears under its name if the block ends without an exception. InputError if the name is taken."""
    if os.path.lexists(output) and not (os.path.isdir(output) and not os.listdir(output)):
        raise InputError(f"{output} exists; choose another --output, or remove it")
    temporary = f"{os.path.normpath(output)}.tmp.{os.getpid()}"
    try:
        os.makedirs(temporary)
    except OSError as error:
        raise InputError(f"cannot write {output}: {error.strerror}; choose another place") from error
    try:
        yield temporary
        os.replace(temporary, output)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_card(folder: str, splits: list[tuple[str, str]], layout: str) -> None:
    """README.md: which files make which data set, for `load_dataset(FOLDER, TASK)`."""
    lines = ["---", "configs:"]
    for task in dict.fromkeys(task for task, _ in splits):
        lines += [f"- config_name: {task}", "  data_files:"]
        for split in (split for name, split in splits if name == task):
            lines += [f"  - split: {split}", f"    path: {task}/{split}-*.parquet"]
    lines += [
        "---",
        "",
        f"Written by harp_jax in the layout `{layout}`, the columns in the order of sentence-transformers.",
        "",
    ]
    with open(os.path.join(folder, "README.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
