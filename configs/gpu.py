"""HARP base as in the paper, on one or several GPUs.

harp train --config=configs/gpu.py --workdir=runs/harp --config.data="('enwiki',)" --config.init=bert-base-uncased/

Hardware: any NVIDIA GPU with bfloat16; with several, the largest number that divides `lanes` (8) is used. Time: on one
H200, at the 614,000 tokens/s measured, 34 hours with the paper's lengths (24,800 tokens per step), 40 with those of :paper's pairs
(29,900), 54 with the benchmark's documents (docs/accelerators.md).
Figure: not run yet; see configs/tpu_v3.py, which sets all other fields.
Bit-exact resume on GPU also requires XLA_FLAGS=--xla_gpu_deterministic_ops=true.
"""

from harp_jax.configs import tpu_v3


def get_config(preset=""):
    c = tpu_v3.get_config(preset)
    c.prng = "threefry"
    c.mesh.data = -1  # all GPUs
    return c
