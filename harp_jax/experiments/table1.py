"""HARP's Table 1: pairs, tokens and lengths of the four tasks beside the paper's.

harp plan table1 --output=paper --set source=enwiki-20210101-pages-articles-multistream.xml.bz2

Writes the pairs to OUTPUT/pairs, where the experiments table2 to table4, figure4 and msmarco with the same output find them (they
also need those of the controls: `tasks`). The paper's 2.64 tokens an RQP query cannot hold an anchor and other words. Hardware and
time of English Wikipedia: configs/data/enwiki.py. Figures: not run yet.
"""

from harp_jax.base.files import replacing
from harp_jax.base.steps import Steps
from harp_jax.experiments.pretraining import PAPER, TASKS, Pretraining
from harp_jax.input.records import read_manifest

COLUMNS = ("tokens", "pairs", "mean_query_tokens", "mean_doc_tokens")
# Of the paper: tokens and pairs in millions.
PRINTED = {
    "rqp": (3330, 17.71, 2.64, 90.48),
    "qdm": (220, 1.35, 2.80, 81.17),
    "rdp": (1560, 6.49, 34.90, 85.86),
    "acm": (1970, 12.64, 4.55, 73.64),
}


def table1(output: str, pretraining: Pretraining = PAPER, tasks: tuple[str, ...] = TASKS) -> None:
    """HARP's Table 1: pairs, tokens and lengths of its four tasks beside the paper's.

    tasks: tasks of the pairs, HARP's and those of the controls
    """
    pairs = pretraining.generated(Steps(output), tasks, f"{output}/pairs")
    found = read_manifest(pairs)["tasks"]
    head = ("tokens (M)", "pairs (M)", "tokens a query", "tokens a document")
    lines = ["task  " + "".join(f"{name:>20}{'paper':>9}" for name in head)]
    for task, paper in PRINTED.items():
        if task in found:
            scale = (1e6, 1e6, 1, 1)
            ours = [found[task].get(name, 0.0) / each for name, each in zip(COLUMNS, scale)]
            lines.append(f"{task:6}" + "".join(f"{one:>20,.2f}{two:>9,.2f}" for one, two in zip(ours, paper)))
    with replacing(f"{output}/table1.txt") as file:
        file.write("\n".join(lines) + "\n")
    print("\n".join(lines))
