"""What was trained on: the paper's Table 1 and one worked sentence, from the manifest of a generation job."""

from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.evaluation.report.content import Pair, Sentence, TrainingData
from harp_jax.input.manifest import MANIFEST, read_manifest

WORKED = "worked"  # the manifest's field with a sentence and its pairs
SIDES = ("pos_query", "pos_doc", "neg_query", "neg_doc")


def training_data(name: str, directory: str) -> TrainingData:
    """The tables of a finished generation job. Raises InputError for an unfinished or damaged one."""
    manifest = read_manifest(directory)
    try:
        tasks = [_row(task, entry) for task, entry in manifest["tasks"].items()]
        return TrainingData(name, tasks, _sentence(manifest.get(WORKED)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{directory}: {MANIFEST} is damaged ({error!r}); copy it again, or generate the data again"
        ) from error


def _row(task: str, entry: dict[str, Any]) -> dict[str, str]:
    predictors = entry.get("predictors") or {}
    best = max(predictors, key=predictors.__getitem__, default="")
    return {
        "task": task.upper(),
        "pairs": f"{entry['pairs']:,}",
        "tokens": f"{entry['tokens']:,}",
        "query": _mean(entry.get("mean_query_tokens")),
        "document": _mean(entry.get("mean_doc_tokens")),
        "predictor": f"{best.replace('_', ' ')} {predictors[best]:.2f}" if best else "–",
    }


def _mean(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _sentence(worked: dict[str, Any] | None) -> Sentence | None:
    if not worked:
        return None
    words = [(str(text), min(1.0, max(0.0, float(weight))), bool(anchor)) for text, weight, anchor in worked["words"]]
    pairs = [Pair(str(one["task"]), *(str(one.get(side) or "") for side in SIDES)) for one in worked["pairs"]]
    return Sentence(words, pairs)
