"""Every field of a training config, declared once: default, meaning, and the values that it may have.

A config file starts from the function of its stage (`pretrain`, `retriever`, `finetune`, `coarse_tune`, `neural_ir`, `linklearn`)
and sets fields. A value that no shipped config, experiment or paper changes is a constant where it is used.
"""

import ast
import difflib
import importlib
import importlib.util
import os
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError


class Field(NamedTuple):
    """A config field. allowed: the choices, or the lowest and the highest number; empty: every value of the default's type."""

    default: Any
    meaning: str
    allowed: tuple[Any, ...] = ()


Fields = Mapping[str, Field]

COUNT, WEIGHT, SHARE, STEPS = (1, 1 << 24), (0, 1e6), (0, 1), (0, 1 << 40)

# fmt: off
LOOP: Fields = {
    "learning_rate": Field(1e-4, "maximum learning rate, after warmup", SHARE),
    "schedule": Field("linear", "learning rate after warmup: linearly to 0, or constant", ("linear", "constant")),
    "warmup": Field(0.1, "warmup steps, as a fraction of all steps", SHARE),
    "weight_decay": Field(0.0, "weight decay, not applied to biases and layer norms", SHARE),
    "seed": Field(0, "random seed of parameters, order, masks and dropout", (0, (1 << 63) - 2)),
    "log_every": Field(50, "steps between lines of metrics", (1, 1 << 40)),
    "checkpoint_every": Field(1000, "steps between checkpoints; the two newest are kept", (1, 1 << 40)),
    "eval_every": Field(0, "steps between evaluations on held-out data; 0: never", STEPS),
}

ENCODER: Fields = {
    "init": Field("", "Hugging Face directory or training workdir whose parameters start the run; empty: from scratch"),
    "tokenizer": Field("", "Hugging Face directory or vocab.txt; empty: that of `init`"),
    "model.model_type": Field("bert", "Hugging Face's name of the architecture to train from scratch; `init` has its own shape"),
    "model.layers": Field(12, "number of encoder layers", (1, 1000)),
    "model.hidden": Field(768, "hidden size; a multiple of heads", (1, 1 << 16)),
    "model.heads": Field(12, "attention heads per layer", (1, 1024)),
    "model.max_positions": Field(512, "longest sequence that the encoder can read", (8, 1 << 20)),
    "model.initialisation": Field("normal",
        'initial weights from scratch; with "matching", small models without dropout learn to match words', ("normal", "matching")),
    "model.dropout": Field(0.1, "dropout rate of embeddings and layer outputs", (0, 0.99)),
    "model.attention_dropout": Field(0.0,
        "dropout rate of attention weights; with 0, all implementations train the same model", (0, 0.99)),
    "model.attention": Field("auto", 'attention implementation; "auto": by backend and dtype; or "xla", "cudnn" (GPU, 16 bits), '
        '"splash" (TPU)', ("auto", "xla", "cudnn", "splash")),
    "model.remat": Field("none",
        "what to recompute, for less memory and more compute (`layers.rematerialised`)", ("none", "dots", "layer")),
    "row_length": Field(512, "tokens per packed row; also the maximum sequence length", (8, 1 << 20)),
    "dtype": Field("float32", 'precision of the computation; parameters stay float32. "auto": bfloat16 on TPU, GPU and CPUs with '
        "AMX or AMD's AVX512-BF16, else float32", ("auto", "float32", "bfloat16", "float16")),
    "accumulate": Field(1, "microbatches per batch, computed one after the other to save memory", (1, 1 << 16)),
    "lanes": Field(8, "independent input streams; a multiple of the number of devices along data × fsdp", (1, 1 << 12)),
    "window": Field(1024,
        "shuffle buffer: groups of a lane shuffled and packed together; with `epochs`, capped at one epoch", COUNT),
    "workers": Field(0, "processes that read and pack, each for some of the lanes, without changing the batches; 0: a thread of "
        "the training", (0, 1 << 10)),
    "mesh.data": Field(-1,
        "devices that share the lanes; -1: all remaining ones among which the lanes divide evenly", (-1, 1 << 20)),
    "mesh.fsdp": Field(1, "devices that share parameters and optimizer state", (1, 1 << 20)),
    "mesh.model": Field(1, "devices that share each layer's heads and hidden units", (1, 1 << 20)),
    "prng": Field("threefry",
        'random generator; "rbg": faster dropout on TPU, but its bits depend on the sharding', ("threefry", "rbg")),
}

