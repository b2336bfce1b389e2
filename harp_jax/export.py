"""Export: the newest checkpoint of a training workdir as a Hugging Face directory.

    python -m harp_jax.export --workdir=DIR --output=HF_DIR

What comes out loads in transformers (AutoModel, AutoModelForSequenceClassification, BertForPreTraining) and in
sentence-transformers' CrossEncoder, which then scores as the JAX model does; see `huggingface.save_hf`. The tokenizer's
model_max_length is the length that the model was trained on.
"""

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from harp_jax import __version__
from harp_jax.checkpoints.huggingface import check_replaceable, load_hf, save_hf
from harp_jax.cli import run
from harp_jax.errors import InputError
from harp_jax.model.bert import BertConfig
from harp_jax.text.marks import marks_of
from harp_jax.text.tokenizer import load_tokenizer

PACKAGES = ("jax", "flax", "optax", "numpy")
# Config fields that name data; their values say what the model has seen.
DATA_FIELDS = ("data", "docs", "clicks", "queries", "qrels", "candidates", "folds", "train_folds", "init", "tokenizer")


def export(workdir: str, output: str) -> None:
    """Writes the export; it appears complete or not at all.

    Where fine-tuning selected parameters on held-out queries (`selection.py`), these are taken. The MLM head is left out
    after fine-tuning, which does not train it. Raises InputError where the workdir holds no checkpoint that verifies, and
    where `output` is something else than an export or an empty directory.
    """
    from harp_jax.checkpoints.checkpoint import load_params
    from harp_jax.checkpoints.selected import DIRECTORY, best

    check_replaceable(output)
    params, config = load_params(workdir)
    if "bert" not in config:
        raise InputError(
            f"{workdir} holds no BERT; neural rankers are not exported, harp_jax.ranking.rerank reads their workdir"
        )
    chosen = best(os.path.join(workdir, DIRECTORY))
    if chosen:
        _, params = load_hf(os.path.join(workdir, DIRECTORY, chosen["model"]))
    if config.get("stage") == "finetune":
        params = {name: tree for name, tree in params.items() if name != "mlm"}
    # What reads the export cuts where training did, so that what is reported is what was selected.
    tokenizer = replace(load_tokenizer(os.path.join(workdir, "tokenizer")), max_length=config.row_length)
    card = model_card(workdir, config.to_dict(), os.path.basename(os.path.abspath(output)))
    marks = marks_of(tokenizer, config.get("query_mark", ""), config.get("document_mark", ""))
    save_hf(output, BertConfig(**config.bert), params, tokenizer, card, marks)


def model_card(workdir: str, config: Mapping[str, Any], name: str) -> str:
    """README.md of the export: how to use it, what it was trained on, how, with what, and what was measured."""
    from harp_jax.training.metrics_log import read

    stage = {"pretrain": "pre-trained", "finetune": "fine-tuned", "coarse_tune": "coarse-tuned"}.get(
        config.get("stage", ""), "trained"
    )
    shape = config["bert"]
    data = [f"- {field}: {_plain(config[field])}" for field in DATA_FIELDS if config.get(field)]
    last = {row.get("split", "train"): row for row in read(workdir)}
    measured = [line for split in sorted(last) for line in _metrics(split, last[split])]
    from harp_jax.checkpoints.selected import DIRECTORY, best

    chosen = best(os.path.join(workdir, DIRECTORY))
    if chosen:
        picked = f"Selected: step {chosen['step']}, by {chosen['measure']} {chosen['value']:.4f} on {chosen['queries']} held-out"
        measured = [f"{picked} training queries.", "", *measured]
    marks = [config.get(name, "") for name in ("query_mark", "document_mark")]
    if any(marks):
        data.append(
            f"- marks before query and document: {marks[0] or 'none'}, {marks[1] or 'none'} (harp_jax adds them)"
        )
    return "\n".join(
        [
            "---",
            "library_name: sentence-transformers",
            "pipeline_tag: text-ranking",
            "tags: [harp_jax, cross-encoder, bert]",
            "---",
            "",
            f"# {name}",
            "",
            f"A BERT cross-encoder ({shape['layers']} layers, hidden size {shape['hidden']}), {stage} with harp_jax. It takes",
            "`[CLS] query [SEP] document [SEP]`; the score is a raw logit, larger is more relevant.",
            "",
            "```python",
            "from sentence_transformers import CrossEncoder",
            f'scores = CrossEncoder("{name}").predict([(query, document)])',
            "",
            "from harp_jax.ranking.rerank import Reranker  # without torch",
            f'scores = Reranker.from_pretrained("{name}").rerank(query, [document])',
            "```",
            "",
            "## Data",
            "",
            *(data or ["- not recorded"]),
            "",
            "## Measured at the end of training",
            "",
            *(measured or ["Nothing was recorded."]),
            "",
            "## How it was made",
            "",
            "```",
            *_commands(workdir),
            "```",
            "",
            "Software: "
            + ", ".join([f"harp_jax {__version__}", f"Python {sys.version.split()[0]}", *_versions()])
            + ".",
            "",
            "<details><summary>Config</summary>",
            "",
            "```json",
            json.dumps(config, indent=1, sort_keys=True, default=str),
            "```",
            "",
            "</details>",
            "",
        ]
    )


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _metrics(split: str, row: Mapping[str, Any]) -> list[str]:
    names = [name for name in row if name not in ("step", "split")]
    head = [f"Step {row['step']}, {split}:", "", "| metric | value |", "|---|---|"]
    return [*head, *(f"| {name} | {row[name]:.6g} |" for name in names), ""]


def _commands(workdir: str) -> list[str]:
    """The training command as the workdir recorded it, and the one that is running."""
    path = os.path.join(workdir, "command.txt")
    trained = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            trained = file.read().splitlines()
    return [*trained, shlex.join(["python", "-m", "harp_jax.export", *sys.argv[1:]])]


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return found


def main(arguments: argparse.Namespace) -> None:
    export(arguments.workdir, arguments.output)
    print(f"exported {arguments.workdir} to {arguments.output}")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.export", description="Checkpoint → Hugging Face directory."
    )
    parser.add_argument(
        "--workdir", required=True, help="training workdir; its newest checkpoint that verifies is taken"
    )
    parser.add_argument("--output", required=True, help="directory to write; an earlier export there is replaced")
    return parser


if __name__ == "__main__":
    run(main, arguments_parser())
