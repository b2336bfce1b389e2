"""How fast and exact our code is on a GPU or TPU: one table in ten minutes, without files. Run it first on a rented machine.

python benchmarks/device.py [--small] [--only=step,torch]

1. the pre-training step (BERT-base, 128 pairs in rows of 512) through `train`, from TFRecords if what reads them is installed,
and the same step in PyTorch; 2. losses and gradients of every attention implementation against "xla" in float32, for BERT and for
ModernBERT with its local layers in rows of 4,096; 3. scores in float32 against those of the CPU; 4. re-ranking, and
sentence-transformers' CrossEncoder; 5. a training run killed and resumed; 6. PyTorch's step again, compiled, which takes minutes.
Documents are random with the lengths of Wikipedia's passages; parameters are random. Each part is a separate process, because
only one can hold the device. `--small`: a few seconds per part on a CPU, as in the test. Rows name packages that are not
installed. `--only`: some of the parts, if a command may not take ten minutes.
"""

import argparse
import functools
import importlib.util
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
CPU = {"JAX_PLATFORMS": "cpu"}
SIZES = {  # layers, hidden, heads, row length, pairs of a batch, steps, pairs to re-rank
    False: (12, 768, 12, 512, 128, 40, 2000),
    True: (2, 64, 2, 128, 8, 12, 20),
}
PARTS = ("step", "torch", "attention", "scores", "rerank", "resume", "compiled")  # most important first
RATE = "tokens_per_second"
LONGEST = 240  # seconds per program; PyTorch's compilation may take longer than everything else


def settings(small: bool, tokenizer: str) -> Any:
    """The config of pre-training without files."""
    from harp_jax import config as configs

    layers, hidden, heads, length, pairs, steps, _ = SIZES[small]
    c = configs.pretrain()
    c.tokenizer, c.tasks, c.row_length, c.batch_pairs, c.steps = tokenizer, ("qdm",), length, pairs, steps
    c.model.layers, c.model.hidden, c.model.heads, c.model.max_positions = layers, hidden, heads, length
    c.dtype, c.log_every, c.lanes, c.window = "float32" if small else "bfloat16", 5, 8, 256
    return c


def stage_of(c: Any, small: bool, data: str = "") -> Any:
    """The stage on random documents, in memory or, with `data`, from TFRecords written there."""
    import dataclasses

    from step import CollectionReader, random_documents

    from harp_jax.input.packing import make_layout
    from harp_jax.training.stages.pretrain import pretrain_stage

    documents = random_documents(400 if small else 2000, c.row_length - 8)
    stage = pretrain_stage(c, with_data=False)
    if data:
        from input import TASKS, write_job

        write_job(data, documents, stage.tokenizer.sha256, 50 if small else 500)
        c.data, c.tasks = (data,), TASKS
        return pretrain_stage(c)
    reader = CollectionReader(documents, c.row_length, stage.tokenizer.template)
    layout = make_layout(c, stage.tokenizer, reader, stage.source.shares, 2, 2 * c.batch_pairs)
    return dataclasses.replace(stage, source=dataclasses.replace(stage.source, reader=reader, layout=layout))


def attention(small: bool, folder: str) -> None:
    """Rows "implementation, dtype": how far loss and gradient are from those of xla in float32."""
    c = settings(small, f"{folder}/tokenizer")
    c.model.layers, c.model.dropout, c.batch_pairs = 2, 0.0, c.batch_pairs // 4
    implementations(c, small, "")
    c.model.model_type, c.lanes = "modernbert", 1  # its first layer is full, its second one local
    c.row_length = c.model.max_positions = 1024 if small else 4096
    implementations(c, small, f", ModernBERT, rows of {c.row_length}")


def implementations(c: Any, small: bool, what: str) -> None:
    """One row per implementation and dtype that this device has."""
    from dataclasses import replace

    import jax

    from harp_jax.base.errors import InputError
    from harp_jax.input.lanes import Batches
    from harp_jax.model.attention import choose
    from harp_jax.model.cross_encoder import Ranker
    from harp_jax.training.step import gradients

    stage = stage_of(c, small)
    batch = Batches(stage.source, range(c.lanes)).make()[0]
    shape = stage.encoder.padded
    params, expected = stage.start(shape, jax.random.key(0)), None
    for dtype in ("float32", "bfloat16"):
        for name in ("xla", "cudnn", "splash"):
            try:
                choose(name, dtype, False, jax.default_backend(), c.row_length)
            except InputError:
                continue
            if name == "cudnn" and dtype == "float32":
                continue
            objective = replace(stage.objective, ranker=Ranker(replace(shape, attention=name, dtype=dtype)))
            compute = jax.jit(lambda p, b, o=objective: gradients(o, p, b, jax.random.key(1), None))
            with jax.default_matmul_precision("highest" if dtype == "float32" else "default"):
                grads, metrics = jax.device_get(compute(params, batch))
            flat = np.concatenate([np.asarray(x, np.float64).ravel() for x in jax.tree.leaves(grads)])
            expected = expected or (float(metrics["loss"]), flat)
            loss, apart = float(metrics["loss"]), np.linalg.norm(flat - expected[1]) / np.linalg.norm(expected[1])
            row(
                f"attention {name}, {dtype}{what}",
                f"loss {loss:.5f}, {loss - expected[0]:+.1e}; gradient apart by {apart:.1e}",
            )


