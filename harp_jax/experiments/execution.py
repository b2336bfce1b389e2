"""Runs the unfinished steps of a plan, several at a time if their inputs allow, and estimates their cost beforehand.

`jobs=2` pays off for small models, which do not keep many cores busy: training two KNRMs on two cores took 1.3 times as long as
one. Sums are then split among fewer threads, so scores may differ from those of `jobs=1` in their last digits.

Cost: steps to do by kind, training updates, and the time that finished steps took. Time is never guessed: it is listed as
unknown for kinds of steps that have not run in the output directory.
"""

import contextlib
import glob
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from queue import Queue

from harp_jax.base.cli import FOLLOW, child_environment
from harp_jax.base.errors import InputError, Terminated
from harp_jax.base.files import locked, read_json, replacing
from harp_jax.base.progress import duration
from harp_jax.config import read_config
from harp_jax.experiments.plan import PROGRAM, Step

PRINTED = ("evaluate", "inspect", "query-probe")  # commands whose output is printed even with several jobs


def alone(steps: list[Step], name: str) -> Step:
    """The step with this name. Raises InputError if there is none, or if its inputs are not done."""
    by_name = {step.command.name: step for step in steps}
    if name not in by_name:
        raise InputError(f"--only={name}: not a step of the plan; its steps are {', '.join(by_name)}")
    waiting = [need for need in by_name[name].command.needs() if need in by_name and not by_name[need].done]
    if waiting:
        raise InputError(f"--only={name}: it reads {', '.join(waiting)}, which are not done; run them first")
    return by_name[name]


def execute(steps: list[Step], output: str, jobs: int = 1) -> None:
    """Runs the unfinished steps, `jobs` at a time, in the plan's order as far as their inputs allow.

    Several jobs share the CPU cores, and the output of each goes to a log file. If a step fails, waits for the running ones
    and raises InputError; running the plan again resumes it. SIGTERM is passed on to the running steps.
    """
    os.makedirs(os.path.join(output, ".plan"), exist_ok=True)
    try:
        _execute(steps, output, jobs)
    finally:
        for contents in {id(step.contents): step.contents for step in steps}.values():
            contents.save()


def _execute(steps: list[Step], output: str, jobs: int) -> None:
    began = time.monotonic()
    labels = {s.command.name: f"[{number}/{len(steps)}] {s.command.name}" for number, s in enumerate(steps, 1)}
    for step in steps:
        if step.done:
            print(f"{labels[step.command.name]}: already done", flush=True)
    waiting = [step for step in steps if not step.done]
    shares: Queue[set[int]] = Queue()
    for share in core_shares(jobs):
        shares.put(share)
    failures: list[InputError] = []
    children = Children()
    with ThreadPoolExecutor(jobs, initializer=lambda: stay_on(shares.get())) as pool, children.terminated():
        running: dict[Future[None], Step] = {}
        while running or (waiting and not failures and not children.stopped):
            unmade = {s.command.name for s in (*waiting, *running.values())}
            ready = [s for s in waiting if unmade.isdisjoint(s.command.needs())]
            for step in ready[: 0 if failures or children.stopped else jobs - len(running)]:
                waiting.remove(step)
                running[
                    pool.submit(execute_one, step, labels[step.command.name], children, jobs > 1 or step.command.logged)
                ] = step
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                del running[future]
                try:
                    future.result()
                except InputError as error:
                    failures.append(error)
    if children.stopped:
        raise Terminated(f"terminated; run the plan again to resume it under {output}")
    if failures:
        raise failures[0]
    print(f"plan finished in {time.monotonic() - began:.0f} s; all outputs are under {output}", flush=True)


