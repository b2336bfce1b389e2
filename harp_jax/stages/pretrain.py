"""What differs between the stages: where groups come from, the objective, and what the encoder starts from.

Everything else (mesh, state, step, loop, checkpoints) is `train.py`'s, shared by all.
"""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from harp_jax.errors import InputError
from harp_jax.input.lanes import Reader, mixture
from harp_jax.input.layout import make_layout
from harp_jax.input.packing import Group
from harp_jax.model.bert import BertConfig
from harp_jax.model.cross_encoder import Ranker, init_params
from harp_jax.objectives.masking import slots
from harp_jax.objectives.pretrain import Pretrain
from harp_jax.text.tokenizer import Tokenizer, load_tokenizer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stage:
    """All that the loop needs to know of a stage."""

    tokenizer: Any  # Tokenizer, or the words of a neural ranker
    bert: Any  # the model's shape, with the tokenizer's vocabulary: BertConfig, or a neural ranker's NeuralConfig
    tasks: tuple[str, ...]
    objective: Callable[[Any], Any]  # the model's shape (padded vocabulary) → loss function
    reader: Reader
    held_out: Reader | None
    layout: Any  # packing.Layout, or another lanes.Layout
    shares: Mapping[str, float]
    steps: int
    start: Callable[[Any, jax.Array], dict]  # initial parameters
    selection: Callable[[Any, str], Any] | None = None  # encoder shape, workdir → what evaluates (selection.py)
    window: int = 0  # groups of a lane's window; 0: config.window


def encoder_and_tokenizer(config: ConfigDict) -> tuple[BertConfig, Tokenizer, dict | None]:
    """The encoder's shape, the tokenizer, and the parameters of `config.init` (None from scratch).

    Raises InputError where the vocabulary does not match the parameters.
    """
    params: dict | None = None
    if config.init:
        bert, params = load_encoder(config.init)
        bert = replace(
            bert,
            dropout=float(config.model.dropout),
            attention_dropout=float(config.model.attention_dropout),
            attention=config.model.attention,
            remat=config.model.remat,
        )
        tokenizer = load_tokenizer(config.tokenizer or tokenizer_of(config.init))
        if tokenizer.size != bert.vocab_size:
            raise InputError(
                f"the vocabulary {config.tokenizer or config.init} has {tokenizer.size} tokens, the parameters of "
                f"{config.init} have {bert.vocab_size}; give the tokenizer that belongs to `init`"
            )
    else:
        tokenizer = load_tokenizer(config.tokenizer)
        m = config.model
        bert = BertConfig(
            tokenizer.size, m.layers, m.hidden, m.heads, m.intermediate or 4 * m.hidden, m.max_positions,
            dropout=float(m.dropout), attention_dropout=float(m.attention_dropout), attention=m.attention,
            remat=m.remat,
        )  # fmt: skip
    if config.row_length > bert.max_positions:
        raise InputError(
            f"row_length={config.row_length} exceeds the encoder's {bert.max_positions} positions; lower it"
        )
    return replace(bert, dtype=config.dtype), tokenizer, params


def load_encoder(path: str) -> tuple[BertConfig, dict]:
    """Shape and parameters from a Hugging Face directory or a training workdir: what was selected there, or the newest
    checkpoint's."""
    if not os.path.isdir(path):
        raise InputError(f"{path} is no directory; `init` takes a Hugging Face directory or a training workdir")
    if os.path.isdir(os.path.join(path, "checkpoints")):
        from harp_jax.checkpoints.checkpoint import load_params
        from harp_jax.checkpoints.huggingface import load_hf
        from harp_jax.ranking.selection import DIRECTORY, best

        params, config = load_params(path)
        if "bert" not in config:
            raise InputError(f"{path} holds no BERT; `init` takes the workdir of a pre-training or fine-tuning run")
        # The run's attention may be a kernel of a device that is not this one.
        bert = replace(BertConfig(**config.bert), attention="auto")
        params = strip_vocab(params, bert.vocab_size)
        if chosen := best(os.path.join(path, DIRECTORY)):
            params |= load_hf(os.path.join(path, DIRECTORY, chosen["model"]))[1]
        return bert, params
    from harp_jax.checkpoints.huggingface import load_hf

    return load_hf(path)


def tokenizer_of(path: str) -> str:
    """Where the tokenizer of a Hugging Face directory or training workdir lies."""
    inner = os.path.join(path, "tokenizer")
    return inner if os.path.isdir(inner) else path


def strip_vocab(params: dict, vocab_size: int) -> dict:
    """Parameters without the vocabulary rows that sharding padded."""
    return _resize_vocab(params, vocab_size)


