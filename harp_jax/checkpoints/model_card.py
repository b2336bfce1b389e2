"""The model card of an export (README.md): how to use it, its data, its measures with intervals, its commands, its config."""

import json
import math
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines
from harp_jax.base.version import __version__
from harp_jax.checkpoints.recorded import best, read_command, read_metrics

ROUNDS = 10_000  # of the bootstrap
TAGS, VECTOR_TAGS = (
    ["harp_jax", "cross-encoder", "reranker"],
    ["harp_jax", "sentence-transformers", "feature-extraction"],
)
PACKAGES = ("jax", "flax", "optax", "numpy")
PER_QUERY = "run\tmeasure\tqid\tvalue\tgroup"  # first line of the file written by harp evaluate --per_query
# Metrics of the machine, not of the model.
SPEED = ("tokens", "tokens_per_second", "input_wait", "mfu")
# Config fields that name the data a model was trained on.
DATA_FIELDS = ("data", "docs", "clicks", "queries", "qrels", "candidates", "folds", "train_folds", "init", "tokenizer")
MARKUP = re.compile(r"[\\`*_\[\]<>|#&~]")  # special characters of Markdown and HTML
# Left out of a card, which may be published: the folders of paths that are absolute or begin with ~ or .. (spaces included), and
# the user, password and query of addresses. Paths below the working directory and the rest of an address are kept.
PRIVATE = re.compile(
    r"""(?<=:/)(?P<slash>/?)(?:[^/:]*:(?:(?!:/).)*|[^/]*)@"""
    r"""|\?[^\s,'"/]*=[^\s,'"]*"""
    r"""|(?<![^\s,:='"(\[])(?:file:/+|~[^/,'"]*/|(?:(?:\./)*\.\./)+|(?<!:)/+|/(?!/))(?:(?:[^/,'"]|,(?=\s)|\b'\b)*/)*(?=[^/,'"])""",
    re.DOTALL,
)

RANKER_USE = """harp_jax. It reads a query and a document together; the score is a raw logit, larger is more relevant.

```python
from sentence_transformers import CrossEncoder
scores = CrossEncoder({name}).predict([(query, document)])

import harp_jax  # without torch
scores = harp_jax.Reranker.from_pretrained({name}).predict([(query, document)])
```
"""
VECTOR_USE = """harp_jax. It embeds queries and documents separately (pooling: {pooling}, prompts: {prompts}); the score is the
cosine. In training, the softmax divided cosines by {temperature}.

```python
from sentence_transformers import SentenceTransformer
model = SentenceTransformer({name})
scores = model.similarity(model.encode_query(query), model.encode_document(documents))

import harp_jax  # without torch
run = harp_jax.Retriever.from_pretrained({name}).search({{"q1": query}}, {{"d1": document}}, k=10)
```
"""


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
    baseline: str = ""  # name of the system of `baseline_figures`, on the same queries
    baseline_figures: tuple[Figure, ...] = ()
    evaluated_on: str = ""  # name of the queries of `figures`
    command: tuple[str, ...] = ()  # the words of the export command


NOTHING = About()


def read_figures(path: str, system: str = "") -> tuple[Figure, ...]:
    """The figures of a system from the file of `harp evaluate --per_query`; `system` may be omitted if there is only one. Intervals
    resample groups of queries that share relevant documents (seed 0). InputError for a malformed line and for an unknown system."""
    found: dict[str, dict[str, dict[str, tuple[float, int]]]] = {}
    for number, line in lines(path):
        if number == 1 and line == PER_QUERY:
            continue
        try:
            name, measure, qid, value, group = line.split("\t")
            by_query = found.setdefault(name, {}).setdefault(measure, {})
            if number == 1 or qid in by_query or not math.isfinite(float(value)):
                raise ValueError
            by_query[qid] = float(value), int(group)
        except ValueError as error:
            wrong = f"not {PER_QUERY!r}, each query once; write it with harp evaluate --per_query={path}"
            raise InputError(f"{path}, line {number}: {wrong}") from error
    system = system or (next(iter(found)) if len(found) == 1 else "")
    if system not in found:
        raise InputError(f"{path} has no system {system!r}; name one of {', '.join(sorted(found))}")
    return tuple(
        _figure(measure, *map(np.array, zip(*by_query.values())))
        for measure, by_query in found[system].items()
        if not measure.startswith("Num")  # counts are sums, not means
    )


