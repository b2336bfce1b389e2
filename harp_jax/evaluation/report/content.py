"""What a report consists of, as plain data: the templates print it, nothing else reads it."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class System:
    """A row of the table. `interval`: of the mean by the first measure; `difference…`: to the baseline.

    `tone` is "good", "bad", "unsure" or "plain" (rows that are not judged).
    """

    name: str
    means: list[float]
    interval: tuple[float, float] | None = None
    difference: float | None = None
    difference_interval: tuple[float, float] | None = None
    p: float | None = None  # the larger of the two tests, after Holm's correction
    verdict: str = ""
    tone: str = "plain"


@dataclass(frozen=True)
class Line:
    """A system's curve: points (step, value); `number` chooses colour and dashes."""

    name: str
    number: int
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """Curves of one metric, with the axes that panels of one kind share; `chance` is the value of guessing."""

    title: str
    lines: list[Line]
    steps: tuple[float, float]
    values: tuple[float, float]
    chance: float | None = None


@dataclass(frozen=True)
class Pair:
    """A pre-training pair in words: the query and document of each side; an empty negative is the positive's."""

    task: str
    pos_query: str
    pos_doc: str
    neg_query: str = ""
    neg_doc: str = ""


@dataclass(frozen=True)
class Sentence:
    """A sentence with its anchor and what was made of it; `words` are (text, weight 0…1, part of an anchor)."""

    words: list[tuple[str, float, bool]]
    pairs: list[Pair]


@dataclass(frozen=True)
class TrainingData:
    """A generation job: the columns of the paper's Table 1 by task, and the best trivial predictor of each."""

    name: str
    tasks: list[dict[str, str]]
    sentence: Sentence | None = None


@dataclass(frozen=True)
class Hit:
    """A document in two rankings; a rank of 0: not among the candidates."""

    docid: str
    text: str
    before: int
    after: int


@dataclass(frozen=True)
class Change:
    """A query whose ranking became better or worse: its relevant document, and what each system put first."""

    qid: str
    query: str
    before: float
    after: float
    relevant: Hit | None
    first_before: Hit | None
    first_after: Hit | None


@dataclass(frozen=True)
class Step:
    """What a command of the plan cost; 0: not recorded."""

    name: str
    command: str
    seconds: float
    memory: int = 0  # bytes of its largest process
    tokens: float = 0.0  # trained on
    to_do: str = ""


@dataclass(frozen=True)
class Advice:
    """What to do next, and the command that does it."""

    text: str
    command: str = ""


@dataclass(frozen=True)
class Report:
    """All parts of a page. Empty parts are left out."""

    title: str
    headline: str
    figures: str  # behind the headline
    tone: str
    facts: list[str]
    measures: list[str]
    measure: str  # the one that decides
    baseline: str
    systems: list[System] = field(default_factory=list)
    focus: str = ""  # the system that headline, wins and losses speak of
    warnings: list[str] = field(default_factory=list)  # on other systems that have learned nothing
    remarks: list[str] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    panels_left_out: int = 0
    data: list[TrainingData] = field(default_factory=list)
    wins: list[Change] = field(default_factory=list)
    losses: list[Change] = field(default_factory=list)
    counts: tuple[int, int, int] = (0, 0, 0)  # queries that became better, worse, neither
    cost: list[Step] = field(default_factory=list)
    advice: list[Advice] = field(default_factory=list)
