"""Every field of a training config: its default and its range. A config file starts from one of these functions and sets fields."""

import difflib
import importlib.util
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ml_collections import ConfigDict

from harp_jax.base.errors import InputError


def _common() -> ConfigDict:
    c = ConfigDict()
    c.init = ""  # Hugging Face directory or training workdir whose parameters start the run; empty: from scratch
    c.tokenizer = ""  # Hugging Face directory or vocab.txt; empty: the one of `init`
    c.model = ConfigDict()  # `init` overrides it, except dropout, attention and remat
    c.model.layers = 12  # of the encoder
    c.model.hidden = 768  # width; a multiple of heads
    c.model.heads = 12  # attention heads of a layer
    c.model.intermediate = 0  # 0: 4 × hidden
    c.model.model_type = "bert"  # Hugging Face's name of the architecture, from scratch
    c.model.max_positions = 512  # the longest sequence that the encoder can read
    c.model.dropout = 0.1  # of embeddings and layers' outputs
    c.model.attention_dropout = 0.0  # 0: all attention implementations train the same model
    c.model.initialisation = (
        "normal"  # from scratch; or "matching", with which small models without dropout learn to match words
    )
    c.model.attention = "auto"  # by backend and dtype; or "xla", "cudnn" (GPU, 16 bits), "splash" (TPU)
    c.model.remat = "none"  # or "dots", "layer": less memory, more compute (`layers.rematerialised`)
    c.row_length = 512  # tokens per packed row; also the maximum sequence length
    c.rows = 0  # rows per batch; 0: derived from batch_pairs and the lengths of the data
    c.accumulate = 1  # microbatches per batch, computed one after the other to save memory
    c.lanes = 8  # independent input streams; a multiple of the devices along data × fsdp
    c.window = 1024  # groups of a lane shuffled and packed together; at most an epoch, where `epochs` counts
    c.learning_rate = 1e-4  # its maximum, after warmup
    c.schedule = "linear"  # after warmup: "linear" to 0, "cosine" to 0, "constant"
    c.warmup = 0.1  # fraction of the steps
    c.beta1 = 0.9  # of Adam: decay of the mean gradient
    c.beta2 = 0.999  # of Adam: decay of the mean squared gradient
    c.weight_decay = 0.0  # not applied to biases and layer norms
    c.clip_norm = 1.0  # 0: off
    c.mesh = ConfigDict()
    c.mesh.data = -1  # -1: all remaining devices, as many as share the lanes
    c.mesh.fsdp = 1  # devices that share parameters and optimizer state
    c.mesh.model = 1  # devices that share each layer's heads and hidden units
    # Of the computation; parameters stay float32. "auto": bfloat16 on TPU, GPU and CPUs that multiply it (AMX or AVX512-BF16), else
    # float32.
    c.dtype = "float32"
    c.prng = "threefry"  # "rbg": faster dropout on TPU, but its bits depend on the sharding
    c.seed = 0  # of parameters, order, masks and dropout
    c.log_every = 50  # steps between lines of metrics
    c.probe_every = 0  # steps between probes of each loss's gradient norm, each the work of two steps; 0: never
    c.wandb = ""  # project of Weights & Biases that receives the metrics too (extra [wandb]); empty: none
    c.checkpoint_every = 1000  # steps between checkpoints
    c.keep_checkpoints = 2  # the newest ones
    c.eval_every = 0  # steps between evaluations on held-out data; 0: never
    c.eval_batches = 16  # batches of held-out data in an evaluation
    c.spike = 8.0  # skip an update whose loss is this many standard deviations above the running mean; 0: never
    c.max_skipped = 100  # stop the run after this many updates skipped for Inf, NaN or a spike
    c.compilation_cache = True  # in the user's cache directory
    return c


