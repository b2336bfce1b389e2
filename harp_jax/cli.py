"""How commands start and end: status 0 on success, one clear line and status 2 on bad input or usage."""

import argparse
import os
import sys
from collections.abc import Callable
from typing import Any

from harp_jax.errors import InputError


def fail(error: object) -> None:
    """Prints the error as one line and exits with status 2."""
    print("error: " + " ".join(str(error).split()), file=sys.stderr)
    sys.exit(2)


def run(
    main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser, argv: list[str] | None = None
) -> None:
    """Parses the arguments and calls `main`; argparse itself exits with status 2 on wrong usage."""
    arguments = parser.parse_args(argv)
    try:
        main(arguments)
    except InputError as error:
        fail(error)


def run_with_config(main: Callable[[Any], None]) -> None:
    """As `run`, for commands whose flags are absl's, `--config=FILE.py --config.FIELD=VALUE` among them."""
    from absl import flags

    try:
        rest = flags.FLAGS(sys.argv)
        if len(rest) > 1:
            raise InputError(f"unexpected argument {rest[1]!r}; options are written --name=value (see --help)")
        if "config" in flags.FLAGS:
            _check_config(flags.FLAGS.config)
    except (
        flags.Error,
        InputError,
        OSError,
        ImportError,
        SyntaxError,
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        fail(f"{error}; check --config and its fields")
    try:
        main(flags.FLAGS)
    except InputError as error:
        fail(error)


def _check_config(config: Any) -> None:
    """A config file that could not be read is noticed by its first use only: use it now."""
    if config is not None:
        config.lock()


def keep_compiled() -> None:
    """Compiled programs are kept in the user's cache between runs, unless JAX_COMPILATION_CACHE_DIR names another place."""
    import jax

    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        jax.config.update("jax_compilation_cache_dir", os.path.join(cache, "harp_jax", "xla"))
