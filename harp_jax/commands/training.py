"""`harp adapt`, and what the baselines of the papers need: `harp words`, `harp linklearn-train`, `harp linklearn-rank`."""

import argparse

from harp_jax.base.cli import ConfigParser, Parser, count, keep_compiled, positive
from harp_jax.base.progress import show_log
from harp_jax.baselines.neural_ir.words import VECTORS, write_words
from harp_jax.commands.options import WRITTEN_RUN, add_documents, add_lexical


def adapt_parser() -> Parser:
    parser = Parser(
        description="Learn a linear map of an encoder's vectors from pairs of links: the words around a link find the page\n"
        "it leads to. Writes a sentence-transformers directory; stored vectors of the encoder need only be multiplied by the map.",
        example="harp adapt pairs --encoder=all-MiniLM-L6-v2 --output=vectors",
    )
    parser.add_argument("pairs", help="output directory of harp generate")
    parser.add_argument("--encoder", required=True, help="sentence encoder to adapt")
    parser.add_argument("--max_pairs", type=positive, default=20_000, help="pairs to embed and train on (20000)")
    parser.add_argument("--seed", type=count, default=0, help="random seed of the pairs and batches (0)")
    parser.add_recorded_output("directory for the adapted encoder")
    return parser


def adapt(a: argparse.Namespace) -> None:
    from harp_jax.training import linear_map

    keep_compiled()
    made = linear_map.adapt(linear_map.MapOptions(a.pairs, a.encoder, a.max_pairs, seed=a.seed), output=a.output)
    print(f"{a.output}: adapted to {made.pairs:,} links; {made.words()}")


def words_parser() -> Parser:
    parser = Parser(
        description="Count the words of a collection and save the vocabulary; with --vectors, also train word2vec vectors on it.",
        example="harp words --docs=docs.tsv --stemmer=english --stopwords=english --min_documents=2 --vectors --output=words",
    )
    add_documents(parser)
    parser.add_recorded_output("directory to write")
    parser.add_argument("--stemmer", help="Snowball stemmer such as english (none)")
    parser.add_argument("--stopwords", help="words to leave out: english, or a file, one per line (none)")
    parser.add_parameter(write_words, "min_documents", "minimum documents that contain a word", type=positive)
    parser.add_argument("--vectors", action="store_true", help="also train word2vec vectors: OUTPUT/vectors.txt")
    parser.add_parameter(write_words, "dimension", "dimensions of a vector", type=positive)
    parser.add_parameter(write_words, "epochs", "passes over the collection", type=positive)
    return parser


def words(a: argparse.Namespace) -> None:
    more = {"min_documents": a.min_documents, "dimension": a.dimension, "epochs": a.epochs * a.vectors}
    written = write_words(a.docs, a.output, a.fields, a.stemmer, a.stopwords, **more)
    print(f"{a.output}: {written.words} words of {written.documents} documents")
    if written.vectors:
        print(f"{a.output}/{VECTORS}: {written.vectors} vectors")


def linklearn_train_parser() -> ConfigParser:
    parser = ConfigParser(
        description="Learn a term weighting from links (LinkLearn). A finished run is not repeated.",
        example="harp linklearn-train --config=baselines/linklearn --workdir=runs/linklearn --config.docs=\"('pages.jsonl',)\"",
    )
    parser.add_output("--workdir", dest="output", required=True, help="directory for model.json and metrics")
    parser.add_force()
    return parser


def linklearn_train(a: argparse.Namespace) -> None:
    from harp_jax.baselines.linklearn.train import train

    show_log()
    done = train(a.config, output=a.output)
    figures = " ".join(f"{name}={value:.4f}" for name, value in done["held_out"].items())
    said = f"step {done['step']}, {done['constraints']} constraints drawn; held-out AP {figures}"
    print(f"{a.output}/model.json: {said}")


def linklearn_rank_parser() -> Parser:
    parser = Parser(
        description="Rank a collection with a trained LinkLearn model; idf and lengths come from the collection.",
        example="harp linklearn-rank --model=runs/linklearn --docs=docs.tsv --queries=queries.tsv --output=linklearn.trec",
    )
    parser.add_input("--model", model=True, required=True, help="workdir of harp linklearn-train")
    parser.add_argument("--okapi", action="store_true", help="rank with Okapi BM25, tuned on the same links, instead")
    add_lexical(parser)
    parser.add_recorded_output(WRITTEN_RUN)
    parser.add_argument("--k", type=positive, default=1000, help="documents per query (1000)")
    return parser


def linklearn_rank(a: argparse.Namespace) -> None:
    from harp_jax.baselines.linklearn.model import rank_linklearn

    ranked = rank_linklearn(a.model, a.docs, a.queries, a.output, a.fields, a.language, a.exclude, a.k, a.okapi)
    print(f"{a.output}: {ranked.matched} queries ranked by {'okapi' if a.okapi else 'linklearn'}")
