"""What every engine runs: a job, the parts of its maps, and the three operations on tables.

A map is a pure function of a part; a join is SQL over whole tables. Finished parts and joins are not repeated (see store.py):
rerunning a killed job resumes it, and the output has the same bytes.
"""

from collections.abc import Callable, Iterable
from typing import Any, NotRequired, Protocol, TypedDict

import pyarrow as pa

Config = dict[str, Any]  # a generation config as plain JSON values: what `config.plain` returns

# What tasks may need from a job: the link graph; an anchor text's destinations ranked once per link, not once each; sentences with
# links, and term weights; passages of pages without in-links too, or weights for them; the sentence ends of passages.
LINKS, OCCURRENCES, SENTENCES = "links", "occurrences", "sentences"
ALL_PAGES, ALL_WEIGHTS, SENTENCE_ENDS = "all pages", "all weights", "sentence ends"


class Job(TypedDict):
    """Plain values that every part of a map receives.

    per_bucket: chunks of the input in one bucket; window: tokens that the encoder reads; needs: which of the names above the tasks
    need; elsewhere: directories of tables outside the work directory; candidates: number of pages that negatives are drawn from;
    unlinked: how many of these have no in-links.
    """

    config: Config
    work: str
    output: str
    per_bucket: int
    window: NotRequired[int]
    needs: NotRequired[list[str]]
    elsewhere: NotRequired[dict[str, str]]
    candidates: NotRequired[int]
    unlinked: NotRequired[int]


class Inputs(TypedDict):
    """The input of a job, identified by content; part of its manifest.

    source: name, size and sha256 of every file; encoder_content: sha256 and number of positions, or the name of a method.
    """

    source: list[dict[str, Any]]
    tokenizer_sha256: str
    encoder_content: dict[str, Any]


Part = tuple[int, Any]  # number of the part, which is the bucket of its output, and its payload
MapFunction = Callable[[Job, int, Any], dict[str, pa.Table]]


class Engine(Protocol):
    """Runs the stages of one job; `job["work"]` is the directory of its tables."""

    job: Job

    def map(self, stage: str, function: MapFunction, parts: Iterable[Part], per_bucket: int = 1) -> None: ...

    def join(self, output: str, sql: str, inputs: Iterable[str], partitioned: bool = False) -> None: ...

    def query(self, sql: str, inputs: Iterable[str]) -> list[tuple]: ...

    def close(self) -> None: ...


class EngineFactory(Protocol):
    """Makes an engine: `LocalEngine`, or `SparkEngine` with its master."""

    def __call__(self, job: Job, workers: int, memory_limit: str) -> Engine: ...