# Where the paper (losses, masking) and its authors' code differ from our defaults; the generation job has presets of the same
# names. The authors' code also starts from BERT's next-sentence head; these presets do not.
# "recommended" is for small encoders and short trainings (docs/experiments/recommended.md): one link task alone, nothing dropped.
PRESETS: dict[str, dict[str, Any]] = {
    "recommended": {"tasks": ("adp",), "mlm_weight": 0.0, "model.dropout": 0.0},
    "paper": {"mlm_side": "both"},
    "official": {
        "pair_loss": "softmax_margin",
        "task_sampling": "proportional",
        "mlm_whole_words": True,
        "model.attention": "xla",
        "model.attention_dropout": 0.1,
    },
}


def pretrain(preset: str = "") -> ConfigDict:
    """Defaults of pre-training: HARP's four tasks with MLM (paper section 4.3.2 where it specifies a value).

    `preset`: "recommended", "paper" or "official" applies those values of `PRESETS`. Raises InputError for another name.
    """
    c = _common()
    c.stage = "pretrain"
    c.data = ()  # output directories of the generation job
    c.tasks = ("rqp", "qdm", "rdp", "acm")  # also "adp" and the controls "ict", "wlp", "prop"; "mlm" is running text
    c.task_sampling = "uniform"  # over the tasks, as in the paper; or "proportional" to their record counts
    c.task_weights = ConfigDict(
        {task: 1.0 for task in ("rqp", "qdm", "rdp", "acm", "adp", "ict", "wlp", "prop")}
    )  # of the tasks' losses
    c.pair_weight = 1.0  # 0: the MLM-only control, on the same batches
    c.pair_loss = "hinge"  # or "logistic", "softmax_margin" (the authors' code)
    c.margin = 1.0  # of the hinge
    c.mlm_weight = 1.0  # 0: nothing is masked or predicted
    c.mlm_head_steps = 300  # where `init` has no MLM head: train it alone for so long, the encoder frozen; 0: do not
    c.mlm_head_rate = 1e-3  # learning rate of those steps
    c.mlm_rate = 0.15  # share of the tokens that are predicted
    c.mlm_side = "document"  # or "query", "both"; masking one of four query words hurts the pair
    c.mlm_whole_words = False  # mask all wordpieces of a word or none
    c.batch_pairs = 128  # on average; the number in a batch varies with packing
    c.batch_tokens = 0  # end batches at this many real tokens (± half a pair), for every task alike; 0: use batch_pairs
    c.steps = 100_000  # updates of the whole run
    if preset not in ("", *PRESETS):
        raise InputError(f"unknown preset {preset!r}; use one of {', '.join(PRESETS)}, or none")
    c.update_from_flattened_dict(PRESETS.get(preset, {}))
    c.lock()
    return c


def finetune() -> ConfigDict:
    """Defaults of fine-tuning a re-ranker on judged queries (paper section 4.3.3 where it specifies a value)."""
    c = _common()
    c.stage = "finetune"
    c.spike = 0.0  # the losses of small batches of judged pairs vary too much for a spike test
    c.init_head = "fresh"  # the paper keeps embeddings and attention layers only; or "pretrained"
    c.docs = ""  # documents
    c.queries = ""  # training queries
    c.qrels = ""  # their judgments
    c.candidates = ""  # a TREC run: where negatives come from
    c.folds = ""  # qid<TAB>fold
    c.train_folds = ()  # empty: all queries
    c.train_queries = ""  # a file whose lines begin with the query ids to train on; empty: all
    c.fields = ("title", "url", "body")  # of a document, in this order
    c.query_mark = ""  # token before every query, such as "[unused0]"; [Q] in coarse-tuning
    c.document_mark = ""  # token before every document; [D] in coarse-tuning
    c.negatives = 7  # for each positive, drawn from the candidates
    # Also train on relevant documents that the candidates lack. Off: re-ranking never meets them, and they share fewer words
    # with the query than BM25's negatives do. With them BM25's top 50 rank the positive above a negative in .489 of
    # WikiPassageQA's training pairs, without them in .812; each start of a training prints the share.
    c.missed_positives = False
    c.rank_loss = "bce"  # Eq. 18; or "hinge", "logistic", "lce"
    c.margin = 1.0  # of the hinge
    c.mqp_weight = 0.0  # weight of masked query prediction (SJTF) added to the ranking loss; 0: off
    c.select = ""  # a measure such as "RR@10": select parameters by it on held-out training queries; empty: the last
    c.select_fraction = 0.1  # of the training queries, grouped by relevant document
    c.select_queries = 500  # maximum number held out
    c.select_depth = 100  # candidates re-ranked for each of them
    c.batch_pairs = 128  # query-document pairs in a batch, on average
    c.learning_rate = 1e-5  # its maximum, after warmup
    c.steps = 0  # 0: `epochs` over the training positives
    c.epochs = 2.0  # passes over the training positives
    c.lock()
    return c


