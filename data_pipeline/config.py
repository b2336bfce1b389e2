"""Every field a generation config may have, with its default. A config file takes one and changes what it means.

The choices where paper and authors' code differ are fields (see presets.py); the defaults are argued for where they are used.
"""

import json
from typing import Any

from ml_collections import ConfigDict

from data_pipeline.presets import PRESETS
from harp_jax.errors import InputError
from harp_jax.input.records import HARP_TASKS, TASKS, TEXT_TASK

Config = dict[str, Any]  # a generation config as plain JSON values: what `plain` returns

# What may differ between two runs that write the same bytes.
NOT_IDENTITY = ("workers", "memory_limit", "temp_directory", "keep_work", "encoder_batch_tokens")
FORMATS = (
    "mediawiki",
    "wikiextractor",
    "linked_jsonl",
    "harp_json",
    "html",
    "warc",
)  # how each is read: sources/formats.py
CHOICES = {
    "page_identity": ("id", "text"),
    "unit": ("words", "wordpieces"),
    "anchor_row": ("span", "first_piece"),
    "length_distribution": ("poisson", "normal"),
    "weighting": ("softmax", "normalised"),
    "query_order": ("shuffled", "anchor_last"),
    "s2_length": ("equal", "drawn"),
    "qdm_positive": ("sampled", "first"),
    "qdm_negative": ("uniform", "occurrence"),
    "rdp_direction": ("from_cls", "to_cls"),
    "rdp_repeats": ("summed", "first"),
    "rdp_pairs": ("sampled", "all"),
    "acm_query": ("shared", "anew"),
    "acm_negative": ("linked", "in_links", "corpus"),
    "text_pages": ("all", "linked"),
    "ict_negative": ("article", "other_article"),
    "wlp_negative": ("neighbour", "corpus"),
    "prop_distribution": ("query_likelihood", "contrastive"),
    "encoder_dtype": ("float32", "bfloat16"),
}