def step(small: bool, folder: str) -> None:
    """The rates of `train`'s metrics, without the first half."""
    import jax

    from harp_jax.training.train import train

    c = settings(small, f"{folder}/tokenizer")
    records = all(map(importlib.util.find_spec, ("tensorflow", "tensorflow_datasets", "pyarrow")))
    os.makedirs(f"{folder}/data")
    stage = stage_of(c, small, f"{folder}/data" if records else "")
    train(c, f"{folder}/step", stage)
    with open(f"{folder}/step/metrics.jsonl") as file:
        rows = [line for line in map(json.loads, file) if line["split"] == "train"]
    rows = rows[len(rows) // 2 :]
    middle = {name: statistics.median(r.get(name, 0.0) for r in rows) for name in (RATE, "mfu", "input_wait")}
    with open(f"{folder}/{RATE}", "w") as file:
        file.write(str(middle[RATE]))
    used = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)
    row(
        f"step, {c.model.layers} × {c.model.hidden}, {c.dtype}, from {'TFRecords' if records else 'memory'}",
        f"{middle[RATE]:,.0f} tokens/s, MFU {middle['mfu']:.1%}, input_wait {middle['input_wait']:.1%}"
        + (f", {used / 2**30:.1f} GiB" if used else ""),
    )


def trial(small: bool, folder: str) -> None:
    """One training run of `resume`."""
    from harp_jax.training.train import train

    c = settings(True, f"{folder}/tokenizer")
    c.steps, c.checkpoint_every, c.log_every, c.dtype = 30, 5, 1, "float32" if small else "bfloat16"
    train(c, f"{folder}/{os.environ['TRIAL']}", stage_of(c, True))


def scores(small: bool, folder: str) -> None:
    """Scores of a random ranker in float32, to be compared with the CPU's."""
    from harp_jax.api import Reranker

    with open(f"{folder}/docs.tsv") as file:
        pairs = [("word500 word900", line.split("\t")[3].strip()) for line in file][:64]
    scores = Reranker.from_pretrained(f"{folder}/model", "float32").predict(pairs)
    np.save(f"{folder}/{os.environ['SCORES']}.npy", scores)


def prepare(small: bool, folder: str) -> None:
    """A tokenizer, a random ranker and texts in the folder."""
    import jax
    from step import random_documents

    from harp_jax.checkpoints.huggingface import save_hf
    from harp_jax.model.cross_encoder import init_params
    from harp_jax.text.tokenizer import Tokenizer
    from harp_jax.training.stages.pretrain import pretrain_stage

    Tokenizer.stand_in(30522).save(f"{folder}/tokenizer")
    c = settings(small, f"{folder}/tokenizer")
    stage = pretrain_stage(c, with_data=False)
    params = jax.device_get(init_params(stage.encoder, jax.random.key(0)))
    kept = {name: params[name] for name in ("encoder", "pooler", "score")}
    kept["score"]["kernel"] = kept["score"]["kernel"] * 50  # scores of random parameters hardly differ
    save_hf(f"{folder}/model", stage.encoder, kept, stage.tokenizer, "")
    words = [" ".join(f"word{i}" for i in ids) for ids in random_documents(SIZES[small][-1], c.row_length - 8)]
    with open(f"{folder}/docs.tsv", "w") as file:
        file.writelines(f"d{i}\t\t\t{text}\n" for i, text in enumerate(words))
    with open(f"{folder}/queries.tsv", "w") as file:
        file.write("".join(f"q{i}\tword{i + 500} word{i + 900} word{i + 70}\n" for i in range(2)))
    half = len(words) // 2
    with open(f"{folder}/run.trec", "w") as file:
        file.writelines(f"q{i // half} Q0 d{i} {i % half + 1} {half - i % half} x\n" for i in range(2 * half))


def row(what: str, found: str) -> None:
    print(f"| {what} | {found} |", flush=True)


def run(part: str, args: argparse.Namespace, folder: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, __file__, f"--part={part}", f"--folder={folder}", *(["--small"] if args.small else [])]
    return subprocess.run(command, env={**os.environ, **environment}, text=True, stderr=subprocess.PIPE)


