"""Throughput of our step compared with two PyTorch implementations on this machine, measured alternately.

python benchmarks/step_peers.py --data=../shared/data --peer=../shared/bench/peer_step.py

The peer file measures "official" (the authors' implementation) and "tuned", each with glibc's defaults and with glibc keeping
freed pages (as harp_jax.allocator does for our commands, here through GLIBC_TUNABLES): each bar must hold against the faster of
the two. Ours is benchmarks/step.py, before and after each; every run is a separate process. A ratio compares a peer with the
mean of our runs before and after it, so that other load on the machine affects both.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys

SHAPES = {"2x128": "2,128,2", "4x256": "4,256,4"}
BARS = {"2x128": {"official": 15.0, "tuned": 1.2}, "4x256": {"official": 10.0, "tuned": 1.2}}
KEEPING = (
    "glibc.malloc.hugetlb=1:glibc.malloc.arena_max=1:"
    "glibc.malloc.mmap_threshold=4294967295:glibc.malloc.trim_threshold=4294967295"
)
HERE = os.path.dirname(os.path.abspath(__file__))


def rate(command: list[str], tunables: str = "") -> float:
    """Real tokens/s parsed from the command's output; exits if it printed none."""
    environment = {**os.environ, "GLIBC_TUNABLES": tunables}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    found = re.search(r"(\d+) real tokens/s", result.stdout)
    if found is None:
        sys.exit(f"{' '.join(command)} printed no rate:\n{result.stdout[-500:]}{result.stderr[-1500:]}")
    return float(found.group(1))


def ours(shape: str, data: str, steps: int) -> float:
    layers, hidden, heads = SHAPES[shape].split(",")
    command = [sys.executable, os.path.join(HERE, "step.py"), f"--documents={data}/wiki/collection.jsonl.xz"]
    command += [f"--tokenizer={data}/vocab/bert-base-uncased-vocab.txt", f"--layers={layers}", f"--hidden={hidden}"]
    return rate([*command, f"--heads={heads}", f"--steps={steps}"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--official_steps", type=int, default=3)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    args = parser.parse_args()
    for shape in args.shapes.split(","):
        before = ours(shape, args.data, args.steps)
        peers = [(mode, pages) for mode in ("tuned", "official") for pages in ("default pages", "pages kept")]
        ratios: dict[tuple[str, str], list[float]] = {peer: [] for peer in peers}
        for _ in range(args.rounds):
            for (mode, pages), found in ratios.items():
                steps = args.steps if mode == "tuned" else args.official_steps
                command = [sys.executable, args.peer, mode, SHAPES[shape], str(steps), args.data]
                peer = rate(command, KEEPING if pages == "pages kept" else "")
                after = ours(shape, args.data, args.steps)
                found.append((before + after) / 2 / peer)
                around = f"{before:.0f} and {after:.0f} real tokens/s around"
                print(f"{shape}: {around} PyTorch {mode}, {pages}: {peer:.0f}", flush=True)
                before = after
        for (mode, pages), found in ratios.items():
            each = ", ".join(f"{x:.2f}" for x in found)
            print(
                f"{shape}: {statistics.median(found):.2f} × PyTorch {mode}, {pages} ({each}); bar {BARS[shape][mode]:g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