def generation(preset: str = "") -> ConfigDict:
    """Defaults of the generation job, or what `presets.py` says of "paper" or "official"; InputError for another name."""
    c = ConfigDict()
    c.source = ConfigDict()
    c.source.format = "mediawiki"  # or "wikiextractor", "linked_jsonl", "harp_json", "html", "warc"
    c.source.paths = ()  # files or globs; for html, wikiextractor and JSONL folders too
    c.source.index = ()  # mediawiki: the indices of multistream dumps, one a dump; blocks are read in parallel then
    c.source.base_url = ""  # html: the URL of the folder; its pages link by URL, and relative links need none
    c.source.boilerplate_share = 0.5  # html, warc: a link that more than this share of a site's pages has is dropped
    c.source.redirects = ()  # further redirects, files of `address<TAB>address`
    c.source.max_page_bytes = 2 << 20  # MediaWiki's own limit; larger pages are counted and skipped
    c.tokenizer = ""  # Hugging Face directory or vocab.txt
    c.encoder = ""  # whose attention weighs the terms: Hugging Face directory or training workdir; "uniform", "idf"
    c.encoder_dtype = "float32"  # of its products; "bfloat16" is several times as fast where the hardware has it
    c.encoder_batch_tokens = 2048  # slots of one batch of the encoder; an accelerator wants 65536
    c.term_weights = ""  # a finished term_weights/ directory of the same input, used instead of the encoder
    c.keep_term_weights = True  # keep them in the output directory
    c.tasks = (*HARP_TASKS, TEXT_TASK)  # controls: "ict", "wlp", "prop"; without links only "ict", "prop", "mlm"
    c.seed = 0

    c.min_article_words = 100  # shorter pages are left out altogether, as in the paper (section 4.1.1)
    c.keep_disambiguation = False  # may links lead to disambiguation pages?
    c.exclude_destinations = ""  # a file of titles or ids, one a line, that no pair may link to (judged documents)
    c.max_anchor_words = 16  # longer anchors are whole clauses, not queries
    c.drop_number_anchors = True  # years, dates and other numbers: "1990s", "5 May 1821"
    c.drop_boilerplate = True  # navigation: by phrase, and by the two limits below; see anchors.py
    c.boilerplate_anchors = ()  # further phrases
    c.max_link_pages = 0.5  # one anchor to one destination on more than this share of the pages (and on 20) is a menu
    c.max_anchor_destinations = 1000  # an anchor text that leads to more pages than this describes none of them
    c.document_title = False  # show the title before the destination's first section (it would leak RQP)
    c.page_identity = "id"  # or pages are one if their first sections are the same lower-cased "text"

    c.stopwords = ""  # a list, one word a line; empty: our own of English function words
    c.unit = "words"  # that are sampled, or "wordpieces", whose ## pieces no stopword list stops
    c.query_length = 3.0  # λ of the Poisson distribution, truncated to at least 1 (Eq. 4)
    c.length_distribution = "poisson"  # or "normal": int(N(λ, 1)), at least 1
    c.anchor_row = (
        "span"  # Eq. 1: attention from the anchor's own span, or from its "first_piece" where that first occurs
    )
    c.attention_scale = 1.0  # of β; 12: summed over BERT-base's heads instead of averaged
    c.weighting = "softmax"  # of the present words (Eq. 3), or "normalised": β/Σβ
    c.temperature = 1.0  # of "normalised": weights^(1/temperature); below 1 sharpens
    c.replacement = False  # may a query hold a sampled word twice?
    c.query_order = "shuffled"  # or "anchor_last", which tells S1 from S2 by itself
    c.anchor_in_context = False  # may the sampled context (RQP, QDM, ACM) repeat words of the anchor?
    c.anchor_in_s2 = False  # Eq. 5 keeps the anchor's words out of S2
    c.s2_length = "equal"  # in words, to S1's; or "drawn" anew
    c.context_in_page = False  # RQP: only words of P as S1's context; else "a word absent from P" tells S1 from S2

    c.qdm_positives = 10  # occurrences of an ambiguous anchor text that become pairs, at most; 0: all
    c.qdm_positive = "sampled"  # which ones, or the "first"
    c.qdm_negative = "uniform"  # over the anchor's other destinations, or weighted by "occurrence"
    c.rdp_direction = "from_cls"  # Eq. 10: attention from [CLS] to the anchor, or from the anchor "to_cls"
    c.rdp_repeats = "summed"  # Eq. 11: over the occurrences of an anchor text, or that of the "first"
    c.rdp_pairs = "sampled"  # two anchors by Eq. 11, or "all" pairs of a sentence
    c.rdp_contrast = True  # different destinations and a weight gap; else ties become pairs
    c.acm_query = "shared"  # by both sides, or drawn "anew" for each
    c.acm_negative = "linked"  # any link destination, one of similar "in_links", or any page of the "corpus"
    c.acm_exclude_colinked = True  # no negative that some sentence links together with P1
    c.acm_draws = 8  # candidates for a negative, of which the first that is not co-linked is taken
    c.acm_directions = 2  # 2: either anchor of the sampled two gives a query, as Table 1's counts suggest; or 1

    c.text_pages = "all"  # that ICT and PROP make pairs of, or those that are "linked": the documents that HARP shows
    c.ict_passage_tokens = 128  # passages are about as long as HARP's documents
    c.ict_keep = 0.1  # share of the pairs whose passage keeps the sentence
    c.ict_negative = "article"  # another passage of it, or one of an "other_article", as in-batch negatives are
    c.wlp_negative = "neighbour"  # a page that the positive links to, or any of the "corpus", as in-batch negatives are
    c.wlp_draws = 8  # candidates for a negative, of which the first that does not link to the query's page is taken
    c.prop_pairs = 5  # pairs of word sets of a page
    c.prop_distribution = "query_likelihood"  # with Dirichlet smoothing (PROP), or "contrastive" (B-PROP)
    c.prop_mu = 0.0  # μ of the smoothing; 0: the mean length of the documents in words

    c.max_query_tokens = 256  # only sentences (RDP) come near it
    c.max_doc_tokens = 509
    c.max_text_tokens = 510  # of a piece of running text
    c.validation_fraction = 0.01  # of the source pages
    c.shard_bytes = 64 << 20  # at most
    c.workers = 2  # processes of the maps; each holds one bucket (about 200 MB of a 100 GB dump), a few times over
    c.memory_limit = "4GB"  # of the joins, beside the workers, which wait meanwhile; what exceeds it spills to disk
    c.temp_directory = ""  # where they spill; empty: in the output directory
    c.keep_work = False  # keep the intermediate tables after the job
    if preset not in ("", *PRESETS):
        raise InputError(f"unknown preset {preset!r}; use one of {', '.join(PRESETS)}, or none")
    c.update(PRESETS.get(preset, {}))
    c.lock()
    return c


