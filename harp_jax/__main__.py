# PYTHON_ARGCOMPLETE_OK
"""The command line: `harp COMMAND …`, the same as `python -m harp_jax COMMAND …`."""

import argparse
import difflib
import os
import sys

from harp_jax.base.cli import ending_well, fail, run
from harp_jax.base.version import __version__
from harp_jax.commands.table import COMMANDS, GROUPS, TYPED, load


def overview(every: bool = False) -> str:
    """The text of `harp --help`: the commands that people type; with --all every command."""
    groups = GROUPS if every else {"commands": {name: COMMANDS[name] for name in TYPED}}
    width = max(len(name) for entries in groups.values() for name in entries)
    about = "Re-rankers from hyperlinks. `harp COMMAND --help` shows options and an example."
    lines = ["usage: harp COMMAND [options]", "", about]
    for group, entries in groups.items():
        lines += ["", f"{group}:", *(f"  {name:<{width}}  {summary}" for name, (_, summary) in entries.items())]
    if not every:
        lines += ["", "First time: make demo, or docs/quickstart.md. More commands: harp --help --all."]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    """Run one command in this process; `argv` defaults to the process's arguments."""
    if "_ARGCOMPLETE" in os.environ:
        complete()
    words = sys.argv[1:] if argv is None else argv
    if argv is None:
        os.environ["PYTHONSAFEPATH"] = "1"  # workers of pools import nothing from the working folder
    if not words or words[0] in ("-h", "--help", "help"):
        with ending_well():
            print(overview("--all" in words))
    elif words[0] == "--version":
        print(f"harp_jax {__version__}")
    elif words[0] in COMMANDS:
        with ending_well():  # handles an interrupt or too little memory during imports
            command, parser = load(words[0])
        run(command, parser, words[1:])
    else:
        near = difflib.get_close_matches(words[0], COMMANDS, 1)
        hint = f" did you mean {near[0]}?" if near else ""
        fail(f"no command {words[0]!r};{hint} `harp --help --all` lists them")


def complete() -> None:
    """Answer the shell's completion request, and exit."""
    import argcomplete

    parser = argparse.ArgumentParser(prog="harp")
    chosen = parser.add_subparsers()
    typed = os.environ.get("COMP_LINE", "").split()[1:]
    for name, (_, summary) in COMMANDS.items():
        if typed[:1] == [name]:
            chosen.choices[name] = load(name)[1]  # type: ignore[index]
        else:
            chosen.add_parser(name, help=summary)
    argcomplete.autocomplete(parser)


if __name__ == "__main__":
    main()
