"""Training: python -m harp_jax.main --config=configs/tpu_v3.py --workdir=DIR [--dry_run --topology=v3:2x2]

Rerunning the command resumes the run; SIGTERM saves and ends with status 143. With several hosts, run it on each: with
--coordinator=auto on TPU pods and Slurm, otherwise with --coordinator=HOST:PORT --processes=N --process=I.
"""

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from harp_jax.base.allocator import keep_pages
from harp_jax.base.cli import TERMINATED, ConfigParser, count, positive, run
from harp_jax.base.errors import InputError
from harp_jax.base.progress import show_log

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from harp_jax.training.train import TrainResult


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="python -m harp_jax.main",
        description="Pre-train, coarse-tune or fine-tune a re-ranker; the config names the stage.\n"
        "docs/formats.md lists all fields. `harp train` and `python -m harp_jax.main` are the same command.",
        example="harp train --config=site --workdir=runs/site --config.init=all-MiniLM-L6-v2 --config.data=\"('pairs',)\"\n"
        "  python -m harp_jax.main --config=configs/tpu_v3.py --workdir=runs/harp --config.init=bert-base-uncased/",
    )
    parser.add_argument("--workdir", help="directory for config, checkpoints and metrics; rerunning resumes from it")
    what = "compile the step; print attention, memory, FLOPs, collectives"
    parser.add_argument("--dry_run", action="store_true", help=what)
    parser.add_argument("--topology", help="devices for --dry_run, such as h100:8 or v3:2x2 (default: local)")
    what = "HOST:PORT of process 0, to train in several processes; auto on TPU pods and Slurm"
    parser.add_argument("--coordinator", help=what)
    what = "number of processes, with --coordinator (default 1)"
    parser.add_argument("--processes", type=positive, default=1, help=what)
    what = "index of this process, with --coordinator (default 0)"
    parser.add_argument("--process", type=count, default=0, help=what)
    return parser


def main(args: argparse.Namespace) -> None:
    show_log()
    if args.topology and not args.dry_run:
        raise InputError("topologies are only for dry runs; add --dry_run")
    if (args.processes > 1 or args.process) and args.coordinator in ("", "auto"):
        raise InputError("--processes and --process need --coordinator=HOST:PORT")
    if args.dry_run:
        # Before importing JAX, which looks for cuDNN at that moment (dry_run.py).
        folders = map(os.environ.get, ("HARP_LIBTPU", "HARP_CUDA") if args.topology else ())
        sys.path += [folder for folder in folders if folder]
        from harp_jax.training.dry_run import dry_run

        print(dry_run(args.config, args.topology))
        return
    if not args.workdir:
        raise InputError("no --workdir; name a directory for checkpoints and metrics")
    keep_pages()
    if args.coordinator:  # connect to the other processes
        import jax

        given = (args.coordinator, args.processes, args.process) if args.coordinator != "auto" else ()
        jax.distributed.initialize(*given)
    done = trainer_of(args.config)(args.config, args.workdir)
    if done.interrupted:
        sys.exit(TERMINATED)
    print(f"done: {args.workdir} " + " ".join(f"{k}={v:.4g}" for k, v in done.metrics.items()))


def trainer_of(config: "ConfigDict") -> "Callable[[ConfigDict, str], TrainResult]":
    """The function that trains a config's stage: rankers from before BERT have their own."""
    if config.get("stage") == "neural_ir":
        from harp_jax.baselines.neural_ir.train import train as train_neural

        return train_neural
    from harp_jax.training.train import train

    return train


if __name__ == "__main__":
    run(main, arguments_parser())
