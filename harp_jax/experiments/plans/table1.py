"""HARP's Table 1: how many pairs a corpus yields for each task, and how long they are.

harp plan table1 --output=tables --set source=pages.jsonl --set encoder=minilm/

Generates the pairs of HARP's tasks and of the controls, checks every shard, and prints the manifest's statistics: pairs, mean
tokens of queries and documents, links that were dropped and why, and how well trivial predictors (word overlap, length, in-links)
tell the two sides of held-out pairs apart. A predictor near 1 is a shortcut that a model will learn first.

Hardware: 2 CPU cores; 2,100 pages with links and 170,000 without (../shared/data/wiki) take about twenty minutes, of which
the encoder that weighs the terms needs most; --set encoder=idf needs none.
"""

from harp_jax.experiments.plan import Command
from harp_jax.experiments.steps import PRETRAINING, TASKS, Pretraining


def get_plan(pretraining: Pretraining = PRETRAINING, tasks: tuple[str, ...] = TASKS) -> list[Command]:
    """Options:

    tasks: of the pairs
    """
    inspection = [pretraining.place, "--examples=2", "--output={out}"]
    return [*pretraining.generated(tasks), Command("table", "inspect", inspection, suffix=".txt")]
