"""Training runs in separate processes, which tests kill, and their files."""

import os
import socket
import subprocess
import sys

import jax
import numpy as np

from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.recorded import read_metrics
from tests.support import ROOT
from tests.support.tiny_run import save_tokenizer

# XLA aborts a process that waits 30 or 40 s for the others; on a busy machine one may compile for longer.
PATIENCE = "--xla_cpu_collective_timeout_seconds=300 --xla_cpu_collective_call_terminate_timeout_seconds=300"


def launch(directory, *options: str, devices: int = 1) -> subprocess.Popen:
    """Starts `tiny_run` in a new `directory` on `devices` CPU devices; `options` are FIELD=VALUE."""
    save_tokenizer(str(directory))
    command = [sys.executable, "-m", "tests.support.tiny_run", str(directory), *options]
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)}
    if devices > 1 or any(option.startswith("coordinator=") for option in options):
        environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {PATIENCE}".strip()
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def two_processes(directory, *options: str, devices: int = 2) -> list[subprocess.Popen]:
    """One training run in two processes of `devices` each; options that begin with 1: are only for the second."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        common = (f"coordinator=127.0.0.1:{free.getsockname()[1]}", "processes=2")
    both = [option for option in options if not option.startswith("1:")]
    second = [option.removeprefix("1:") for option in options if option not in both]
    first = launch(directory, *common, *both, "process=0", devices=devices)
    return [first, launch(directory, *common, *both, *second, "process=1", devices=devices)]


def kill(*processes: subprocess.Popen) -> None:
    for process in processes:
        process.kill()
        process.wait()


def losses(workdir: str) -> list[float]:
    return [row["loss"] for row in read_metrics(workdir) if row["split"] == "train"]


def same_parameters(a: str, b: str) -> bool:
    left, right = load_params(a)[0], load_params(b)[0]
    return all(jax.tree.leaves(jax.tree.map(lambda x, y: np.array_equal(x, y), left, right)))