def coarse_tune() -> ConfigDict:
    """Defaults of coarse-tuning on a click log (Keyaki and Keyaki, section 3.1)."""
    c = _common()
    c.stage = "coarse_tune"
    c.docs = ""  # documents
    c.fields = ("title", "url", "body")  # of a document, in this order
    c.clicks = ""  # ORCAS: qid, query, docid, url
    c.sample = 0.08  # fraction of its pairs
    c.replaced = 0.5  # fraction of the pairs whose document is replaced by another (NotPair)
    c.documents_only = False  # the control: MLM on the clicked documents, without queries (continual pre-training)
    c.query_mark = "[unused0]"  # [Q]
    c.document_mark = "[unused1]"  # [D]
    c.qdpp_weight = 1.0  # of query-document pair prediction
    c.mlm_weight = 1.0  # of masked language modelling
    c.mlm_rate = 0.15  # share of the tokens that are predicted
    c.batch_pairs = 80  # sequences in a batch, on average
    c.row_length = 256
    c.learning_rate = 1e-3  # of bert-tiny
    c.weight_decay = 0.01  # AdamW
    c.steps = 0  # 0: `epochs` over the pairs (or the documents)
    c.epochs = 4.0  # passes over the pairs
    c.lock()
    return c


def neural_ir() -> ConfigDict:
    """Defaults of the neural rankers DRMM, DUET, KNRM and Conv-KNRM, trained on judged queries like fine-tuning."""
    c = _common()
    c.stage = "neural_ir"
    c.model = ConfigDict()  # the fields of `neural_ir.interaction.NeuralConfig`; each model uses some of them
    c.model.name = "knrm"  # the ranker
    c.model.dimension = 100  # of word vectors; `vectors` overrides it
    c.model.query_length = 20  # words; longer queries are truncated
    c.model.train_vectors = True  # KNRM, Conv-KNRM
    c.model.gate = "idf"  # DRMM: weights query words by idf or by vector
    c.model.bins = 30  # DRMM, including the one of exact matches
    c.model.kernels = 11  # KNRM, Conv-KNRM, including the one of exact matches
    c.model.ngrams = 3  # Conv-KNRM: n-grams of 1 … ngrams words
    c.model.filters = 128  # Conv-KNRM, DUET
    c.model.hidden = 300  # DUET: of its dense layers
    c.model.pool = 100  # DUET: words per window of the document's max-pooling
    c.model.graphs = 2000  # DUET: size of the vocabulary of character n-graphs
    c.model.dropout = 0.0  # DUET
    c.tokenizer = ""  # directory of a vocabulary (`harp words`); empty: count the words of `docs`
    c.stemmer = "english"  # used if the vocabulary is counted here
    c.stopwords = "english"  # excluded from it: the list of BM25, or a file with one per line; empty: none
    c.vectors = ""  # word vectors, a text file of word2vec or GloVe; empty: random vectors
    c.row_length = 300  # words of a document; longer ones are truncated
    c.docs = ""  # documents
    c.fields = ("title", "url", "body")  # of a document, in this order
    c.queries = ""  # training queries
    c.qrels = ""  # their judgments
    c.candidates = ""  # a TREC run: where negatives come from
    c.folds = ""  # qid<TAB>fold
    c.train_folds = ()  # empty: all queries
    c.train_queries = ""  # a file whose lines begin with the query ids to train on; empty: all
    c.negatives = 4  # for each positive, drawn from the candidates again in every epoch
    # Also train on relevant documents that the candidates lack; off, as in fine-tuning. On Cranfield's folds AP is higher
    # without them: DRMM .279 (with: .224), KNRM .194 (.156), DUET .224 (.198), Conv-KNRM .154 (.135).
    c.missed_positives = False
    c.rank_loss = "hinge"  # pairwise; or "logistic", "bce", "lce"
    c.margin = 1.0  # of the hinge
    c.select = ""  # a measure such as "RR@10": select parameters by it on held-out training queries; empty: the last
    c.select_fraction = 0.1  # of the training queries, grouped by relevant document
    c.select_queries = 500  # maximum number held out
    c.select_depth = 100  # candidates re-ranked for each of them
    c.batch_pairs = 64  # (query, positive, negative) triples in a batch
    c.learning_rate = 1e-3
    c.lanes = 1  # a multiple of the devices along data × fsdp
    c.window = 256
    c.steps = 0  # 0: `epochs` over the training positives
    c.epochs = 10.0  # passes over the training positives
    c.checkpoint_every = 10_000
    c.lock()
    return c


