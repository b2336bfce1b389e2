"""Chi-square tests of draws."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from scipy import stats


def assert_drawn(drawn: Iterable[Any], p: Mapping[Any, float] | None = None) -> None:
    """Asserts that draws (or a Counter of them) follow the probabilities `p`, and no others are drawn; None: uniform over those
    that were drawn."""
    counts = drawn if isinstance(drawn, Counter) else Counter(drawn)
    expected = dict.fromkeys(counts, 1 / len(counts)) if p is None else p
    assert set(counts) == set(expected)
    observed = [counts[each] for each in expected]
    assert stats.chisquare(observed, [counts.total() * q for q in expected.values()]).pvalue > 0.01
