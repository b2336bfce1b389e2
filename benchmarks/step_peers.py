"""Throughput of our step compared with the same step in PyTorch on this machine, measured alternately.

python benchmarks/step_peers.py --documents=collection.jsonl.xz --tokenizer=vocab.txt

benchmarks/step_torch.py measures "official" (the authors' way) and "tuned", each with glibc's defaults and with glibc keeping
freed pages (as base/allocator.py does for our commands, here by GLIBC_TUNABLES). Ours is benchmarks/step.py, before and after
each; every run is a separate process. A ratio compares a peer with the mean of our runs before and after it, so that other load
on the machine affects both.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from typing import NamedTuple

SHAPES = {"2x128": (2, 128, 2), "4x256": (4, 256, 4), "6x384": (6, 384, 12)}  # layers, hidden, heads
MODES = {
    "2x128": ("official", "tuned"),
    "4x256": ("official", "tuned"),
    "6x384": ("tuned",),
    "6x384 bfloat16": ("tuned",),  # if the CPU supports it (AVX512-BF16, AMX)
}
KEEPING = (
    "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:"
    "glibc.malloc.mmap_threshold=4294967295:glibc.malloc.trim_threshold=4294967295"
)
HERE = os.path.dirname(os.path.abspath(__file__))


class Run(NamedTuple):
    """Real tokens/s of a process, and its peak memory in GiB."""

    rate: float
    memory: float


def measured(command: list[str], tunables: str = "") -> Run:
    """Runs the command, which prints its rate; exits if it printed none."""
    environment = {**os.environ, "GLIBC_TUNABLES": tunables}
    with tempfile.TemporaryFile("w+") as output:
        started = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        _, _, used = os.wait4(started.pid, 0)
        output.seek(0)
        printed = output.read()
    found = re.search(r"(\d+) real tokens/s", printed)
    if found is None:
        sys.exit(f"{' '.join(command)} printed no rate:\n{printed[-2000:]}")
    for line in re.findall(r".*GFLOP/s.*", printed):
        print(f"  {line}")
    return Run(float(found.group(1)), used.ru_maxrss / 2**20)


def options(row: str, args: argparse.Namespace) -> list[str]:
    """Shape, dtype and data, named the same in both programs."""
    shape, _, dtype = row.partition(" ")
    sizes = zip(("layers", "hidden", "heads"), SHAPES[shape], strict=True)
    data = [f"--documents={args.documents}", f"--tokenizer={args.tokenizer}", f"--dtype={dtype or 'float32'}"]
    return [*(f"--{name}={size}" for name, size in sizes), *data]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--official_steps", type=int, default=3)
    parser.add_argument("--rows", default=",".join(MODES), help="shapes, each with a dtype or none for float32")
    args = parser.parse_args()
    for row in args.rows.split(","):
        own = [sys.executable, f"{HERE}/step.py", *options(row, args), f"--steps={args.steps}"]
        before = measured(own)
        peers = [(mode, pages) for mode in MODES[row] for pages in ("default pages", "pages kept")]
        ratios: dict[tuple[str, str], list[float]] = {pair: [] for pair in peers}
        for _ in range(args.rounds):
            for (mode, pages), found in ratios.items():
                steps = args.steps if mode == "tuned" else args.official_steps
                peer = [
                    sys.executable,
                    f"{HERE}/step_torch.py",
                    f"--mode={mode}",
                    *options(row, args),
                    f"--steps={steps}",
                ]
                other = measured(peer, KEEPING if pages == "pages kept" else "")
                after = measured(own)
                found.append((before.rate + after.rate) / 2 / other.rate)
                around = f"{before.rate:.0f} and {after.rate:.0f} real tokens/s ({after.memory:.2f} GiB) around"
                print(f"{row}: {around} PyTorch {mode}, {pages}: {other.rate:.0f} ({other.memory:.2f} GiB)", flush=True)
                before = after
        for (mode, pages), found in ratios.items():
            each = ", ".join(f"{x:.2f}" for x in found)
            print(f"{row}: {statistics.median(found):.2f} × PyTorch {mode}, {pages} ({each})", flush=True)


if __name__ == "__main__":
    main()
