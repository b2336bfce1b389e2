"""Verdicts in words: what a table says of a system, for somebody who reads nothing else."""

from harp_jax.evaluation.floors import CHANCE, NOT_ABOVE_BLANK, NOT_ABOVE_CHANCE, ORACLE
from harp_jax.evaluation.report.content import System
from harp_jax.evaluation.significance import Comparison
from harp_jax.evaluation.tables import LEVEL, Table

AT_CHANCE = "at chance level"
WORDS = {"better": "better", "worse": "worse", "inconclusive": "not decided"}
TONES = {"better": "good", "worse": "bad", "inconclusive": "unsure"}


def comparison_of(table: Table, name: str) -> Comparison | None:
    """The comparison of a system with the baseline by the measure that decides."""
    return next((c for c in table.comparisons if c.run == name and c.measure == table.judged_by), None)


def systems_of(table: Table, blank: dict[str, str]) -> list[System]:
    """The rows of the table, in its order."""
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
        p = max(found.t_test_holm, found.randomisation_holm)
        row = System(name, means, row.interval, found.difference, found.interval, p)
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
    """(a sentence on a system, the figures behind it, its tone)."""
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
    """The sentences for a terminal: on `name`, then the `warnings`."""
    sentence, figures, _ = headline(table, name)
    return [f"{sentence} {figures}", *warnings(table, name)]


def warnings(table: Table, name: str) -> list[str]:
    """A sentence on every system but `name` that is at chance level or ignores the query."""
    said = [headline(table, other) for other in table.verdicts if other != name]
    return [f"{sentence} {figures}" for sentence, figures, _ in said]


def is_significant(system: System) -> bool:
    """Whether both tests reject equality after Holm's correction."""
    return system.p is not None and system.p < LEVEL


def _between(interval: tuple[float, float] | None, sign: str = "") -> str:
    return f" (95 % interval {interval[0]:{sign}.3f} to {interval[1]:{sign}.3f})" if interval else ""
