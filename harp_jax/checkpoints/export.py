"""Exports a training workdir as a Hugging Face directory with its model card, or the first layers of an encoder as another one."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError, how_to_fetch, named
from harp_jax.base.files import check_replaceable, sha256_file
from harp_jax.base.version import __version__
from harp_jax.checkpoints import checkpoint
from harp_jax.checkpoints.huggingface import load_hf, save_hf, save_vectors
from harp_jax.checkpoints.onnx_openvino import needed, write_onnx, write_openvino
from harp_jax.checkpoints.recorded import CONFIG, best, read_metrics
from harp_jax.checkpoints.sentence_transformers import STAGE, embedding_of
from harp_jax.input.packing import fit
from harp_jax.model.encoders.table import recorded_shape
from harp_jax.objectives.finetune import DECODER
from harp_jax.text.tokenizer import Marks, Tokenizer, load_tokenizer, marks_of

NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)  # of a repository on the Hub
# The files to download; parameters in one format only.
PARTS = [
    "config.json", "*/config.json", "modules.json", "*sentence_*.json", "*.safetensors", "*.safetensors.index.json", "tokenizer*",
    "vocab.txt", "vocab.json", "merges.txt", "sentencepiece.bpe.model", "added_tokens.json", "special_tokens_map.json",
]  # fmt: skip
PAIRS = 300  # maximum number of texts to calibrate int8 on
PACKAGES = {"onnx": ("onnx", "torch", "onnxruntime"), "openvino": ("openvino", "torch", "nncf")}  # the last for int8


def export_model(
    workdir: str,
    output: str,
    ranker: bool = False,
    formats: Sequence[str] = (),
    int8: bool = False,
    calibration: Sequence[tuple[str, str]] = (),
) -> None:
    """Writes a training workdir's newest checkpoint that verifies as a Hugging Face directory.

    If the training selected parameters on held-out queries, exports those. Leaves out an MLM head that was not trained
    (fine-tuning, mlm_weight=0), and with `ranker` also a trained one, since strict loaders refuse its tensors. `formats` ("onnx",
    "openvino") also writes the ranker in these (`onnx_openvino.py`), and with `int8` quantised too; OpenVINO's int8 is calibrated
    on `calibration`, (query, document) texts. Trained vectors (stage retriever) become a sentence-transformers directory with their
    pooling and prompts.

    The directory appears complete or not at all. Raises InputError if no checkpoint of an encoder verifies, if `output` is not
    replaceable, and if a package that a format needs is not installed.

    >>> import harp_jax as hj
    >>> hj.export_model("runs/ranker", "exported")
    >>> hj.Reranker.from_pretrained("exported").predict([("red cat", "the red cat sat")]).shape
    (1,)
    """
    if not os.path.isfile(os.path.join(named(workdir), CONFIG)):
        raise InputError(f"{workdir} has no {CONFIG}, so it is not a training workdir; check the path")
    check_replaceable(output)
    check_formats(formats, int8, calibration)
    params, config, step = checkpoint.load_params(workdir)
    shape = recorded_shape(config, workdir)
    chosen = best(workdir)
    if chosen:
        step = chosen["step"]
        _, params = load_hf(chosen["model"])
    vectors = config.get("stage") == STAGE
    unused = {"mlm", DECODER} if ranker or config.get("stage") == "finetune" or config.get("mlm_weight") == 0 else set()
    params = {name: params[name] for name in (["encoder"] if vectors else [*params]) if name not in unused}
    # An export truncates where training did, so that it ranks like the model that was selected.
    tokenizer = replace(load_tokenizer(os.path.join(workdir, "tokenizer")), max_length=config.row_length)
    card = model_card(workdir, config.to_dict(), output, step, ranker="mlm" not in params)
    marks = marks_of(tokenizer, config.get("marks", ()))

    def more(directory: str) -> None:
        if "onnx" in formats:
            write_onnx(directory, shape, params, int8)
        if "openvino" in formats:
            write_openvino(directory, shape, params, tokenizer, truncated(calibration, tokenizer, marks))

    if vectors:
        save_vectors(output, shape, params, tokenizer, embedding_of(config), card, more)
    else:
        save_hf(output, shape, params, tokenizer, card, marks, more)


def check_formats(formats: Sequence[str], int8: bool, calibration: Sequence[tuple[str, str]]) -> None:
    """InputError for an unknown format, for missing packages, and for OpenVINO's int8 without texts."""
    ranges, wrong = int8 and "openvino" in formats, ""
    if not PACKAGES.keys() >= set(formats):
        wrong = f"--format is one of {', '.join(PACKAGES)}, not {', '.join(formats)}"
    elif int8 and not formats:
        wrong = "--int8 belongs to --format; add --format=onnx or --format=openvino"
    elif calibration and not ranges:
        wrong = "--calibration is only for --int8 with --format=openvino; leave it out"
    elif ranges and not calibration:
        wrong = "--int8 with --format=openvino measures activation ranges on texts; add --calibration=FILE with a few hundred "
        wrong += "query<TAB>document lines like those to be ranked"
    if wrong:
        raise InputError(wrong)
    for name in formats:
        *packages, quantizer = PACKAGES[name]
        for package in [*packages, quantizer] if int8 else packages:
            needed(package, name)


def truncated(
    pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, marks: Marks
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ids (int32) of the first PAIRS pairs of texts, truncated to the row length of the training."""
    ids = [[np.asarray(tokenizer.encode(text), np.int32) for text in pair] for pair in pairs[:PAIRS]]
    return [
        fit(marks.on_query(query), marks.on_document(document), tokenizer.max_length, tokenizer.template)
        for query, document in ids
    ]


def write_first_layers(encoder: str, layers: int, output: str, sha256: str = "") -> None:
    """Writes the embeddings and first `layers` layers of a Hugging Face encoder, without heads, which need the last layer. Raises
    InputError if the encoder has fewer layers, or if its `model.safetensors` does not have the given `sha256`."""
    path = os.path.join(encoder, "model.safetensors")
    if sha256 and (actual := sha256_file(path)) != sha256:
        raise InputError(f"{path} has sha256 {actual}, not {sha256}; it is another model or damaged: fetch it again")
    shape, params = load_hf(encoder)
    if not 1 <= layers <= shape.layers:
        raise InputError(f"{encoder} has {shape.layers} layers; choose --layers from 1 to {shape.layers}, not {layers}")
    save_hf(output, replace(shape, layers=layers), {"encoder": params["encoder"]}, load_tokenizer(encoder), "")


def fetched(name: str) -> str:
    """The directory of a model: `name` if it exists, else the Hub's model USER/NAME in the local cache, downloaded once. Raises
    InputError if the Hub does not serve it."""
    if os.path.exists(name) or not NAME.fullmatch(name):
        return name  # loading it reports what is missing
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    # OSError, and the connection errors of whichever HTTP library the Hub's client uses.
    failures: tuple[type[BaseException], ...] = (*HfHubHTTPError.__bases__, ValueError)
    try:
        return huggingface_hub.snapshot_download(name, allow_patterns=PARTS)
    except failures as error:
        said = " ".join(str(error).strip().splitlines()[:1])
        wrong = f"is not a directory, and the Hub does not serve it ({said}){how_to_fetch(name)}"
        raise InputError(f"{name} {wrong}") from error


# The model card (README.md): how to use the export, its data, its measures, its config.

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
