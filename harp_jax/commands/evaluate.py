"""`harp evaluate`: measures of runs, with significance tests."""

import argparse
import os
import sys

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.errors import InputError
from harp_jax.base.files import replacing
from harp_jax.corpus.trec import Qrels, read_qrels, read_run, read_subset
from harp_jax.evaluation.evaluate import MEASURES, check_names, evaluate
from harp_jax.evaluation.measures import parse_measures
from harp_jax.evaluation.significance import ROUNDS
from harp_jax.evaluation.tables import FORMATS


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp evaluate",
        description="Measures of runs against judgments.",
        example='harp evaluate --qrels=qrels.txt bm25.trec "HARP=s0.trec,s1.trec" --measures="RR@10 AP" --baseline=bm25\n'
        "  harp evaluate --qrels=qrels.txt BM25=bm25.trec HARP@10=d0.trec,d1.trec HARP@50=e0.trec,e1.trec --curve=curve.svg",
    )
    parser.add_input(
        "runs", nargs="+", help="TREC runs or MS MARCO's three columns; NAME=RUN[,RUN…]: a system, one run a seed"
    )
    parser.add_input("--qrels", required=True, help="judgments: qid 0 docid level")
    parser.add_argument("--measures", default=MEASURES, help=f'names as in ir-measures ("{MEASURES}")')
    parser.add_argument(
        "--format", default="text", choices=FORMATS, help="text, latex, or json with the values per query"
    )
    parser.add_output("--per_query", default="", help="file to write the values per query to: run, measure, qid, value")
    add_subset(parser)
    parser.add_argument("--baseline", default="", help="name of the run that the others are compared with")
    parser.add_argument("--confirm", default="", help="measures to compare by, chosen beforehand (all of --measures)")
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help=f"of randomisation and bootstrap ({ROUNDS})")
    parser.add_argument("--seed", type=count, default=0, help="of randomisation and bootstrap (0)")
    add_floors(parser)
    parser.add_output(
        "--curve",
        default="",
        help="draw the first measure against training queries as SVG, of runs SYSTEM@SIZE=RUN[,RUN…]",
    )
    return parser


def add_subset(parser: Parser) -> None:
    """The options for the queries that count, and for runs that share training queries."""
    parser.add_input("--queries", default="", help="a file whose lines begin with the query ids to evaluate (all)")
    parser.add_input("--folds", default="", help="qid<TAB>fold, with --fold: evaluate the queries of some folds")
    parser.add_argument("--fold", default="", help="folds of --folds, separated by commas")
    parser.add_argument(
        "--runs_per_draw",
        type=positive,
        default=1,
        help="consecutive runs of a system that share a draw of training queries; intervals resample draws, then runs (1)",
    )


def judgments(arguments: argparse.Namespace) -> Qrels:
    """The judgments of the queries that count."""
    if bool(arguments.folds) != bool(arguments.fold):
        raise InputError("--folds and --fold belong together; give both or neither")
    folds = arguments.fold.split(",") if arguments.folds else []
    return read_subset(read_qrels(arguments.qrels), arguments.queries, arguments.folds, folds)


def add_floors(parser: Parser) -> None:
    """The options for rows that a ranker has to beat."""
    parser.add_argument(
        "--chance", default="", metavar="NAME", help="add a row: the candidates of the run NAME in random order"
    )
    parser.add_argument(
        "--oracle", default="", metavar="NAME", help="add a row: the candidates of the run NAME in the best order"
    )
    parser.add_argument(
        "--blank",
        action="append",
        default=[],
        metavar="NAME=ROW",
        help="the run ROW is what NAME makes of blank queries (harp rerank --blank_query); several times",
    )


def main(arguments: argparse.Namespace) -> None:
    paths_of = name_runs(arguments.runs)
    # Wrong names are reported before large runs are read.
    parse_measures(arguments.measures)
    blank = named(arguments.blank, "--blank", "ROW")
    check_names(paths_of, arguments.baseline, arguments.chance, blank, arguments.oracle)
    qrels = judgments(arguments)
    if arguments.curve:
        draw(arguments, qrels)
        return
    table = evaluate(
        qrels,
        {name: [read_run(path) for path in paths] for name, paths in paths_of.items()},
        arguments.measures,
        baseline=arguments.baseline,
        confirm=arguments.confirm,
        rounds=arguments.rounds,
        seed=arguments.seed,
        runs_per_draw=arguments.runs_per_draw,
        chance=arguments.chance,
        blank=blank,
        oracle=arguments.oracle,
    )
    for note in table.notes():
        print(f"note: {note}", file=sys.stderr)
    if arguments.per_query:
        with replacing(arguments.per_query) as file:
            file.writelines(line + "\n" for line in table.per_query_lines())
    print(table.format(arguments.format))


def draw(arguments: argparse.Namespace, qrels: Qrels) -> None:
    """The first measure against the number of training queries, of runs SYSTEM@SIZE=RUN[,RUN…]; SYSTEM=RUN is a horizontal line."""
    from harp_jax.experiments.curve import as_svg, as_text, number, points

    systems = {}
    for name, paths in named(arguments.runs, "run", "RUN").items():
        system, at, size = name.partition("@")
        if at:
            number(size)
        if not name.isprintable():
            raise InputError(f"{name!r} has characters that cannot be drawn; choose another name")
        systems[system, size] = [read_run(path) for path in paths.split(",")]
    measure = arguments.measures.split()[0]
    found = points(qrels, systems, measure, arguments.runs_per_draw)
    picture = as_svg(found, measure)
    with replacing(arguments.curve) as file:
        file.write(picture)
    print(as_text(found, measure))
    print(f"curve: {arguments.curve}")


def named(values: list[str], option: str, what: str = "PATH") -> dict[str, str]:
    """{"HARP": "run.trec"} from ["HARP=run.trec"]; `option` begins the InputError for other texts and for a name given twice."""
    found: dict[str, str] = {}
    for value in values:
        name, separator, path = value.partition("=")
        if not separator or not name or not path:
            raise InputError(f"{option} {value!r}: write NAME={what}")
        if name in found:
            raise InputError(f"{option} {value!r}: {name} is given twice; remove one")
        found[name] = path
    return found


def name_runs(arguments: list[str]) -> dict[str, list[str]]:
    """Name → paths, from NAME=PATH,PATH,… or from a path alone.

    A path's name is the file's without its suffix, or the whole path if that is not unique.
    """
    alone = [a for a in arguments if os.path.exists(a) or "=" not in a]
    short = [os.path.basename(path).removesuffix(".gz").rsplit(".", 1)[0] for path in alone]
    names = {path: path if short.count(name) > 1 else name for name, path in zip(short, alone)}
    named: dict[str, list[str]] = {}
    for argument in arguments:
        name, paths = (names[argument], argument) if argument in names else argument.split("=", 1)
        if name in named:
            raise InputError(f"two runs are named {name!r}; write NAME=PATH to tell them apart")
        if not name or not paths:
            raise InputError(f"{argument!r}: write NAME=PATH, or NAME=PATH,PATH for several seeds")
        named[name] = [paths] if argument in names or os.path.exists(paths) else paths.split(",")
    return named
