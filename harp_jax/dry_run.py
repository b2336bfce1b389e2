"""What a run would cost, before it is run: compiles the real step for the devices at hand or for a TPU that is not there."""

import dataclasses
import math
import os
import re
from typing import Any

import jax
from ml_collections import ConfigDict

from harp_jax import sharding
from harp_jax.bert import BertConfig
from harp_jax.errors import InputError
from harp_jax.optimizer import make as make_optimizer
from harp_jax.packing import Layout, batch_shapes
from harp_jax.stages import STAGES
from harp_jax.train import abstract_state, jit_step, state_shardings

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
_BYTES = {
    "f64": 8,
    "s64": 8,
    "u64": 8,
    "f32": 4,
    "s32": 4,
    "u32": 4,
    "bf16": 2,
    "f16": 2,
    "u16": 2,
    "s8": 1,
    "u8": 1,
    "pred": 1,
}


def topology_devices(topology: str) -> list:
    """The devices of a TPU topology such as "v3:2x2" (libtpu needed, no TPU), or the local ones for an empty name."""
    if not topology:
        return jax.devices()
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # or libtpu asks a metadata server that is not there
    from jax.experimental import topologies

    try:
        return list(topologies.get_topology_desc(topology, platform="tpu").devices)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise InputError(
            f"no topology {topology!r} ({first[:120]}); install the extra [tpu] and name one such as v3:2x2, v4:2x2x1 or v5e:2x4"
        ) from error


def compile_step(config: ConfigDict, devices: list, rows: int | None = None) -> tuple[Any, BertConfig, Layout, Any]:
    """Lowers and compiles the step of a config for `devices`: (compiled, encoder shape, layout, mesh). Reads no data."""
    mesh = sharding.make_mesh(config, devices)
    stage = STAGES[config.stage](without_files(config), with_data=False)
    layout = stage.layout
    if rows is not None:
        layout = dataclasses.replace(layout, rows=math.ceil(rows / config.lanes))
    shape = dataclasses.replace(stage.bert, vocab_size=sharding.padded_vocab(stage.bert.vocab_size, mesh))
    optimizer = make_optimizer(config, max(stage.steps, 1))
    shardings = state_shardings(shape, optimizer, mesh)
    state = abstract_state(shape, optimizer, shardings)
    cut = sharding.batch_sharding(mesh, layout.microbatches)
    batch = {
        name: jax.ShapeDtypeStruct(shape_, dtype, sharding=cut)
        for name, (shape_, dtype) in batch_shapes(layout, config.lanes).items()
    }
    step = jit_step(config, stage.objective(shape), optimizer, shardings, mesh)
    return step.lower(state, batch).compile(), shape, layout, mesh


def without_files(config: ConfigDict) -> ConfigDict:
    """The config with an encoder shape and a vocabulary that need no files: a dry run must not need the data."""
    from harp_jax.tokenizer import SPECIAL_TOKENS, Tokenizer

    config = config.copy_and_resolve_references()
    if not (config.tokenizer and os.path.exists(config.tokenizer)) and not os.path.isdir(config.init or ""):
        import tempfile

        # BERT's size; the tokens themselves do not matter to the compiler.
        words = [*SPECIAL_TOKENS, *(f"word{i}" for i in range(30522 - len(SPECIAL_TOKENS)))]
        config.tokenizer = tempfile.mkdtemp(prefix="harp_jax_dry_run_")
        Tokenizer(tuple(words)).save(config.tokenizer)
    if config.init and not os.path.isdir(config.init):
        config.init = ""
    if config.stage == "finetune" and not config.steps:
        config.steps = 1
    return config


def step_flops(shape: BertConfig, rows: int, length: int, sequences: int, predictions: int) -> float:
    """FLOPs of one step (forward and backward, 2 per multiply-add): 3 × the forward pass's matrix products.

    `rows` of `length` slots, with `sequences` [CLS] tokens and `predictions` masked tokens a row; the last layer is
    computed for these alone. XLA's own count takes a scanned layer once and a custom call for nothing, hence this one.
    """
    h, tokens, asked = shape.hidden, rows * length, rows * (sequences + predictions)
    projections, mlp = 2 * h * h, 2 * h * shape.intermediate  # of two kernels each: keys and values, queries and output
    layer = 2 * tokens * (2 * projections + mlp) + 4 * tokens * length * h
    last = 2 * tokens * projections + 2 * asked * (projections + mlp) + 4 * asked * length * h
    heads = 2 * rows * (sequences * h * h + predictions * (h * h + h * shape.vocab_size))
    return 3.0 * ((shape.layers - 1) * layer + last + heads)


def collectives(hlo: str) -> list[tuple[str, int]]:
    """(kind, bytes of its result) of every collective in compiled HLO text, largest first."""
    found = []
    for line in hlo.splitlines():
        match = re.search(r"= (.*?) (" + "|".join(COLLECTIVES) + r")(-start)?\(", line)
        if match:
            sizes = re.findall(r"([a-z]+\d*)\[([\d,]*)\]", match.group(1))
            total = sum(_BYTES.get(t, 4) * math.prod(int(n) for n in dims.split(",") if n) for t, dims in sizes)
            found.append((match.group(2), total))
    return sorted(found, key=lambda item: -item[1])


def dry_run(config: ConfigDict, topology: str = "") -> str:
    """A report as text: bytes a device by kind, analytic FLOPs a step, collectives with their bytes.

    Raises InputError where the topology is unknown or the mesh does not fit it.
    """
    from harp_jax.masking import slots

    if config.stage == "neural_ir":
        raise InputError("neural rankers have no dry run; start the run itself")
    devices = topology_devices(topology)
    compiled, shape, layout, mesh = compile_step(config, devices)
    memory = compiled.memory_analysis()
    rows = layout.rows * config.lanes
    predictions = slots(config.row_length, config.mlm_rate) if config.stage == "pretrain" else 0
    flops = step_flops(shape, rows, config.row_length, layout.sequences, predictions)
    lines = [
        f"devices            {len(devices)} × {devices[0].device_kind}, mesh {dict(mesh.shape)}",
        f"encoder            {shape.layers} × {shape.hidden}, {shape.heads} heads, {shape.vocab_size} words, {shape.dtype}",
        f"batch              {rows} rows × {config.row_length} tokens in {config.lanes} lanes, "
        f"up to {layout.sequences} sequences a row",
        f"FLOPs per step     {flops:.3e} (analytic; {flops / len(devices):.3e} per device)",
        f"arguments          {_mib(memory.argument_size_in_bytes)} per device (parameters, Adam, batch)",
        f"temporaries        {_mib(memory.temp_size_in_bytes)} per device",
        f"donated            {_mib(memory.alias_size_in_bytes)} per device (outputs written over arguments)",
        f"program            {_mib(memory.generated_code_size_in_bytes)}",
    ]
    found = collectives(compiled.as_text())
    lines.append(f"collectives        {len(found)}: " + ("none" if not found else ""))
    for kind in sorted({kind for kind, _ in found}):
        sizes = [size for k, size in found if k == kind]
        lines.append(f"  {kind:<17}{len(sizes)} × , {_mib(sum(sizes))} together, largest {_mib(max(sizes))}")
    return "\n".join(lines)


def _mib(n: int | float) -> str:
    return f"{n / 2**20:,.1f} MiB"
