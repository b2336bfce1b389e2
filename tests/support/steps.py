"""A machine-independent clock: the number of Python calls and lines that a function executes."""

import sys
from collections.abc import Callable


def steps(function: Callable[[], object]) -> int:
    count = 0

    def tick(frame, event, argument):
        nonlocal count
        count += 1
        return tick

    before = sys.gettrace()  # coverage's
    sys.settrace(tick)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def check_linear(function: Callable[[int], object], most: float = 2.3) -> None:
    """Asserts that twice the size takes about twice the steps."""
    function(10)  # warm-up: compiles patterns
    small, large = (steps(lambda n=n: function(n)) for n in (500, 1000))
    assert large <= most * small + 100, (small, large)
