"""Every field of a generation config (default, meaning, allowed values), and the presets.

A task's fields are in its own file (tasks/). A value that no shipped config, preset, experiment or equation changes is a constant
where it is used.

A preset is named after a colon; fields on the command line override it:

python -m data_pipeline.main --config=configs/data/enwiki.py:official --config.rdp_pairs=sampled …

Where the paper's equations cannot be used as printed, "paper" corrects them: lengths are Poisson with the factorial that Eq. 4
lacks, conditioned on at least 1; the softmax of Eq. 3 runs over the words of the text (over a whole vocabulary, nearly all mass
falls on absent words); Eq. 5 excludes the anchor's words (with a weight of 0 the softmax would still sample them); two anchors
with one destination or equal weights make no pair. Neither preset makes pairs whose two sides are equal. docs/reproduce.md lists
what "paper" leaves open or does otherwise.

"recommended" is for small encoders and short training: one task, queries with the words and word order of their sentence, and
negatives as popular as the positives. Its settings for other tasks apply if you add them. docs/lab/links.md has the measurements.
Use it with the training preset of the same name (harp_jax/config.py).
"""

import json
from typing import Any

from ml_collections import ConfigDict

from data_pipeline.engine.job import ALL_WEIGHTS, SENTENCES, Config
from data_pipeline.sources.formats import FORMATS, Language, format_of_content, language_of
from data_pipeline.tasks.table import HARP, TASKS, needs
from harp_jax.base.errors import InputError
from harp_jax.base.files import expand
from harp_jax.config import Field, Fields, check_values, defaults, with_preset
from harp_jax.text.languages import INQUERY, primary

AUTHORS = "authors"  # of `stopwords`: refused, with the place of their file
THEIRS = "their file, data/corpus/stopwords.txt of https://github.com/zhengyima/anchors"
NO_PATHS = "config.source.paths is not set; name the files to read"
SOURCE: Fields = {
    "source.format": Field("mediawiki", 'format of the pages; "": detected from the content', ("", *FORMATS)),
    "source.paths": Field((), "files or globs to read; also folders for html, wikiextractor and JSONL"),
    "source.base_url": Field(
        "", "html: URL of the folder, to recognise links written as absolute URLs; relative links do not need it"
    ),
    "source.split": Field(
        "auto",
        'html, warc: documents are "pages", or "sections" at anchored headings and terms; "auto": sections on sites where most '
        "links lead to one",
        ("auto", "pages", "sections"),
    ),
    "source.exclude": Field((), "pages to skip: patterns of ids (URLs, titles), such as `*/releaselog/*`"),
    "source.redirects": Field((), "additional redirects: files of `address<TAB>address` lines"),
    "source.max_page_bytes": Field(
        2 << 20,
        "largest page to read, by default MediaWiki's own limit; larger pages are counted and skipped",
        (1, 1 << 30),
    ),
}
FIELDS: Fields = {
    **SOURCE,
    "tokenizer": Field("", "Hugging Face directory or vocab.txt"),
    "encoder": Field(
        "", 'source of the term weights: Hugging Face directory, training workdir, or "uniform", "idf" (no encoder)'
    ),
    "encoder_dtype": Field(
        "float32",
        'precision of the encoder\'s matrix products; "bfloat16" is several times faster where the hardware supports it',
        ("float32", "bfloat16"),
    ),
    "tasks": Field(HARP, f"tasks to generate pairs for, any of {', '.join(TASKS)}"),
    "seed": Field(0, "random seed of all sampling", (-(1 << 62), 1 << 62)),
    "min_article_words": Field(100, "drop pages with fewer words (section 4.1.1), and sections below 5", (0, 1 << 30)),
    "exclude_destinations": Field(
        "", "file of titles or ids, one per line, that no pair may link to (judged documents)"
    ),
    "linking_pages": Field(
        1.0, "fraction of the pages whose links become pairs, drawn by the hash of their ids", (1e-9, 1)
    ),
    "drop_anchors": Field(
        True, "drop anchors that are numbers, dates or navigation, and links in menus (links/link_graph.py)"
    ),
    "destination_text": Field(
        "first_section",
        'text that represents a page as a destination; "first_paragraph": of the first section, about a third on Wikipedia',
        ("first_section", "first_paragraph"),
    ),
    "document_title": Field(False, "put the title before the destination's text (it would leak RQP)"),
    "page_identity": Field(
        "id",
        'what identifies a page; "text": pages whose texts as destinations are equal in lower case are one page',
        ("id", "text"),
    ),
    "language": Field(
        "",
        "language of the pages, such as de, for sentences and stopwords; empty: from <html lang>, the dump or the text, else en",
    ),
    "stopwords": Field(
        "",
        'file with one word per line, or "inquery": the 418 words of the paper; empty: the function words of the language',
    ),
    "unit": Field("words", 'unit to sample; with "tokens", parts of words are never stopwords', ("words", "tokens")),
    "query_length": Field(3.0, "λ of the Poisson distribution, truncated to at least 1 (Eq. 4)", (1e-3, 1000)),
    "anchor_row": Field(
        "span",
        'Eq. 1: attention from the anchor\'s span, or from the first occurrence of its "first_token"',
        ("span", "first_token"),
    ),
    "attention_scale": Field(
        1.0, "factor of β; 12 sums the attention of BERT-base's heads instead of averaging it", (1e-6, 1e6)
    ),
    "weighting": Field(
        "softmax", '"softmax" over the words of the text (Eq. 3), or "normalised": β/Σβ', ("softmax", "normalised")
    ),
    "sampling": Field(
        "paper",
        'sample by the equations ("paper") or as the authors\' code ("official"): lengths are int(N(λ, 1)); words are drawn with '
        "replacement, including the anchor's, which end the query; S2 has another length; an ambiguous anchor uses the first links "
        "of the corpus (QDM); each side draws its own query (ACM)",
        ("paper", "official"),
    ),
    "text_pages": Field(
        "all",
        'pages used by the controls: "all", or the "linked" ones, which are the documents of HARP',
        ("all", "linked"),
    ),
    "max_query_tokens": Field(256, "maximum tokens of a query; only sentences (RDP) come close to it", (1, 1 << 20)),
    "max_doc_tokens": Field(509, "maximum tokens of a document; longer ones are truncated", (1, 1 << 20)),
    "validation_fraction": Field(0.01, "fraction of the source pages held out for validation", (0, 1 - 1e-9)),
    "workers": Field(
        2,
        "processes for the map stages; each needs a few times the size of a bucket (about 200 MB for a 100 GB dump)",
        (1, 1024),
    ),
    "memory_limit": Field(
        "4GB",
        "memory limit of the joins, in addition to the idle workers; what exceeds it spills to the output directory",
    ),
    "keep_work": Field(False, "keep the intermediate tables after the job"),
    **{name: field for task in TASKS.values() for name, field in task.fields.items()},
}

