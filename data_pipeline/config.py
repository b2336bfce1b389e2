"""Every field of a generation config, declared once; a config file starts from their defaults and sets its own.

Where the paper and its authors' code differ, the choice is a field (see presets.py). The reason for a default is given where the
field is used.
"""

import json
import os
from typing import Any

from ml_collections import ConfigDict

from data_pipeline.engine.job import ALL_WEIGHTS, SENTENCES, Config
from data_pipeline.presets import PRESETS
from data_pipeline.sources import formats
from data_pipeline.tasks.table import TASKS, needs
from data_pipeline.weights.artefact import WITHOUT_ENCODER
from harp_jax.base.errors import InputError, how_to_fetch
from harp_jax.base.files import expand
from harp_jax.config import Field, Fields, check_values, defaults, with_preset

SPLITS = ("auto", "pages", "sections")

FIELDS: Fields = {
    "source.format": Field("mediawiki", '"": detected from the content', ("", *formats.FORMATS)),
    "source.paths": Field((), "files or globs; also folders for html, wikiextractor and JSONL"),
    "source.index": Field(
        (), "mediawiki: indices of multistream dumps, one per dump; the workers then decompress in parallel"
    ),
    "source.base_url": Field(
        "", "html: URL of the folder, for links written as whole URLs; relative links do not need it"
    ),
    "source.boilerplate_share": Field(
        0.5, "html, warc: drop links that occur on more than this share of a site's pages", (1e-09, 1)
    ),
    "source.split": Field(
        "auto",
        'html, warc: documents are "pages", or "sections" at anchored headings and terms; "auto": sections on sites '
        "where most links lead to one",
        SPLITS,
    ),
    "source.redirects": Field((), "more redirects: files of `address<TAB>address`"),
    "source.max_page_bytes": Field(
        2 << 20, "MediaWiki's own limit; larger pages are counted and skipped", (1, 1 << 30)
    ),
    "tokenizer": Field("", "Hugging Face directory or vocab.txt"),
    "encoder": Field(
        "", 'source of the term weights: Hugging Face directory, training workdir, or "uniform", "idf" (no encoder)'
    ),
    "encoder_dtype": Field(
        "float32",
        'of its matrix products; "bfloat16" is several times faster where the hardware supports it',
        ("float32", "bfloat16"),
    ),
    "encoder_batch_tokens": Field(
        2048, "token slots per batch of the encoder; use 65536 on an accelerator", (1, 1 << 30)
    ),
    "term_weights": Field("", "a finished term_weights/ directory of the same input, used instead of the encoder"),
    "keep_term_weights": Field(True, "keep them in the output directory"),
    "tasks": Field(
        ("rqp", "qdm", "rdp", "acm", "mlm"),
        'Also "adp", and the controls "ict", "wlp", "prop"; without links only "ict", "prop", "mlm".',
    ),
    "seed": Field(0, "of all sampling", (-(1 << 62), 1 << 62)),
    "min_article_words": Field(100, "shorter pages are dropped, as in the paper (section 4.1.1)", (0, 1 << 30)),
    "min_section_words": Field(10, "of a section that is a document (source.split)", (0, 1 << 30)),
    "keep_disambiguation": Field(False, "keep links to disambiguation pages"),
    "exclude_destinations": Field(
        "", "file of titles or ids, one per line, that no pair may link to (judged documents)"
    ),
    "max_anchor_words": Field(16, "longer anchors are whole clauses, not queries", (1, 1 << 20)),
    "drop_number_anchors": Field(True, 'years, dates and other numbers: "1990s", "5 May 1821"'),
    "drop_boilerplate": Field(True, "navigation: known phrases, and the two limits below; see anchors.py"),
    "boilerplate_anchors": Field((), "more phrases"),
    "max_link_pages": Field(
        0.5, "an anchor with one destination on more than this share of the pages (and on 20) is a menu", (0, 1)
    ),
    "max_anchor_destinations": Field(
        1000, "an anchor text with more destinations describes none of them", (1, 1 << 40)
    ),
    "document_title": Field(False, "put the title before the destination's first section (it would leak RQP)"),
    "page_identity": Field(
        "id", 'or "text": pages whose first sections are equal in lower case are one page', ("id", "text")
    ),
    "stopwords": Field("", "file with one word per line; empty: the built-in list of English function words"),
    "unit": Field(
        "words", 'what is sampled; or "wordpieces", whose ## pieces no stopword list contains', ("words", "wordpieces")
    ),
    "query_length": Field(3.0, "λ of the Poisson distribution, truncated to at least 1 (Eq. 4)", (0.001, 1000)),
    "length_distribution": Field("poisson", 'or "normal": int(N(λ, 1)), at least 1', ("poisson", "normal")),
    "anchor_row": Field(
        "span",
        'Eq. 1: attention from the anchor\'s span, or from the first occurrence of its "first_piece"',
        ("span", "first_piece"),
    ),
    "attention_scale": Field(
        1.0, "factor of β; 12: attention summed over BERT-base's heads instead of averaged", (1e-06, 1000000.0)
    ),
    "weighting": Field(
        "softmax", 'over the words of the text (Eq. 3), or "normalised": β/Σβ', ("softmax", "normalised")
    ),
    "temperature": Field(1.0, 'of "normalised": weights^(1/temperature); below 1 sharpens', (0.001, 1000.0)),
    "replacement": Field(False, "sample the words of a query with replacement"),
    "query_order": Field(
        "shuffled", 'or "anchor_last", which alone distinguishes S1 from S2', ("shuffled", "anchor_last")
    ),
    "anchor_in_context": Field(False, "allow words of the anchor in the sampled context (RQP, QDM, ACM)"),
    "anchor_in_s2": Field(False, "allow words of the anchor in S2; Eq. 5 excludes them"),
    "s2_length": Field("equal", 'to S1\'s, in words; or "drawn" independently', ("equal", "drawn")),
    "context_in_page": Field(
        False, "RQP: sample S1's context from words of P only; else a word absent from P identifies S1"
    ),
    "text_pages": Field(
        "all",
        'pages used by ICT and PROP, or "linked": those that links lead to, the documents of HARP',
        ("all", "linked"),
    ),
    "max_query_tokens": Field(256, "only sentences (RDP) come close to it", (1, 1 << 20)),
    "max_doc_tokens": Field(509, "of a document; longer ones are truncated", (1, 510)),
    "validation_fraction": Field(0.01, "of the source pages", (0, 0.999999999)),
    "shard_bytes": Field(64 << 20, "at most", (1024, 1 << 40)),
    "workers": Field(
        2,
        "processes of the maps; each needs a few times the size of a bucket (about 200 MB for a 100 GB dump)",
        (1, 1024),
    ),
    "memory_limit": Field("4GB", "of the joins, in addition to the idle workers; what exceeds it spills to disk"),
    "temp_directory": Field("", "where joins spill; empty: in the output directory"),
    "keep_work": Field(False, "keep the intermediate tables after the job"),
    **{name: field for task in TASKS.values() for name, field in task.fields.items()},
}


def generation(preset: str = "") -> ConfigDict:
    """The defaults, changed by the preset "recommended", "paper" or "official"; InputError for an unknown preset."""
    return with_preset(defaults(FIELDS), preset, PRESETS)


def plain(config: ConfigDict) -> Config:
    """The config as JSON holds it; raises InputError for invalid values, and for a config of another command."""
    if "source" not in config:
        raise InputError("this config has no `source`: it is no generation config; use one of configs/data/")
    c = json.loads(config.to_json_best_effort())
    check_given(c, existing=False)
    c["source"] = plain_source(config)
    if not c["tasks"] or set(c["tasks"]) - set(TASKS):
        raise InputError(f"config.tasks {c['tasks']} must name one or more of {', '.join(TASKS)}")
    check_values(c, FIELDS)
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
    check_values({"source": source}, FIELDS)
    if source["index"] and source["format"] != "mediawiki":
        raise InputError(
            "config.source.index is for multistream dumps; set config.source.format to mediawiki, or leave the index out"
        )
    return source


def weighed(c: Config) -> bool:
    """Does the job need term weights?"""
    return not {SENTENCES, ALL_WEIGHTS}.isdisjoint(needs(c))
