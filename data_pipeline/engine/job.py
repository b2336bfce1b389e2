"""What every engine runs: a job, the parts of its maps, and the three operations on tables.

A map is a pure function of a part; a join is SQL over whole tables. Finished parts and joins are not repeated (see store.py):
rerunning a killed job resumes it, and the output has the same bytes.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict, TypeVar

from data_pipeline.engine.tables import Rows, Table

Config = dict[str, Any]  # a generation config as plain JSON values: what `config.validated_dict` returns

# What tasks may need from a job: the link graph; an anchor text's destinations ranked per occurrence, not per distinct page;
# sentences with links and term weights; passages of pages without in-links, or weights for them; the sentence ends of passages.
LINKS, OCCURRENCES, SENTENCES = "links", "occurrences", "sentences"
ALL_PAGES, ALL_WEIGHTS, SENTENCE_ENDS = "all pages", "all weights", "sentence ends"


class Inputs(TypedDict):  # of a job by content, a part of its manifest: see `claim.fingerprint`
    source: list[dict[str, Any]]
    tokenizer_sha256: str
    encoder_content: dict[str, Any]


@dataclass(frozen=True)
class Job:
    """What every part of a map knows. work: directory of the tables; output: of the shards; weights: of the tables of the term
    weights. per_bucket: chunks of the input in one bucket; window: tokens that the encoder reads; needs: which of the names above
    the tasks need."""

    config: Config
    work: str
    output: str = ""
    weights: str = ""
    per_bucket: int = 1
    window: int = 0
    needs: tuple[str, ...] = ()


P = TypeVar("P")  # what a part is about: a chunk of the input, a table, None if its bucket says all
Part = tuple[int, P]  # number of the part, which is the bucket of its output, and its payload
Outputs = dict[Table, Rows]
MapFunction = Callable[[Job, int, P], Outputs]


class Engine(Protocol):
    """Runs the stages of one job."""

    job: Job

    def map(self, stage: str, function: MapFunction[P], parts: Iterable[Part[P]], per_bucket: int = 1) -> None: ...

    def join(self, output: Table, sql: str) -> None: ...

    def query(self, sql: str) -> list[tuple]: ...

    def close(self) -> None: ...


EngineFactory = Callable[[Job, int, str], Engine]  # of a job, workers and memory limit: `LocalEngine`, or `SparkEngine`
