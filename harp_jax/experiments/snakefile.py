"""A plan as a Snakemake file, for several machines: Snakemake's executors run its rules on Slurm, other clusters and clouds.

Every rule is one step, `harp plan … --only=STEP`, and its output the record that marks the step as done; so Snakemake and
`harp plan` see the same steps as finished. All machines must share the file system.
"""

import os
import shlex
from collections.abc import Sequence

from harp_jax.experiments.plan import PROGRAM, Step


def snakefile(steps: Sequence[Step], words: Sequence[str]) -> str:
    """The file's text. `words` are the arguments of `harp plan`, without --snakefile."""
    records = {step.command.name: step.record for step in steps}
    read = {name for step in steps for name in step.command.needs()}
    last = [record for name, record in records.items() if name not in read]
    command = shlex.join([*PROGRAM, "plan", *words])
    text = [
        "# Written by `harp plan --snakefile`.",
        "# snakemake --snakefile THIS_FILE --cores 2         here, two cores",
        "# snakemake --snakefile THIS_FILE --executor slurm --jobs 20        a step a job (snakemake-executor-plugin-slurm)",
        "",
        *_rule("all_steps", last, "", "", ""),
    ]
    for step in steps:
        needed = [records[name] for name in step.command.needs() if name in records]
        log = step.record.removesuffix(".json") + ".snakemake.log"
        run = f"{command} --only={step.command.name}"
        text += _rule(step.command.name, needed, step.record, log, f"{run} > {shlex.quote(log)} 2>&1")
    return "\n".join(text)


def _rule(name: str, needed: Sequence[str], record: str, log: str, command: str) -> list[str]:
    lines = [f"rule {name}:"]
    if needed:
        lines += ["    input:", *(f"        {_quoted(path)}," for path in needed)]
    if record:
        # Snakemake fills in {…} of commands, hence the doubled braces; a name in a rule is taken as it is.
        lines += [f"    output: {_quoted(record)}", f"    log: {_quoted(log)}"]
        lines.append(f"    shell: {command.replace('{', '{{').replace('}', '}}')!r}")
    return [*lines, ""]


def _quoted(path: str) -> str:
    return repr(os.path.normpath(path).replace("{", "{{").replace("}", "}}"))
