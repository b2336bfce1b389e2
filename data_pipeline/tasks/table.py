"""The pre-training tasks by name. To add a task, add a file to this room and its `Task` here."""

from data_pipeline.engine.job import Config
from data_pipeline.tasks import acm, adp, prop, qdm, rdp, rqp, running_text, wlp
from data_pipeline.tasks.task import Task

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        rqp.TASK,  # Representative Query Prediction (HARP 3.2.1)
        qdm.TASK,  # Query Disambiguation Modeling (HARP 3.2.2)
        rdp.TASK,  # Representative Document Prediction (HARP 3.2.3)
        acm.TASK,  # Anchor Co-occurrence Modeling (HARP 3.2.4)
        adp.ADP,  # Anchor Destination Prediction: hard negatives, beyond the paper
        adp.TITLE,  # a control for ADP without links: a title and its page
        adp.LEAD,  # a control for ADP without links: words of a sentence, and the page without it
        running_text.ICT,  # Inverse Cloze Task, a control
        wlp.TASK,  # Wiki Link Prediction, a control
        prop.TASK,  # PROP and B-PROP, controls, with the language model of the collection
        running_text.MLM,  # pieces of running text for masked language modelling (HARP Eq. 15)
    )
}

HARP = ("rqp", "qdm", "rdp", "acm", "mlm")  # the paper's tasks


def chosen(c: Config) -> list[Task]:
    """The tasks of a job, in the order of the table."""
    return [task for name, task in TASKS.items() if name in c["tasks"]]


def needs(c: Config) -> list[str]:
    """What the tasks of a job need together (engine/job.py)."""
    return sorted(set[str]().union(*(task.needs(c) for task in chosen(c))))
