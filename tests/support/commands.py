"""Commands of `harp` in this process, and Python as a child."""

import os
import subprocess
import sys

from harp_jax.commands.table import load
from tests.support import ROOT


def command(name: str, *words: object, **options: object) -> None:
    """Runs a command without the command line's checks of paths; `options` become --NAME=VALUE."""
    main, parser = load(name)
    main(parser.parse_args([*map(str, words), *(f"--{option}={value}" for option, value in options.items())]))


def python(
    *words: object, status: int = 0, cwd: object = ROOT, limit: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs Python on one CPU device and requires exit status `status`; `limit`: an option of ulimit with its value."""
    variables = os.environ | {"JAX_NUM_CPU_DEVICES": "1"} | environment
    limited = ["bash", "-c", f'ulimit {limit}; exec "$0" "$@"'] if limit else []
    line = [*limited, sys.executable, *map(str, words)]
    done = subprocess.run(line, cwd=cwd, env=variables, capture_output=True, text=True)
    assert done.returncode == status, done.stdout[-1000:] + done.stderr[-3000:]
    return done