def _figure(measure: str, values: np.ndarray, groups: np.ndarray) -> Figure:
    """values: [queries] float64; groups: [queries] int."""
    number = np.unique(groups, return_inverse=True)[1]
    sums, sizes = np.bincount(number, values), np.bincount(number)
    rng = np.random.default_rng(0)
    # In slices, to save memory: a benchmark may have thousands of queries.
    chosen = (rng.integers(0, len(sums), (100, len(sums))) for _ in range(ROUNDS // 100))
    low, high = np.quantile([sums[one].sum(1) / sizes[one].sum(1) for one in chosen], [0.025, 0.975])
    return Figure(measure, float(values.mean()), float(low), float(high), len(values))


def metadata(name: str, about: About, tags: list[str], vectors: bool = False) -> str:
    """The YAML block at the top of a card, including its two lines of dashes; `vectors`: of a bi-encoder."""
    from huggingface_hub import EvalResult, ModelCardData

    where = about.evaluated_on or "held-out queries"
    results = [
        EvalResult(
            task_type="text-ranking",
            task_name="Ranking" if vectors else "Re-ranking",
            dataset_type=where,
            dataset_name=where,
            metric_type=figure.measure.lower(),
            metric_name=figure.measure,
            metric_value=round(figure.value, 4),
            metric_args={"interval_95": [round(figure.low, 4), round(figure.high, 4)], "queries": figure.queries},
        )
        for figure in about.figures
    ]
    data = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity" if vectors else "text-ranking",
        tags=[*(VECTOR_TAGS if vectors else TAGS), *tags],
        license=about.license or None,
        language=about.language or None,
        base_model=about.base_model or None,
        datasets=list(about.datasets) or None,
        model_name=name if results else None,
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---"


def figures_table(about: About) -> str:
    """The figures of the model and of the baseline as a Markdown table; "" without figures."""
    if not about.figures:
        return ""
    rows = "".join(
        f"| {system} | {f.measure} | {f.value:.4f} | [{f.low:.4f}, {f.high:.4f}] | {f.queries} |\n"
        for system, figures in (("this model", about.figures), (_plain(about.baseline), about.baseline_figures))
        for f in figures
    )
    where = f"On {about.evaluated_on}:\n\n" if about.evaluated_on else ""
    return f"""## Ranking quality

{where}| system | measure | value | 95 % interval | queries |
|---|---|---|---|---|
{rows}
The intervals cover the choice of queries, for one training run; another seed's figures may be outside them.

"""


def data_list(config: Mapping[str, Any]) -> str:
    """What the model was trained on, as a Markdown list."""
    data = [f"- {field}: {_plain(config[field])}" for field in DATA_FIELDS if config.get(field)]
    if any(config.get("marks", ())):
        query, document = (token or "none" for token in config["marks"])
        data.append(f"- marks before query and document: {query}, {document} (harp_jax adds them)")
    return "\n".join(data or ["- not recorded"])


def measured_tables(workdir: str, step: int) -> str:
    """How the exported parameters were selected, and a table of each split's last metrics up to `step`."""
    last = {row["split"]: row for row in read_metrics(workdir) if row["step"] <= step}
    tables = []
    if chosen := best(workdir):
        picked = f"Selected: step {chosen['step']}, by {chosen['measure']} {chosen['value']:.4f}"
        tables.append(f"{picked} on {chosen['queries']} held-out training queries.\n")
    for split, row in sorted(last.items()):
        metrics = {name: value for name, value in row.items() if name not in ("step", "split", *SPEED)}
        rows = "".join(f"| {_plain(name)} | {value:.6g} |\n" for name, value in metrics.items())
        tables.append(f"Step {row['step']}, {_plain(split)}:\n\n| metric | value |\n|---|---|\n{rows}")
    return "\n".join(tables or ["Nothing was recorded.\n"])


def model_card(
    workdir: str, config: Mapping[str, Any], output: str, step: int, about: About = NOTHING, ranker: bool = True
) -> str:
    """README.md of the export at `output`: how to use it, its data, its measures, its commands, its config.

    `step`: the step of the exported parameters; later metrics are left out. `about`: what the run does not record.
    `ranker`: whether the export has no pre-training heads. Folders of this machine are left out.

    Plain text and not huggingface_hub's template, most of which would be "[More Information Needed]" and which needs Jinja.
    """
    name = os.path.basename(os.path.abspath(output))
    stages = {"pretrain": "pre-trained", "finetune": "fine-tuned", "coarse_tune": "coarse-tuned"}
    quoted, shape, vectors = json.dumps(name), config["encoder"], config.get("stage") == "retriever"
    config = _portable(dict(config))
    made = list(about.command) or ["harp", "export", f"--workdir={workdir}", f"--output={output}"]
    software = [f"harp_jax {__version__}", f"Python {sys.version.split()[0]}", *(f"{p} {version(p)}" for p in PACKAGES)]
    commands = "\n".join(shlex.join(_portable(words)) for words in (read_command(workdir), made) if words)
    return f"""{metadata(name, about, [shape["model_type"], *(() if ranker else ("pre-training",))], vectors)}

# {_plain(name)}

A {"bi" if vectors else "cross"}-encoder ({shape["model_type"]}, {shape["layers"]} layers, hidden size {shape["hidden"]}), \
{stages.get(config.get("stage", ""), "trained")} with
{(VECTOR_USE if vectors else RANKER_USE).format(name=quoted, **config)}
## Data

{data_list(config)}

{figures_table(about)}## Measured in training

These are the parameters of step {step}.

{measured_tables(workdir, step)}
## How it was made

{_fenced("", commands)}

Software: {", ".join(software)}.

<details><summary>Config</summary>

{_fenced("json", json.dumps(config, indent=1, sort_keys=True, default=str))}

</details>
"""


def _portable(value: Any) -> Any:
    """A JSON value without the PRIVATE parts of its strings: paths, addresses, arguments, or comma-separated lists of these."""
    if isinstance(value, str):
        return PRIVATE.sub(r"\g<slash>", value)
    if isinstance(value, dict):
        return {key: _portable(one) for key, one in value.items()}
    return [_portable(one) for one in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> str:
    """A value as one line of text, with markup escaped."""
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    text = " ".join(text.split())
    # Within a word, as in file names, _ and ~ are plain text.
    return re.sub(r"(?<=\w)\\([_~])(?=\w)", r"\1", MARKUP.sub(r"\\\g<0>", text))


def _fenced(language: str, text: str) -> str:
    """A code block, with fences longer than any run of backticks in the text."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"