def linklearn() -> ConfigDict:
    """Defaults of LinkLearn (`harp linklearn-train`)."""
    c = ConfigDict()
    c.docs = ()  # linked documents, JSONL; documents without links may be in separate files
    c.redirects = ()  # alias<TAB>id
    c.stemmer = "english"  # a Snowball stemmer; empty: none
    c.train_fraction = 0.5  # of the documents; links between training and held-out documents are dropped
    c.hidden = 10  # units of each MLP
    c.loss = "hinge"  # or "logistic": RankNet's cross-entropy
    c.batch_documents = 32  # documents d per step, each with one linked document …
    c.negatives = 15  # … and this many unlinked ones: 480 constraints
    c.negatives_from = "uniform"  # as in the paper; or "linked": in proportion to links, against popularity
    c.learning_rate = 3e-3  # of Adam
    c.steps = 10_000  # updates, at most
    c.eval_every = 250  # steps between evaluations on held-out documents
    c.patience = 8  # stop after this many evaluations without improvement
    c.eval_queries = 150  # held-out documents whose links are ranked
    c.eval_documents = 20_000  # held-out documents that are ranked, at most
    c.ranking_svm_constraints = 0  # also train Ranking SVM, on this many constraints; 0: do not
    c.ranking_svm_c = 1.0  # weight of its errors against its margin
    c.seed = 0  # of parameters and sampling
    c.lock()
    return c


def check_fields(config: ConfigDict, names: Iterable[str], where: str, prefix: str = "") -> None:
    """Raises InputError with all names ("model.layers") that are no field of the config at `where`, and their stages."""
    known = names_of(config)
    unknown = [f"{prefix}{name} {_explained(name, known)}" for name in names if name not in known]
    if unknown:
        kind = f"the stage {config.stage}" if "stage" in config else "a generation job" if "source" in config else ""
        raise InputError(f"{where}: no field of {kind or 'this config'}: {', '.join(unknown)}; check the names")


def _explained(name: str, known: set[str]) -> str:
    stages = (pretrain, finetune, coarse_tune, neural_ir, linklearn)
    homes = [stage.__name__ for stage in stages if name in names_of(stage())]
    near = difflib.get_close_matches(name, known, 1)
    said = [f"belongs to {', '.join(homes)}"] if homes else []
    said += [f"did you mean {near[0]}?"] if near else []
    return f"({'; '.join(said)})" if said else "(of no stage)"


