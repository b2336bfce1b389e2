"""Priors of documents as runs: what a ranking owes to in-links or length alone, whatever the query.

    python -m harp_jax.ranking.priors --run=bm25.trec --feature=inlinks --links=linked_pages.jsonl.xz --output=inlinks.trec
    python -m harp_jax.ranking.fuse --method=weights --normalise=none bm25.trec inlinks.trec --qrels=… --folds=… --output=prior.trec

The first command gives every candidate log(1 + its in-links), or log(1 + its words) with --feature=length; the second adds it
to the first stage with a weight fitted on other folds: the row that every table carries. A model with its query blanked is
`harp_jax.ranking.rerank --blank_query`.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from harp_jax.cli import run as run_command
from harp_jax.corpus.documents import FIELDS, Documents
from harp_jax.corpus.trec import Rankings, Run, read_run, write_run
from harp_jax.errors import InputError
from harp_jax.files import lines
from harp_jax.progress import progress


def inlinks(paths: Iterable[str], wanted: set[str], redirects: dict[str, str]) -> Counter[str]:
    """How many links of the linked documents ({"id", "links": [{"target"}]} a line) lead to each wanted document."""
    count: Counter[str] = Counter()
    for path in paths:
        for number, line in progress(lines(path), unit="documents", desc="in-links"):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                targets = [redirects.get(link["target"], link["target"]) for link in record["links"]]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f'{path}, line {number}: no {{"id", "links": [{{"target"}}]}} ({error})') from error
            count.update(target for target in targets if target in wanted and target != record.get("id"))
    return count


def read_redirects(path: str) -> dict[str, str]:
    """alias → document id, from "alias<TAB>id" lines; nothing for an empty path."""
    redirects = {}
    for number, line in lines(path) if path else ():
        alias, tab, target = line.partition("\t")
        if line.strip() and not (tab and target.strip()):
            raise InputError(f"{path}, line {number}: no 'alias<TAB>id'; mend the line")
        if tab:
            redirects[alias] = target.strip()
    return redirects


def prior_run(run: Run, values: dict[str, float]) -> Rankings:
    """The run's candidates by log(1 + value), natural logarithm; equal ones in the order of the run."""
    for qid, ranking in run.items():
        docids = ranking.ranked()
        yield qid, docids, np.array([math.log1p(values.get(docid, 0.0)) for docid in docids])


def main(arguments: argparse.Namespace) -> None:
    if (arguments.feature == "inlinks") != bool(arguments.links) or (arguments.feature == "length") != bool(
        arguments.docs
    ):
        raise InputError("--feature=inlinks needs --links and nothing else, --feature=length needs --docs")
    run = read_run(arguments.run)
    wanted = {docid for ranking in run.values() for docid in ranking.docids}
    values: dict[str, float]
    if arguments.feature == "inlinks":
        values = dict(inlinks(arguments.links.split(","), wanted, read_redirects(arguments.redirects)))
    else:
        docs = Documents.open(arguments.docs, tuple(arguments.fields.split(",")))
        try:
            values = {
                docid: len(docs[docid].split()) for docid in progress(sorted(wanted), unit="documents", desc="length")
            }
        except KeyError as error:
            raise InputError(f"candidate {error.args[0]} is not among the documents; mend --run or --docs") from error
    write_run(arguments.output, prior_run(run, values), tag=arguments.feature)
    print(f"{arguments.output}: log(1 + {arguments.feature}) of {len(wanted)} documents, {len(values)} of them known")


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harp_jax.ranking.priors", description="Priors of documents as runs."
    )
    parser.add_argument("--run", required=True, help="candidates: a TREC run, or MS MARCO's three columns")
    parser.add_argument("--feature", required=True, choices=("inlinks", "length"))
    parser.add_argument("--links", default="", help="inlinks: linked documents as JSONL, several separated by commas")
    parser.add_argument("--redirects", default="", help="inlinks: alias<TAB>id")
    parser.add_argument("--docs", default="", help="length: the documents")
    parser.add_argument("--fields", default=",".join(FIELDS), help="length: fields that are counted")
    parser.add_argument("--output", required=True, help="the TREC run to write")
    return parser


if __name__ == "__main__":
    run_command(main, arguments_parser())
