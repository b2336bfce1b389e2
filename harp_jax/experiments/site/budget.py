"""Are there enough links to learn from and to test with, and how many steps of training fit into the time?"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.input.manifest import read_manifest
from harp_jax.input.records import split_name

MIN_QUERIES = 50  # the 95 % interval of RR@10 is then about ±.1
MIN_LINKS = 500  # training pairs of one epoch; fewer were never tried
MIN_STEPS = 20
MIN_PAIRS = 100  # training pairs of a task; tasks with fewer are left out
MAX_EPOCHS = 10  # over the pairs: more repeats them without dropout


def check_survey(survey: Mapping[str, Any]) -> None:
    """Raises InputError, with what was found and what would be needed, for a survey of too few links."""
    links, queries = survey["links_kept"], survey["queries"]
    said = f"{survey['documents']:,} documents with {links:,} usable links, {queries:,} test queries"
    reasons = sorted(survey["losses"].items(), key=lambda item: -item[1]["count"])[:3]
    lost = ", ".join(f"{reason} {entry['count']:,}" for reason, entry in reasons)
    hint = f" Dropped most: {lost}." if lost else ""
    if links < MIN_LINKS:
        raise InputError(
            f"too few links to learn from: {said}; at least {MIN_LINKS} links are needed.{hint} Use BM25, or add pages "
            "that link to these"
        )
    if queries < MIN_QUERIES:
        estimate = 100 * math.ceil(links * MIN_QUERIES / max(1, queries) / 100)
        enough = f", which takes about {estimate:,} links like these" if queries else ""
        raise InputError(
            f"too few links to test with: {said}; {MIN_QUERIES} queries are needed{enough}.{hint} Use BM25, or add "
            "pages that link to these"
        )


def usable_tasks(pairs: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """Those of the tasks that have MIN_PAIRS training pairs, and held-out ones, in the directory `pairs`.

    Raises InputError if there are none.
    """
    found = tuple(
        task for task in tasks if records(pairs, task, "train") >= MIN_PAIRS and records(pairs, task, "validation")
    )
    if not found:
        counts = ", ".join(f"{task} {records(pairs, task, 'train'):,}" for task in tasks)
        raise InputError(
            f"too few training pairs: {counts}; one task needs {MIN_PAIRS}. Use BM25, or add pages with links"
        )
    return found


def records(pairs: str, task: str, split: str) -> int:
    """Records of a split of a task in a finished generation job; 0 where there is none."""
    return int(read_manifest(pairs).get("splits", {}).get(split_name(task, split), {}).get("records", 0))


def steps_within(minutes: float, seconds_per_step: float, pairs: str, tasks: Sequence[str], batch_pairs: int) -> int:
    """Steps that take `minutes`, at most MAX_EPOCHS over the training pairs in the directory `pairs`.

    Raises InputError for a time that is too short for MIN_STEPS.
    """
    if not math.isfinite(minutes) or minutes <= 0:
        raise InputError(f"--minutes={minutes:g}: use a positive number")
    there = sum(records(pairs, task, "train") for task in tasks)
    steps = min(int(60 * minutes / seconds_per_step), math.ceil(MAX_EPOCHS * there / batch_pairs))
    if steps < MIN_STEPS:
        raise InputError(
            f"--minutes={minutes:g}: a step takes {seconds_per_step:.2f} s and there are {there:,} training pairs, which "
            f"makes {steps} steps; at least {MIN_STEPS} are needed"
        )
    return steps


def verdicts(manifest: Mapping[str, Any]) -> list[str]:
    """A sentence on each trivial predictor of each task of a generation job, by its accuracy on held-out pairs."""
    found = []
    for task, entry in manifest["tasks"].items():
        n = entry.get("predictor_pairs", 0)
        for name, accuracy in entry.get("predictors", {}).items():
            best, margin = max(accuracy, 1 - accuracy), 1 / math.sqrt(max(1, n))  # two standard errors
            if best <= 0.5 + margin:
                said = "no shortcut"
            elif name in ("overlap", "idf"):
                said = "shared words help, as they do BM25"
            else:
                said = "a shortcut" if best >= 0.7 else "a weak shortcut"
            found.append(f"{task} {name.replace('_', ' ')}: {accuracy:.2f} of {n:,} pairs, {said}")
    return found