def plain(config: ConfigDict) -> Config:
    """The config as JSON holds it; raises InputError for values that make no sense together."""
    c = json.loads(config.to_json_best_effort())
    if not c["source"]["paths"]:
        raise InputError("config.source.paths is empty; name the files to read")
    if c["source"]["format"] not in FORMATS:
        raise InputError(f"unknown config.source.format {c['source']['format']!r}; use one of {', '.join(FORMATS)}")
    known = (*TASKS, TEXT_TASK)
    if not c["tasks"] or set(c["tasks"]) - set(known):
        raise InputError(f"config.tasks {c['tasks']} must name some of {', '.join(known)}")
    for field, choices in CHOICES.items():
        if c[field] not in choices:
            raise InputError(f"config.{field} is {c[field]!r}; choose one of {', '.join(choices)}")
    for field in (
        "query_length",
        "temperature",
        "workers",
        "acm_draws",
        "wlp_draws",
        "attention_scale",
        "prop_pairs",
        "ict_passage_tokens",
        "max_query_tokens",
        "max_doc_tokens",
        "max_text_tokens",
    ):
        if not c[field] > 0:
            raise InputError(f"config.{field} is {c[field]!r}; it must be above 0")
    if c["shard_bytes"] < 1024:
        raise InputError(f"config.shard_bytes is {c['shard_bytes']!r}; a shard needs 1024 bytes at least")
    if c["context_in_page"] and c["replacement"]:
        raise InputError("config.context_in_page draws without replacement; unset it or config.replacement")
    if c["max_doc_tokens"] > 510 or c["max_text_tokens"] > 510:
        raise InputError("config.max_doc_tokens and config.max_text_tokens can be 510 at most; lower them")
    if not 0 <= c["validation_fraction"] < 1:
        raise InputError(f"config.validation_fraction is {c['validation_fraction']!r}; it must lie in [0, 1)")
    if not 0 <= c["ict_keep"] <= 1:
        raise InputError(f"config.ict_keep is {c['ict_keep']!r}; it must lie in [0, 1]")
    for field in ("qdm_positives", "prop_mu"):
        if c[field] < 0:
            raise InputError(f"config.{field} is {c[field]!r}; it must not be negative")
    if c["acm_directions"] not in (1, 2):
        raise InputError(f"config.acm_directions is {c['acm_directions']!r}; choose 1 or 2")
    if not c["encoder"] and not c["term_weights"] and weighed(c):
        raise InputError('no config.encoder; name a Hugging Face directory, a training workdir, "uniform" or "idf"')
    return c


def check_source(source: dict[str, Any]) -> None:
    """Raises InputError for values of config.source that make no sense together."""
    if not source["paths"]:
        raise InputError("config.source.paths is empty; name the files to read")
    if source["format"] not in FORMATS:
        raise InputError(f"unknown config.source.format {source['format']!r}; use one of {', '.join(FORMATS)}")
    if not 0 < source["boilerplate_share"] <= 1:
        raise InputError(
            f"config.source.boilerplate_share is {source['boilerplate_share']!r}; it must lie in (0, 1]; 1 keeps all"
        )
    if source["index"] and source["format"] != "mediawiki":
        raise InputError(
            "config.source.index is for multistream dumps; set config.source.format to mediawiki, or leave the index out"
        )


def plain_source(config: ConfigDict) -> dict[str, Any]:
    """config.source as JSON holds it, checked; for commands that read the source alone."""
    source = json.loads(config.source.to_json_best_effort())
    check_source(source)
    return source


def pair_tasks(c: Config) -> list[str]:
    """The configured tasks that make pairs."""
    return [task for task in TASKS if task in c["tasks"]]


def sentence_tasks(c: Config) -> list[str]:
    """The configured tasks that start from a sentence with links and its term weights."""
    return [task for task in HARP_TASKS if task in c["tasks"]]


def contrastive(c: Config) -> bool:
    """Does the job need term weights of every page (B-PROP)?"""
    return "prop" in c["tasks"] and c["prop_distribution"] == "contrastive"


def weighed(c: Config) -> bool:
    """Does the job need term weights?"""
    return bool(sentence_tasks(c)) or contrastive(c)


def all_passages(c: Config) -> bool:
    """Does the job show pages that no link leads to?"""
    return c["acm_negative"] == "corpus" or not {"wlp", "prop"}.isdisjoint(c["tasks"])


def identity(c: Config) -> dict[str, Any]:
    """What decides the bytes of the output, field by field."""
    flat = {key: value for key, value in c.items() if key not in (*NOT_IDENTITY, "source")}
    return flat | {f"source.{key}": value for key, value in c["source"].items()}
