"""A command in this process, without the checks of paths that the command line adds."""

from harp_jax.commands.table import load


def command(name: str, *words: str) -> None:
    main, parser = load(name)
    main(parser.parse_args([*words]))