def names_of(config: ConfigDict, prefix: str = "") -> set[str]:
    """All names of a config's fields, those of fields that hold fields too."""
    names = set()
    for name, value in config.items():
        names.add(prefix + name)
        if isinstance(value, ConfigDict):
            names |= names_of(value, f"{prefix}{name}.")
    return names


# The values that the fields may have, checked once before anything is read or written.
Ranges = Mapping[str, tuple[float, float]]
MANY = float(1 << 40)
COUNT = (1, 1 << 24)
WEIGHT = (0, 1e6)
SHARE = (0, 1)
TRAINING: Ranges = {
    "model.layers": (1, 1000), "model.hidden": (1, 1 << 16), "model.heads": (1, 1024), "model.intermediate": (0, 1 << 20),
    "model.max_positions": (8, 1 << 20), "model.dropout": (0, 0.99), "model.attention_dropout": (0, 0.99),
    "model.bins": (2, 10_000), "model.dimension": (1, 1 << 16), "model.filters": (1, 1 << 16), "model.graphs": (1, 1 << 24),
    "model.kernels": (2, 1000), "model.ngrams": (1, 10), "model.pool": COUNT, "model.query_length": (1, 1 << 16),
    "row_length": (8, 1 << 20), "rows": (0, 1 << 24), "accumulate": (1, 1 << 16), "lanes": (1, 1 << 12), "window": COUNT,
    "batch_pairs": COUNT, "batch_tokens": (0, 1 << 30), "steps": (0, MANY), "epochs": (0, 1e6),
    "learning_rate": SHARE, "warmup": SHARE, "beta1": (0, 1 - 1e-9), "beta2": (0, 1 - 1e-9), "weight_decay": SHARE,
    "clip_norm": WEIGHT, "mesh.data": (-1, 1 << 20), "mesh.fsdp": (1, 1 << 20), "mesh.model": (1, 1 << 20),
    "seed": (0, (1 << 63) - 2), "log_every": (1, MANY), "probe_every": (0, MANY), "checkpoint_every": (1, MANY),
    "keep_checkpoints": (1, 10_000), "eval_every": (0, MANY), "eval_batches": COUNT, "spike": WEIGHT, "max_skipped": (0, MANY),
    "pair_weight": WEIGHT, "mlm_weight": WEIGHT, "qdpp_weight": WEIGHT, "mqp_weight": WEIGHT, "margin": WEIGHT,
    "mlm_rate": (1e-3, 1), "mlm_head_steps": (0, MANY), "mlm_head_rate": SHARE,
    "negatives": (1, 10_000), "select_fraction": SHARE, "select_queries": COUNT, "select_depth": COUNT,
    "sample": SHARE, "replaced": SHARE,
}  # fmt: skip
CHOICES: Mapping[str, tuple[str, ...]] = {
    "dtype": ("auto", "float32", "bfloat16", "float16"),
    "prng": ("threefry", "rbg"),
    "schedule": ("linear", "cosine", "constant"),
    "task_sampling": ("uniform", "proportional"),
    "model.attention": ("auto", "xla", "cudnn", "splash"),
    "model.remat": ("none", "dots", "layer"),
    "model.name": ("drmm", "duet", "knrm", "conv_knrm"),
    "model.gate": ("idf", "vector"),
}


