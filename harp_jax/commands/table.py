"""Every command: name, module and one-line summary. Modules are named, not imported, so that --help is fast.

The commands of data_pipeline are listed too; importing harp_jax never imports data_pipeline.
"""

import argparse
import importlib
from collections.abc import Callable
from typing import NamedTuple

from harp_jax.base.cli import Parser


class Entry(NamedTuple):
    """A module with `arguments_parser()` and `main(arguments)`, or MODULE:NAME with NAME_parser and NAME; its summary."""

    module: str
    summary: str


GROUPS: dict[str, dict[str, Entry]] = {
    "everything in one command": {
        "site": Entry("harp_jax.commands.site", "make a tested search of your own pages; with --train, a re-ranker"),
        "serve": Entry("harp_jax.commands.serve:serve", "serve a site's search and a re-ranker as JSON, with workers"),
    },
    "pairs from links": {
        "generate": Entry("data_pipeline.main", "turn linked pages into TFRecord shards of pre-training pairs"),
        "inspect": Entry("data_pipeline.commands.inspect", "verify the shards of a job; print statistics and examples"),
        "teach": Entry("data_pipeline.commands.teach", "add a ranker's scores to pairs, to teach and pick negatives"),
        "parquet": Entry("data_pipeline.commands.parquet", "write pairs as Parquet, for PyTorch"),
        "anchors": Entry("data_pipeline.commands.anchors", "write what other pages call each page, for first-stage"),
        "documents": Entry("data_pipeline.commands.documents", "write the documents of pages or a dump as JSONL"),
        "survey": Entry("data_pipeline.commands.survey", "read a site's links; make queries of held-out pages"),
        "vocabulary": Entry("data_pipeline.commands.vocabulary", "train a WordPiece or Unigram vocabulary on pages"),
        "sample-wiki": Entry("data_pipeline.commands.sample_wiki", "write a small artificial wiki with questions"),
    },
    "training": {
        "train": Entry("harp_jax.main", "pre-train, coarse-tune or fine-tune a config; resumes"),
        "rate": Entry("harp_jax.commands.site:rate", "measure the seconds per training step"),
        "export": Entry("harp_jax.export", "export a checkpoint or an encoder's first layers to Hugging Face"),
        "words": Entry("harp_jax.commands.baselines:words", "build words and word2vec vectors for neural rankers"),
        "linklearn-train": Entry("harp_jax.commands.baselines:linklearn_train", "learn term weights from links"),
    },
    "ranking": {
        "first-stage": Entry("harp_jax.commands.first_stage", "retrieve candidates with BM25, BM25F, QL or vectors"),
        "tune-first-stage": Entry("harp_jax.commands.first_stage:tune", "tune BM25, BM25F or QL on training folds"),
        "rerank": Entry("harp_jax.commands.rerank", "re-rank the candidates of a run with a trained ranker"),
        "linklearn-rank": Entry("harp_jax.commands.baselines:linklearn_rank", "rank by learned term weights"),
        "priors": Entry("harp_jax.commands.first_stage:priors", "rank candidates by in-links or length alone"),
        "fuse": Entry("harp_jax.commands.rerank:fuse", "combine runs; weights are fitted on the other folds"),
    },
    "evaluation": {
        "evaluate": Entry("harp_jax.commands.evaluate", "compute measures of runs, with significance tests"),
        "verdict": Entry("harp_jax.commands.evaluate:verdict", "decide between a first stage, a ranker and their sum"),
        "report": Entry("harp_jax.commands.evaluate:report", "write a table and training curves as one HTML page"),
        "compare": Entry("harp_jax.commands.compare", "compare re-rankers with BM25 on a judged collection; a report"),
        "look": Entry("harp_jax.commands.serve:look", "serve a local page: compare BM25 and a re-ranker, add labels"),
        "search": Entry("harp_jax.commands.site:search", "rank a site for your own queries with every tested system"),
        "query-probe": Entry("harp_jax.commands.rerank:query_probe", "test how a model completes queries"),
    },
    "experiments": {
        "plan": Entry("harp_jax.commands.plan", "run an experiment: its steps in order, each once"),
        "queries": Entry("harp_jax.commands.queries", "write judged queries, labels, folds or subsets as files"),
    },
}
# Commands that people type, which `harp --help` lists; the others are for papers and special cases.
TYPED = (
    "site", "search", "look", "serve", "generate", "inspect", "anchors", "train", "export", "first-stage", "rerank", "fuse",
    "evaluate", "compare", "report", "plan",
)  # fmt: skip
# The next command, printed on a terminal: {output} is an option of the finished command; the reader fills in CAPITALS.
NEXT = {
    "sample-wiki": "harp generate --config=data/demo --config.source.paths=\"('{output}/wiki.xml.bz2',)\" "
    "--config.tokenizer=ENCODER --output=pairs",
    "generate": "harp inspect {output}",
    "inspect": "harp train --config=site --workdir=runs/harp --config.init=ENCODER --config.data=\"('{directory}',)\"",
    "teach": "harp train --config=site:taught --workdir=runs/harp --config.init=ENCODER --config.data=\"('{output}',)\"",
    "vocabulary": "harp generate --config=data/html:recommended --config.source.paths=\"('PAGES',)\" "
    "--config.tokenizer={output} --config.encoder=idf --output=pairs",
    "anchors": "harp first-stage --model=bm25f --anchors={output} --docs=DOCS --queries=QUERIES --output=bm25f.trec",
    "documents": "harp first-stage --docs={output} --queries=QUERIES --output=bm25.trec",
    "train": "harp export --workdir={workdir} --output=ranker",
    "export": "harp rerank --model={output} --docs=DOCS --queries=QUERIES --run=RUN --output=ranker.trec",
    "first-stage": "harp rerank --model=RANKER --docs={docs} --queries={queries} --run={output} --output=ranker.trec",
    "rerank": "harp evaluate {run} {output} --qrels=QRELS",
    "fuse": "harp evaluate {output} --qrels=QRELS",
    "tune-first-stage": "harp first-stage --model={model} --parameters={output} --folds={folds} --anchors={anchors} --docs={docs} "
    "--fields={fields} --language={language!r} --queries=QUERIES --output={model}.trec",
    "evaluate": "harp report --qrels={qrels} --run=NAME=RUN --run=NAME=RUN --docs=DOCS --output=report.html",
    "report": "harp look --model=RANKER --docs=DOCS --queries=QUERIES",
    "compare": "harp look --model=RANKER --docs=DOCS --queries=QUERIES",
    "search": "harp look {site} --queries={queries}",
}
COMMANDS: dict[str, Entry] = {name: entry for group in GROUPS.values() for name, entry in group.items()}


def next_command(name: str, arguments: argparse.Namespace) -> str:
    """The command to run next; empty if there is none, after a dry run, and for an encoder's exported layers."""
    if getattr(arguments, "dry_run", False) or (name == "export" and not arguments.workdir):
        return ""
    return filled(NEXT.get(name, ""), arguments)


def filled(text: str, arguments: argparse.Namespace) -> str:
    """{names} of options replaced by their values; options without a value are left out."""
    given = {
        name: ",".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in vars(arguments).items()
    }
    return " ".join(word for word in text.format_map(given).split() if not word.endswith("="))


def load(name: str) -> tuple[Callable[[argparse.Namespace], None], Parser]:
    """A command's function, and the parser of its arguments."""
    module, _, function = COMMANDS[name].module.partition(":")
    found = importlib.import_module(module)
    parser = getattr(found, f"{function or 'arguments'}_parser")()
    parser.prog = f"harp {name}"  # three are also started as python -m MODULE
    return getattr(found, function or "main"), parser
