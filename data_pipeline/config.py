"""The fields of a generation config and their defaults; a config file starts from these and sets its own.

Where the paper and its authors' code differ, the choice is a field (see presets.py). The reason for a default is given where the
field is used.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

from ml_collections import ConfigDict

from data_pipeline.engine.job import ALL_WEIGHTS, SENTENCES, Config
from data_pipeline.presets import PRESETS
from data_pipeline.sources import formats
from data_pipeline.tasks.table import TASKS, needs
from data_pipeline.tasks.task import Field
from data_pipeline.weights.artefact import WITHOUT_ENCODER
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import expand
from harp_jax.config import Ranges, check_numbers

SPLITS = ("auto", "pages", "sections")
CHOICES = {
    "page_identity": ("id", "text"),
    "unit": ("words", "wordpieces"),
    "anchor_row": ("span", "first_piece"),
    "length_distribution": ("poisson", "normal"),
    "weighting": ("softmax", "normalised"),
    "query_order": ("shuffled", "anchor_last"),
    "s2_length": ("equal", "drawn"),
    "text_pages": ("all", "linked"),
    "encoder_dtype": ("float32", "bfloat16"),
}

RANGES: Ranges = {
    "source.max_page_bytes": (1, 1 << 30), "encoder_batch_tokens": (1, 1 << 30), "seed": (-(1 << 62), 1 << 62),
    "min_article_words": (0, 1 << 30), "min_section_words": (0, 1 << 30),
    "max_anchor_words": (1, 1 << 20), "max_link_pages": (0, 1),
    "max_anchor_destinations": (1, 1 << 40), "query_length": (1e-3, 1000), "attention_scale": (1e-6, 1e6),
    "temperature": (1e-3, 1e3), "max_query_tokens": (1, 1 << 20), "max_doc_tokens": (1, 510),
    "validation_fraction": (0, 1 - 1e-9), "shard_bytes": (1024, 1 << 40), "workers": (1, 1024),
}  # fmt: skip


def generation(preset: str = "") -> ConfigDict:
    """The defaults, changed by the preset "recommended", "paper" or "official"; InputError for an unknown preset."""
    c = ConfigDict()
    c.source = ConfigDict()
    c.source.format = (
        "mediawiki"  # or "wikiextractor", "linked_jsonl", "harp_json", "html", "warc"; "": told by content
    )
    c.source.paths = ()  # files or globs; also folders for html, wikiextractor and JSONL
    c.source.index = ()  # mediawiki: indices of multistream dumps, one per dump; the workers then decompress in parallel
    c.source.base_url = ""  # html: URL of the folder, for links written as whole URLs; relative links do not need it
    c.source.boilerplate_share = 0.5  # html, warc: drop links that occur on more than this share of a site's pages
    # html, warc: documents are "pages", or "sections" at anchored headings and terms; "auto": sections on sites where most links
    # lead to one
    c.source.split = "auto"
    c.source.redirects = ()  # more redirects: files of `address<TAB>address`
    c.source.max_page_bytes = 2 << 20  # MediaWiki's own limit; larger pages are counted and skipped
    c.tokenizer = ""  # Hugging Face directory or vocab.txt
    c.encoder = (
        ""  # source of the term weights: Hugging Face directory, training workdir, or "uniform", "idf" (no encoder)
    )
    c.encoder_dtype = (
        "float32"  # of its matrix products; "bfloat16" is several times faster where the hardware supports it
    )
    c.encoder_batch_tokens = 2048  # token slots per batch of the encoder; use 65536 on an accelerator
    c.term_weights = ""  # a finished term_weights/ directory of the same input, used instead of the encoder
    c.keep_term_weights = True  # keep them in the output directory
    # Also "adp", and the controls "ict", "wlp", "prop"; without links only "ict", "prop", "mlm".
    c.tasks = ("rqp", "qdm", "rdp", "acm", "mlm")
    c.seed = 0  # of all sampling

    c.min_article_words = 100  # shorter pages are dropped, as in the paper (section 4.1.1)
    c.min_section_words = 10  # of a section that is a document (source.split)
    c.keep_disambiguation = False  # keep links to disambiguation pages
    c.exclude_destinations = ""  # file of titles or ids, one per line, that no pair may link to (judged documents)
    c.max_anchor_words = 16  # longer anchors are whole clauses, not queries
    c.drop_number_anchors = True  # years, dates and other numbers: "1990s", "5 May 1821"
    c.drop_boilerplate = True  # navigation: known phrases, and the two limits below; see anchors.py
    c.boilerplate_anchors = ()  # more phrases
    c.max_link_pages = 0.5  # an anchor with one destination on more than this share of the pages (and on 20) is a menu
    c.max_anchor_destinations = 1000  # an anchor text with more destinations describes none of them
    c.document_title = False  # put the title before the destination's first section (it would leak RQP)
    c.page_identity = "id"  # or "text": pages whose first sections are equal in lower case are one page

    c.stopwords = ""  # file with one word per line; empty: the built-in list of English function words
    c.unit = "words"  # what is sampled; or "wordpieces", whose ## pieces no stopword list contains
    c.query_length = 3.0  # λ of the Poisson distribution, truncated to at least 1 (Eq. 4)
    c.length_distribution = "poisson"  # or "normal": int(N(λ, 1)), at least 1
    c.anchor_row = "span"  # Eq. 1: attention from the anchor's span, or from the first occurrence of its "first_piece"
    c.attention_scale = 1.0  # factor of β; 12: attention summed over BERT-base's heads instead of averaged
    c.weighting = "softmax"  # over the words of the text (Eq. 3), or "normalised": β/Σβ
    c.temperature = 1.0  # of "normalised": weights^(1/temperature); below 1 sharpens
    c.replacement = False  # sample the words of a query with replacement
    c.query_order = "shuffled"  # or "anchor_last", which alone distinguishes S1 from S2
    c.anchor_in_context = False  # allow words of the anchor in the sampled context (RQP, QDM, ACM)
    c.anchor_in_s2 = False  # allow words of the anchor in S2; Eq. 5 excludes them
    c.s2_length = "equal"  # to S1's, in words; or "drawn" independently
    c.context_in_page = False  # RQP: sample S1's context from words of P only; else a word absent from P identifies S1

    c.text_pages = "all"  # pages used by ICT and PROP, or "linked": those that links lead to, the documents of HARP
    c.max_query_tokens = 256  # only sentences (RDP) come close to it
    c.max_doc_tokens = 509  # of a document; longer ones are truncated
    c.validation_fraction = 0.01  # of the source pages
    c.shard_bytes = 64 << 20  # at most
    c.workers = 2  # processes of the maps; each needs a few times the size of a bucket (about 200 MB for a 100 GB dump)
    c.memory_limit = "4GB"  # of the joins, in addition to the idle workers; what exceeds it spills to disk
    c.temp_directory = ""  # where joins spill; empty: in the output directory
    c.keep_work = False  # keep the intermediate tables after the job
    for name, field in task_fields():
        c[name] = field.default
    if preset not in ("", *PRESETS):
        raise InputError(f"unknown preset {preset!r}; use one of {', '.join(PRESETS)}, or none")
    c.update(PRESETS.get(preset, {}))
    c.lock()
    return c


def plain(config: ConfigDict) -> Config:
    """The config as JSON holds it; raises InputError for invalid values, and for a config of another command."""
    if "source" not in config:
        raise InputError("this config has no `source`: it is no generation config; use one of configs/data/")
    c = json.loads(config.to_json_best_effort())
    check_given(c, existing=False)
    c["source"] = plain_source(config)
    if not c["tasks"] or set(c["tasks"]) - set(TASKS):
        raise InputError(f"config.tasks {c['tasks']} must name one or more of {', '.join(TASKS)}")
    allowed_choices, allowed_numbers = limits()
    for field, choices in allowed_choices.items():
        if c[field] not in choices:
            raise InputError(f"config.{field} is {c[field]!r}; choose one of {', '.join(choices)}")
    check_numbers(c, allowed_numbers)
    if c["context_in_page"] and c["replacement"]:
        raise InputError("config.context_in_page draws without replacement; unset it or config.replacement")
    if not c["encoder"] and not c["term_weights"] and weighed(c):
        raise InputError('no config.encoder; name a Hugging Face directory, a training workdir, "uniform" or "idf"')
    return c


def check_given(c: Config, existing: bool = True) -> None:
    """Raises InputError with all inputs that are not set or (`existing`) do not exist, if there are several."""
    paths = {"tokenizer": c["tokenizer"], "encoder": c["encoder"] if not c["term_weights"] else ""}
    missing = [] if c["source"]["paths"] else ["config.source.paths (the files to read)"]
    missing += [] if c["tokenizer"] else ["config.tokenizer (a Hugging Face directory or a vocab.txt)"]
    if not c["encoder"] and not c["term_weights"] and weighed(c):
        missing.append('config.encoder (a Hugging Face directory, a training workdir, "uniform" or "idf")')
    absent = {
        name: path
        for name, path in paths.items()
        if existing and path and path not in WITHOUT_ENCODER and "://" not in path and not os.path.exists(path)
    }
    missing += [f"config.{name}={path} (does not exist)" for name, path in absent.items()]
    if len(missing) > 1:
        hint = next((hint for path in absent.values() if (hint := how_to_fetch(path))), "")
        raise InputError(f"missing inputs: {', '.join(missing)}; set them{hint}")


def plain_source(config: ConfigDict) -> dict[str, Any]:
    """config.source as JSON holds it, its format told by the content if none is named; InputError for invalid values."""
    source = json.loads(config.source.to_json_best_effort())
    if not source["paths"]:
        raise InputError("config.source.paths is empty; name the files to read")
    source["format"] = source["format"] or formats.format_of_content(expand(tuple(source["paths"]))[0])
    if source["format"] not in formats.FORMATS:
        raise InputError(f"unknown config.source.format {source['format']!r}; use one of {', '.join(formats.FORMATS)}")
    if not 0 < source["boilerplate_share"] <= 1:
        raise InputError(
            f"config.source.boilerplate_share is {source['boilerplate_share']!r}; it must lie in (0, 1]; 1 keeps all"
        )
    if source["split"] not in SPLITS:
        raise InputError(f"config.source.split is {source['split']!r}; choose one of {', '.join(SPLITS)}")
    if source["index"] and source["format"] != "mediawiki":
        raise InputError(
            "config.source.index is for multistream dumps; set config.source.format to mediawiki, or leave the index out"
        )
    return source


def limits() -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[float, float]]]:
    """The choices and the ranges of the fields, those of the tasks among them."""
    own = {name: field.allowed for name, field in task_fields() if field.allowed}
    choices = {name: allowed for name, allowed in own.items() if isinstance(allowed[0], str)}
    return {**CHOICES, **choices}, {**RANGES, **{name: pair for name, pair in own.items() if name not in choices}}


def task_fields() -> Iterator[tuple[str, Field]]:
    """The config fields of all tasks."""
    for task in TASKS.values():
        yield from task.fields.items()


def weighed(c: Config) -> bool:
    """Does the job need term weights?"""
    return not {SENTENCES, ALL_WEIGHTS}.isdisjoint(needs(c))
