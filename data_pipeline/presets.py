"""Presets of the generation job: what we recommend, and the choices of the paper and of its authors' code where they differ.

A preset is named after a colon; fields on the command line override it:

python -m data_pipeline.main --config=configs/data/enwiki.py:official --config.replacement=False …

Where the paper's equations cannot be used as printed, "paper" corrects them: lengths are Poisson with the factorial that Eq. 4
lacks, conditioned on at least 1; the softmax of Eq. 3 runs over the words of the text (over a whole vocabulary, nearly all mass
falls on absent words); Eq. 5 excludes the anchor's words (with a weight of 0 the softmax would still sample them); two anchors
with one destination or equal weights make no pair. Neither preset makes pairs whose two sides are equal.

"recommended" is for small encoders and short trainings: one task, which ranks no worse than with QDM beside it, queries in the
words and the order of their sentence, and negatives as popular as the positives; its choices for the other tasks count where they
are added.
docs/experiments/recommended.md has the measurements. The training preset of the same name (harp_jax/config.py) belongs to it.
"""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "recommended": {
        "tasks": ("adp",),
        # Compared with sampled words, RR@10 without labels: .50 → .56 after 240 updates (12 words: .54), .55 → .57 after 960.
        "adp_window": 6.0,
        "weighting": "normalised",  # a softmax over shares of attention draws uniformly (.003 bits from it)
        "context_in_page": True,  # for RQP, if it is added: else a word that the page lacks identifies S1
        "qdm_negative": "occurrence",  # as positives are drawn; uniform, in-links tell .68 of the pairs apart
        "acm_negative": "in_links",
    },
    "paper": {
        "drop_number_anchors": False,
        "drop_boilerplate": False,
        "weighting": "softmax",
        "qdm_positives": 0,
        "qdm_negative": "occurrence",
        "rdp_direction": "to_cls",
        "acm_negative": "corpus",
        "acm_exclude_colinked": False,
    },
    "official": {
        "drop_number_anchors": False,
        "drop_boilerplate": False,
        "page_identity": "text",
        "unit": "wordpieces",
        "length_distribution": "normal",
        "anchor_row": "first_piece",
        "attention_scale": 12.0,
        "weighting": "softmax",
        "replacement": True,
        "query_order": "anchor_last",
        "anchor_in_context": True,
        "anchor_in_s2": True,
        "s2_length": "drawn",
        "qdm_positives": 10,
        "qdm_positive": "first",
        "qdm_negative": "uniform",
        "rdp_repeats": "first",
        "rdp_pairs": "all",
        "rdp_contrast": False,
        "acm_query": "anew",
        "acm_negative": "linked",
        "acm_exclude_colinked": False,
    },
}
