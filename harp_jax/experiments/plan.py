"""Plans: an experiment as a declarative list of the project's own commands, each run once for what it reads.

python -m harp_jax.experiments.plan --plan=configs/experiments/demo.py --output=demo [--jobs=2] [--dry_run]

A plan file has `get_plan() -> list[Command]`. In arguments, {out} is the command's own place under --output, {name} that of
an earlier command, and {output} the whole plan's. A command's place is named after the hash of everything it reads: its
arguments, the files and folders that they name, what its config comes out as, and what earlier commands made of theirs. Of
files above 1 MiB size and time count instead of the content. So a finished command is never repeated, a killed
plan goes on where it was, and a changed plan does not disturb what an unchanged part of it has made.

Small models do not keep many cores busy: --jobs=2 ran two trainings of KNRM on two cores in 1.3 times the time of one. Sums
are then cut up among fewer threads, so that scores may differ from --jobs=1 in their last digits.
"""

import argparse
import hashlib
import json
import os
import re
import runpy
import shlex
import string
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from queue import Queue

from harp_jax.cli import run
from harp_jax.errors import InputError
from harp_jax.files import replacing, sha256_file
from harp_jax.version import __version__

HASHED = 1 << 20  # bytes of a file, up to which its content is its identity
PROGRAM = [sys.executable, "-m", "harp_jax"]
SHOWN = ("evaluate",)  # whose output is shown when several jobs run: tables


@dataclass(frozen=True)
class Command:
    """One command of the project. `reads` are files besides those of earlier commands, such as its config."""

    name: str
    module: str
    arguments: list[str]
    reads: list[str] = field(default_factory=list)
    suffix: str = ""  # ".html": {out} is a file of that kind; empty: a directory or whatever the command makes

    def needs(self) -> list[str]:
        """The names in braces: earlier commands, "out" and "output"."""
        found = [name for text in self.arguments for _, name, _, _ in string.Formatter().parse(text) if name]
        return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Step:
    """A command with its braces filled in."""

    command: Command
    key: str
    place: str
    argv: list[str]

    @property
    def record(self) -> str:
        return os.path.join(os.path.dirname(self.place), ".plan", f"{self.command.name}-{self.key}.json")

    @property
    def done(self) -> bool:
        return os.path.exists(self.record) and os.path.exists(self.place)


def load_plan(path: str) -> list[Command]:
    """The commands of a plan file; InputError where it has none or names are wrong."""
    if not os.path.isfile(path):
        raise InputError(f"no plan at {path}; for example --plan=configs/experiments/demo.py")
    get_plan = runpy.run_path(path).get("get_plan")
    if get_plan is None:
        raise InputError(f"{path} has no get_plan(); define one that returns a list of Command")
    return get_plan()


def resolve(commands: list[Command], output: str) -> list[Step]:
    """Fills in places and keys, in order. Raises InputError for doubled names, unknown braces and missing files."""
    steps: dict[str, Step] = {}
    for command in commands:
        if command.name in steps or not re.fullmatch(r"[a-z0-9_]+", command.name) or command.name in ("out", "output"):
            raise InputError(
                f"command name {command.name!r} is used twice or is not of [a-z0-9_]; rename it in the plan"
            )
        unknown = [n for n in command.needs() if n not in steps and n not in ("out", "output")]
        if unknown:
            raise InputError(
                f"command {command.name} needs {unknown[0]!r}, which no earlier command makes; mend the plan"
            )
        state = hashlib.sha256(repr((command.module, command.arguments, __version__)).encode())
        for name in command.needs():
            state.update(steps[name].key.encode() if name in steps else b"-")
        for path in command.reads:
            if not os.path.isfile(path):
                raise InputError(f"command {command.name} reads {path}, which is missing; run from the project's root")
            state.update(sha256_file(path).encode())
        for argument in command.arguments:
            state.update(read_by(argument).encode())
        key = state.hexdigest()[:10]
        place = os.path.join(output, f"{command.name}-{key}{command.suffix}")
        names = {n: s.place for n, s in steps.items()} | {"out": place, "output": output}
        program = [sys.executable, "-m"] if "." in command.module else PROGRAM
        argv = [*program, command.module, *(text.format(**names) for text in command.arguments)]
        steps[command.name] = Step(command, key, place, argv)
    return list(steps.values())


def read_by(argument: str) -> str:
    """Identity of what an argument names: files, folders, and the fields of a config."""
    # Whole values too: paths may hold a comma or "=".
    words = [argument, argument.partition("=")[2], *re.split(r"[=,'\"()\s]+", argument)]
    found = [stamp(word) for word in dict.fromkeys(words) if word and os.path.exists(word)]
    path = argument.removeprefix("--config=").partition(":")[0]
    if argument.startswith("--config=") and os.path.isfile(path):
        # A config may take its fields from another file, which no argument names.
        get_config = runpy.run_path(path).get("get_config")
        found += [str(get_config())] if get_config else []
    return "".join(found)