def resume(args: argparse.Namespace, folder: str) -> None:
    """Kills a training run, resumes it, and compares it with an uninterrupted one."""
    exact = {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_deterministic_ops=true".strip()}
    exact = {} if os.environ.get("JAX_PLATFORMS") == "cpu" else exact
    found = run("trial", args, folder, TRIAL="whole", **exact)
    log = f"{folder}/killed/metrics.jsonl"
    command = [sys.executable, __file__, "--part=trial", f"--folder={folder}", *(["--small"] if args.small else [])]
    victim = subprocess.Popen(command, env={**os.environ, **exact, "TRIAL": "killed"}, stderr=subprocess.DEVNULL)
    while victim.poll() is None and (not os.path.exists(log) or sum(1 for _ in open(log)) < 12):
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    found = run("trial", args, folder, TRIAL="killed", **exact) if not found.returncode else found
    if found.returncode:
        row("killed and resumed", failure(found))
        return
    losses = []
    for name in ("whole", "killed"):
        with open(f"{folder}/{name}/metrics.jsonl") as file:
            losses.append([line["loss"] for line in map(json.loads, file) if line["split"] == "train"])
    same = sum(a == b for a, b in zip(*losses))
    row("killed and resumed", f"{same} of {len(losses[0])} losses equal those of an uninterrupted run")


def torch_step(args: argparse.Namespace, folder: str, compiled: bool = False) -> None:
    """The same step in PyTorch."""
    what = "the same step in PyTorch" + (", compiled" if compiled else "")
    if importlib.util.find_spec("torch") is None:
        row(what, "torch is not installed")
        return
    import torch

    if not (args.small or torch.cuda.is_available()):
        row(what, "torch finds no GPU")
        return
    layers, hidden, heads, _, pairs, steps, _ = SIZES[args.small]
    given = {"layers": layers, "hidden": hidden, "heads": heads, "pairs": pairs, "steps": steps, "mode": "tuned"}
    given |= {"dtype": "float32" if args.small else "bfloat16", "tokenizer": f"{folder}/tokenizer"}
    done = program("step_torch.py", *(("--compile",) if compiled else ()), **given)
    found = re.search(r"(\d+) real tokens/s", done.stdout)
    if found is None:
        row(what, failure(done))
        return
    ours = float(open(f"{folder}/{RATE}").read()) if os.path.exists(f"{folder}/{RATE}") else 0.0
    row(what, f"{int(found[1]):,} tokens/s" + (f"; ours is {ours / int(found[1]):.2f} times that" if ours else ""))


def rerank(args: argparse.Namespace, folder: str) -> None:
    """Re-ranking compared with CrossEncoder."""
    if importlib.util.find_spec("sentence_transformers") is None:
        row("re-ranking", "sentence-transformers is not installed")
        return
    files = {"model": "model", "docs": "docs.tsv", "queries": "queries.tsv", "run": "run.trec"}
    given = {name: f"{folder}/{file}" for name, file in files.items()}
    given |= {"max_length": SIZES[args.small][3], "questions": 2, "candidates": 1000, "rounds": 1 if args.small else 3}
    done = program("rerank.py", **given)
    for name, rate, apart in re.findall(r"^(.*?) +([\d.]+) pairs/s .*?scores apart by (\S+)", done.stdout, re.M):
        row(f"re-ranking, {name}", f"{rate} pairs/s; scores apart by {apart} at most")
    if done.returncode:
        row("re-ranking", failure(done))


def compare_scores(args: argparse.Namespace, folder: str) -> None:
    """Scores in float32 compared with those of the CPU."""
    for environment in ({"SCORES": "device"}, {"SCORES": "cpu", **CPU}):
        found = run("scores", args, folder, **environment)
        if found.returncode:
            row("scores in float32", failure(found))
            return
    there, here = (np.load(f"{folder}/{name}.npy") for name in ("device", "cpu"))
    row("scores in float32", f"differ from the CPU's by {np.abs(there - here).max() / np.abs(here).max():.1e}")


def program(name: str, *flags: str, **given: object) -> subprocess.CompletedProcess:
    command = [sys.executable, f"{HERE}/{name}", *flags, *(f"--{key}={value}" for key, value in given.items())]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"not finished after {LONGEST} s")


def failure(done: subprocess.CompletedProcess) -> str:
    return "failed: " + (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--part", default="", help="internal: the part that this process runs")
    parser.add_argument("--folder", default="")
    args = parser.parse_args()
    inside = {"attention": attention, "step": step, "trial": trial, "scores": scores, "prepare": prepare}
    if args.part:
        inside[args.part](args.small, args.folder)
        return
    outside = {"torch": torch_step, "resume": resume, "rerank": rerank, "scores": compare_scores}
    outside["compiled"] = functools.partial(torch_step, compiled=True)
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        if (found := run("prepare", args, folder, **CPU)).returncode:
            sys.exit(found.stderr)
        what = "import jax; print(jax.__version__, len(jax.devices()), jax.devices()[0].device_kind)"
        done = subprocess.run([sys.executable, "-c", what], capture_output=True, text=True, check=True)
        version, count, kind = done.stdout.split(" ", 2)
        print(f"| {count} × {kind.strip()}, JAX {version} | |\n|---|---|", flush=True)
        for part in args.only.split(","):
            if part in outside:
                outside[part](args, folder)
            elif (found := run(part, args, folder)).returncode:
                row(part, failure(found))
        print(f"\n{time.monotonic() - started:.0f} seconds", file=sys.stderr)


if __name__ == "__main__":
    main()
