"""Where the parts of a page are: given one by one, or found in the output of `harp site`."""

import os
from dataclasses import dataclass, replace

from harp_jax.base.errors import InputError
from harp_jax.base.files import read_json
from harp_jax.corpus.documents import FIELDS
from harp_jax.corpus.paths import is_irds

LABELS = "labels.tsv"
SITE_FIELDS = ("title", "body")  # that `harp site` trains and tests with


@dataclass(frozen=True)
class Sources:
    """Paths of what is shown; `exclude` holds qid and docid of pages that are no results of a query, `parameters`
    those of BM25 (harp tune-first-stage).

    `weight` is the ranker's in the sum with BM25 (both scaled to 0…1), `verdict` what is known of it.
    """

    model: str = ""
    docs: str = ""
    fields: tuple[str, ...] = FIELDS
    anchors: str = ""
    queries: str = ""
    exclude: str = ""
    parameters: str = ""
    labels: str = LABELS
    weight: float = 1.0
    verdict: str = ""

    def check(self) -> None:
        """Raises InputError unless model and documents are given and everything that is named exists."""
        absent = [f"--{name}" for name in ("model", "docs") if not getattr(self, name)]
        if absent:
            raise InputError(f"no {' and no '.join(absent)}; give both, or the output directory of `harp site`")
        paths = (self.model, self.docs, self.anchors, self.queries, self.parameters)
        missing = [path for path in paths if path and not _exists(path)]
        if missing:
            raise InputError(f"{', '.join(missing)}: no such file or folder; check the paths")
        if not 0 <= self.weight <= 1000:
            raise InputError(f"--weight={self.weight:g}: use 0 to 1000")


def of_site(folder: str, given: Sources) -> Sources:
    """The parts in the output of `harp site`; what is `given` replaces them. Raises InputError for an unfinished one."""
    survey = os.path.join(folder, "survey")
    parts = {
        "model": os.path.join(folder, "ranker"),
        "docs": os.path.join(survey, "docs.jsonl"),
        "anchors": os.path.join(survey, "anchors.tsv"),
        "queries": os.path.join(survey, "queries.tsv"),
        "exclude": os.path.join(survey, "sources.tsv"),
        "parameters": os.path.join(folder, "bm25.json"),
    }
    needed = [parts[name] for name in ("model", "docs") if not getattr(given, name)]
    if missing := [path for path in needed if not os.path.exists(path)]:
        raise InputError(
            f"{folder} has no {os.path.relpath(missing[0], folder)}; let `harp site` finish, or name another folder"
        )
    found = {name: getattr(given, name) or (path if os.path.exists(path) else "") for name, path in parts.items()}
    if given.queries and not given.exclude:
        found["exclude"] = ""  # its ids are those of the site's own queries
    labels = given.labels if given.labels != LABELS else os.path.join(folder, LABELS)
    sources = replace(given, **found, labels=labels)  # type: ignore[arg-type]
    path = os.path.join(folder, "verdict.json")
    if not os.path.exists(path):
        return sources
    verdict = read_json(path)
    weight = verdict.get("weight") or verdict.get("fitted_weight")
    if not given.model and isinstance(weight, int | float) and weight > 0:
        sources = replace(sources, weight=float(weight))
    return replace(sources, verdict=str(verdict.get("words", "")))


def _exists(path: str) -> bool:
    return is_irds(path) or os.path.exists(path)
