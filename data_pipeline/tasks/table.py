"""The pre-training tasks by name. To add a task, add a file to this room and its name here."""

from data_pipeline.engine.job import Config
from data_pipeline.tasks import acm, adp, ict, lead, mlm, prop, qdm, rdp, rqp, title, wlp
from data_pipeline.tasks.task import Task

TASKS: dict[str, Task] = {
    each.TASK.name: each.TASK for each in (rqp, qdm, rdp, acm, adp, title, lead, ict, wlp, prop, mlm)
}

HARP = ("rqp", "qdm", "rdp", "acm", "mlm")  # the paper's tasks


def chosen(c: Config) -> list[Task]:
    """The tasks of a job, in the order of the table."""
    return [task for name, task in TASKS.items() if name in c["tasks"]]


def needs(c: Config) -> list[str]:
    """What the tasks of a job need together (engine/job.py)."""
    return sorted(set[str]().union(*(task.needs(c) for task in chosen(c))))