RANK_LOSSES = ("bce", "hinge", "logistic", "lce")
TAUGHT = ("margin_mse", "kl")
TAUGHT_PAIRS = ("kl", "lce_kl")


def needs_scored_pairs(config: Mapping[str, Any]) -> bool:
    """Whether the loss uses the scores that `harp teach` adds to pairs."""
    return config.get("pair_loss") in TAUGHT_PAIRS or config.get("teacher_weight", 0.0) > 0


NEGATIVES = (1, 10_000)

TEXT: Fields = {
    "docs": Field("", "documents"),
    "fields": Field(("title", "url", "body"), "document fields to read, in this order"),
}

SELECT: Fields = {
    "select": Field("", 'measure that selects the parameters, such as "RR@10": in fine-tuning on held-out training queries, in '
        "pre-training on `queries`; empty: the last"),
    "select_depth": Field(100, "candidates to re-rank per query for `select`", COUNT),
}

JUDGED: Fields = {
    **TEXT,
    "queries": Field("", "training queries; in pre-training, the queries for `select`"),
    "qrels": Field("", "judgments of `queries`"),
    "candidates": Field("", "TREC run from which negatives are drawn"),
    "folds": Field("", "file of qid<TAB>fold lines"),
    "train_folds": Field((), "folds to train on; empty: all queries"),
    "train_queries": Field("", "file whose lines begin with the query ids to train on; empty: all"),
    "missed_positives": Field(False, "also train on relevant documents that are not candidates; re-ranking never sees them"),
    **SELECT,
    "select_queries": Field(500,
        "maximum number of queries held out for `select`, at most a tenth, grouped by relevant document", COUNT),
    "steps": Field(0, "number of updates; 0: `epochs` over the training positives", STEPS),
}

HELD_OUT: Fields = {
    "eval_batches": Field(16, "batches of held-out data per evaluation", COUNT),
    **TEXT,
    **{name: JUDGED[name] for name in ("queries", "qrels", "candidates")},
    **SELECT,
}

