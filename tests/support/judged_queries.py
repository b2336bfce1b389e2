"""Forty judged queries with a relevant document each, and one without; and the commands of plans on them."""

from harp_jax.commands import cross_validate, few_shot

QRELS = {f"q{i}": {f"d{i}": 1} for i in range(40)} | {"none": {"d1": 0}}
COMMANDS = {"cross-validate": cross_validate, "few-shot": few_shot}


def planned(files, capsys, *options) -> dict[str, str]:
    """Step → its command line."""
    lines = planned_text(files, capsys, *options).splitlines()
    return dict(line.split("  ", 1)[1].split(": ", 1) for line in lines if line.startswith(("to do  ", "done  ")))


def planned_text(files, capsys, command, *options) -> str:
    """What the dry run of a command on the files of the fixture `files` prints."""
    given = [f"--{name}={files / name}" for name in ("docs", "queries", "qrels", "run")]
    given += [f"--config={files / 'config.py'}", f"--output={files / 'out'}", "--dry_run"]
    COMMANDS[command].main(COMMANDS[command].arguments_parser().parse_args([*given, *options]))
    return capsys.readouterr().out
