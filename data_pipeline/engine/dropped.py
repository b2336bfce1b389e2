"""What was dropped and why: counts by reason, with a few examples each. The table is called `losses`, as in the manifest.

A reason begins with what was dropped: `page-`, `redirect-`, `link-` (by destination or position), `anchor-` (by text),
`exclusion-` (a line of config.exclude_destinations), `characters-`, or the name of a task (a pair that could not be made).
"""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from data_pipeline.engine.tables import table

EXAMPLES = 3


class DropCounts:
    """What one part of a map dropped, by reason: a short stable slug."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[tuple[str, str]]] = {}

    def add(self, reason: str, location: str, example: str = "", count: int = 1) -> None:
        self._counts[reason] = self._counts.get(reason, 0) + count
        examples = self._examples.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            # File names that are not UTF-8 contain lone surrogates, which Parquet cannot store.
            examples.append((_printable(location), _printable(example[:200])))

    def table(self) -> pa.Table:
        """The count of a reason is in its first row; its other rows have n = 0 and an example."""
        rows = [
            dict(reason=reason, n=self._counts[reason] if i == 0 else 0, location=location, example=example)
            for reason, examples in self._examples.items()
            for i, (location, example) in enumerate(examples)
        ]
        return table("losses", rows)


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def summary(rows: Iterable[tuple[str, int, str, str]]) -> dict[str, Any]:
    """{reason: {"count", "examples"}} from (reason, n, location, example), independent of the rows' order."""
    counts: dict[str, int] = {}
    examples: dict[str, list[list[str]]] = {}
    for reason, n, location, example in rows:
        counts[reason] = counts.get(reason, 0) + n
        kept = examples.setdefault(reason, [])
        kept.append([location, example])
        kept.sort()
        del kept[EXAMPLES:]
    return {reason: {"count": counts[reason], "examples": examples[reason]} for reason in sorted(counts)}