PRESETS: dict[str, dict[str, Any]] = {
    "recommended": {
        "tasks": ("adp",),
        "adp_queries": ("window",),
        "weighting": "normalised",  # a softmax over attention shares is nearly uniform
        "hard_negatives": 3,  # `harp teach` orders them; without a teacher, training reads the first
        "context_in_page": True,  # for RQP, if you add it: otherwise a word absent from the page identifies S1
        "qdm_negative": "occurrence",  # drawn like the positives; if uniform, in-links alone decide most pairs
        "acm_negative": "in_links",
    },
    "paper": {
        "drop_anchors": False,
        "destination_text": "first_paragraph",  # Table 1 has 74 to 90 tokens a document; first sections have 292 on average
        "stopwords": INQUERY,
        "anchor_in_context": True,
        "qdm_positives": 0,
        "qdm_negative": "occurrence",
        "rdp_direction": "to_cls",
        "acm_pairs": "sampled",
        "acm_negative": "corpus",
        "acm_exclude_colinked": False,
    },
    "official": {
        "drop_anchors": False,
        "destination_text": "first_paragraph",  # the documents of the authors' demo have 85 tokens
        "page_identity": "text",
        "stopwords": AUTHORS,
        "unit": "tokens",
        "anchor_row": "first_token",
        "attention_scale": 12.0,
        "sampling": "official",
        "rdp_pairs": "all",
        "acm_pairs": "all",
        "acm_max_tokens": 250,
        "acm_exclude_colinked": False,
    },
}


def generation(preset: str = "") -> ConfigDict:
    """The defaults, changed by the preset "recommended", "paper" or "official"; InputError for an unknown preset."""
    return with_preset(defaults(FIELDS), preset, PRESETS)


def validated_dict(config: ConfigDict) -> Config:
    """The config as plain JSON values; raises InputError for invalid values, or a config of another command."""
    if "source" not in config:
        raise InputError("this config has no `source`, so it is not a generation config; use one of configs/data/")
    c = json.loads(config.to_json_best_effort())
    check_values(c, FIELDS)
    unknown = set(c["tasks"]) - set(TASKS)
    # A config with an encoder may lack a tokenizer: `harp anchors` tokenises nothing.
    unweighed = not unknown and not c["encoder"] and weighed(c)
    checks = (
        (not c["source"]["paths"], NO_PATHS),
        (unknown or not c["tasks"], f"config.tasks {c['tasks']} must name one or more of {', '.join(TASKS)}"),
        (unweighed and not c["tokenizer"], "config.tokenizer is not set; name a Hugging Face directory or a vocab.txt"),
        (unweighed, 'config.encoder is not set; a Hugging Face directory, a training workdir, "uniform" or "idf"'),
        (
            c["stopwords"] == AUTHORS,
            f"config.stopwords: the authors' code filters with its own 1,321 words; name {THEIRS}",
        ),
        (
            c["context_in_page"] and c["sampling"] == "official",
            "config.context_in_page draws without replacement; unset it, or config.sampling",
        ),
    )
    if problems := [problem for wrong, problem in checks if wrong]:
        raise InputError("; ".join(problems))
    source = validated_source(config)
    tag = language(config, source)
    return c | {"source": source, "language": tag.tag, "language_from": tag.origin}


def validated_source(config: ConfigDict) -> dict[str, Any]:
    """config.source as plain JSON values, its format detected if it is not set; InputError for invalid values."""
    source = json.loads(config.source.to_json_best_effort())
    check_values({"source": source}, SOURCE)
    if not source["paths"]:
        raise InputError(NO_PATHS)
    source["format"] = source["format"] or format_of_content(expand(tuple(source["paths"]))[0])
    return source


def language(config: ConfigDict, source: dict[str, Any]) -> Language:
    """`config.language`, or the language of the source. Raises InputError for an invalid language tag."""
    return Language(config.language, "as given") if primary(config.language) else language_of(source)


def weighed(c: Config) -> bool:
    """Whether the job needs term weights."""
    return not {SENTENCES, ALL_WEIGHTS}.isdisjoint(needs(c))
