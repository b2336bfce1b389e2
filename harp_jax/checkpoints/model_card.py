"""The model card of an export (README.md)."""

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from harp_jax.base.version import __version__
from harp_jax.checkpoints.card_metadata import NOTHING, About, figure_lines, metadata
from harp_jax.checkpoints.recorded import best, read_command, read_metrics

PACKAGES = ("jax", "flax", "optax", "numpy")
# Metrics of the machine, not of the model.
SPEED = ("tokens", "tokens_per_second", "input_wait", "mfu")
# Config fields that name data: their values say what the model was trained on.
DATA_FIELDS = ("data", "docs", "clicks", "queries", "qrels", "candidates", "folds", "train_folds", "init", "tokenizer")
MARKUP = re.compile(r"[\\`*_\[\]<>|#&~]")  # what Markdown and HTML read as more than text
# A card is read elsewhere: it keeps paths below the working directory and addresses, but neither the folders of a path that is
# absolute or begins with ~ or .., spaces included, nor the user and password of an address.
PRIVATE = re.compile(
    r"""(?<=:/)(?P<slash>/?)(?:[^/:]*:(?:(?!:/).)*|[^/]*)@"""
    r"""|(?<![^\s,:='"()\[\]])(?:file:/+|~[^/,'"]*/|(?:\.\./)+|(?<!:)/+|/(?!/))(?:[^/,'"]*/)*(?=[^/,'"])""",
    re.DOTALL,
)


def model_card(
    workdir: str, config: Mapping[str, Any], output: str, step: int, about: About = NOTHING, ranker: bool = True
) -> str:
    """README.md of the export at `output`: how to use it, its data, its measures, its commands, its config.

    `step`: of the exported parameters; what was measured after it is left out. `about`: what the run does not record.
    `ranker`: without the heads of pre-training. Folders of this machine are left out.
    """
    name = os.path.basename(os.path.abspath(output))
    stage = {"pretrain": "pre-trained", "finetune": "fine-tuned", "coarse_tune": "coarse-tuned"}.get(
        config.get("stage", ""), "trained"
    )
    quoted = json.dumps(name)
    shape = config["encoder"]
    config = _portable(dict(config))
    data = [f"- {field}: {_plain(config[field])}" for field in DATA_FIELDS if config.get(field)]
    last = {row["split"]: row for row in read_metrics(workdir) if row["step"] <= step}
    measured = [line for split in sorted(last) for line in _metrics(split, last[split])]
    chosen = best(workdir)
    if chosen:
        picked = f"Selected: step {chosen['step']}, by {chosen['measure']} {chosen['value']:.4f} on {chosen['queries']} held-out"
        measured = [f"{picked} training queries.", "", *measured]
    marks = [config.get(field, "") for field in ("query_mark", "document_mark")]
    if any(marks):
        data.append(
            f"- marks before query and document: {marks[0] or 'none'}, {marks[1] or 'none'} (harp_jax adds them)"
        )
    made = ["harp", "export", f"--workdir={workdir}", f"--output={output}"]
    commands = [shlex.join(_portable(words)) for words in (read_command(workdir), made) if words]
    return "\n".join(
        [
            metadata(name, about, [shape["model_type"], *(() if ranker else ("pre-training",))]),
            "",
            f"# {_plain(name)}",
            "",
            f"A cross-encoder ({shape['model_type']}, {shape['layers']} layers, hidden size {shape['hidden']}), {stage} with",
            "harp_jax. It reads a query and a document together; the score is a raw logit, larger is more relevant.",
            "",
            "```python",
            "from sentence_transformers import CrossEncoder",
            f"scores = CrossEncoder({quoted}).predict([(query, document)])",
            "",
            "import harp_jax  # without torch",
            f"scores = harp_jax.Reranker.from_pretrained({quoted}).predict([(query, document)])",
            "```",
            "",
            "## Data",
            "",
            *(data or ["- not recorded"]),
            "",
            *(["## Ranking quality", "", *figure_lines(about)] if about.figures else []),
            "## Measured in training",
            "",
            f"These are the parameters of step {step}.",
            "",
            *(measured or ["Nothing was recorded."]),
            "",
            "## How it was made",
            "",
            *_fenced("", *commands),
            "",
            "Software: "
            + ", ".join([f"harp_jax {__version__}", f"Python {sys.version.split()[0]}", *_versions()])
            + ".",
            "",
            "<details><summary>Config</summary>",
            "",
            *_fenced("json", json.dumps(config, indent=1, sort_keys=True, default=str)),
            "",
            "</details>",
            "",
        ]
    )


def _portable(value: Any) -> Any:
    """A value of JSON without what is PRIVATE in its strings: paths, addresses, arguments, or lists of these with commas."""
    if isinstance(value, str):
        return PRIVATE.sub(r"\g<slash>", value)
    if isinstance(value, dict):
        return {key: _portable(one) for key, one in value.items()}
    return [_portable(one) for one in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> str:
    """A value as text of one line; characters of markup are escaped."""
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    text = " ".join(text.split())
    # Within a word _ and ~ are text, as in names of files.
    return re.sub(r"(?<=\w)\\([_~])(?=\w)", r"\1", MARKUP.sub(r"\\\g<0>", text))


def _fenced(language: str, *lines: str) -> list[str]:
    """Lines of code between fences that are longer than any within."""
    longest = max((len(found) for line in lines for found in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + language, *lines, fence]


def _metrics(split: str, row: Mapping[str, Any]) -> list[str]:
    names = [name for name in row if name not in ("step", "split", *SPEED)]
    head = [f"Step {row['step']}, {_plain(split)}:", "", "| metric | value |", "|---|---|"]
    return [*head, *(f"| {_plain(name)} | {row[name]:.6g} |" for name in names), ""]


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return found
