"""The page of all config fields, docs/fields.md, from the code: names, defaults, comments, ranges and choices.

python -m tests.support.fields_page
"""

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from data_pipeline import config as generation_config
from data_pipeline.sources import formats
from harp_jax import config as defaults
from harp_jax import config as ranges
from tests.support import ROOT

MANY = 1 << 24  # bounds beyond it only catch typing errors
PAGE = ROOT / "docs" / "fields.md"
HEAD = """# Config fields

This page is written from the code by `python -m tests.support.fields_page`; a test fails where it is not up to date.

A config is a Python file with `get_config()`, or the name of a shipped one (`--config=tpu_v3`, `--config=data/html`). Any field is
set on the command line, `--config.learning_rate=3e-5`, those within others with dots, `--config.model.layers=4`, tuples in quotes,
`--config.tasks="('rqp', 'mlm')"`. An unknown field, a value of the wrong type and a number out of range are refused before
anything is read. `harp_jax.load_config(name, **fields)` does the same in Python.
"""
STAGES = {
    "pretrain": 'Pre-training (`stage = "pretrain"`: `tpu_v3`, `gpu`, `demo`, `baselines/…`)',
    "finetune": "Fine-tuning (`finetune`, `finetune_msmarco_doc`, …)",
    "coarse_tune": "Coarse-tuning on clicks (`coarse_tune_orcas`)",
    "neural_ir": "Neural rankers (`baselines/knrm`, `conv_knrm`, `drmm`, `duet`)",
    "linklearn": "LinkLearn (`baselines/linklearn`, for `harp linklearn-train`)",
}


def page() -> str:
    """The whole page as Markdown."""
    common = dict(flat(defaults._common()))
    comments = commented(defaults._common)
    sections = [HEAD, "## Pairs from links (`harp generate`, configs in `data/`)\n"]
    allowed, limits = generation_config.limits()
    choices = {
        **allowed,
        "source.format": ("", *formats.FORMATS),
        "source.split": generation_config.SPLITS,
    }
    pairs = dict(flat(generation_config.generation()))
    meanings = commented(generation_config.generation)
    meanings |= {name: field.meaning for name, field in generation_config.task_fields()}
    sections.append(table(pairs, meanings, limits, choices))
    sections += ["## All BERT stages and neural rankers\n", table(common, comments, ranges.TRAINING, ranges.CHOICES)]
    for stage, title in STAGES.items():
        fields = dict(flat(getattr(defaults, stage)()))
        fields.pop("stage", None)
        own = {name: value for name, value in fields.items() if common.get(name, fields) != value}
        here = commented(getattr(defaults, stage))
        found = {**comments, **{name: text or comments.get(name, "") for name, text in here.items()}}
        sections += [f"## {title}\n", table(own, found, ranges.TRAINING, ranges.CHOICES)]
    return "\n".join(sections)


def flat(config: ConfigDict, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """("model.layers", 12) and so on; the weights of the tasks are one field."""
    for name, value in config.items():
        if isinstance(value, ConfigDict) and name != "task_weights":
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def commented(function: Callable[..., ConfigDict]) -> dict[str, str]:
    """Field → its comment, in the code's order: behind or within its assignment, or on the lines directly above."""
    source = textwrap.dedent(inspect.getsource(function))
    lines, found = source.splitlines(), {}
    remarks = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    for statement in sorted(ast.walk(ast.parse(source)), key=lambda node: getattr(node, "lineno", 0)):
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]).startswith("c."):
            above, line = [], statement.lineno - 1
            while lines[line - 1].lstrip().startswith("#"):
                above.insert(0, remarks[line])
                line -= 1
            inside = [remarks[n] for n in range(statement.lineno, statement.end_lineno + 1) if n in remarks]
            found[ast.unparse(statement.targets[0]).removeprefix("c.")] = " ".join([*above, *inside])
    return found


def table(
    fields: Mapping[str, Any],
    comments: Mapping[str, str],
    limits: ranges.Ranges,
    choices: Mapping[str, tuple[str, ...]],
) -> str:
    rows = ["| field | default | values | meaning |", "|---|---|---|---|"]
    order = list(comments)
    for name, value in sorted(fields.items(), key=lambda item: order.index(item[0])):
        values = ", ".join(f"`{choice}`" for choice in choices.get(name, ()))
        if name in limits:
            low, high = limits[name]
            values = f"{low:g} to {high:g}" if high < MANY else f"from {low:g}" if low > -MANY else ""
        default = value.to_dict() if isinstance(value, ConfigDict) else value
        shown = "all 1.0" if name == "task_weights" else f"`{default!r}`"
        meaning = comments.get(name, "").replace("|", "\\|")
        rows.append(f"| `{name}` | {shown} | {values} | {meaning} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
