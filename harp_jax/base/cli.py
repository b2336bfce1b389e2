"""Parsing, start and exit of every command: status 0 on success, one line and status 2 on bad input.

A command is a module with `arguments_parser()` and `main(arguments)`, listed in `commands/table.py`. Options are spelled with
underscores; dashes are accepted too. A parser knows which options are input and output files, and checks these once.
"""

import argparse
import contextlib
import inspect
import io
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from harp_jax.base.errors import InputError, Terminated, how_to_fetch
from harp_jax.base.files import DISK_FULL, as_number, as_stored, cache_directory, disk_full, expand_home, output_path
from harp_jax.base.made import forget, replace_outputs

INTERRUPTED = 130  # the shell's status of a command ended by Ctrl-C
TERMINATED = 143  # the shell's status of a command ended by SIGTERM
# Out-of-memory messages of XLA, the dynamic linker and the kernel.
SHORT_OF_MEMORY = (
    "RESOURCE_EXHAUSTED: Out of memory", "failed to map segment", "Cannot allocate memory", "cannot allocate memory",
    "can't start new thread", "std::bad_alloc",
)  # fmt: skip
MORE_MEMORY = "use smaller batches or fewer workers, a higher limit (ulimit -v), or a machine with more memory"
NO_FILE = re.compile(r"^irds:|://|[*?\[]")  # ids of ir_datasets, URLs, globs


