"""`harp plan`: runs an experiment of `harp_jax/experiments/`, or of a file of your own."""

import argparse
import sys
from typing import Any

from harp_jax.base.cli import Parser
from harp_jax.base.errors import InputError
from harp_jax.experiments.experiment import NAMES, find


class PlanParser(Parser):
    """`harp plan NAME --help` describes the experiment and its options."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = sys.argv[1:] if args is None else list(args)
        words = [word for word in given if word not in ("-h", "--help")]
        arguments, rest = self.parse_known_args(words, namespace)
        if arguments.plan is None and rest and not rest[0].startswith("-"):
            arguments.plan = rest.pop(0)  # argparse finds an optional positional only before the options
        if len(words) < len(given):
            print(f"{find(arguments.plan).help()}\n\n{self.format_usage()}" if arguments.plan else self.format_help())
            self.exit()
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return arguments


def arguments_parser() -> Parser:
    parser = PlanParser(
        description="Run an experiment: its steps in order, each once; rerunning resumes. Without NAME, list the experiments.",
        example="harp plan demo --output=demo\n  harp plan tables --help\n"
        "  harp plan tables --output=tables --set seeds=0,1",
    )
    what = "experiment, or Python file with a function of its name"
    parser.add_argument("plan", nargs="?", metavar="NAME", help=what)
    parser.add_output("--output", help="directory for all output")
    what = "option of the experiment; repeatable"
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE", help=what)
    parser.add_argument("--dry_run", action="store_true", help="only print hours, GB and dollars (msmarco)")
    parser.add_force()
    return parser


def main(arguments: argparse.Namespace) -> None:
    if arguments.plan is None:
        width = max(map(len, NAMES))
        print("\n".join(f"{name:<{width}}  {summary}" for name, (_, summary) in NAMES.items()))
        return
    experiment = find(arguments.plan)
    if arguments.dry_run and "dry_run" not in experiment.defaults:
        raise InputError(f"{arguments.plan} has no --dry_run; msmarco has, which prints what all trainings cost")
    values = experiment.arguments([*arguments.set, "dry_run=true"] if arguments.dry_run else arguments.set)
    if not arguments.output:
        raise InputError("no --output; the experiment needs a directory for its results")
    experiment.function(arguments.output, **values)
