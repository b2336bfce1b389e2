"""A training workdir as a Hugging Face directory.

The result loads in transformers (AutoModel, AutoModelForSequenceClassification, BertForPreTraining) and in
sentence-transformers' CrossEncoder, which then scores as the JAX model does (`huggingface.save_hf`). The tokenizer's
model_max_length is the row length of the training.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_replaceable
from harp_jax.checkpoints import checkpoint
from harp_jax.checkpoints.card_metadata import NOTHING, About
from harp_jax.checkpoints.formats import needed, write_onnx, write_openvino
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.checkpoints.model_card import model_card
from harp_jax.checkpoints.recorded import best
from harp_jax.input.packing import fit
from harp_jax.model.encoders.table import recorded_shape
from harp_jax.text.marks import Marks, marks_of
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

PAIRS = 300  # that calibrate int8, at most
PACKAGES = {"onnx": ("onnx", "torch", "onnxruntime"), "openvino": ("openvino", "torch", "nncf")}  # the last for int8


def export_model(
    workdir: str,
    output: str,
    ranker: bool = False,
    about: About = NOTHING,
    formats: Sequence[str] = (),
    int8: bool = False,
    calibration: Sequence[tuple[str, str]] = (),
) -> None:
    """Writes the newest checkpoint of a training workdir that verifies as a Hugging Face directory.

    Exports the parameters that fine-tuning selected on held-out queries, if it did, and leaves out the MLM head of fine-tuned
    models, which is not trained; with `ranker` that of pre-trained models too, since strict loaders refuse its tensors. `about`
    goes to the model card. `formats`: "onnx" and "openvino" add the ranker in these (`formats.py`), with `int8` quantised as
    well, for OpenVINO with the ranges of `calibration`, texts of queries and documents.

    The directory appears complete or not at all. Raises InputError if no checkpoint of a cross-encoder verifies, if `output` is
    anything else than an export or an empty directory, and if a package that a format needs is not installed.

    >>> import harp_jax as hj
    >>> hj.export_model("runs/ranker", "exported")
    >>> hj.Reranker.from_pretrained("exported").predict([("red cat", "the red cat sat")]).shape
    (1,)
    """
    check_replaceable(output)
    check_formats(formats, int8, calibration)
    step, params, config = checkpoint.load_newest(workdir)
    if "encoder" not in config:
        raise InputError(
            f"{workdir} holds no encoder; neural rankers are not exported, harp rerank and Reranker read their workdir"
        )
    chosen = best(workdir)
    if chosen:
        step = chosen["step"]
        _, params = load_hf(chosen["model"])
    if ranker or config.get("stage") == "finetune":
        params = {name: tree for name, tree in params.items() if name != "mlm"}
    # Whoever loads the export truncates where training did, so that the reported model is the selected one.
    tokenizer = replace(load_tokenizer(os.path.join(workdir, "tokenizer")), max_length=config.row_length)
    card = model_card(workdir, config.to_dict(), output, step, about, ranker="mlm" not in params)
    marks = marks_of(tokenizer, config.get("query_mark", ""), config.get("document_mark", ""))
    shape = recorded_shape(config.encoder, workdir)

    def more(directory: str) -> None:
        if "onnx" in formats:
            write_onnx(directory, shape, params, int8)
        if "openvino" in formats:
            write_openvino(directory, shape, params, tokenizer, truncated(calibration, tokenizer, marks))

    save_hf(output, shape, params, tokenizer, card, marks, more)


def check_formats(formats: Sequence[str], int8: bool, calibration: Sequence[tuple[str, str]]) -> None:
    """InputError for an unknown format, one whose packages are absent, and int8 of OpenVINO without texts."""
    if calibration and not (int8 and "openvino" in formats):
        raise InputError("--calibration serves --int8 with --format=openvino, nothing else; add them, or leave it out")
    if isinstance(formats, str):
        raise InputError(f"formats={formats!r} is no list; use [{formats!r}]")
    for name in formats:
        if name not in PACKAGES:
            raise InputError(f"--format={name} is unknown; choose from {', '.join(PACKAGES)}")
        *packages, quantizer = PACKAGES[name]
        for package in [*packages, quantizer] if int8 else packages:
            needed(package, name)
    if int8 and not formats:
        raise InputError("--int8 belongs to --format; add --format=onnx or --format=openvino")
    if int8 and "openvino" in formats and not calibration:
        raise InputError(
            "--int8 of OpenVINO measures the ranges of activations on texts; add --calibration=FILE with lines "
            "query<TAB>document, a few hundred of those to be ranked"
        )


def truncated(
    pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer, marks: Marks
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ids of the first PAIRS pairs of texts, int32, truncated to a row of the training."""
    sides: list[list[Any]] = [
        [np.asarray(encoding.ids, np.int32) for encoding in tokenizer.encode_batch(list(texts))]
        for texts in (zip(*pairs[:PAIRS]) if pairs else ())
    ]
    return [
        fit(marks.on_query(query), marks.on_document(document), tokenizer.max_length, tokenizer.template)
        for query, document in zip(*sides)
    ]