class Parser(argparse.ArgumentParser):
    """argparse without abbreviations, with an example at the end of --help, and with options that name files."""

    def __init__(self, *, description: str, example: str = "", prog: str | None = None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=f"example:\n  {example}" if example else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self._inputs: dict[argparse.Action, bool] = {}  # option → whether it names a model
        self._outputs: list[argparse.Action] = []

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """As in argparse, but the default of a text is ""."""
        if not options.keys() & {"action", "default", "nargs", "type"}:
            options["default"] = ""
        return super().add_argument(*names, **options)

    def add_parameter(self, function: Callable[..., Any], name: str, what: str, **options: Any) -> None:
        """An option for a parameter of a function or dataclass, with its default, which ends the help."""
        default = inspect.signature(function).parameters[name].default
        self.add_argument(f"--{name}", default=default, help=f"{what} ({default})", **options)

    def add_input(self, *names: str, model: bool = False, **options: Any) -> None:
        """An option whose PATH, PATH,PATH or NAME=PATH,PATH is read; for a `model` the error says how to fetch it from the Hub."""
        self._inputs[self.add_argument(*names, **options)] = model

    def add_output(self, *names: str, **options: Any) -> None:
        """An option that names a file or folder to write."""
        self._outputs.append(self.add_argument(*names, **options))

    def add_recorded_output(self, what: str) -> None:
        """--output of a function with `made.once`, and --force."""
        self.add_output("--output", required=True, help=what)
        self.add_force()

    def add_force(self) -> None:
        """--force, which removes an --output that has a record, or what has one within it (`run`)."""
        self.add_argument("--force", action="store_true", help="replace what other options or inputs have made there")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Accepts options with dashes for underscores, -o for --output, and ~ in --NAME=~/PATH, which shells do not expand."""
        words, known = [], self._option_string_actions
        for word in sys.argv[1:] if args is None else args:
            name, equals, value = word.partition("=")
            other = "--output" if word == "-o" else f"--{name[2:].replace('-', '_')}"
            if word.startswith("-") and name not in known and other in known:
                name = other
            if name.startswith("--") and (value == "~" or value.startswith("~/")):
                value = expand_home(value)
            words.append(name + equals + value)
        parsed, rest = super().parse_known_args(words, namespace)
        for action in self._actions:
            if action.required and getattr(parsed, action.dest, None) == "":
                self.error(f"{'/'.join(action.option_strings)} is empty (unset variable?)")
        return parsed, rest

    def format_help(self) -> str:
        """The usage line has only required arguments; the list below it has all options."""
        required = [action for action in self._actions if action.required]
        words = [" ".join([*each.option_strings[:1], str(each.metavar or each.dest.upper())]) for each in required]
        self.usage = " ".join([self.prog, *words, "[options]"])
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        fail(f"{message}; see {self.prog} --help")

    def check_paths(self, arguments: argparse.Namespace) -> None:
        """Raises InputError that lists all missing inputs, or for an output that would replace an input."""
        read = [(action, path) for action in self._inputs for path in paths_in(getattr(arguments, action.dest))]
        missing = [(a, path) for a, path in read if not (os.path.exists(as_stored(path)) or NO_FILE.search(path))]
        if missing:
            said = ", ".join(f"--{action.dest}={path}" if action.option_strings else path for action, path in missing)
            hint = next((how_to_fetch(path) for action, path in missing if self._inputs[action]), "")
            raise InputError(f"no such file or folder: {said}; check the paths{hint}")
        written = set[str]()
        for output in filter(None, (getattr(arguments, action.dest) for action in self._outputs)):
            target = os.path.join(os.path.realpath(output), "")
            for action, path in read:
                folder = os.path.join(os.path.realpath(path), "")
                if os.path.isdir(path) and (target == folder or (self._inputs[action] and target.startswith(folder))):
                    raise InputError(f"cannot write {output}: it belongs to the input {path}; choose another path")
            if target in written:
                raise InputError(f"cannot write {output}: two outputs have this path; choose two")
            if not os.path.isdir(output):
                output_path(output, [path for _, path in read])
            written.add(target)


def paths_in(given: Any) -> list[str]:
    """The paths of an option's value or values: PATH, PATH,PATH or NAME=PATH,PATH."""
    words = given if isinstance(given, list) else [given] if given else []
    paths: list[str] = []
    for word in words:  # a path may contain = and commas: runs/lr=1e-4
        path = word if os.path.exists(word) else word.partition("=")[2] or word
        paths += [path] if os.path.exists(path) else path.split(",")
    return paths


def count(text: str, least: int = 0) -> int:
    """The type of options that are integers of `least` or more."""
    if not as_number(text, int) >= least:  # not a number: NaN
        raise argparse.ArgumentTypeError(f"{text}: use a whole number, {least} or more")
    return int(text)


def positive(text: str) -> int:
    """The type of options that are integers of 1 or more."""
    return count(text, 1)


def number(text: str) -> float:
    """The type of options that are numbers. Python's `float` also accepts 1_0, infinity and digits of other scripts."""
    if not math.isfinite(value := as_number(text)):
        raise argparse.ArgumentTypeError(f"{text}: use a number")
    return value


class ConfigParser(Parser):
    """A parser with `--config=FILE.py[:PRESET]` and `--config.FIELD=VALUE`, parsed by ml_collections. `arguments.config` is a
    locked ConfigDict. FILE.py may be a name below configs/, such as tpu_v3 or data/html."""

    def __init__(self, *, description: str, example: str, prog: str | None = None) -> None:
        super().__init__(prog=prog, description=description, example=example)
        what = "config file with get_config(), or the name of one in configs/; append :PRESET to choose a preset"
        self.add_argument("--config", required=True, metavar="FILE[:PRESET]", help=what)
        what = "override a config field; quote tuples: \"('a',)\""
        self.add_argument("--config.FIELD", dest="_", metavar="VALUE", help=what)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        arguments, rest = self.parse_known_args(args, namespace)
        if arguments._:
            self.error("--config.FIELD stands for a field's name, as in --config.seed=1")
        from harp_jax.config import read_config

        arguments.config = read_config(arguments.config, rest)
        return arguments


def fail(error: object, status: int = 2) -> NoReturn:
    """Print the error as one line and exit with a status."""
    print("error: " + " ".join(str(error).split()), file=sys.stderr)
    sys.exit(status)


@contextlib.contextmanager
def ending_well() -> Iterator[None]:
    """On bad input, a full disk or too little memory print one line and exit with status 2; end silently on a closed pipe."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        # Reopen streams that the caller closed (`>&-`): else the next file or pipe would become standard output.
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", closefd=False))
        # Escape names that the locale cannot print, as under LC_ALL=C.
        if descriptor and isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except InputError as error:
        fail(error, TERMINATED if isinstance(error, Terminated) else 2)
    except BrokenPipeError:
        _discard_output()
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception as error:
        if isinstance(error, OSError) and (error.filename is not None or error.errno in DISK_FULL):
            where = "cannot write the output" if error.filename is None else f"cannot use {os.fsdecode(error.filename)}"
            if error.filename is None:
                _discard_output()
            fail(f"{where}: {error.strerror}; check the path, its permissions and the space on the disk")
        lines = (line.strip() for line in str(error).splitlines())
        short = next((line for line in lines if any(sign in line for sign in SHORT_OF_MEMORY)), "")
        if short or isinstance(error, MemoryError):
            fail(f"out of memory ({short[:300] or error}); {MORE_MEMORY}")
        if full := disk_full(error):
            fail(full)
        raise


def _discard_output() -> None:
    """Python flushes stdout again at exit: redirect it so that the flush succeeds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(main: Callable[[argparse.Namespace], None], parser: Parser, words: Sequence[str] | None = None) -> None:
    """Parse `words` (default: the command line) and call `main`; argparse itself exits with status 2 on wrong usage."""
    with ending_well():
        arguments = parser.parse_args(words)
        parser.check_paths(arguments)
        if getattr(arguments, "force", False):
            forget(arguments.output)
            replace_outputs()
        main(arguments)


def keep_compiled() -> None:
    """Cache compiled programs across runs in the user's cache directory, or in JAX_COMPILATION_CACHE_DIR if that is set."""
    import jax

    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        with contextlib.suppress(InputError):  # without a home directory nothing is cached
            jax.config.update("jax_compilation_cache_dir", cache_directory("xla"))
            # By default JAX caches no program that compiles in under a second; a small ranker has ten of them.
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
