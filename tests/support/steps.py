"""A machine-independent clock: the number of Python calls and lines that a function executes."""

import sys
from collections.abc import Callable


def steps(function: Callable[[], object]) -> int:
    count = 0

    def tick(frame, event, argument):
        nonlocal count
        count += 1
        return tick

    sys.settrace(tick)
    try:
        function()
    finally:
        sys.settrace(None)
    return count
