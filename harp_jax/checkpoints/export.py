"""Exports a training workdir as a Hugging Face directory, or the first layers of an encoder as another encoder."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import check_replaceable, sha256_file
from harp_jax.checkpoints import checkpoint
from harp_jax.checkpoints.huggingface import load_hf, save_hf, save_vectors
from harp_jax.checkpoints.model_card import model_card
from harp_jax.checkpoints.onnx_openvino import needed, write_onnx, write_openvino
from harp_jax.checkpoints.recorded import best
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
