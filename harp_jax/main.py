"""Training: python -m harp_jax.main --config=configs/tpu_v3.py --workdir=DIR [--dry_run --topology=v3:2x2]

Rerunning the command resumes the run. On several hosts run it on each, with --multihost on TPU pods, elsewhere with
--coordinator=HOST:PORT --processes=N --process=I.
"""

import logging
import os
import shlex
import sys
from typing import Any

from absl import flags
from ml_collections import config_flags

from harp_jax.allocator import keep_pages
from harp_jax.cli import run_with_config
from harp_jax.errors import InputError
from harp_jax.files import replacing

config_flags.DEFINE_config_file("config", None, "Training config, a Python file with get_config().", lock_config=True)
flags.DEFINE_string("workdir", None, "Directory of the run: config, checkpoints, metrics.")
flags.DEFINE_bool("dry_run", False, "Compile the step, print memory, FLOPs, collectives and time, and stop.")
flags.DEFINE_bool("largest", False, "With --dry_run: find the most rows of a batch that fit the memory.")
flags.DEFINE_string("topology", "", "Device topology of the dry run, such as v3:2x2; empty: the local devices.")
flags.DEFINE_bool("multihost", False, "One process a host of a TPU pod (or Slurm job): find the others.")
flags.DEFINE_string("coordinator", "", "HOST:PORT of process 0, for several processes outside TPU pods.")
flags.DEFINE_integer("processes", 1, "Number of processes, with --coordinator.")
flags.DEFINE_integer("process", 0, "Number of this process, with --coordinator.")


def main(args: Any) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("harp_jax").setLevel(logging.INFO)
    if args.config is None:
        raise InputError("no --config; for example --config=configs/tpu_v3.py")
    if args.dry_run:
        from harp_jax.training.dry_run import dry_run, largest_batch

        print((largest_batch if args.largest else dry_run)(args.config, args.topology))
        return
    if not args.workdir:
        raise InputError("no --workdir; checkpoints and metrics need a directory")
    keep_pages()
    start_processes(args)
    from harp_jax.training.loop import train

    last = train(args.config, args.workdir)
    if "interrupted" in last:
        return
    note_command(args.workdir)
    print(f"done: {args.workdir} " + " ".join(f"{k}={v:.4g}" for k, v in last.items()))


def note_command(workdir: str) -> None:
    """Leaves the command line in the workdir of a finished run: for the model card of an export, and for plans."""
    import jax

    if jax.process_index() == 0:
        with replacing(os.path.join(workdir, "command.txt")) as file:
            file.write(shlex.join(["python", "-m", "harp_jax.main", *sys.argv[1:]]) + "\n")


def start_processes(args: Any) -> None:
    """Connects to the other processes, where there are any."""
    import jax

    if args.coordinator:
        jax.distributed.initialize(args.coordinator, args.processes, args.process)
    elif args.multihost:
        jax.distributed.initialize()


if __name__ == "__main__":
    run_with_config(main)
