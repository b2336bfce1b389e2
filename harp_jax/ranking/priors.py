"""Document priors as runs: candidates scored by in-links or length, ignoring the query.

A candidate scores log(1 + in-links) or log(1 + words). Fused with the first stage, with a weight fitted on other folds
(`harp fuse --method=weights --normalise=none`), this is the baseline "prior". `harp rerank --blank_query` computes a trained
model's own prior.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from harp_jax.base.errors import InputError
from harp_jax.base.files import lines
from harp_jax.base.progress import progress
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.trec import Run, ScoredQuery, read_run, write_run
from harp_jax.ranking.first_stage import anchor_rows

FEATURES = ("inlinks", "length")


def inlinks(paths: Iterable[str], wanted: set[str], redirects: Mapping[str, str]) -> Counter[str]:
    """In-links of each wanted document, from linked documents (one {"id", "links": [{"target"}]} per line)."""
    count: Counter[str] = Counter()
    for path in paths:
        for number, line in progress(lines(path), unit="documents", desc="in-links"):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                targets = [redirects.get(link["target"], link["target"]) for link in record["links"]]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise InputError(f'{path}, line {number}: no {{"id", "links": [{{"target"}}]}} ({error})') from error
            count.update(target for target in targets if target in wanted and target != record.get("id"))
    return count


def read_redirects(path: str) -> dict[str, str]:
    """alias → document id, from "alias<TAB>id" lines; empty for an empty path."""
    redirects = {}
    for number, line in lines(path) if path else ():
        alias, tab, target = line.partition("\t")
        if line.strip() and not (tab and target.strip()):
            raise InputError(f"{path}, line {number}: no 'alias<TAB>id'; correct the line")
        if tab:
            redirects[alias] = target.strip()
    return redirects


def prior_run(run: Run, values: Mapping[str, float]) -> Iterator[ScoredQuery]:
    """The run's candidates scored by log(1 + value), natural logarithm; ties in the order of the run."""
    for qid, ranking in run.items():
        docids = ranking.ranked()
        yield qid, docids, np.array([math.log1p(values.get(docid, 0.0)) for docid in docids])


def prior_files(
    *,
    run: str,
    feature: str,
    output: str,
    links: Sequence[str] = (),
    redirects: str = "",
    anchors: str = "",
    docs: str = "",
    fields: tuple[str, ...] = FIELDS,
) -> tuple[int, int]:
    """Writes a run's candidates scored by a feature: inlinks (needs `links` or `anchors`) or length (needs `docs`).

    Returns the number of documents in the run, and how many have a value. Raises InputError for bad input.
    """
    if (feature == "inlinks") != (bool(links) != bool(anchors)) or (feature == "length") != bool(docs):
        raise InputError("--feature=inlinks needs --links or --anchors and nothing else, --feature=length needs --docs")
    candidates = read_run(run)
    wanted = {docid for ranking in candidates.values() for docid in ranking.docids}
    values: dict[str, int]
    if feature == "inlinks" and anchors:
        count: Counter[str] = Counter()
        for docid, _, n in anchor_rows(anchors):
            count[docid] += n if docid in wanted else 0
        values = {docid: n for docid, n in count.items() if n}
    elif feature == "inlinks":
        values = dict(inlinks(links, wanted, read_redirects(redirects)))
    else:
        texts = Documents.open(docs, fields)
        if absent := [docid for docid in sorted(wanted) if docid not in texts]:
            raise InputError(f"candidate {absent[0]} is not among the documents; correct --run or --docs")
        bar = progress(sorted(wanted), unit="documents", desc="length")
        values = {docid: len(texts[docid].split()) for docid in bar}
    write_run(output, prior_run(candidates, values), tag=feature)
    return len(wanted), len(values)
