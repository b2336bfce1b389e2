"""An engine for jobs of a second: its parts run in this process, where a worker would first import TensorFlow for ten."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from data_pipeline.engine.local import LocalEngine


class InProcessEngine(LocalEngine):
    """The local engine without worker processes; `generate(config, output, InProcessEngine)`."""

    @property
    def pool(self) -> Executor:
        return _Immediate()


class _Immediate(Executor):
    """Runs what is submitted at once, in the caller."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future:
        future: Future = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future
