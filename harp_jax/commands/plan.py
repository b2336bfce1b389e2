"""`harp plan`: runs an experiment, a list of commands, each once."""

import argparse
import os
import shlex
import sys
from typing import Any

from harp_jax.base.cli import Parser, positive
from harp_jax.base.errors import InputError
from harp_jax.commands.table import COMMANDS
from harp_jax.experiments.execution import alone, execute, summary
from harp_jax.experiments.plan import listing, load_plan, resolve, shipped_plans


class PlanParser(Parser):
    """`harp plan PLAN --help` describes the plan and its options."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = sys.argv[1:] if args is None else list(args)
        words = [word for word in given if word not in ("-h", "--help")]
        arguments, rest = self.parse_known_args(words, namespace)
        if arguments.plan is None and rest and not rest[0].startswith("-"):
            arguments.plan = rest.pop(0)  # argparse finds an optional positional only before the options
        if len(words) < len(given):
            print(
                f"{load_plan(arguments.plan).help()}\n\n{self.format_usage()}" if arguments.plan else self.format_help()
            )
            self.exit()
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return arguments


def arguments_parser() -> Parser:
    parser = PlanParser(
        prog="harp plan",
        description="Run the commands of a plan, each once; rerunning resumes. Without PLAN, list the shipped plans.",
        example="harp plan demo --output=demo\n  harp plan tables --help\n"
        "  harp plan tables --output=tables --set seeds=0,1 --jobs=2 --dry_run",
    )
    parser.add_argument(
        "plan", nargs="?", metavar="PLAN", help="Python file with get_plan(), or name of a shipped plan"
    )
    parser.add_output("--output", help="directory for all output")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a plan option; repeatable")
    parser.add_argument("--jobs", type=positive, default=1, help="commands to run in parallel, sharing the cores (1)")
    parser.add_argument(
        "--dry_run",
        action="store_true",
        help="print the commands, mark those done, and estimate the cost of the rest; run nothing",
    )
    parser.add_argument("--only", default="", metavar="STEP", help="run only this step; its inputs must be done")
    return parser


def main(arguments: argparse.Namespace) -> None:
    if arguments.plan is None:
        plans = shipped_plans()
        width = max(len(name) for name, _ in plans)
        print("\n".join(f"{name:<{width}}  {summary}" for name, summary in plans))
        return
    plan = load_plan(arguments.plan)
    commands = plan.commands(arguments.set)
    for command in commands:
        if command.command not in COMMANDS:
            raise InputError(
                f"step {command.name} of {arguments.plan} runs {command.command!r}, which is not a command; "
                "`harp --help --all` lists them"
            )
    if not arguments.output:
        raise InputError("no --output; the plan needs a directory for its results")
    steps = resolve(commands, arguments.output)
    if arguments.only:
        steps = [alone(steps, arguments.only)]
    if arguments.dry_run:
        print(f"{listing(steps)}\n{summary(steps, arguments.output, arguments.jobs)}")
        return
    to_do = sum(not step.done for step in steps)
    if to_do and not arguments.only:
        print(plan.description.strip().partition("\n")[0])
    print(
        f"{to_do} of {len(steps)} steps to do; if interrupted, run the plan again to resume (--dry_run estimates their cost)"
    )
    execute(steps, arguments.output, arguments.jobs)
    if arguments.only:
        return
    reports = [step.place for step in steps if step.command.command == "report"]
    if reports:
        own = "; next, your own pages: harp site PAGES --output=x" if arguments.plan == "demo" else ""
        print(f"open {reports[-1]} in a browser{own}")
    elif any(command.command == "evaluate" for command in commands):
        page = os.path.join(arguments.output, "report.html")
        print(f"to read it as a page: harp report {shlex.quote(arguments.output)} --output={shlex.quote(page)}")
