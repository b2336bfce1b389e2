"""`harp evaluate`, `harp report`, `harp verdict`: evaluate runs as a table, as a page and as a decision."""

import argparse
import os
import sys
from typing import Any

from harp_jax.base.cli import Parser, count, positive
from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, output_path, replacing
from harp_jax.commands.options import add_table, judgments, names
from harp_jax.corpus.documents import FIELDS
from harp_jax.corpus.trec import Qrels, few, read_folds, read_qrels, read_run, select
from harp_jax.evaluation.evaluate import MEASURES, check_names, evaluate
from harp_jax.evaluation.measures import parse_measures
from harp_jax.evaluation.provenance import Record, behind, records_in, truncated_remark
from harp_jax.evaluation.render import as_html, as_markdown
from harp_jax.evaluation.report import Background, summary
from harp_jax.evaluation.report import report as build_report
from harp_jax.evaluation.significance import ONE_RUN, ROUNDS
from harp_jax.site.verdict import decide


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp evaluate",
        description="Evaluate runs against judgments.",
        example='harp evaluate --qrels=qrels.txt bm25.trec "HARP=s0.trec,s1.trec" --measures="RR@10 AP" --baseline=bm25\n'
        "  harp evaluate --qrels=qrels.txt BM25=bm25.trec HARP@10=d0.trec,d1.trec HARP@50=e0.trec,e1.trec --curve=curve.svg",
    )
    parser.add_input(
        "runs",
        nargs="+",
        help="TREC runs, or MS MARCO's three-column format; NAME=RUN[,RUN…] names a system and its runs, one per seed",
    )
    parser.add_argument("--measures", default=MEASURES, help=f'measures, as named by ir-measures ("{MEASURES}")')
    parser.add_argument(
        "--format", default="text", choices=("json", "text"), help="text, or json with the values per query"
    )
    parser.add_output(
        "--per_query", default="", help="file to write per-query values to, with each query's resampling group"
    )
    add_table(parser, qrels=True)
    parser.add_argument(
        "--rounds", type=positive, default=ROUNDS, help=f"randomisation and bootstrap rounds ({ROUNDS})"
    )
    parser.add_argument("--seed", type=count, default=0, help="random seed for randomisation and bootstrap (0)")
    parser.add_output(
        "--curve",
        default="",
        help="SVG file to write: the first measure against the number of training queries, for runs SYSTEM@SIZE=RUN[,RUN…]",
    )
    return parser


def main(arguments: argparse.Namespace) -> None:
    paths_of = name_runs(arguments.runs)
    # Wrong names are reported before large runs are read.
    parse_measures(arguments.measures)
    blank = named(arguments.blank, "--blank", "ROW")
    check_names(paths_of, arguments.baseline, arguments.chance, blank, arguments.oracle)
    qrels = judgments(arguments.qrels, arguments.queries, arguments.folds, arguments.fold)
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
    print(table.json() if arguments.format == "json" else table)


DRAWN = ("runs", "qrels", "queries", "folds", "fold", "measures", "runs_per_draw", "curve")  # allowed with --curve


def draw(arguments: argparse.Namespace, qrels: Qrels) -> None:
    """Plots the first measure against the number of training queries of SYSTEM@SIZE=RUN[,RUN…]; SYSTEM=RUN is a horizontal line."""
    from harp_jax.experiments.curve import as_svg, as_text, number, points

    if other := given(arguments, arguments_parser()).keys() - DRAWN:
        raise InputError(f"--{min(other)} cannot be used with --curve; leave one of them out")
    systems = {}
    for name, paths in named(arguments.runs, "run", "RUN").items():
        system, at, size = name.partition("@")
        if at:
            number(size)
        systems[system, size] = [read_run(path) for path in paths.split(",")]
    measure = arguments.measures.split()[0]
    found = points(qrels, systems, measure, arguments.runs_per_draw)
    picture = as_svg(found, measure)
    with replacing(arguments.curve) as file:
        file.write(picture)
    print(as_text(found, measure))
    if one_run := sorted({p.system for p in found if p.size and p.runs == 1}):
        print(f"one run of {', '.join(one_run)}: the intervals {ONE_RUN}")
    print(f"curve: {arguments.curve}")


def given(arguments: argparse.Namespace, parser: Parser) -> dict[str, Any]:
    """The options whose values are not the parser's defaults."""
    return {name: value for name, value in vars(arguments).items() if value != parser.get_default(name)}


def named(values: list[str], option: str, what: str = "PATH") -> dict[str, str]:
    """{"HARP": "run.trec"} from ["HARP=run.trec"]; `option` is named in the InputError for other texts and repeated names."""
    found: dict[str, str] = {}
    for value in values:
        name, _, path = value.partition("=")
        if not (name and path) or name in found:
            raise InputError(f"{option} {value!r}: write NAME={what}, and every name once")
        found[name] = path
    return found