OWN: Mapping[str, Fields] = {
    "pretrain": {
        **ENCODER,
        "data": Field((), "output directories of harp generate"),
        "tasks": Field(("rqp", "qdm", "rdp", "acm"), 'tasks to train on, any of the data; "mlm" is running text'),
        "task_sampling": Field("uniform",
            "uniform over the tasks, as in the paper, or by their record counts", ("uniform", "proportional")),
        "pair_weight": Field(1.0, "weight of the pair losses; 0: the MLM-only control, on the same batches", WEIGHT),
        "pair_loss": Field("hinge",
            'loss of a pair. "softmax_margin": as in the authors\' code; "lce": softmax over a positive and its negatives; "kl": '
            'divergence from the scores that harp teach added to the pairs; "lce_kl": the sum of both',
            ("hinge", "logistic", "softmax_margin", "lce", *TAUGHT_PAIRS)),
        "pair_reduction": Field("mean",
            "\"mean\" over all pairs of a batch; \"sum\" of the tasks' means, as in Eq. 16", ("mean", "sum")),
        "negatives": Field(1,
            "negatives per pair, the first ones of its record (config.hard_negatives of the generation job)", NEGATIVES),
        "mlm_weight": Field(1.0, "weight of the MLM loss; 0: nothing is masked or predicted", WEIGHT),
        "mlm_head_steps": Field(300,
            "if `init` has no MLM head, train one for this many steps with the encoder frozen; 0: do not", STEPS),
        "mlm_side": Field("document", "which texts of a pair to mask", ("document", "query", "both")),
        "mlm_whole_words": Field(False, "mask all tokens of a word or none"),
        "mlm_shared_mask": Field(True,
            "mask the same tokens of a text that both sides of a pair have; the authors' code masks each side by itself"),
        "batch_pairs": Field(128, "average number of pairs per batch; it varies with packing", COUNT),
        "batch_tokens": Field(0,
            "end batches at this many real tokens (± half a pair), whatever the task; 0: use batch_pairs", (0, 1 << 30)),
        **HELD_OUT,
        "steps": Field(100_000, "number of updates of the whole run", (1, 1 << 40)),
    },
    "retriever": {
        **ENCODER,
        "model.dropout": ENCODER["model.dropout"]._replace(default=0.0),
        "pooling": Field("",
            'vector of a text: mean of its hidden states, or the first, "cls"; empty: as `init` records', ("", "mean", "cls")),
        "prompts": Field((), "texts before every query and before every page; empty: those that `init` records"),
        "data": Field((), "output directories of harp generate"),
        "tasks": Field(("adp",), "tasks of the data to train on"),
        "task_sampling": Field("uniform", "uniform over the tasks, or by their record counts", ("uniform", "proportional")),
        "negatives": Field(1,
            "negative pages per query, the first ones of its record, besides the pages of the other queries", (0, 10_000)),
        "temperature": Field(0.05, "divisor of the cosines in the softmax", (1e-3, 10)),
        "both_directions": Field(False, "also rank the batch's queries by each page"),
        "kl_weight": Field(0.5, "weight of the divergence from the similarities of `init`; 0: off", WEIGHT),
        "teacher_weight": Field(0.0, "weight of the squared errors of margins to the scores that harp teach added; 0: off", WEIGHT),
        "batch_pairs": Field(128, "average number of queries per batch, all compared with each other", COUNT),
        "row_length": Field(128, "tokens per packed row; also the maximum length of a query or page", (8, 1 << 20)),
        "learning_rate": LOOP["learning_rate"]._replace(default=3e-5),
        **HELD_OUT,
        "steps": Field(1000, "number of updates of the whole run", (1, 1 << 40)),
    },
    "finetune": {
        **ENCODER,
        **JUDGED,
        "init_head": Field("fresh",
            "where the score head comes from; the paper keeps only embeddings and attention layers", ("fresh", "pretrained")),
        "marks": Field((), "tokens put before every query and every document; after coarse-tuning, use the same"),
        "negatives": Field(7, "negatives per positive, drawn from the candidates", NEGATIVES),
        "rank_loss": Field("bce",
            'ranking loss; "bce" is Eq. 18; "judged" classifies all judged pairs, without candidates, as in coarse-tuning; '
            '"margin_mse" and "kl" (of the softmax over a group) distil `teacher`', (*RANK_LOSSES, "judged", *TAUGHT)),
        "teacher": Field("", "TREC run with the teacher's scores; candidates without a score are left out"),
        "mqp_weight": Field(0.0, "weight of masked query prediction (SJTF), added to the ranking loss; 0: off", WEIGHT),
        "batch_pairs": Field(128, "average number of query-document pairs per batch", COUNT),
        "learning_rate": LOOP["learning_rate"]._replace(default=1e-5),
        "epochs": Field(2.0, "passes over the training positives", WEIGHT),
    },
    "coarse_tune": {
        **ENCODER,
        **TEXT,
        "clicks": Field("", "click log in the format of ORCAS: qid, query, docid, url"),
        "sample": Field(0.08, "fraction of the click log's pairs to use", SHARE),
        "documents_only": Field(False, "control: MLM on the clicked documents without queries (continual pre-training)"),
        "marks": Field(("[unused0]", "[unused1]"), "tokens that serve as [Q] and [D]"),
        "mask_always": Field(False,
            "every masked token becomes [MASK], as in the paper; else 80 %, 10 % another, 10 % none, as in BERT"),
        "batch_pairs": Field(80, "average number of sequences per batch", COUNT),
        "row_length": ENCODER["row_length"]._replace(default=256),
        "learning_rate": Field(1e-3, "maximum learning rate, after warmup; for bert-tiny", SHARE),
        "weight_decay": LOOP["weight_decay"]._replace(default=0.01),
        "steps": Field(0, "number of updates; 0: `epochs` over the pairs (or the documents)", STEPS),
        "epochs": Field(4.0, "passes over the pairs", WEIGHT),
    },
    "neural_ir": {
        **JUDGED,
        "model.name": Field("knrm", "neural ranker to train", ("knrm", "conv_knrm", "drmm", "duet")),
        "model.query_length": Field(20, "words per query; longer queries are truncated", (1, 1 << 16)),
        "model.train_vectors": Field(True, "train the word vectors of KNRM and Conv-KNRM; DRMM's are never trained"),
        "tokenizer": Field("", "directory of a vocabulary (`harp words`); empty: count the words of `docs`"),
        "vectors": Field("",
            "text file of word vectors from word2vec or GloVe; empty: random vectors of 100 dimensions; not for DUET"),
        "row_length": Field(300, "words per document; longer ones are truncated", (8, 1 << 20)),
        "negatives": Field(4, "negatives per positive, drawn anew from the candidates in every epoch", NEGATIVES),
        "rank_loss": Field("hinge", "ranking loss, pairwise or over the group", RANK_LOSSES),
        "batch_pairs": Field(64, "(query, relevant document, negative) triples per batch", COUNT),
        "learning_rate": LOOP["learning_rate"]._replace(default=1e-3),
        "epochs": Field(10.0, "passes over the training positives", WEIGHT),
        "checkpoint_every": LOOP["checkpoint_every"]._replace(default=10_000),
    },
}