def _resize_vocab(params: dict, rows: int) -> dict:
    params = jax.tree.map(lambda x: x, params)
    word = params["bert"]["embeddings"]["word"]
    extra = rows - word["embedding"].shape[0]
    if extra > 0:
        word["embedding"] = np.pad(word["embedding"], ((0, extra), (0, 0)))
    word["embedding"] = word["embedding"][:rows]
    if "mlm" in params:
        # No probability for rows that are no tokens: the softmax must not see them.
        bias = params["mlm"]["bias"]
        params["mlm"]["bias"] = np.pad(bias, (0, max(extra, 0)), constant_values=-1e9)[:rows]
    return params


def starting_params(
    loaded: dict | None, drop: tuple[str, ...], vocab_size: int
) -> Callable[[BertConfig, jax.Array], dict]:
    """A function that makes the initial parameters: fresh ones, replaced by the loaded ones except the heads in `drop`."""

    def start(bert: BertConfig, key: jax.Array) -> dict:
        narrow = replace(bert, vocab_size=vocab_size, dtype="float32")
        fresh = jax.device_get(jax.jit(lambda k: init_params(narrow, k))(key))
        for name, tree in (loaded or {}).items():
            if name not in drop:
                fresh[name] = jax.tree.map(lambda x: np.asarray(x, np.float32), dict(tree))
        return _resize_vocab(fresh, bert.vocab_size)

    return start


def pretrain(config: ConfigDict, with_data: bool = True) -> Stage:
    """Pre-training on pair records (and on text where "mlm" is among the tasks)."""
    bert, tokenizer, loaded = encoder_and_tokenizer(config)
    tasks = tuple(config.tasks)
    if config.mlm_side not in ("document", "query", "both"):
        raise InputError(f"mlm_side={config.mlm_side!r} is unknown; choose document, query or both")
    continues = np.array([token.startswith("##") for token in tokenizer.tokens])

    def objective(shape: BertConfig) -> Pretrain:
        return Pretrain(
            ranker=Ranker(shape),
            tasks=tasks,
            task_weights=tuple(config.pair_weight * float(config.task_weights.get(task, 0.0)) for task in tasks),
            pair_loss=config.pair_loss,
            margin=config.margin,
            mlm_weight=config.mlm_weight,
            mlm_rate=config.mlm_rate,
            mlm_slots=slots(config.row_length, config.mlm_rate),
            mask_token=tokenizer.mask,
            vocab_size=tokenizer.size,
            continues=continues if config.mlm_whole_words else None,
        )

    reader: Any = NoReader(tasks)
    held_out: Any = None
    if with_data:
        from harp_jax.input.tfrecords import RecordReader, read_manifest

        for directory in config.data:
            found = read_manifest(directory)["tokenizer_sha256"]
            if found != tokenizer.sha256:
                raise InputError(
                    f"{directory} was generated with another vocabulary ({found[:12]}…, this run's is "
                    f"{tokenizer.sha256[:12]}…); set `tokenizer` to that one or generate the data again"
                )
        common = (config.lanes, config.row_length, config.mlm_side, config.seed)
        reader = RecordReader(tuple(config.data), tasks, "train", *common)
        if config.eval_every:
            held_out = RecordReader(tuple(config.data), tasks, "validation", *common)
    shares = mixture(reader.sizes, config.task_sampling)
    layout = make_layout(config, tokenizer, reader, shares, group_size=2, sequences=2 * config.batch_pairs)
    start = starting_params(loaded, (), tokenizer.size)
    return Stage(tokenizer, bert, tasks, objective, reader, held_out, layout, shares, config.steps, start)


def finetune(config: ConfigDict, with_data: bool = True) -> Stage:
    """See `finetuning.finetune`, which is built from this file's parts."""
    from harp_jax.stages.finetune import finetune

    return finetune(config, with_data)


def coarse_tune(config: ConfigDict, with_data: bool = True) -> Stage:
    """See `coarse_tuning.coarse_tune`."""
    from harp_jax.stages.coarse_tune import coarse_tune

    return coarse_tune(config, with_data)


def neural_ir(config: ConfigDict, with_data: bool = True) -> Stage:
    """Training of a neural ranker: see `neural_ir/stage.py`."""
    from harp_jax.stages.neural_ir import neural_ir

    return neural_ir(config, with_data)


STAGES: dict[str, Callable[..., Stage]] = {
    "pretrain": pretrain,
    "finetune": finetune,
    "coarse_tune": coarse_tune,
    "neural_ir": neural_ir,
}


class NoReader:
    """Stands for the data in a dry run: it knows only the tasks' names."""

    def __init__(self, tasks: tuple[str, ...]) -> None:
        self.sizes: Mapping[str, int] = dict.fromkeys(tasks, 1)

    def read(self, lane: int, task: str, start: int, count: int) -> list[Group]:
        return []