def stamp(path: str) -> str:
    """Content of a small file, size and time of a larger one; of a folder, those of what lies in it."""
    if os.path.isdir(path):
        inside = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        return repr(
            [(name, os.stat(name).st_size, os.stat(name).st_mtime_ns) for name in inside if os.path.exists(name)]
        )
    about = os.stat(path)
    return sha256_file(path) if about.st_size <= HASHED else repr((about.st_size, about.st_mtime_ns))


def shown(step: Step) -> str:
    """The command as one would type it."""
    return " ".join(["python", *map(shlex.quote, step.argv[1:])])


def execute(steps: list[Step], output: str, jobs: int = 1) -> None:
    """Runs what is not done yet, `jobs` commands at a time, in the plan's order where their inputs allow.

    Several jobs share the processor's cores out among them, and what they print goes to a file each. A command that fails
    ends the plan with an InputError once those beside it have ended; rerunning goes on there.
    """
    if jobs < 1:
        raise InputError(f"--jobs={jobs}: give 1 or more")
    os.makedirs(os.path.join(output, ".plan"), exist_ok=True)
    began = time.monotonic()
    labels = {s.command.name: f"[{number}/{len(steps)}] {s.command.name}" for number, s in enumerate(steps, 1)}
    for step in steps:
        if step.done:
            print(f"{labels[step.command.name]}: done before", flush=True)
    waiting = [step for step in steps if not step.done]
    shares: Queue[set[int]] = Queue()
    for share in core_shares(jobs):
        shares.put(share)
    failures: list[InputError] = []
    with ThreadPoolExecutor(jobs, initializer=lambda: stay_on(shares.get())) as pool:
        running: dict[Future[None], Step] = {}
        while running or (waiting and not failures):
            unmade = {s.command.name for s in (*waiting, *running.values())}
            ready = [s for s in waiting if unmade.isdisjoint(s.command.needs())]
            for step in ready[: 0 if failures else jobs - len(running)]:
                waiting.remove(step)
                running[pool.submit(execute_one, step, labels[step.command.name], jobs > 1)] = step
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                del running[future]
                try:
                    future.result()
                except InputError as error:
                    failures.append(error)
    if failures:
        raise failures[0]
    print(f"plan finished in {time.monotonic() - began:.0f} s; everything is under {output}", flush=True)


def execute_one(step: Step, label: str, apart: bool) -> None:
    """Runs one command and records it as done. `apart`: what it prints goes to a file beside the record."""
    print(f"{label}: {shown(step)}", flush=True)
    start = time.monotonic()
    log = step.record.removesuffix(".json") + ".log"
    with open(log, "w") if apart else nullcontext() as file:
        status = subprocess.run(step.argv, stdout=file, stderr=subprocess.STDOUT if apart else None).returncode
    if status:
        said = f"its message ends {log}" if apart else "its message is above"
        raise InputError(
            f"{step.command.name} ended with status {status}; {said}. "
            "Mend it and run the plan again: what is done is kept"
        )
    if step.command.module == "harp_jax.main" and not os.path.exists(os.path.join(step.place, "command.txt")):
        raise InputError(f"{step.command.name} was interrupted; run the plan again to go on")
    if not os.path.exists(step.place):
        raise InputError(f"{step.command.name} ended well but made no {step.place}; mend its arguments in the plan")
    seconds = round(time.monotonic() - start, 1)
    with replacing(step.record) as record:
        json.dump({"name": step.command.name, "command": shown(step), "seconds": seconds}, record, indent=1)
    print(f"{label}: {seconds} s", flush=True)
    if apart and step.command.module in SHOWN:
        with open(log, encoding="utf-8", errors="replace") as file:
            print(file.read(), flush=True)


def core_shares(jobs: int) -> list[set[int]]:
    """The cores that this process may use, dealt out; all of them to each job where there are fewer, or on systems that cannot."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [set(cores[job::jobs]) if len(cores) >= jobs else set(cores) for job in range(jobs)]


def stay_on(cores: set[int]) -> None:
    """Keeps this thread, and the commands that it starts, on some cores: two that both use all of them hinder each other."""
    if cores:
        os.sched_setaffinity(0, cores)


def main(arguments: argparse.Namespace) -> None:
    steps = resolve(load_plan(arguments.plan), arguments.output)
    if arguments.dry_run:
        for step in steps:
            print(f"{'done' if step.done else 'to do'}  {step.command.name}: {shown(step)}")
        return
    execute(steps, arguments.output, arguments.jobs)


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m harp_jax.experiments.plan", description="Runs a plan of commands.")
    parser.add_argument("--plan", required=True, help="Python file with get_plan()")
    parser.add_argument("--output", required=True, help="directory that receives everything")
    parser.add_argument("--jobs", type=int, default=1, help="commands at a time, each on its share of the cores (1)")
    parser.add_argument("--dry_run", action="store_true", help="print the commands and what is done, run nothing")
    return parser


if __name__ == "__main__":
    run(main, arguments_parser())
