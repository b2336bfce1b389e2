"""`harp report`: what some runs show, as one HTML page."""

import argparse
import os

from harp_jax.base.cli import Parser
from harp_jax.base.errors import InputError
from harp_jax.base.files import lines, output_path, replacing
from harp_jax.commands import evaluate
from harp_jax.commands.evaluate import add_floors, add_subset, judgments, name_runs, named
from harp_jax.corpus.documents import FIELDS
from harp_jax.corpus.trec import read_run
from harp_jax.evaluation.evaluate import MEASURES
from harp_jax.evaluation.provenance import Record, behind, records_in
from harp_jax.evaluation.render import as_html, as_markdown
from harp_jax.evaluation.report import Background, report, summary

TRAINING_OPTIONS = ("curves", "pairs")


def arguments_parser() -> Parser:
    parser = Parser(
        prog="harp report",
        description="Write what runs show as one self-contained HTML page: a verdict, the table, curves, wins and losses, "
        "training data, cost and advice.\nFor files that a plan wrote, the plan's records say what was trained on and what it "
        "cost.",
        example="harp report --qrels=qrels.txt --run=BM25=bm25.trec --run=HARP=harp.trec --chance=BM25 --curves=HARP=runs/harp "
        "--output=report.html\n  harp report table2 --output=table2.html",
    )
    parser.add_argument(
        "plan", nargs="?", default="", metavar="DIR", help="output of a plan: report its last table (or --step)"
    )
    parser.add_argument("--step", default="", help="with DIR: the step whose table is reported (the last `evaluate`)")
    parser.add_input("--qrels", default="", help="judgments: qid 0 docid level")
    add_subset(parser)
    parser.add_argument("--measures", default=MEASURES, help=f'names as in ir-measures ("{MEASURES}")')
    parser.add_input(
        "--run",
        action="append",
        default=[],
        help="a run and its name, or the runs of several seeds; several times",
        metavar="NAME=RUN[,RUN…]",
    )
    parser.add_argument(
        "--baseline", default="", metavar="NAME", help="the run that others are compared with (the first)"
    )
    parser.add_argument("--focus", default="", metavar="NAME", help="the run that the headline is about (the last)")
    parser.add_argument("--confirm", default="", help="measures to compare by, chosen beforehand (the first)")
    add_floors(parser)
    parser.add_input(
        "--curves",
        action="append",
        default=[],
        help="a training workdir and its name; several times (those of the plan)",
        metavar="NAME=DIR",
    )
    parser.add_argument(
        "--pairs",
        action="append",
        default=[],
        help="a generation job and its name; several times (those of the plan)",
        metavar="NAME=DIR",
    )
    parser.add_input("--docs", default="", help="documents, for the texts of wins and losses (those of the plan)")
    parser.add_argument("--fields", default="", help="document fields to quote (title,url,body)")
    parser.add_argument("--query_texts", default="", help="texts of the queries (--queries, if it has them)")
    parser.add_argument("--remark", action="append", default=[], help="a line to print below the table; several times")
    parser.add_argument("--title", default="", help="of the page (Re-ranking)")
    parser.add_output("--output", required=True, help="the HTML page to write")
    parser.add_output("--markdown", default="", help="write headline, table and advice as Markdown to this file")
    parser.add_output("--text", default="", help="write what is printed to this file, too")
    return parser


def main(arguments: argparse.Namespace) -> None:
    if arguments.plan:
        arguments = of_plan(arguments)
    if not arguments.qrels or not arguments.run:
        raise InputError("nothing to report: give --qrels and --run=NAME=RUN, or the output directory of a plan")
    for path in filter(None, (arguments.markdown, arguments.text)):
        output_path(path)
    paths = name_runs(arguments.run)
    blank = named(arguments.blank, "--blank", "ROW")
    for option in ("baseline", "focus"):
        if (name := getattr(arguments, option)) and name not in paths:
            raise InputError(f"no run is named {name!r} for --{option}; the runs are {', '.join(paths)}")
    focus = arguments.focus or [name for name in paths if name not in blank.values()][-1:][0]
    qrels = judgments(arguments)
    runs = {name: [read_run(path) for path in some] for name, some in paths.items()}
    found, table = report(
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
        remarks=arguments.remark,
        background=background(arguments, paths, focus),
        runs_per_draw=arguments.runs_per_draw,
    )
    printed = "\n".join([str(table), *found.facts[:1], *found.remarks, *summary(table, focus)])
    pages = {arguments.output: as_html(found), arguments.markdown: as_markdown(found), arguments.text: printed + "\n"}
    for path, text in pages.items():
        if path:
            with replacing(path) as file:
                file.write(text)
    print(printed)
    for path in filter(None, (arguments.output, arguments.markdown)):
        print(f"report: {path}")


def background(arguments: argparse.Namespace, paths: dict[str, list[str]], focus: str) -> Background:
    """What the options and the records of a plan say about the runs."""
    curves, pairs = (named(getattr(arguments, option), f"--{option}") for option in TRAINING_OPTIONS)
    records = behind([*(path for some in paths.values() for path in some), *curves.values(), *pairs.values()])
    # Of a fused run, the ranking that went into it last.
    ranking = next((r.options for r in reversed(behind(paths[focus][:1])) if "docs" in r.options), {})
    texts = arguments.query_texts or (
        arguments.queries if _has_texts(arguments.queries) else ranking.get("queries", "")
    )
    fields = arguments.fields or ranking.get("fields") or ",".join(FIELDS)
    return Background(
        pairs=pairs or _places(records, "generate"),
        curves=curves or _places(records, "train"),
        docs=arguments.docs or _present(ranking.get("docs", "")),
        fields=tuple(fields.split(",")),
        queries=arguments.query_texts or _present(texts),
        model=_present(ranking.get("model", "")),
        paths={name: some[0] for name, some in paths.items()},
        cost=[record.step() for record in records],
    )


def _places(records: list[Record], command: str) -> dict[str, str]:
    """Step → what it wrote, of the steps that ran a command."""
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
    """The options of the step of a plan that evaluates: the last `report` or `evaluate`, or the one that --step names."""
    if arguments.qrels or arguments.run:
        raise InputError(f"{arguments.plan} and --qrels or --run: report a plan, or runs; leave one out")
    tables = {record.name: record for record in records_in(arguments.plan) if is_table(record)}
    if arguments.step and arguments.step not in tables:
        raise InputError(f"--step={arguments.step}: the tables of {arguments.plan} are {', '.join(tables) or 'none'}")
    if not tables:
        raise InputError(f"no step of {arguments.plan} has evaluated runs yet; let the plan finish")
    record = tables[arguments.step] if arguments.step else list(tables.values())[-1]
    words = list(record.words[1:])
    if record.command == "report":
        found = arguments_parser().parse_args(words)
    else:
        evaluated = evaluate.arguments_parser().parse_args(words)
        shared = {name: value for name, value in vars(evaluated).items() if name in vars(arguments)}
        found = argparse.Namespace(**vars(arguments) | shared | {"run": evaluated.runs})
    for option in ("title", "focus", "markdown", "text"):
        setattr(found, option, getattr(arguments, option) or getattr(found, option))
    found.output, found.plan = arguments.output, ""
    found.title = found.title or f"{os.path.basename(os.path.normpath(arguments.plan))}: {record.name}"
    return found
