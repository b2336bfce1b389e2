"""The commands of the generation job besides `harp generate` (main.py), each a parser and a function: parse, call, print."""

import argparse
from collections.abc import Mapping

from harp_jax.base.cli import ConfigParser, Parser, count, number, positive


def documents_parser() -> Parser:
    from data_pipeline.sources.formats import FORMATS

    parser = Parser(
        description="Write the documents of a folder of HTML, a WARC file, a MediaWiki dump or linked JSONL as JSON lines: "
        "id, title and text, as the other commands read collections.",
        example="harp documents site/ --base_url=https://docs.example.org/ --output=docs.jsonl",
    )
    parser.add_input("pages", help="folder or file; its format is detected")
    parser.add_recorded_output("the JSONL file to write")
    parser.add_argument("--format", default="", choices=("", *FORMATS), help="page format, if detection fails")
    what = "URL where the folder is served; without it, ids are file:///PATH"
    parser.add_argument("--base_url", default="", help=what)
    return parser


def documents(a: argparse.Namespace) -> None:
    from data_pipeline.output.collection import write_documents

    made = write_documents(a.pages, a.output, a.format, a.base_url)
    parts = f", {made.sections} of them sections of pages" if made.sections else ""
    print(f"{a.output}: {made.documents} documents{parts}, from {a.pages} ({made.format})")
    print_dropped(made.dropped)


def anchors_parser() -> ConfigParser:
    parser = ConfigParser(
        description="Write the anchor texts of every page with their counts, for harp first-stage --anchors.",
        example="harp anchors --config=data/linked_jsonl --config.source.paths=\"('pages.jsonl',)\" "
        "--config.min_article_words=0 --output=anchors.tsv",
    )
    parser.add_recorded_output("the file to write: docid<TAB>anchor text<TAB>count")
    return parser


def anchors(a: argparse.Namespace) -> None:
    from data_pipeline.output.collection import write_anchors

    made = write_anchors(a.config, a.output)
    print(f"{a.output}: {made.lines} anchor texts of {made.documents} documents, from {made.links} links")
    print_dropped(made.dropped)


def print_dropped(counts: Mapping[str, int]) -> None:
    if counts:
        print("left out: " + ", ".join(f"{reason} {n}" for reason, n in counts.items()))


def inspect_parser() -> Parser:
    parser = Parser(
        description="Check every shard of a finished generation job against its manifest; print statistics and examples.",
        example="harp inspect pairs --examples=2",
    )
    parser.add_argument("directory", help="output directory of a generation job")
    parser.add_argument("--examples", type=count, default=5, help="decoded records to print per task (5)")
    return parser


def inspect(a: argparse.Namespace) -> None:
    from data_pipeline.output import inspection

    print(inspection.as_text(inspection.inspect(a.directory, a.examples)))


def teach_parser() -> Parser:
    parser = Parser(
        description="Add a ranker's scores to the pairs of a finished job, as a teacher (--config.pair_loss=lce_kl) or for hard "
        "negatives.",
        example="harp teach pairs --model=ranker --drop_above --hardest=7 --output=taught",
    )
    parser.add_argument("pairs", help="output directory of a generation job")
    what = "re-ranker, or encoder with --cosine; the scores of several are averaged"
    parser.add_argument("--model", required=True, nargs="+", help=what)
    parser.add_argument("--cosine", action="store_true", help="score by the cosine of the encoder's embeddings")
    parser.add_argument("--drop_above", action="store_true", help="leave out negatives that score above the positive")
    what = "keep only this many negatives, those with the highest scores (0: all)"
    parser.add_argument("--hardest", type=count, default=0, help=what)
    parser.add_argument("--max_length", type=positive, default=None, help="maximum tokens per sequence (the model's)")
    what = "divide the scores by this (1; with --cosine 0.05, as in encoder training)"
    parser.add_argument("--temperature", type=number, default=None, help=what)
    parser.add_argument("--dtype", default="float32", help="precision of the computation (float32)")
    parser.add_recorded_output("directory for the pairs with scores")
    return parser


def teach(a: argparse.Namespace) -> None:
    from data_pipeline.output import teacher

    options = teacher.TeachOptions(
        a.pairs, tuple(a.model), a.cosine, a.drop_above, a.hardest, a.max_length, a.temperature, a.dtype
    )
    made = teacher.teach(options, output=a.output)
    left_out = f"left out {made.left_out:,} without a negative below the positive"
    print(f"{a.output}: {made.records:,} records with scores; {left_out}")


def parquet_parser() -> Parser:
    parser = Parser(
        description="Write pairs from links as Parquet files of texts.",
        example="harp parquet --data=pairs --output=pairs_parquet",
    )
    parser.add_argument("--data", required=True, help="output directory of harp generate")
    parser.add_argument("--tokenizer", default="", help="tokenizer of --data, if it has moved since harp generate")
    parser.add_recorded_output("folder to write")
    return parser


def parquet(a: argparse.Namespace) -> None:
    from data_pipeline.output.triplets import write_parquet

    rows = write_parquet(a.data, a.output, a.tokenizer)
    print(f"{a.output}: " + ", ".join(f"{split} {number:,} rows" for split, number in rows.items()))


def vocabulary_parser() -> ConfigParser:
    from data_pipeline.output.vocabulary import KINDS, write_vocabulary

    parser = ConfigParser(
        description="Train an uncased WordPiece or Unigram vocabulary from the documents that a generation config reads.",
        example="harp vocabulary --config=data/html --config.source.paths=\"('site/',)\" --output=vocabulary",
    )
    parser.add_recorded_output("directory for tokenizer.json, tokenizer_config.json and vocab.txt (WordPiece)")
    what = "type of vocabulary; auto: unigram for languages without spaces between words, else wordpiece"
    parser.add_parameter(write_vocabulary, "kind", what, choices=("auto", *KINDS))
    parser.add_parameter(write_vocabulary, "size", "number of tokens, with the five special ones", type=positive)
    return parser


def vocabulary(a: argparse.Namespace) -> None:
    from data_pipeline.output.vocabulary import write_vocabulary

    made = write_vocabulary(a.config, a.output, a.kind, a.size)
    print(f"vocabulary: {made.kind}, language {made.language} ({made.language_from})")
    print(f"{a.output}: {made.tokens} tokens, sha256 {made.sha256}")


def sample_wiki_parser() -> Parser:
    from data_pipeline.sample import SampleWiki

    parser = Parser(
        description="Write a small invented wiki with documents, queries, judgments and folds, for trials and the demo.",
        example="harp sample-wiki --output=wiki --pages=400",
    )
    parser.add_recorded_output("directory for the dump and the six text files")
    parser.add_parameter(SampleWiki, "pages", "number of articles", type=positive)
    parser.add_parameter(SampleWiki, "seed", "random seed; the same seed writes the same bytes", type=count)
    what = "make links state random facts, as a control"
    parser.add_argument("--uninformative_links", action="store_true", help=what)
    return parser


def sample_wiki(a: argparse.Namespace) -> None:
    from data_pipeline.sample import SampleWiki, write_sample_wiki

    asked = write_sample_wiki(SampleWiki(a.pages, a.seed, not a.uninformative_links), a.output)
    print(f"{a.pages} articles and {asked} questions in {a.output}")