def name_runs(arguments: list[str]) -> dict[str, list[str]]:
    """Name → paths, from NAME=PATH,PATH,… or from a path alone.

    A path's name is the file's without its suffix, or the whole path if that is not unique.
    """
    alone = [a for a in arguments if os.path.exists(a) or "=" not in a]
    short = [os.path.basename(path).removesuffix(".gz").rsplit(".", 1)[0] for path in alone]
    name_of = {path: path if short.count(name) > 1 else name for name, path in zip(short, alone)}
    named: dict[str, list[str]] = {}
    for argument in arguments:
        name, paths = (name_of[argument], argument) if argument in name_of else argument.split("=", 1)
        if not (name and paths) or name in named:
            raise InputError(f"{argument!r}: write NAME=PATH, or NAME=PATH,PATH for several seeds, and every name once")
        named[name] = [paths] if argument in name_of or os.path.exists(paths) else paths.split(",")
    return named


TRAINING_OPTIONS = ("curves", "pairs")


def report_parser() -> Parser:
    parser = Parser(
        prog="harp report",
        description="Write a report on runs as one self-contained HTML page: a verdict, the table, curves, wins and losses, "
        "training data and cost.\nFor files written by a plan, training data and cost come from the plan's records.",
        example="harp report --qrels=qrels.txt --run=BM25=bm25.trec --run=HARP=harp.trec --chance=BM25 --curves=HARP=runs/harp "
        "--output=report.html\n  harp report tables --output=tables.html",
    )
    parser.add_argument(
        "plan",
        nargs="?",
        default="",
        metavar="DIR",
        help="output of a plan: report its last table (or --step); options given here replace the step's",
    )
    parser.add_argument("--step", default="", help="with DIR: step whose table to report (the last `evaluate`)")
    add_table(parser)
    parser.add_argument("--measures", default=MEASURES, help=f'measures, as named by ir-measures ("{MEASURES}")')
    parser.add_input(
        "--run",
        action="append",
        default=[],
        help="run with its name, or the runs of several seeds; repeatable",
        metavar="NAME=RUN[,RUN…]",
    )
    parser.add_argument("--focus", default="", metavar="NAME", help="run that the headline is about (the last)")
    parser.add_input(
        "--curves",
        action="append",
        default=[],
        help="training workdir with its name; repeatable (those of the plan)",
        metavar="NAME=DIR",
    )
    parser.add_argument(
        "--pairs",
        action="append",
        default=[],
        help="output of harp generate with its name; repeatable (those of the plan)",
        metavar="NAME=DIR",
    )
    parser.add_input("--docs", default="", help="documents, for the texts of wins and losses (those of the plan)")
    parser.add_argument("--fields", type=names, help="document fields to quote (title,url,body)")
    parser.add_argument("--query_texts", default="", help="file with the query texts (--queries, if it has them)")
    parser.add_argument("--remark", action="append", default=[], help="line to print below the table; repeatable")
    parser.add_argument("--title", default="", help="title of the page (Re-ranking)")
    parser.add_output("--output", required=True, help="the HTML page to write")
    parser.add_output("--markdown", default="", help="write headline and table as Markdown to this file")
    parser.add_output("--text", default="", help="also write the printed output to this file")
    return parser


def report(arguments: argparse.Namespace) -> None:
    if arguments.plan:
        arguments = of_plan(arguments)
    if not arguments.qrels or not arguments.run:
        raise InputError("nothing to report: give --qrels and --run=NAME=RUN, or the output directory of a plan")
    for path in filter(None, (arguments.markdown, arguments.text)):
        output_path(path)
    paths = name_runs(arguments.run)
    blank = named(arguments.blank, "--blank", "ROW")
    check_names(paths, arguments.baseline, arguments.chance, blank, arguments.oracle)
    if arguments.focus and arguments.focus not in paths:
        raise InputError(f"no run is named {arguments.focus!r} for --focus; the runs are {', '.join(paths)}")
    focus = arguments.focus or [name for name in paths if name not in blank.values()][-1:][0]
    qrels = judgments(arguments.qrels, arguments.queries, arguments.folds, arguments.fold)
    runs = {name: [read_run(path) for path in some] for name, some in paths.items()}
    found, table = build_report(
        qrels,
        runs,
        arguments.measures,
        title=arguments.title or "Re-ranking",
        baseline=arguments.baseline,
        focus=focus,
        confirm=arguments.confirm,
        chance=arguments.chance,
        blank=blank,
        oracle=arguments.oracle,
        remarks=[*arguments.remark, *truncated_remark(paths)],
        background=background(arguments, paths, focus),
        runs_per_draw=arguments.runs_per_draw,
    )
    remarks = [remark for remark in found.remarks if remark != table.one_run]  # the table ends with it
    printed = "\n".join([str(table), *found.facts[:1], *remarks, *summary(table, focus)])
    pages = {arguments.output: as_html(found), arguments.markdown: as_markdown(found), arguments.text: printed + "\n"}
    for path, text in pages.items():
        if path:
            with replacing(path) as file:
                file.write(text)
    print(printed)
    for path in filter(None, (arguments.output, arguments.markdown)):
        print(f"report: {path}")


