"""The model card of an export (README.md): how to use it, its data, its measures, its config."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from harp_jax.base.version import __version__
from harp_jax.checkpoints.recorded import best, read_metrics

RANKER_TAGS = ("harp_jax", "cross-encoder", "reranker")
VECTOR_TAGS = ("harp_jax", "sentence-transformers", "feature-extraction")
SPEED = ("tokens", "tokens_per_second", "input_wait", "mfu")  # metrics of the machine, not of the model
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

RANKER_USE = """It reads a query and a document together; the score is a raw logit, larger is more relevant.

```python
from sentence_transformers import CrossEncoder
scores = CrossEncoder({name}).predict([(query, document)])

import harp_jax  # without torch
scores = harp_jax.Reranker.from_pretrained({name}).predict([(query, document)])
```"""
VECTOR_USE = """It embeds queries and documents separately (pooling: {pooling}, prompts: {prompts}); the score is the
cosine. In training, the softmax divided cosines by {temperature}.

```python
from sentence_transformers import SentenceTransformer
model = SentenceTransformer({name})
scores = model.similarity(model.encode_query(query), model.encode_document(documents))

import harp_jax  # without torch
run = harp_jax.Retriever.from_pretrained({name}).search({{"q1": query}}, {{"d1": document}}, k=10)
```"""


def model_card(workdir: str, config: Mapping[str, Any], output: str, step: int, ranker: bool = True) -> str:
    """README.md of the export at `output`. `step`: that of the exported parameters; later metrics are left out. `ranker`:
    whether the export has no pre-training heads. Folders of this machine are left out."""
    name, shape = os.path.basename(os.path.abspath(output)), config["encoder"]
    vectors = config.get("stage") == "retriever"
    stages = {"pretrain": "pre-trained", "finetune": "fine-tuned", "coarse_tune": "coarse-tuned"}
    config = _portable(dict(config))
    recorded = json.dumps(config, indent=1, sort_keys=True, default=str)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", recorded)), default=0))
    tags = [*(VECTOR_TAGS if vectors else RANKER_TAGS), shape["model_type"], *(() if ranker else ("pre-training",))]
    use = (VECTOR_USE if vectors else RANKER_USE).format(name=json.dumps(name), **config)
    data = [f"- {field}: {_plain(config[field])}" for field in DATA_FIELDS if config.get(field)]
    if any(config.get("marks", ())):
        query, document = (token or "none" for token in config["marks"])
        data.append(f"- marks before query and document: {query}, {document} (harp_jax adds them)")

    # How the parameters were selected, and each split's last metrics.
    measured = []
    if chosen := best(workdir):
        selected = f"Selected: step {chosen['step']}, by {chosen['measure']} {chosen['value']:.4f}"
        measured.append(f"{selected} on {chosen['queries']} held-out training queries.\n")
    last = {row["split"]: row for row in read_metrics(workdir) if row["step"] <= step}
    for split, row in sorted(last.items()):
        metrics = {key: value for key, value in row.items() if key not in ("step", "split", *SPEED)}
        rows = "".join(f"| {_plain(key)} | {value:.6g} |\n" for key, value in metrics.items())
        measured.append(f"Step {row['step']}, {_plain(split)}:\n\n| metric | value |\n|---|---|\n{rows}")
    newline = "\n"
    return f"""---
library_name: sentence-transformers
pipeline_tag: {"sentence-similarity" if vectors else "text-ranking"}
tags:
{"".join(f"- {tag}{newline}" for tag in tags)}---

# {_plain(name)}

A {"bi" if vectors else "cross"}-encoder ({shape["model_type"]}, {shape["layers"]} layers, hidden size {shape["hidden"]}), \
{stages.get(config.get("stage", ""), "trained")} with harp_jax {__version__}.
{use}

## Data

{newline.join(data or ["- not recorded"])}

## Measured in training

These are the parameters of step {step}.

{newline.join(measured or [f"Nothing was recorded.{newline}"])}
<details><summary>Config</summary>

{fence}json
{recorded}
{fence}

</details>
"""


def _portable(value: Any) -> Any:
    """A JSON value without the PRIVATE parts of its strings: paths, addresses, or comma-separated lists of these."""
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