def fields(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """("model.heads", 12) and so on: every field of a config that is no config itself."""
    for name, value in config.items():
        if isinstance(value, Mapping) or hasattr(value, "items"):
            yield from fields(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def check_numbers(config: Mapping[str, Any], ranges: Ranges) -> None:
    """Raises InputError for a number outside of its range, infinite, or NaN."""
    for name, value in fields(config):
        low, high = ranges.get(name, (-math.inf, math.inf))
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and not (low <= value <= high and value - value == 0)
        ):
            raise InputError(f"--config.{name}={value!r} is out of range; use {low:g} to {high:g}")


def check_training(config: Mapping[str, Any]) -> None:
    """Raises InputError for a config of another command, and for values that no training can use."""
    if "stage" not in config:
        raise InputError(
            "this config has no `stage`: it is no training config; use one of configs/, and one of configs/data/ with harp generate"
        )
    ranges = {
        **TRAINING,
        **{name: WEIGHT for name, _ in fields(config) if name.startswith("task_weights.")},
        "steps": (1 if config["stage"] == "pretrain" else 0, MANY),
    }
    check_numbers(config, ranges)
    found = dict(fields(config))
    for name, choices in CHOICES.items():
        if name in found and found[name] not in choices:
            raise InputError(f"--config.{name}={found[name]!r} is unknown; choose from {', '.join(choices)}")
    if found["mesh.data"] == 0:
        raise InputError("--config.mesh.data=0: use a number of devices, or -1 for all that remain")
    if not found.get("steps", 1) and not found.get("epochs", 1) > 0:
        raise InputError("--config.steps=0 and --config.epochs=0; give a number of steps, or of epochs")
    if not found.get("init", "") and found.get("model.hidden", 1) % found.get("model.heads", 1):
        raise InputError(
            f"--config.model.hidden={found['model.hidden']} is no multiple of model.heads={found['model.heads']}; change either"
        )


# Finding and reading config files.


def read_config(path: str | None, overrides: Sequence[str] = ()) -> Any:
    """The ConfigDict of a config file with `--config.FIELD=VALUE` overrides, locked; None without a path.

    Raises InputError for a file that cannot be read, an unknown field, or a value of the wrong type.
    """
    from absl import flags
    from ml_collections import config_flags

    values = flags.FlagValues()
    config_flags.DEFINE_config_file("config", None, "", flag_values=values, lock_config=True)
    given = [f"--config={config_file(path)}"] if path else []
    words, typed = ["harp", *given, *last_of_each(overrides)], sys.argv
    try:
        sys.argv = words  # where ml_collections looks for the fields to override
        rest = values(words)
        if len(rest) > 1:
            raise InputError(f"unexpected argument {rest[1]!r}; options are written --name=value (see --help)")
        if values.config is not None:
            values.config.lock()  # a file that cannot be read raises on first use: use it here
        return values.config
    except InputError:
        raise
    except Exception as error:  # what the file's code, absl and ml_collections raise
        if path and overrides:
            names = [word.partition("=")[0].partition(".")[2] for word in overrides if word.startswith("--config.")]
            check_fields(read_config(path), names, path, "--config.")
        raise InputError(
            f"{str(error)[:1000] or 'a value is nested too deeply'}; check --config and its fields"
        ) from error
    finally:
        sys.argv = typed


def last_of_each(overrides: Sequence[str]) -> list[str]:
    """The words without earlier values of a field that is given again; ml_collections would join the values of tuples."""
    found: dict[str, list[str]] = {}
    field = ""
    for number, word in enumerate(overrides):
        if word.startswith("--"):
            name, equals, _ = word.partition("=")
            field = name if equals or name.startswith("--config.") else f"{name} {number}"
            found.pop(field, None)
        elif not field:
            field = f"{number}"
        found.setdefault(field, []).append(word)
    return [word for words in found.values() for word in words]


def config_file(name: str) -> str:
    """Path of a config: `name` if it is a file, else configs/NAME.py of the installed package; keeps `:PRESET`."""
    path, colon, preset = name.partition(":")
    if os.path.isfile(path):
        return name
    shipped = shipped_file(path.removeprefix("configs/").removesuffix(".py") + ".py")
    return shipped + colon + preset if shipped else name


def shipped_file(name: str) -> str:
    """Path of a file below configs/ of this checkout or installation; empty if it does not exist."""
    checkout = Path(__file__).parents[1]
    # In an installation the folder beside the package may hold another project's configs.
    folders = [checkout / "configs"] if (checkout / "setup.py").is_file() else []
    spec = importlib.util.find_spec("harp_jax.configs")
    folders += [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    for folder in folders:
        if (folder / name).is_file():
            return str(folder / name)
    return ""
