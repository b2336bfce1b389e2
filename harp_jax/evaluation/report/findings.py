"""A system's result in words, and advice on what to do next."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harp_jax.corpus.trec import Qrels, Run
from harp_jax.evaluation.floors import CHANCE, NOT_ABOVE_BLANK, NOT_ABOVE_CHANCE, ORACLE
from harp_jax.evaluation.report.curves import Panel
from harp_jax.evaluation.significance import LEVEL, Comparison
from harp_jax.evaluation.tables import Table

AT_CHANCE = "at chance level"
WORDS = {"better": "better", "worse": "worse", "inconclusive": "not decided"}
TONES = {"better": "good", "worse": "bad", "inconclusive": "unsure"}
LEARNED = 0.6  # held-out pair accuracy at which a task counts as learned
RISING = 0.01  # rise of the held-out accuracy between the last two evaluations
MOST_QUERIES = 20_000  # do not advise judging more than this


@dataclass(frozen=True)
class System:
    """A row of the table. `interval` is that of the mean by the first measure; `difference…` is from the baseline.

    `tone` is "good", "bad", "unsure" or "plain" (no verdict).
    """

    name: str
    means: list[float]
    interval: tuple[float, float] | None = None
    difference: float | None = None
    difference_interval: tuple[float, float] | None = None
    p: float | None = None  # the larger of the two tests, after Holm's correction
    verdict: str = ""
    tone: str = "plain"


@dataclass(frozen=True)
class Advice:
    """A next step, and its command."""

    text: str
    command: str = ""


def comparison_of(table: Table, name: str) -> Comparison | None:
    """The comparison of a system with the baseline by the deciding measure."""
    return next((c for c in table.comparisons if c.run == name and c.measure == table.judged_by), None)


def systems_of(table: Table, blank: dict[str, str]) -> list[System]:
    """The rows of the table, in order."""
    return [_system(table, name, blank) for name in table.mean]


def _system(table: Table, name: str, blank: dict[str, str]) -> System:
    means = [table.mean[name][m] for m in table.measures]
    row = System(name, means, table.intervals.get(name))
    if name == CHANCE:
        return _judged(row, "candidates in random order")
    if name == ORACLE:
        return _judged(row, "candidates in the best order")
    if name in blank.values():
        return _judged(row, "documents scored without the query")
    found, fails = comparison_of(table, name), table.verdicts.get(name, [])
    if found:
        row = System(name, means, row.interval, found.difference, found.interval, found.p)
    if NOT_ABOVE_CHANCE in fails:
        return _judged(row, AT_CHANCE, "bad")
    if NOT_ABOVE_BLANK in fails:
        return _judged(row, NOT_ABOVE_BLANK, "bad")
    if found:
        return _judged(row, WORDS[found.verdict], TONES[found.verdict])
    return _judged(row, "baseline" if name == table.baseline else "")


def _judged(row: System, verdict: str, tone: str = "plain") -> System:
    return System(
        row.name, row.means, row.interval, row.difference, row.difference_interval, row.p, verdict, tone
    )  # fmt: skip


def headline(table: Table, name: str) -> tuple[str, str, str]:
    """(a sentence about a system, its figures, its tone)."""
    measure = table.judged_by or table.measures[0]
    mean = table.mean[name][measure]
    fails, found = table.verdicts.get(name, []), comparison_of(table, name)
    if NOT_ABOVE_CHANCE in fails:
        figures = f"{measure} {mean:.3f}; the same candidates in random order: {table.mean[CHANCE][measure]:.3f}"
        return f"{name} is at chance level: it orders its candidates no better than a random order.", figures, "bad"
    if NOT_ABOVE_BLANK in fails:
        return (
            f"{name} does not read the query: it ranks no better than with the query blanked.",
            f"{measure} {mean:.3f}",
            "bad",
        )
    if not found:
        figures = f"{measure} {mean:.3f}{_between(table.intervals.get(name))}"
        return f"{name} reaches {measure} {mean:.3f}.", figures, "plain"
    base = table.mean[table.baseline][measure]
    figures = f"{measure} {mean:.3f} against {base:.3f}: {found.difference:+.3f}{_between(found.interval, '+')}"
    if found.difference == 0 and found.interval == (0, 0):
        return f"{name} ranks every query as {table.baseline} does, by {measure}.", figures, "unsure"
    if found.verdict == "inconclusive":
        queries = f"{table.queries} queries do" if table.queries != 1 else "One query does"
        return f"{queries} not decide whether {name} ranks better than {table.baseline}.", figures, "unsure"
    return f"{name} ranks {found.verdict} than {table.baseline}.", figures, TONES[found.verdict]


def summary(table: Table, name: str) -> list[str]:
    """Sentences for the terminal: about `name`, then the `warnings`."""
    sentence, figures, _ = headline(table, name)
    return [f"{sentence} {figures}", *warnings(table, name)]


def warnings(table: Table, name: str) -> list[str]:
    """A sentence about each other system that is at chance level or ignores the query."""
    said = [headline(table, other) for other in table.verdicts if other != name]
    return [f"{sentence} {figures}" for sentence, figures, _ in said]


def is_significant(system: System) -> bool:
    """Whether both tests are significant after Holm's correction."""
    return system.p is not None and system.p < LEVEL