LINKLEARN: Fields = {
    "docs": Field((), "linked documents, JSONL; documents without links may be in separate files"),
    "redirects": Field((), "files of alias<TAB>id lines"),
    "language": Field("en", "language for stemming and stopwords, such as de; empty: none"),
    "pair_loss": Field("hinge", "hinge loss, or RankNet's logistic cross-entropy", ("hinge", "logistic")),
    "negatives": Field(15, "unlinked documents per linked one", NEGATIVES),
    "negatives_from": Field("uniform",
        '"uniform": as in the paper; "linked": in proportion to links, to offset popularity', ("uniform", "linked")),
    "hidden": Field((10,), "hidden units of each MLP; of several values the one that ranks held-out links best is kept"),
    "learning_rates": Field((3e-3,), "learning rate of Adam; of several the best is kept, in every combination"),
    "steps": Field(10_000, "maximum number of updates", STEPS),
    "eval_every": Field(250, "steps between evaluations on held-out documents", (1, 1 << 40)),
    "ranking_svm_constraints": Field(0, "also train a Ranking SVM, on this many constraints; 0: do not", (0, 1 << 24)),
    "seed": Field(0, "random seed of parameters and sampling", (0, (1 << 63) - 2)),
}
# fmt: on

# Fields that name files or folders, and fields that change nothing but time.
FILE_FIELDS = (
    "data", "init", "tokenizer", "docs", "queries", "qrels", "candidates", "clicks", "vectors", "folds", "train_queries", "teacher",
    "redirects",
)  # fmt: skip
SPEED_FIELDS = ("log_every", "checkpoint_every", "workers", "mesh.data", "mesh.fsdp", "mesh.model")

FIELDS: Mapping[str, Fields] = {**{stage: {**LOOP, **own} for stage, own in OWN.items()}, "linklearn": LINKLEARN}

# Where the paper (losses, masking) and its authors' code differ from our defaults; the generation job has presets of the same
# names. The authors' code also starts from BERT's next-sentence head; these presets do not.
# "recommended" is for small encoders and short trainings (docs/lab/links.md): a single link task, no dropout.
RECOMMENDED: dict[str, Any] = {"tasks": ("adp",), "mlm_weight": 0.0, "model.dropout": 0.0}
PRESETS: dict[str, dict[str, Any]] = {
    "recommended": RECOMMENDED,
    # For pairs with a teacher's scores (`harp teach`): docs/lab/teacher.md.
    "taught": RECOMMENDED | {"negatives": 3, "pair_loss": "lce_kl"},
    "paper": {"mlm_side": "both", "mlm_shared_mask": False, "pair_reduction": "sum"},
    "official": {
        "pair_loss": "softmax_margin",
        "task_sampling": "proportional",
        "mlm_whole_words": True,
        "mlm_shared_mask": False,
        "model.attention": "xla",
        "model.attention_dropout": 0.1,
    },
}


def defaults(fields: Fields, stage: str = "") -> ConfigDict:
    """A config with the default of every field; "model.layers" becomes `config.model.layers`."""
    config = ConfigDict({"stage": stage} if stage else {})
    for name, field in fields.items():
        group, _, last = name.rpartition(".")
        if group and group not in config:
            config[group] = ConfigDict()
        (config[group] if group else config)[last] = field.default
    return config


def pretrain(preset: str = "") -> ConfigDict:
    """Defaults of pre-training: HARP's four tasks with MLM (paper section 4.3.2 where it specifies a value). `preset`:
    "recommended", "taught", "paper" or "official", see `PRESETS`. Raises InputError for another name."""
    return with_preset(defaults(FIELDS["pretrain"], "pretrain"), preset, PRESETS)


