"""HARP's Table 1: pairs, tokens and lengths of its four tasks beside the paper's.

harp plan table1 --output=paper

Reads the dump that configs/data/enwiki.py names, and bert-base-uncased/, in the current folder. Writes the pairs to OUTPUT/pairs,
where the experiments table2 to table4, figure4 and msmarco with the same output find them (they also need those of the controls:
`tasks`). The paper's 2.64 tokens an RQP query cannot hold an anchor and other words.

Hardware and time of English Wikipedia: configs/data/enwiki.py. Figures: not run yet.
"""

from harp_jax.base.files import replacing
from harp_jax.base.steps import Steps
from harp_jax.experiments.pretraining import PAPER, TASKS, Pretraining


def table1(output: str, pretraining: Pretraining = PAPER, tasks: tuple[str, ...] = TASKS) -> None:
    """HARP's Table 1: pairs, tokens and lengths of its four tasks beside the paper's.

    tasks: tasks of the pairs, HARP's and those of the controls
    """
    from data_pipeline.output.inspection import as_text, inspect

    pairs = pretraining.generated(Steps(output), tasks, f"{output}/pairs")
    text = as_text(inspect(pairs))
    with replacing(f"{output}/table1.txt") as file:
        file.write(text + "\n")
    print(text)
