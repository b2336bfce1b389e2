"""The local engine without worker processes: they take longer to start than a small input to read."""

from concurrent.futures import Executor, Future
from typing import Any

from data_pipeline.engine.local import LocalEngine

SMALL = 64 << 20  # bytes of input up to which no workers are worth their start


class SerialEngine(LocalEngine):
    """`LocalEngine` whose maps run in this process."""

    @property
    def pool(self) -> Executor:
        return _Immediate()


class _Immediate(Executor):
    """Runs what is submitted at once, in the caller."""

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future
