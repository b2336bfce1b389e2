"""A training workdir as a Hugging Face directory.

The result loads in transformers (AutoModel, AutoModelForSequenceClassification, BertForPreTraining) and in
sentence-transformers' CrossEncoder, which then scores as the JAX model does (`huggingface.save_hf`). The tokenizer's
model_max_length is the row length of the training.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import check_replaceable, sha256_file
from harp_jax.checkpoints import checkpoint
from harp_jax.checkpoints.formats import needed, write_onnx, write_openvino
from harp_jax.checkpoints.huggingface import load_hf, save_hf
from harp_jax.checkpoints.model_card import NOTHING, About, model_card
from harp_jax.checkpoints.recorded import best
from harp_jax.input.packing import fit
from harp_jax.model.encoders.table import recorded_shape
from harp_jax.text.tokenizer import Marks, Tokenizer, load_tokenizer, marks_of

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


def write_first_layers(encoder: str, layers: int, output: str, sha256: str = "") -> None:
    """Writes embeddings and first `layers` layers of a Hugging Face encoder, without its heads, as a directory of the same kind.

    The heads belong to the last layer. Raises InputError if the encoder has fewer layers, or if its `model.safetensors` does not
    have the wanted `sha256`.
    """
    if sha256:
        check_sha256(os.path.join(encoder, "model.safetensors"), sha256)
    shape, params = load_hf(encoder)
    if not 1 <= layers <= shape.layers:
        raise InputError(f"{encoder} has {shape.layers} layers; choose --layers from 1 to {shape.layers}, not {layers}")
    kept = {name: tree for name, tree in params["encoder"].items() if _layer(name) < layers}
    save_hf(output, replace(shape, layers=layers), {"encoder": kept}, load_tokenizer(encoder), "")


def _layer(name: str) -> int:
    """The number of a layer from its name in the tree; -1 for the embeddings."""
    head, _, number = name.rpartition("_")
    return int(number) if head == "layer" else -1


def check_sha256(path: str, wanted: str) -> None:
    """Raises InputError unless the file has the hash."""
    found = sha256_file(path)
    if found != wanted:
        raise InputError(f"{path} has sha256 {found}, not {wanted}; it is another model or damaged: fetch it again")


NAME = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


def check_repository(name: str) -> None:
    """InputError unless `name` is USER/NAME."""
    if not NAME.fullmatch(name):
        raise InputError(f"--push={name}: name the repository USER/NAME, as on huggingface.co")


# What a cross-encoder's directory needs here: parameters once, not in every framework's format.
PARTS = [
    "config.json",
    "*.safetensors",
    "tokenizer*",
    "vocab.txt",
    "special_tokens_map.json",
    "*sentence_*.json",
    "modules.json",
]


def fetched(name: str) -> str:
    """The directory of a model: `name` if it exists, else the Hub's model USER/NAME in the local cache, downloaded once.

    Raises InputError where there is neither, and where the Hub cannot be reached.
    """
    if os.path.exists(name) or not NAME.fullmatch(name):
        return name  # what reads it says what is missing
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    failures: tuple[type[BaseException], ...] = (*HfHubHTTPError.__bases__, ValueError)
    try:
        return huggingface_hub.snapshot_download(name.rstrip("/"), allow_patterns=PARTS)
    except failures as error:
        first = " ".join(str(error).strip().splitlines()[:1])
        raise InputError(
            f"{name} is no directory, and the Hub does not serve it ({first}){how_to_fetch(name)}"
        ) from error


def push(directory: str, name: str) -> str:
    """Uploads every file of an export to the repository USER/NAME, which is created (private) if it is absent.

    Returns what was done, in one text. Without a token nothing is uploaded: the text lists the files that would be and says how to
    log in. Raises InputError where the Hub refuses or cannot be reached.
    """
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    check_repository(name)
    files = _files(directory)
    total = sum(size for _, size in files) / 1e6
    if huggingface_hub.get_token() is None:
        listed = "\n".join(f"  {path}  {size / 1e6:.1f} MB" for path, size in files)
        return (
            f"no Hugging Face token: nothing was uploaded. {len(files)} files ({total:.1f} MB) would go to {name}:\n{listed}\n"
            "Log in with `hf auth login`, or set HF_TOKEN, and run the same command again."
        )
    # OSError, and the error of the Hub's HTTP library, whichever that is, for failed connections.
    failures: tuple[type[BaseException], ...] = HfHubHTTPError.__bases__
    try:
        api = huggingface_hub.HfApi()
        api.create_repo(name, private=True, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=directory, commit_message="Upload an export of harp_jax")
    except failures as error:
        first = str(error).strip().splitlines()[:1]
        raise InputError(
            f"cannot upload to {name}: {' '.join(first)}; check the name, the token's rights and the network. The export in "
            f"{directory} is complete"
        ) from error
    return f"uploaded {len(files)} files ({total:.1f} MB) to {name} (private if it is new)"


def _files(directory: str) -> list[tuple[str, int]]:
    """(path below the directory, bytes) of every file, sorted."""
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            found.append((os.path.relpath(path, directory), os.path.getsize(path)))
    return sorted(found)
