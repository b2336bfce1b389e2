"""A tiny pre-training run on synthetic pairs, for tests of the loop; also a command whose process tests can kill:

python -m tests.support.tiny_run WORKDIR [FIELD=VALUE …] [workdir=PATH compile_delay=SECONDS]
"""

import dataclasses
import os
import sys
import time

import jax
from jax._src import distributed
from ml_collections import ConfigDict

from harp_jax import config as configs
from harp_jax.input.lanes import packed_source
from harp_jax.input.packing import Reader
from harp_jax.training.stages.pretrain import pretrain_stage
from harp_jax.training.stages.stage import Stage
from harp_jax.training.train import train
from tests.support.synthetic import SyntheticReader, tokenizer


def save_tokenizer(directory: str) -> str:
    """The tokenizer's path in `directory`. Written once: if two processes replaced it, one might find it missing."""
    path = os.path.join(directory, "tokenizer")
    if not os.path.exists(path):
        tokenizer().save(path)
    return path


def tiny_config(directory: str, **changes: object) -> ConfigDict:
    """BERT of 1 × 32 on the synthetic vocabulary; writes the tokenizer to `directory`."""
    c = configs.pretrain()
    c.tokenizer = save_tokenizer(directory)
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
    return dataclasses.replace(stage, source=source, held_out=held_out if config.eval_every else None)


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


if __name__ == "__main__":
    import ast

    from harp_jax.base.cli import fail
    from harp_jax.base.errors import InputError

    options = dict(argument.split("=", 1) for argument in sys.argv[2:])
    if "compile_delay" in options:
        delay, compiled = float(options.pop("compile_delay")), jax.stages.Lowered.compile

        def late(*args):
            time.sleep(delay)
            return compiled(*args)

        jax.stages.Lowered.compile = late
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
