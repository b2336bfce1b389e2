"""Every command: name, module and one-line summary. Modules are named, not imported, so that --help is fast.

The commands of data_pipeline are listed too; importing harp_jax never imports data_pipeline.
"""

import argparse
import importlib
from collections.abc import Callable

from harp_jax.base.cli import Parser

# Group → command → (a module with `arguments_parser()` and `main(arguments)`, or MODULE:NAME with NAME_parser and NAME; a summary).
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "everything in one command": {
        "site": ("harp_jax.commands.site", "make a tested search of your own pages; with --train, a re-ranker"),
        "serve": ("harp_jax.commands.site:serve", "serve a site's search and a re-ranker as JSON, with workers"),
        "tune": ("harp_jax.commands.site:tune", "choose the weights of a site's search by judged queries"),
        "pack": ("harp_jax.commands.site:pack", "write a site for OpenSearch, Elasticsearch, Typesense or LanceDB"),
    },
    "pairs from links": {
        "generate": ("data_pipeline.main", "turn linked pages into TFRecord shards of pre-training pairs"),
        "inspect": ("data_pipeline.commands:inspect", "verify the shards of a job; print statistics and examples"),
        "teach": ("data_pipeline.commands:teach", "add a ranker's scores to pairs, to teach and pick negatives"),
        "parquet": ("data_pipeline.commands:parquet", "write pairs as Parquet, for PyTorch"),
        "anchors": ("data_pipeline.commands:anchors", "write what other pages call each page, for first-stage"),
        "documents": ("data_pipeline.commands:documents", "write the documents of pages or a dump as JSONL"),
        "vocabulary": ("data_pipeline.commands:vocabulary", "train a WordPiece or Unigram vocabulary on pages"),
        "sample-wiki": ("data_pipeline.commands:sample_wiki", "write a small artificial wiki with questions"),
    },
    "training": {
        "train": ("harp_jax.main", "pre-train, coarse-tune or fine-tune a config; resumes"),
        "adapt": ("harp_jax.commands.training:adapt", "adapt a sentence encoder's vectors to links, in minutes"),
        "export": ("harp_jax.export", "export a checkpoint or an encoder's first layers to Hugging Face"),
        "words": ("harp_jax.commands.training:words", "build words and word2vec vectors for neural rankers"),
        "linklearn-train": ("harp_jax.commands.training:linklearn_train", "learn term weights from links"),
    },
    "ranking": {
        "first-stage": ("harp_jax.commands.first_stage", "retrieve candidates with BM25, BM25F, QL or vectors"),
        "tune-first-stage": ("harp_jax.commands.first_stage:tune", "tune BM25, BM25F or QL on training folds"),
        "rerank": ("harp_jax.commands.rerank", "re-rank the candidates of a run with a trained ranker"),
        "linklearn-rank": ("harp_jax.commands.training:linklearn_rank", "rank by learned term weights"),
        "priors": ("harp_jax.commands.first_stage:priors", "rank candidates by in-links or length alone"),
        "fuse": ("harp_jax.commands.rerank:fuse", "combine runs; weights are fitted on the other folds"),
    },
    "evaluation": {
        "evaluate": ("harp_jax.commands.evaluate", "compute measures of runs, with significance tests"),
        "report": ("harp_jax.commands.evaluate:report", "write a table and training curves as one HTML page"),
        "compare": (
            "harp_jax.commands.evaluate:compare",
            "compare re-rankers with BM25 on a judged collection; a report",
        ),
        "look": ("harp_jax.commands.site:look", "serve a local page: compare BM25 and a re-ranker, add labels"),
        "search": ("harp_jax.commands.site:search", "rank a site for your own queries with every tested system"),
    },
    "experiments": {
        "plan": ("harp_jax.commands.plan", "run an experiment: its steps in order, each once"),
        "queries": ("harp_jax.commands.evaluate:queries", "divide queries into folds"),
    },
}
# Commands that people type, which `harp --help` lists; the others are for papers and special cases.
TYPED = (
    "site", "search", "serve", "look", "tune", "pack", "generate", "inspect", "anchors", "adapt", "train", "export", "first-stage",
    "rerank", "fuse", "evaluate", "compare", "report", "plan",
)  # fmt: skip
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def load(name: str) -> tuple[Callable[[argparse.Namespace], None], Parser]:
    """A command's function, and the parser of its arguments."""
    module, _, function = COMMANDS[name][0].partition(":")
    home = importlib.import_module(module)
    parser = getattr(home, f"{function or 'arguments'}_parser")()
    parser.prog = f"harp {name}"  # three are also started as python -m MODULE
    return getattr(home, function or "main"), parser
