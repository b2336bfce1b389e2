"""The manifest: what a finished job wrote, from what, and what was dropped. The job is complete if it exists."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from data_pipeline.engine import dropped
from data_pipeline.engine.job import LINKS, Engine, Inputs
from data_pipeline.engine.store import read
from data_pipeline.links import graph_report
from data_pipeline.output.shards import write_tfds_metadata
from data_pipeline.output.worked import worked_example
from data_pipeline.tasks import diagnostics
from data_pipeline.tasks.records import SPECIALS
from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.input.manifest import MANIFEST, read_manifest
from harp_jax.input.records import TEXT_TASK, split_name

FORMAT = 1
FIELDS = ("config", "tasks", "splits", "link_graph", "losses")  # what `report` prints
Manifest = dict[str, Any]  # the content of manifest.json; its fields are those of `write_manifest`
STATISTICS_SQL = """
    SELECT task, CAST(COUNT(*) AS BIGINT), CAST(SUM(query_tokens) AS BIGINT), CAST(SUM(doc_tokens) AS BIGINT),
        CAST(SUM(sequences) AS BIGINT)
    FROM records GROUP BY task ORDER BY task
"""


def write_manifest(engine: Engine, inputs: Inputs, weights_sha256: str | None, vocab_size: int) -> None:
    """Writes TFDS's metadata, then manifest.json, the last file of the job."""
    job, c = engine.job, engine.job["config"]
    splits = _splits(engine)
    losses = dropped.summary(_dropped(engine))
    if unmatched := losses.get("exclusion-of-no-page"):
        shown = ", ".join(repr(line) for line, _ in unmatched["examples"])
        print(f"exclude_destinations: {unmatched['count']} line(s) name no page, for example {shown}", file=sys.stderr)
    manifest: Manifest = {
        "format": FORMAT,
        "software": _software(),
        "config": c,
        "config_sha256": _sha256(c),
        "seed": c["seed"],
        "vocab_size": vocab_size,
        "term_weights_sha256": weights_sha256,
        # From here, so that the path is found from any working directory, and after both were moved.
        "tokenizer": os.path.relpath(c["tokenizer"], job["output"]),
        **inputs,
        "tasks": _tasks(engine),
        "bits_from_uniform": _sharpness(engine),
        "splits": splits,
        "link_graph": graph_report.summary(engine, with_links=LINKS in job["needs"]),
        "losses": losses,
        "worked": worked_example(engine),
    }
    write_tfds_metadata(job["output"], splits, "Pre-training pairs from hyperlinks and anchor texts (HARP).")
    with replacing(os.path.join(job["output"], MANIFEST)) as file:
        json.dump(manifest, file, indent=1)
        file.write("\n")


def _software() -> str:
    try:
        return f"harp_jax {version('harp_jax')}"
    except PackageNotFoundError:
        return "harp_jax"


def _sha256(value: Any) -> str:
    import hashlib

    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _splits(engine: Engine) -> dict[str, Any]:
    found: dict[str, Any] = {}
    files = {row["file"]: row for row in read(engine.job, "shard_files").to_pylist()}
    for row in read(engine.job, "splits").to_pylist():
        name = split_name(row["task"], row["split"])
        mine = sorted(file for file in files if file.startswith(f"harp-{name}.tfrecord-"))
        shards = [files[file] for file in mine]
        if len(shards) != row["shards"]:
            raise RuntimeError(f"split {name} has {len(shards)} shards, planned were {row['shards']}")
        found[name] = {"records": sum(shard["records"] for shard in shards), "shards": shards}
    return found


def _tasks(engine: Engine) -> dict[str, Any]:
    """The columns of the paper's Table 1 over both sides of all pairs, and the trivial predictors' accuracies."""
    points: dict[str, dict[str, tuple[int, int]]] = {}
    sql = "SELECT task, predictor, CAST(SUM(points) AS BIGINT), CAST(SUM(n) AS BIGINT) FROM predictions GROUP BY task, predictor"
    for task, predictor, won, n in engine.query(sql, ["predictions"]):
        points.setdefault(task, {})[predictor] = (won, n)
    found: dict[str, Any] = {}
    for task, records, queries, docs, sequences in engine.query(STATISTICS_SQL, ["records"]):
        entry = {"pairs": records, "tokens": queries + docs}
        if task == TEXT_TASK:
            # [CLS] text [SEP]
            found[task] = entry | {"mean_sequence_tokens": docs / sequences + SPECIALS - 1}
            continue
        scored = points.get(task, {})
        found[task] = entry | {
            "mean_query_tokens": queries / sequences,
            "mean_doc_tokens": docs / sequences,
            "mean_sequence_tokens": (queries + docs) / sequences + SPECIALS,
            "predictors": {
                name: scored[name][0] / (2 * scored[name][1]) for name in diagnostics.NAMES if name in scored
            },
            "predictor_pairs": max((n for _, n in scored.values()), default=0),
        }
    return found


def _sharpness(engine: Engine) -> dict[str, float]:
    """Divergence of the sampling of words from a uniform draw, for sentences and pages."""
    sql = "SELECT source, CAST(SUM(units) AS BIGINT), CAST(SUM(n) AS BIGINT) FROM sharpness GROUP BY source ORDER BY source"
    return {source: round(units / diagnostics.UNIT / n, 6) for source, units, n in engine.query(sql, ["sharpness"])}


def _dropped(engine: Engine) -> list[tuple[str, int, str, str]]:
    rows = engine.query("SELECT reason, n, location, example FROM losses", ["losses"])
    return rows + graph_report.dropped(engine, with_links=LINKS in engine.job["needs"])


@contextlib.contextmanager
def well_formed(directory: str) -> Iterator[None]:
    """Raises InputError where a field of the manifest is absent or of another type: `write_manifest` writes every field."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"{directory}: {MANIFEST} is damaged ({error!r}); copy it again, or generate the data again"
        ) from error


def load_manifest(directory: str) -> Manifest:
    """The manifest of a finished job; InputError if there is none or it cannot be read."""
    manifest = read_manifest(directory)
    path = os.path.join(directory, MANIFEST)
    if manifest.get("format") != FORMAT:
        raise InputError(f"{path} has another format than {FORMAT}; generate the data with this version")
    missing = [name for name in FIELDS if not isinstance(manifest.get(name), dict)]
    if missing:
        raise InputError(f"{path} lacks {', '.join(missing)}; generate the data again")
    return manifest