class Children:
    """The processes of running steps; ends them if this process is terminated (SIGTERM) or killed (`cli.follow`)."""

    def __init__(self) -> None:
        self.stopped = False
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(self, argv: list[str], **options: object) -> tuple[int, int]:
        """Runs a command and returns (status, bytes of its largest process); starts nothing after SIGTERM."""
        if self.stopped:
            return -signal.SIGTERM, 0
        # The other end of the pipe closes when this process ends, however it ends: the command then ends too.
        end, held = os.pipe()
        try:
            environment = child_environment() | {FOLLOW: str(end)}
            with subprocess.Popen(argv, env=environment, pass_fds=(end,), **options) as process:  # type: ignore[call-overload]
                self._running.add(process)
                try:
                    if self.stopped:  # after the check above
                        process.terminate()
                    return wait_for(process)
                finally:
                    self._running.discard(process)
        finally:
            os.close(end)
            os.close(held)

    @contextlib.contextmanager
    def terminated(self) -> Iterator[None]:
        """Within the block, SIGTERM ends the processes. Only the main thread can handle signals; no effect in others."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def end(_number: int, _frame: object) -> None:
            self.stopped = True
            for process in list(self._running):
                process.terminate()

        before = signal.signal(signal.SIGTERM, end)
        try:
            yield
        except BaseException:  # this process alone was interrupted; Ctrl-C in a terminal reaches the commands too
            end(0, None)
            raise
        finally:
            signal.signal(signal.SIGTERM, before)


def wait_for(process: "subprocess.Popen[bytes]") -> tuple[int, int]:
    """(status, bytes of the largest process of the command); 0 bytes if the system does not report it."""
    if not hasattr(os, "wait4"):
        return process.wait(), 0
    try:
        _, status, used = os.wait4(process.pid, 0)
    except ChildProcessError:  # the signal handler has already collected its status
        return process.wait(), 0
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def execute_one(step: Step, label: str, children: Children, to_file: bool) -> None:
    """Runs one step and records it as done. `to_file`: its output goes to a log file next to the record.

    Raises InputError if it fails, or while another process runs it.
    """
    busy = f"another process runs {step.command.name} of this plan; wait for it, or choose another --output"
    with locked(step.record.removesuffix(".json") + ".lock", busy):
        if step.done:
            print(f"{label}: done by another process", flush=True)
        else:
            _execute_one(step, label, children, to_file)


def _execute_one(step: Step, label: str, children: Children, to_file: bool) -> None:
    print(f"{label}: {step}", flush=True)
    start = time.monotonic()
    log = step.record.removesuffix(".json") + ".log"
    with open(log, "w") if to_file else nullcontext() as file:
        status, memory = children.run(step.argv, stdout=file, stderr=subprocess.STDOUT if to_file else None)
    if status or not os.path.exists(step.place):
        wrote = "" if status else f" but wrote no {step.place}"
        where = f"its message is at the end of {log}" if to_file else "its message is above"
        raise InputError(
            f"{step.command.name} ended with status {status}{wrote}; {where}. "
            "Fix the cause and run the plan again: finished steps are kept"
        )
    seconds = round(time.monotonic() - start, 1)
    with replacing(step.record) as record:
        fields = {"name": step.command.name, "command": str(step), "seconds": seconds, "memory_bytes": memory}
        json.dump({**fields, "sha256": step.contents(step.place)}, record, indent=1)
    print(f"{label}: {seconds} s", flush=True)
    if to_file and step.command.command in PRINTED:
        with open(log, encoding="utf-8", errors="replace") as text:
            print(text.read(), flush=True)


def core_shares(jobs: int) -> list[set[int]]:
    """Divides the cores that this process may use among the jobs; with fewer cores than jobs, each job gets all of them.

    Empty sets on systems without CPU affinity.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return [set(cores[job::jobs]) if len(cores) >= jobs else set(cores) for job in range(jobs)]


def stay_on(cores: set[int]) -> None:
    """Restricts this thread and its child processes to some cores: jobs on the same cores slow each other down."""
    if cores:
        os.sched_setaffinity(0, cores)


@dataclass
class Kind:
    """Steps that cost about the same: one command with one config."""

    done: int = 0
    to_do: int = 0
    updates: int = 0  # of training steps to do, if their config sets them
    seconds: list[float] = field(default_factory=list)  # of finished steps

    @property
    def expected(self) -> float:
        """Estimated seconds of the steps to do, from the mean of finished ones; 0 if there are none."""
        return self.to_do * sum(self.seconds) / len(self.seconds) if self.seconds else 0.0


def kind_of(words: Sequence[str]) -> str:
    """The kind of a command line: "train configs/finetune.py", "rerank"."""
    config = next((word for word in words if word.startswith("--config=")), "")
    return " ".join([*words[:1], *([config.removeprefix("--config=")] if config else [])])


def kinds(steps: Sequence[Step], output: str) -> dict[str, Kind]:
    """Kind → its steps; times from the records of all steps that ever finished in `output`."""
    found: dict[str, Kind] = defaultdict(Kind)
    for step in steps:
        words = step.argv[len(PROGRAM) :]
        kind = found[kind_of(words)]
        if step.done:
            kind.done += 1
            continue
        kind.to_do += 1
        if step.command.command == "train":
            with suppress(InputError):  # the step itself will report it
                config = read_config(kind_of(words).partition(" ")[2], [w for w in words if w.startswith("--config.")])
                kind.updates += config.get("steps", 0)
    for path in sorted(glob.glob(os.path.join(glob.escape(output), ".plan", "*.json"))):
        with suppress(InputError, KeyError, TypeError, ValueError):  # damaged: the step runs again
            record = read_json(path)
            words = shlex.split(str(record["command"]))
            name = kind_of(words[words.index("harp_jax") + 1 :])
            if name in found:
                found[name].seconds.append(float(record["seconds"]))
    return dict(found)


def summary(steps: Sequence[Step], output: str, jobs: int = 1) -> str:
    """The cost as text, one line per kind of step."""
    found = kinds(steps, output)
    lines = [f"cost: {sum(k.to_do for k in found.values())} steps to do, {sum(k.done for k in found.values())} done"]
    to_do = {name: kind for name, kind in found.items() if kind.to_do}
    for name, kind in to_do.items():
        time_of = "time unknown: none is done"
        if kind.seconds:
            time_of = f"{duration(kind.expected)} (the mean of {len(kind.seconds)} done)"
        updates = f"{kind.updates:,} updates, " if kind.updates else ""
        lines.append(f"  {name}: {kind.to_do} to do, {updates}{time_of}")
    if to_do:
        known = [kind.expected for kind in to_do.values() if kind.seconds]
        unknown = sum(kind.to_do for kind in to_do.values() if not kind.seconds)
        some = f"{unknown} step{'s' if unknown > 1 else ''} of unknown time" if unknown else ""
        whole = ", and ".join([*([duration(sum(known))] if known else []), *([some] if some else [])])
        lines.append(f"  together {whole}, one after the other" + ("" if jobs == 1 else f"; --jobs={jobs}"))
    return "\n".join(lines)
