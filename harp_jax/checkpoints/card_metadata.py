"""The metadata of a model card: licence, base model, datasets, language, and ranking figures with intervals (`model-index`)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, read_json

ROUNDS = 10_000  # of the bootstrap
TAGS = ["harp_jax", "cross-encoder", "reranker"]


@dataclass(frozen=True)
class Figure:
    """The mean of a ranking measure over queries with its 95 % bootstrap interval."""

    measure: str  # as ir-measures writes it
    value: float
    low: float
    high: float
    queries: int


@dataclass(frozen=True)
class About:
    """What a training run does not record about a model; all optional."""

    license: str = ""
    language: str = ""
    base_model: str = ""
    datasets: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    evaluated_on: str = ""  # name of the queries of `figures`


NOTHING = About()
PER_QUERY = "run\tmeasure\tqid\tvalue"  # the first line of the file of harp evaluate --per_query
WRITE_IT = "write it with harp evaluate --format=json > FILE.json, or --per_query=FILE.tsv"


def read_figures(path: str, system: str = "") -> tuple[Figure, ...]:
    """The figures of a system from what `harp evaluate` writes: the JSON of --format=json, or the file of --per_query.

    `system` may be left out if it is alone. Intervals resample queries (seed 0). InputError for another file or system.
    """
    per_query = read_json(path, WRITE_IT).get("per_query") if path.endswith(".json") else read_per_query(path)
    if not isinstance(per_query, dict) or not per_query:
        raise InputError(f"{path} holds no values per query; {WRITE_IT}")
    names = sorted(per_query)
    system = system or (names[0] if len(names) == 1 else "")
    if system not in per_query:
        what = f"no system is named {system!r}" if system else "it has several systems"
        raise InputError(f"{path}: {what}; set --system to one of {', '.join(names)}")
    try:
        found = {name: by for name, by in per_query[system].items() if not name.startswith("Num")}  # counts are summed
        values = {measure: np.array([*by_query.values()], float) for measure, by_query in found.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{path}: the values of {system} are no numbers ({error}); write it again") from error
    if not all(found.ndim == 1 and np.isfinite(found).all() for found in values.values()):
        raise InputError(f"{path}: a value of {system} is no finite number; write it again")
    return tuple(_figure(measure, per_measure) for measure, per_measure in values.items() if len(per_measure))


def read_per_query(path: str) -> dict[str, dict[str, dict[str, str]]]:
    """System → measure → query → value, of the file of `harp evaluate --per_query`. InputError for a line of another form."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for number, line in lines(path):
        values = line.split("\t")
        if len(values) != 4 or (number == 1 and line != PER_QUERY):
            raise InputError(f"{path}, line {number}: not {PER_QUERY!r}; {WRITE_IT}")
        if number > 1:
            system, measure, qid, value = values
            of_measure = found.setdefault(system, {}).setdefault(measure, {})
            if qid in of_measure:
                raise InputError(f"{path}, line {number}: {system}, {measure}, {qid} is listed twice; {WRITE_IT}")
            of_measure[qid] = value
    return found


def _figure(measure: str, values: np.ndarray) -> Figure:
    """values: [queries] float64."""
    rng = np.random.default_rng(0)
    # In slices: a benchmark may have thousands of queries.
    means = [values[rng.integers(0, len(values), (100, len(values)))].mean(1) for _ in range(ROUNDS // 100)]
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975])
    return Figure(measure, float(values.mean()), float(low), float(high), len(values))


def metadata(name: str, about: About, tags: list[str]) -> str:
    """The YAML block that begins a card, with its two lines of dashes."""
    from huggingface_hub import EvalResult, ModelCardData

    where = about.evaluated_on or "held-out queries"
    results = [
        EvalResult(
            task_type="text-ranking",
            task_name="Re-ranking",
            dataset_type=where,
            dataset_name=where,
            metric_type=figure.measure.lower(),
            metric_name=figure.measure,
            metric_value=round(figure.value, 4),
            metric_args={"interval_95": [round(figure.low, 4), round(figure.high, 4)], "queries": figure.queries},
        )
        for figure in about.figures
    ]
    given: dict[str, Any] = {
        "license": about.license or None,
        "language": about.language or None,
        "base_model": about.base_model or None,
        "datasets": list(about.datasets) or None,
    }
    if results:
        given |= {"model_name": name, "eval_results": results}
    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="text-ranking",
        tags=[*TAGS, *tags],
        **given,
    )
    return f"---\n{data.to_yaml()}\n---"


def figure_lines(about: About) -> list[str]:
    """The figures as a Markdown table; empty without any."""
    if not about.figures:
        return []
    rows = [f"| {f.measure} | {f.value:.4f} | [{f.low:.4f}, {f.high:.4f}] | {f.queries} |" for f in about.figures]
    head = [f"On {about.evaluated_on}:", ""] if about.evaluated_on else []
    return [*head, "| measure | value | 95 % interval | queries |", "|---|---|---|---|", *rows, ""]
