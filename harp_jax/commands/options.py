"""Options that several commands share: one spelling, one type and one help text each."""

from harp_jax.base.cli import Parser, number, positive
from harp_jax.corpus.documents import FIELDS
from harp_jax.evaluation.evaluate import MEASURES
from harp_jax.ranking.options import OFFERED, Reranking
from harp_jax.text.languages import ENGLISH

DOCUMENTS = "documents: MS MARCO docs.tsv, JSONL, TREC SGML, or a folder of one of them"
QUERIES = "queries: qid<TAB>text, JSONL, or TREC topics"
MODEL = "ranker: an export (Hugging Face directory) or training workdir"
RUN = "candidates: a TREC run (ours, Anserini's, Pyserini's), or MS MARCO's three-column format"
WRITTEN_RUN = "the TREC run to write"


def names(text: str) -> tuple[str, ...]:
    """The type of options such as --fields=title,body."""
    return tuple(text.split(","))


def numbers(text: str) -> tuple[float, ...]:
    """The type of options such as --k1=0.6,0.9, separated by commas."""
    return tuple(map(number, text.split(",")))


def add_documents(parser: Parser, required: bool = True, what: str = DOCUMENTS) -> None:
    parser.add_input("--docs", required=required, help=what)
    add_fields(parser)


def add_fields(parser: Parser, use: str = "read") -> None:
    parser.add_argument("--fields", type=names, default=FIELDS, help=f"document fields to {use} (title,url,body)")


def add_collection(parser: Parser) -> None:
    add_documents(parser)
    parser.add_input("--queries", required=True, help=QUERIES)


def add_lexical(parser: Parser) -> None:
    """The collection of a lexical model, and the model's stems."""
    add_collection(parser)
    parser.add_input("--exclude", help="file of qid<TAB>docid pairs to exclude from the candidates")
    add_language(parser)


def add_language(parser: Parser) -> None:
    what = "language for stemming and stopwords, such as de; '' for none (en)"
    parser.add_argument("--language", default=ENGLISH, help=what)


def add_backend(parser: Parser, what: str = "runtime for cross-encoders on CPU") -> None:
    choices, more = (*OFFERED, "auto"), "(%(default)s); auto: the fastest one installed"
    parser.add_argument("--backend", default=Reranking.backend, choices=choices, help=f"{what} {more}")


def add_computation(parser: Parser) -> None:
    """How a cross-encoder is computed."""
    parser.add_argument("--max_length", type=positive, help="maximum tokens of query plus document (as in training)")
    what = "MaxP: score at most this many windows per document, keep the best"
    parser.add_argument("--windows", type=positive, help=what)
    add_backend(parser)
    what = "precision of the computation (%(default)s); int8 requires an export with harp export --int8"
    parser.add_argument("--dtype", default=Reranking.dtype, choices=OFFERED["openvino"], help=what)


def add_table(parser: Parser) -> None:
    """Options of a table of runs: judgments, the queries that count, measures, and rows that a ranker has to beat."""
    parser.add_input("--qrels", required=True, help="judgments: qid 0 docid level")
    parser.add_input("--queries", help="a file whose lines begin with the query ids to evaluate (all)")
    parser.add_input("--folds", help="file of qid<TAB>fold lines, from which --fold selects queries")
    parser.add_argument("--fold", type=names, default=(), help="folds to evaluate, separated by commas")
    parser.add_argument("--measures", default=MEASURES, help=f'measures, as named by ir-measures ("{MEASURES}")')
    parser.add_argument("--baseline", metavar="NAME", help="run to compare others with (report: the first)")
    parser.add_argument("--confirm", help="measures to test, chosen in advance (report: the first; else all)")
    for row, order in (("--chance", "random"), ("--oracle", "the best")):
        parser.add_argument(row, metavar="NAME", help=f"add a row: the candidates of the run NAME in {order} order")
    what = "ROW is the run of system NAME with blank queries (harp rerank --blank_query); repeatable"
    parser.add_argument("--blank", action="append", default=[], metavar="NAME=ROW", help=what)