def with_preset(config: ConfigDict, preset: str, presets: Mapping[str, dict[str, Any]]) -> ConfigDict:
    """The config, locked, with the values of a preset; none for an empty name. Raises InputError for an unknown one."""
    if preset not in ("", *presets):
        raise InputError(f"unknown preset {preset!r}; use one of {', '.join(presets)}, or none")
    config.update_from_flattened_dict(presets.get(preset, {}))
    return config.lock()


def of_stage(stage: str) -> ConfigDict:
    """The defaults of a stage, locked."""
    return defaults(FIELDS[stage], stage if stage in OWN else "").lock()


retriever = partial(of_stage, "retriever")  # an encoder's vectors, on pairs of a query and a page
finetune = partial(of_stage, "finetune")  # a re-ranker on judged queries (paper section 4.3.3)
coarse_tune = partial(of_stage, "coarse_tune")  # on a click log (Keyaki and Keyaki, section 3.1)
neural_ir = partial(of_stage, "neural_ir")  # DRMM, DUET, KNRM and Conv-KNRM, on judged queries like fine-tuning
linklearn = partial(of_stage, "linklearn")  # `harp linklearn-train`


def flattened(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every field of a config, nested ones with dots, such as ("model.heads", 12)."""
    for name, value in config.items():
        if isinstance(value, Mapping | ConfigDict):
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def check_names(config: ConfigDict, names: Iterable[str], where: str, prefix: str = "") -> None:
    """Raises InputError with all names ("model.layers") that are not fields of the config at `where`, and their stages."""
    known = {name for name, _ in flattened(config)}
    unknown = []
    for name in names:
        if name not in known:
            homes = [stage for stage, fields in FIELDS.items() if name in fields]
            near = difflib.get_close_matches(name, known, 1)
            hints = [f"belongs to {', '.join(homes)}"] * bool(homes) + [f"did you mean {near[0]}?" for _ in near]
            unknown.append(f"{prefix}{name} ({'; '.join(hints) or 'in no stage'})")
    if unknown:
        kind = f"the stage {config.stage}" if "stage" in config else "a generation job" if "source" in config else ""
        raise InputError(f"{where}: {kind or 'this config'} has no field {', '.join(unknown)}; check the names")


def check_values(config: Mapping[str, Any], fields: Fields) -> None:
    """Raises InputError for an unknown choice, and for a number that is out of range, infinite or NaN."""
    for name, value in flattened(config):
        allowed = fields[name].allowed if name in fields else ()
        if not allowed:
            continue
        choices = isinstance(allowed[0], str)
        values = value if isinstance(value, list | tuple) else [value]
        if not (set(values) <= set(allowed) and values if choices else allowed[0] <= value <= allowed[1]):
            use = f"one of {', '.join(allowed)}" if choices else f"{allowed[0]:g} to {allowed[1]:g}"
            raise InputError(f"--config.{name}={value!r} is not allowed; use {use}")


def check_training(config: ConfigDict) -> None:
    """Raises InputError for a config of another command, and for values that no training can use."""
    stage = config.get("stage", "")
    if stage not in OWN:
        raise InputError(
            f"the config's stage is {stage!r}: choose from {', '.join(OWN)}; configs/data/ are for harp generate, "
            "configs/baselines/linklearn.py is for harp linklearn-train"
        )
    check_values(config, FIELDS[stage])
    c = config
    shape, finetune, retriever = c.model, stage == "finetune", stage == "retriever"
    away = [f"{name}={value}" for name, value in c.items() if isinstance(value, str) and "://" in value]
    for wrong, message in (
        (away, f"{', '.join(away)}: only `data` and the workdir may be in a bucket; copy it to this machine"),
        (c.get("mesh", {}).get("data") == 0, "mesh.data=0: use a number of devices, or -1 for all that remain"),
        (finetune and (c.rank_loss in TAUGHT) != bool(c.teacher),
         "teacher is a run that rank_loss=margin_mse and kl learn from: set both or neither"),
        (finetune and c.rank_loss == "judged" and c.mqp_weight,
         "mqp_weight needs groups with a positive, which rank_loss=judged does not have: set it to 0"),
        (not c.steps and not c.epochs, "steps=0 and --config.epochs=0: set one of them"),
        (stage == "coarse_tune" and c.eval_every,
         f"eval_every={c.eval_every}: coarse-tuning holds nothing out to evaluate on; set it to 0"),
        (stage in ("finetune", "neural_ir") and c.eval_every and not c.select,
         f"eval_every={c.eval_every}: queries are held out only for `select`; set --config.select=RR@10, or eval_every to 0"),
        ("data" in c and not c.tasks, "tasks=(): name at least one task"),
        (retriever and c.kl_weight and not c.init,
         "kl_weight keeps the similarities of `init`: set --config.init, or kl_weight to 0"),
        (retriever and c.teacher_weight and not c.negatives,
         "teacher_weight compares a page with its own negatives: raise negatives, or set teacher_weight to 0"),
        (retriever and len(c.prompts) not in (0, 2), "prompts: name two texts, for queries and for pages"),
        (not c.get("init", "") and shape.get("hidden", 0) % shape.get("heads", 1),
         f"model.hidden={shape.get('hidden')} must be a multiple of model.heads={shape.get('heads')}"),
    ):  # fmt: skip
        if wrong:
            raise InputError(f"--config.{message}")


# Finding and reading config files.


def read_config(path: str, overrides: Sequence[str] = ()) -> ConfigDict:
    """The config of a file with `--config.FIELD=VALUE` overrides; see `load_config`."""
    texts, words = [], iter(overrides)
    for word in words:
        name, equals, text = word.partition("=")
        if not name.startswith("--config."):
            raise InputError(f"unexpected argument {word!r}; options are written --name=value (see --help)")
        texts.append(f"{name.removeprefix('--config.')}={text if equals else next(words, '')}")
    return load_config(path, {}, texts, "--config.")


def load_config(path: str, fields: Mapping[str, Any], texts: Sequence[str] = (), prefix: str = "") -> ConfigDict:
    """The ConfigDict of a config file, locked, with `fields` changed by name ("model.layers"), then by `texts` "name=value", of
    which the last of a name holds. Raises InputError, which puts `prefix` before names, for a file that cannot be read, an unknown
    field, or a value of the wrong type."""
    file, colon, preset = config_file(path).partition(":")
    if not os.path.isfile(file):
        files = (each.relative_to(shipped_folder()) for each in shipped_folder().rglob("*.py"))
        names = sorted(each.with_suffix("").as_posix() for each in files if each.stem != "__init__")
        near = [f"did you mean {name}?" for name in difflib.get_close_matches(file, names, 1)]
        use = next(iter(near), f"name a Python file with get_config(), or one of {', '.join(names)}")
        raise InputError(f"no config {path!r}; {use}")
    module = load_file(os.path.abspath(file))
    try:
        config = module.get_config(*([preset] if colon else [])).lock()
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise InputError(f"{path}: {type(error).__name__}: {error}; correct get_config()") from error

    typed = dict(text.partition("=")[::2] for text in texts)
    check_names(config, [*fields, *typed], path, prefix)
    defaults = dict(flattened(config))
    for name, value in {**fields, **typed}.items():
        try:
            if name in typed and not isinstance(defaults[name], str):
                value = ast.literal_eval(value.capitalize() if isinstance(defaults[name], bool) else value)
                if isinstance(defaults[name], tuple):
                    value = tuple(value) if isinstance(value, list | tuple) else (value,)
            config.update_from_flattened_dict({name: value})
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
            like = f"{defaults[name]!r}" if defaults[name] != () else "('a',)"
            raise InputError(f"{path}: {prefix}{name}={str(value)[:100]} is not of the type of {like}") from error
    return config


def load_file(path: str) -> ModuleType:
    """A Python file as a module, its folder not on the import path. Raises InputError with the line if its code fails."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file; name one that ends with .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        line = error.lineno if isinstance(error, SyntaxError) else next(reversed(lines), None)
        raise InputError(f"{path}, line {line}: {type(error).__name__}: {error}; correct the file") from error
    return module


def config_file(name: str) -> str:
    """Path of a config: `name` if it is a file, else configs/NAME.py of the installed package; keeps `:PRESET`."""
    path, colon, preset = name.partition(":")
    shipped = shipped_folder() / (path.removeprefix("configs/").removesuffix(".py") + ".py")
    return str(shipped) + colon + preset if shipped.is_file() and not os.path.isfile(path) else name


def shipped_folder() -> Path:
    """configs/ of this checkout, or of the installed package, next to which a folder may hold another project's configs."""
    checkout = Path(__file__).parents[1]
    if (checkout / "setup.py").is_file():
        return checkout / "configs"
    return Path(importlib.import_module("harp_jax.configs").__path__[0])