def background(arguments: argparse.Namespace, paths: dict[str, list[str]], focus: str) -> Background:
    """Information about the runs, from the options and the records of a plan."""
    curves, pairs = (named(getattr(arguments, option), f"--{option}") for option in TRAINING_OPTIONS)
    records = behind([*(path for some in paths.values() for path in some), *curves.values(), *pairs.values()])
    # For a fused run, the last ranking that went into it.
    ranking = next((r.options for r in reversed(behind(paths[focus][:1])) if "docs" in r.options), {})
    texts = arguments.query_texts or (
        arguments.queries if _has_texts(arguments.queries) else ranking.get("queries", "")
    )
    fields = arguments.fields or names(ranking.get("fields") or ",".join(FIELDS))
    return Background(
        pairs=pairs or _places(records, "generate"),
        curves=curves or _places(records, "train"),
        docs=arguments.docs or _present(ranking.get("docs", "")),
        fields=fields,
        queries=arguments.query_texts or _present(texts),
        cost=[record.step() for record in records],
    )


def _places(records: list[Record], command: str) -> dict[str, str]:
    """Step → its output, for the steps that ran `command`."""
    return {
        record.name: record.place for record in records if record.command == command and os.path.isdir(record.place)
    }


def _present(path: str) -> str:
    return path if path.startswith("irds:") or os.path.exists(path) else ""


def _has_texts(path: str) -> bool:
    """Whether the lines of a file have texts after the query ids."""
    first = next((line for _, line in lines(path)), "") if path else ""
    return "\t" in first.strip() or first.startswith("{")


def is_table(record: Record) -> bool:
    """Whether a step compared runs."""
    return record.command == "report" or (record.command == "evaluate" and "curve" not in record.options)


def of_plan(arguments: argparse.Namespace) -> argparse.Namespace:
    """The options of a plan's last `report` or `evaluate`, or of the step that --step names; those given here replace them."""
    if arguments.qrels or arguments.run:
        raise InputError(f"{arguments.plan} and --qrels or --run cannot be used together; report either a plan or runs")
    tables = {record.name: record for record in records_in(arguments.plan) if is_table(record)}
    step = arguments.step or next(reversed(tables), "")
    if step not in tables:
        raise InputError(f"{arguments.plan} has no finished table {step}; it has {', '.join(tables) or 'none yet'}")
    record = tables[step]
    words = list(record.words[1:])
    if record.command == "report":
        recorded = vars(report_parser().parse_args(words))
    else:
        evaluated = vars(arguments_parser().parse_args(words))
        recorded = {name: value for name, value in evaluated.items() if name in vars(arguments)}
        recorded["run"] = evaluated["runs"]
    own = {"plan": "", "markdown": arguments.markdown, "text": arguments.text}  # not the step's files
    found = argparse.Namespace(**vars(arguments) | recorded | given(arguments, report_parser()) | own)
    found.title = found.title or f"{os.path.basename(os.path.normpath(arguments.plan))}: {record.name}"
    return found


def verdict_parser() -> Parser:
    parser = Parser(
        prog="harp verdict",
        description="Decide which scores of the same candidates to add up with equal weights. The gain of the sum is measured on "
        "queries that were not used to choose its parts.",
        example="harp verdict --qrels=qrels.txt --folds=folds.tsv --part=BM25=bm25.trec --part=HARP=harp.trec "
        "--output=verdict.json",
    )
    parser.add_input("--qrels", required=True, help="judgments: qid 0 docid level")
    parser.add_input(
        "--folds",
        required=True,
        help="file of qid<TAB>fold lines (harp queries folds): parts are chosen on the other folds",
    )
    parser.add_input(
        "--part",
        action="append",
        default=[],
        required=True,
        metavar="NAME=RUN",
        help="run to consider; repeatable, cheap ones first: each is kept if it improves the sum of those before it",
    )
    parser.add_argument("--instead", default="", help="part that contains the first (BM25F) and is tried instead")
    parser.add_argument(
        "--double",
        default="",
        help="part to keep, like that of --instead, unless it makes the sum worse; counts twice in the recommended sum",
    )
    parser.add_argument(
        "--reported", action="append", default=[], metavar="PART", help="part to test and not to add; repeatable"
    )
    parser.add_argument("--measure", default="RR@10", help="measure to decide by, as named by ir-measures (RR@10)")
    parser.add_output("--output", required=True, help="the JSON file to write")
    return parser


def verdict(arguments: argparse.Namespace) -> None:
    a = arguments
    folds = read_folds(a.folds)
    judged = select(read_qrels(a.qrels), folds)
    parts = {name: read_run(path) for name, path in named(a.part, "--part", "RUN").items()}
    for name, run in parts.items():
        if missing := sorted(judged.keys() - run.keys()):
            print(
                f"note: {name}: {len(missing)} queries are missing and count as zero: {few(missing)}", file=sys.stderr
            )
    found, _ = decide(judged, folds, parts, a.measure, a.instead, a.double, a.reported)
    found.save(a.output)
    print(found.words())
