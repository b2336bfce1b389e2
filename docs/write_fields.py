"""Writes the part "Config fields" of docs/formats.md from their declarations: python docs/write_fields.py"""

from pathlib import Path

from data_pipeline import config as generation_config
from harp_jax.config import ENCODER, FIELDS, JUDGED, LOOP, Fields

MANY = 1_000_000  # bounds from here on only catch typos
PAGE = Path(__file__).with_name("formats.md")
HEAD = """## Config fields

This part is written from the code by `python docs/write_fields.py`; a test fails where it is not up to date.

A config is a Python file with `get_config()`, or the name of a shipped one (`--config=tpu_v3`, `--config=data/html`). Any field is
set on the command line, `--config.learning_rate=3e-5`, those within others with dots, `--config.model.layers=4`, tuples in quotes,
`--config.tasks="('rqp', 'mlm')"`. An unknown field, a value of the wrong type and a number out of range are refused before
anything is read. `harp_jax.load_config(name, **fields)` does the same in Python.
"""
STAGES = {
    "pretrain": 'Pre-training (`stage = "pretrain"`: `tpu_v3`, `gpu`, `demo`, `baselines/…`)',
    "retriever": "Vectors (`retriever`)",
    "finetune": "Fine-tuning (`finetune`, `finetune_msmarco_doc`, …)",
    "coarse_tune": "Coarse-tuning on clicks (`coarse_tune_orcas`)",
    "neural_ir": "Neural rankers (`baselines/neural:knrm`, `conv_knrm`, `drmm`, `duet`)",
    "linklearn": "LinkLearn (`baselines/linklearn`, for `harp linklearn-train`)",
}


def page() -> str:
    """The whole page as Markdown: what stands before the fields, and the fields."""
    shared = {**LOOP, **ENCODER, **JUDGED}
    before = PAGE.read_text(encoding="utf-8").partition(HEAD.partition("\n")[0])[0]
    sections = [
        before + HEAD,
        "### Pairs from links (`harp generate`, configs in `data/`)\n",
        table(generation_config.FIELDS),
        "### All trainings\n",
        table(LOOP),
        "### Pre-training, fine-tuning and coarse-tuning of an encoder\n",
        table(ENCODER),
        "### Fine-tuning and neural rankers: judged queries\n",
        table(JUDGED),
    ]
    for stage, title in STAGES.items():
        own = {name: field for name, field in FIELDS[stage].items() if shared.get(name) != field}
        sections += [f"### {title}\n", table(own)]
    return "\n".join(sections)


def table(fields: Fields) -> str:
    rows = ["| field | default | values | meaning |", "|---|---|---|---|"]
    for name, (default, meaning, allowed) in fields.items():
        values = ""
        if allowed and isinstance(allowed[0], str):
            values = ", ".join(f"`{choice}`" if choice else '`""`' for choice in allowed)
        elif allowed:
            low, high = allowed
            values = f"{low:g} to {high:g}" if high < MANY else f"from {low:g}" if low > -MANY else ""
        rows.append(f"| `{name}` | `{default!r}` | {values} | {meaning.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
