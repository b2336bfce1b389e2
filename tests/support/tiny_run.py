"""Tiny pre-training runs on synthetic pairs, for tests of the loop, in this process or in others, which tests kill:

python -m tests.support.tiny_run DIRECTORY [FIELD=VALUE …] [workdir=PATH compile_delay=SECONDS]
"""

import dataclasses
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

import jax
import numpy as np
from jax._src import distributed
from ml_collections import ConfigDict

from harp_jax import config as configs
from harp_jax.checkpoints.checkpoint import load_params
from harp_jax.checkpoints.recorded import read_metrics
from harp_jax.input.lanes import packed_source
from harp_jax.input.packing import Reader
from harp_jax.training.stages.pretrain import pretrain_stage
from harp_jax.training.stages.stage import HeldOut, Stage
from harp_jax.training.train import train
from tests.support import ROOT
from tests.support.synthetic import SyntheticReader, tokenizer


def tiny_config(directory: str, **changes: object) -> ConfigDict:
    """BERT of 1 × 32 on the synthetic vocabulary; writes the tokenizer to `directory`."""
    c = configs.pretrain()
    c.tokenizer = os.path.join(directory, "tokenizer")
    if not os.path.exists(c.tokenizer):  # if two processes replaced it, one might find it missing
        tokenizer().save(c.tokenizer)
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = 1, 32, 2, 128
    c.tasks = ("rqp", "qdm")
    c.row_length, c.batch_pairs, c.window = 128, 48, 64
    c.steps, c.log_every, c.checkpoint_every = 20, 1, 1000
    c.learning_rate = 1e-3
    c.update_from_flattened_dict(changes)
    return c


def with_pairs(stage: Stage, config: ConfigDict, reader: Reader, held_out: Reader | None = None) -> Stage:
    """A stage of pairs that was made without data, with these."""
    source = packed_source(config, stage.tokenizer, reader, 2, 2 * config.batch_pairs)
    evaluated = HeldOut(held_out, {}) if held_out and config.eval_every else None
    return dataclasses.replace(stage, source=source, held_out=evaluated)


def tiny_stage(config: ConfigDict) -> Stage:
    """The stage of `tiny_config` with synthetic pairs instead of files."""
    reader = SyntheticReader(tuple(config.tasks), lanes=config.lanes, length=config.row_length)
    return with_pairs(pretrain_stage(config, with_data=False), config, reader, reader)


def run_tiny(directory, devices: int = 1, change=lambda stage: stage, **changes) -> str:
    """Trains in `directory`/run, with the stage changed by `change`, and returns this path."""
    config = tiny_config(str(directory), **changes)
    workdir = os.path.join(directory, "run")
    train(config, workdir, change(tiny_stage(config)), jax.devices()[:devices])
    return workdir


# XLA aborts a process that waits 30 or 40 s for the others; on a busy machine one may compile for longer.
PATIENCE = "--xla_cpu_collective_timeout_seconds=300 --xla_cpu_collective_call_terminate_timeout_seconds=300"


def launch(directory, *options: str, devices: int = 1) -> subprocess.Popen:
    """Starts `tiny_run` in a new `directory` on `devices` CPU devices; `options` are FIELD=VALUE."""
    tiny_config(str(directory))  # saves the tokenizer
    command = [sys.executable, "-m", "tests.support.tiny_run", str(directory), *options]
    flags = f"{os.environ.get('XLA_FLAGS', '')} {PATIENCE}".strip()
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices), "XLA_FLAGS": flags}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def two_processes(directory, *options: str, devices: int = 2, second: Sequence[str] = ()) -> list[subprocess.Popen]:
    """One training run in two processes of `devices` each; `second`: further options of the second one."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        common = (f"coordinator=127.0.0.1:{free.getsockname()[1]}", "processes=2")
    both = ("process=0",), ("process=1", *second)
    return [launch(directory, *common, *options, *own, devices=devices) for own in both]


def end(processes: list[subprocess.Popen], status: int = 0) -> list[str]:
    """Waits until all processes have ended with `status`; returns what they wrote to stderr."""
    errors = [process.communicate(timeout=480)[1] for process in processes]
    assert [process.returncode for process in processes] == [status] * len(processes), [e[-2000:] for e in errors]
    return errors


def kill(*processes: subprocess.Popen) -> None:
    for process in processes:
        process.kill()
        process.wait()


def losses(workdir: str) -> list[float]:
    return [row["loss"] for row in read_metrics(workdir) if row["split"] == "train"]


def same_parameters(a: str, b: str) -> bool:
    left, right = load_params(a)[0], load_params(b)[0]
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, left, right)))


if __name__ == "__main__":
    import ast

    from harp_jax.base.cli import fail
    from harp_jax.base.errors import InputError

    options = dict(argument.split("=", 1) for argument in sys.argv[2:])
    if "compile_delay" in options:
        delay, compile_now = float(options.pop("compile_delay")), jax.stages.Lowered.compile
        jax.stages.Lowered.compile = lambda *args: (time.sleep(delay), compile_now(*args))[1]
    if "coordinator" in options:
        process = int(options.pop("process"))
        jax.distributed.initialize(options.pop("coordinator"), int(options.pop("processes")), process)
        jax.devices()
        # JAX keeps the compiled programs of process 0 only, and others cannot use these.
        distributed.global_state.process_id = 0
    workdir = options.pop("workdir", os.path.join(sys.argv[1], "run"))
    tiny = tiny_config(sys.argv[1], **{k: ast.literal_eval(v) for k, v in options.items()})
    try:
        train(tiny, workdir, None if tiny.data else tiny_stage(tiny))
    except InputError as error:
        fail(error)
