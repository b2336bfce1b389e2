"""The plan of a site in two parts: prepare and measure, then train for so many steps and test."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harp_jax.base.errors import InputError
from harp_jax.base.files import check_links, check_outside, link, read_json
from harp_jax.config import read_config
from harp_jax.experiments.execution import execute
from harp_jax.experiments.plan import Step, check_braces, listing, resolve
from harp_jax.experiments.plan_cost import summary
from harp_jax.experiments.plan_file import load_plan
from harp_jax.experiments.site.budget import check_survey, steps_within, usable_tasks, verdicts
from harp_jax.input.manifest import read_manifest

PLAN, PRETRAIN = "site", "site"
GUESSED = 1.0  # seconds of a step in a dry run before it is measured
SCRATCH = (
    "No --start: a small encoder is trained from scratch with the words of these pages. It can add to BM25 where there are tens of "
    "thousands of links; with --start=HF_DIR (a BERT such as all-MiniLM-L6-v2) the same minutes go further."
)
# Name in the output directory → step whose output it is.
RESULTS = {
    "ranker": "model", "report.html": "report", "verdict.json": "verdict", "survey": "survey", "table.tsv": "table",
    "bm25.trec": "bm25", "bm25.json": "parameters", "ranker.trec": "run_ranker", "bm25_ranker.trec": "bm25_ranker",
}  # fmt: skip
LABELLED = {"verdict.json": "verdict_labels", "anchors_verdict.json": "verdict"}


@dataclass(frozen=True)
class SiteRun:
    """The options of `harp plan site`, minutes of training, and the directory that receives everything."""

    options: Mapping[str, Any]
    output: str
    minutes: float = 30.0

    def steps(self, steps: int = 0, tasks: tuple[str, ...] = ()) -> dict[str, Step]:
        """The steps of the plan by name, up to the training where `steps` is 0.

        Raises InputError for braces in the options, and for an output within what is read.
        """
        check_braces(self.options)
        check_outside(self.output, (*self.options["pages"], self.options.get("start", "")))
        planned = resolve(load_plan(PLAN).get_plan(**self.options, steps=steps, tasks=tasks), self.output)
        return {step.command.name: step for step in planned}

    def dry_run(self) -> str:
        """The commands, and what they cost as far as that is known."""
        prepared = self.steps()
        tasks = self.tasks(prepared) if prepared["pairs"].done else ()
        rate = self.steps(tasks=tasks)["rate"]
        number = self.training_steps(rate, prepared["pairs"], tasks) if rate.done and tasks else 0
        planned = list(self.steps(number or max(1, round(60 * self.minutes / GUESSED)), tasks).values())
        lines = [listing(planned), summary(planned, self.output)]
        if not number:
            lines.append(
                f"The steps of harp stand for {self.minutes:g} minutes at {GUESSED:g} s a step; the step rate measures how "
                "many fit."
            )
        return "\n".join(lines)

    def run(self) -> dict[str, Any]:
        """Runs what is not done; returns the content of verdict.json, by labels where there are some.

        Raises InputError where links are too few.
        """
        results = RESULTS | (LABELLED if self.options.get("labels") else {})
        check_links(os.path.join(self.output, name) for name in results)
        self.check_start()
        prepared = self.steps()
        surveyed = prepared["survey"].done
        carry_out([prepared["survey"]], self.output)
        survey = read_json(os.path.join(prepared["survey"].place, "survey.json"))
        if surveyed and "text" in survey:  # otherwise the command has just printed it
            print(survey["text"], flush=True)
        check_survey(survey)
        if "vocabulary" in prepared:
            print(SCRATCH, flush=True)
        carry_out([step for name, step in prepared.items() if name != "rate"], self.output)
        for sentence in verdicts(read_manifest(prepared["pairs"].place)):
            print(sentence, flush=True)
        tasks = self.tasks(prepared)
        rate = self.steps(tasks=tasks)["rate"]
        carry_out([rate], self.output)
        number = self.training_steps(rate, prepared["pairs"], tasks)
        print(f"{number} steps of training, within {self.minutes:g} minutes; tasks: {', '.join(tasks)}", flush=True)
        planned = self.steps(number, tasks)
        carry_out(list(planned.values()), self.output)
        for name, step in results.items():
            link(planned[step].place, os.path.join(self.output, name))
        return read_json(planned[results["verdict.json"]].place)

    def check_start(self) -> None:
        """Raises InputError, before anything runs, for a start that has too few layers or reads shorter rows than the recipe's."""
        path = os.path.join(str(self.options.get("start") or ""), "config.json")
        if self.options.get("start") and os.path.isfile(path):
            start, rows = read_json(path), read_config(PRETRAIN).row_length
            length, layers = start.get("max_position_embeddings"), start.get("num_hidden_layers")
            if isinstance(layers, int) and layers < self.options.get("layers", 0):
                raise InputError(f"--layers={self.options['layers']}: the encoder of --start has {layers}")
            if isinstance(length, int) and length < rows:
                raise InputError(
                    f"--start: the encoder reads {length} tokens at most, the recipe {rows}; choose another start"
                )

    def tasks(self, prepared: Mapping[str, Step]) -> tuple[str, ...]:
        """The tasks of the recipe that the finished pairs suffice for."""
        return usable_tasks(prepared["pairs"].place, read_config(PRETRAIN).tasks)

    def training_steps(self, rate: Step, pairs: Step, tasks: tuple[str, ...]) -> int:
        """Steps within the minutes: a function of the recorded rate, so that a command that is repeated trains for as many."""
        seconds = float(read_json(rate.place, "remove it and run again")["seconds_per_step"])
        return steps_within(self.minutes, seconds, pairs.place, tasks, read_config(PRETRAIN).batch_pairs)


def carry_out(steps: list[Step], output: str) -> None:
    """Runs those of the steps that are not done."""
    if to_do := [step for step in steps if not step.done]:
        execute(to_do, output)