def _between(interval: tuple[float, float] | None, sign: str = "") -> str:
    return f" (95 % interval {interval[0]:{sign}.3f} to {interval[1]:{sign}.3f})" if interval else ""


def next_steps(
    table: Table,
    name: str,
    panels: Sequence[Panel],
    unreachable: int,
    model: str = "",
    paths: Mapping[str, str] | None = None,
) -> list[Advice]:
    """Advice about a system; `unreachable` is the number of queries without a relevant candidate.

    `model` (the system's model directory) and `paths` (run files by name) complete the commands.
    """
    found = comparison_of(table, name)
    advice = [
        Advice(f"{'' if other == name else f'{other}: '}Do not use it. {_why_not(said, panels)}")
        for other, said in table.verdicts.items()
        if other != table.baseline
    ]
    if found and name not in table.verdicts:
        if found.verdict == "better" and model:
            command = f"harp look --model={shlex.quote(model)}"
            advice.append(Advice("Try it on queries of your own, side by side with BM25.", command))
        if found.verdict != "better" and not name.startswith(f"{table.baseline} + "):
            together = "Try both together: a weighted sum often gains where neither wins alone."
            advice.append(Advice(together, _fuse(paths or {}, table.baseline, name)))
        half = (found.interval[1] - found.interval[0]) / 2
        needed = math.ceil(table.queries * (half / found.difference) ** 2) if found.difference else 0
        if found.verdict == "inconclusive" and table.queries < needed <= MOST_QUERIES:
            about = f"about {needed:,} would show it ({table.queries} here)"
            advice.append(Advice(f"Judge more queries: if the difference is real, {about}."))
    lines = [panel.lines[0].points for panel in panels if "held-out" in panel.title]
    if any(len(points) > 2 and points[-1][1] - points[-2][1] > RISING for points in lines):
        advice.append(Advice("The held-out accuracy was still rising at the last step: train longer."))
    if unreachable:
        advice.append(
            Advice(
                f"{unreachable} of {table.queries} queries have no relevant document among the candidates: no re-ranker can help "
                "there. Retrieve more candidates (--k), or add anchor texts to the documents (harp anchors)."
            )
        )
    if not table.verdicts and CHANCE not in table.mean:
        advice.append(Advice("Add the row of random orders (--chance=NAME): it shows how much of a figure is luck."))
    return advice


def _why_not(fails: Sequence[str], panels: Sequence[Panel]) -> str:
    """Explains why a system is at chance level or ignores the query."""
    if NOT_ABOVE_CHANCE not in fails:
        return (
            "It has learned which documents are linked to or long, not what a query means. Generate pairs whose negatives have "
            "as many in-links (config.acm_negative=in_links, or the task adp), and train again."
        )
    rated = [line.points[-1][1] for panel in panels if "held-out" in panel.title for line in panel.lines]
    if not rated:
        return "Check that it was trained, and that it reads the document fields that it was trained on."
    accuracy = f"(held-out accuracy {max(rated):.2f}, chance 0.50)"
    if max(rated) < LEARNED:
        return (
            f"It has not learned its own pairs {accuracy}: train longer, with a larger learning rate, or from a pre-trained "
            "encoder; check the pairs with harp inspect."
        )
    return (
        f"It has learned its pairs {accuracy}, but they do not teach to rank here: compare them with the trivial predictors "
        "in the table, choose other tasks, or fine-tune on some labels."
    )


def unreachable(qrels: Qrels, run: Run) -> int:
    """Number of queries with relevant documents, but none among the candidates."""
    count = 0
    for qid, judged in qrels.items():
        relevant = {docid for docid, level in judged.items() if level > 0}
        count += bool(relevant) and relevant.isdisjoint(run[qid].docids if qid in run else ())
    return count


def _fuse(paths: Mapping[str, str], *names: str) -> str:
    if not all(name in paths for name in names):
        return ""
    runs = " ".join(shlex.quote(paths[name]) for name in names)
    return f"harp fuse {runs} --method=rrf --output=both.trec"
