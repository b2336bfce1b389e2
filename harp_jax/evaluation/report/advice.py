"""What to do next, from what a report found."""

import math
import shlex
from collections.abc import Mapping, Sequence

from harp_jax.corpus.trec import Qrels, Run
from harp_jax.evaluation.floors import CHANCE, NOT_ABOVE_BLANK, NOT_ABOVE_CHANCE
from harp_jax.evaluation.report.content import Advice, Panel
from harp_jax.evaluation.report.verdict import comparison_of
from harp_jax.evaluation.tables import Table

LEARNED = 0.6  # accuracy on held-out pairs from which a task was learned
RISING = 0.01  # of held-out accuracy between the last two evaluations
MOST_QUERIES = 20_000  # beyond, more queries are no advice
ENOUGH_SEEDS = 5


def next_steps(
    table: Table,
    name: str,
    panels: Sequence[Panel],
    unreachable: int,
    model: str = "",
    docs: str = "",
    paths: Mapping[str, str] | None = None,
) -> list[Advice]:
    """Advice on a system of a table; `unreachable` queries have no relevant candidate.

    `model` is the directory of the system's model, `docs` its documents, `paths` the runs by name: they fill in the commands.
    """
    paths = paths or {}
    fails, found = table.verdicts.get(name, []), comparison_of(table, name)
    summed = name.startswith(f"{table.baseline} + ")
    advice: list[Advice] = []
    if NOT_ABOVE_CHANCE in fails:
        advice += _at_chance(panels)
    elif NOT_ABOVE_BLANK in fails:
        advice.append(
            Advice(
                "Do not use it: it has learned which documents are linked to or long, not what a query means. Generate pairs "
                "whose negatives have as many in-links (config.acm_negative=in_links, or the task adp), and train again."
            )
        )
    elif found and found.verdict == "better":
        if model:
            advice.append(
                Advice("Try it on queries of your own, side by side with BM25.", _command("look", model=model))
            )
        if table.seeds.get(name, 1) == 1 and _rated(panels):
            advice.append(
                Advice(
                    f"This is one training. Train {ENOUGH_SEEDS - 1} more seeds before you publish the figure: another seed may "
                    "move it by more than the interval says."
                )
            )
    elif found and found.verdict == "worse":
        advice.append(
            Advice(
                f"Use {table.baseline}, or both together: a weighted sum with weights fitted on other queries is seldom worse than "
                "the better of the two.",
                _fuse(paths, table.baseline, name),
            )
        )
    elif found:
        half = (found.interval[1] - found.interval[0]) / 2
        needed = math.ceil(table.queries * (half / found.difference) ** 2) if found.difference else 0
        if table.queries < needed <= MOST_QUERIES:
            about = f"about {_round(needed)} would show it ({table.queries} here)"
            advice.append(Advice(f"Judge more queries: if the difference is real, {about}."))
        if not summed:
            together = "Try both together: a weighted sum often gains where neither wins alone."
            advice.append(Advice(together, _fuse(paths, table.baseline, name)))
    lost = [other for other, said in table.verdicts.items() if NOT_ABOVE_CHANCE in said]
    for other in [other for other in lost if other not in (name, table.baseline)][:1]:
        advice += [Advice(f"{other}: {one.text}") for one in _at_chance(panels)]
    if _rising(panels):
        advice.append(Advice("The held-out accuracy was still rising at the last step: train longer."))
    if unreachable:
        queries = "query has" if unreachable == 1 else "queries have"
        advice.append(
            Advice(
                f"{unreachable} of {table.queries} {queries} no relevant document among the candidates: no re-ranker can help "
                "there. Retrieve more candidates (--k), or add anchor texts to the documents (harp anchors)."
            )
        )
    if not table.verdicts and CHANCE not in table.mean:
        advice.append(Advice("Add the row of random orders (--chance=NAME): it shows how much of a figure is luck."))
    return advice


def _at_chance(panels: Sequence[Panel]) -> list[Advice]:
    text = "Do not use it. "
    rated = _rated(panels)
    if not rated:
        return [
            Advice(text + "Check that it was trained, and that it reads the document fields that it was trained on.")
        ]
    if max(rated) < LEARNED:
        text += (
            f"It has not learned its own pairs (held-out accuracy {max(rated):.2f}, chance 0.50): train longer, with a larger "
            "learning rate, or from a pre-trained encoder; check the pairs with harp inspect."
        )
    else:
        text += (
            f"It has learned its pairs (held-out accuracy {max(rated):.2f}), but they do not teach to rank here: compare them with "
            "the trivial predictors in the table above, choose other tasks, or fine-tune on some labels."
        )
    return [Advice(text)]


def _rated(panels: Sequence[Panel]) -> list[float]:
    """Last held-out accuracies."""
    return [line.points[-1][1] for panel in panels if "held-out" in panel.title for line in panel.lines]


def _rising(panels: Sequence[Panel]) -> bool:
    lines = [line.points for panel in panels if "held-out" in panel.title for line in panel.lines[:1]]
    return any(len(points) > 2 and points[-1][1] - points[-2][1] > RISING for points in lines)


def unreachable(qrels: Qrels, run: Run) -> int:
    """Queries with a relevant document, but none among their candidates."""
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


def _command(name: str, **options: str) -> str:
    return " ".join(["harp", name, *(f"--{option}={shlex.quote(value)}" for option, value in options.items())])


def _round(number: int) -> str:
    digits = max(0, len(str(number)) - 2)
    return f"{math.ceil(number / 10**digits) * 10**digits:,}"
