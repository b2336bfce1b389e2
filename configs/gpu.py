"""HARP base as the paper trains it, on one or several GPUs.

python -m harp_jax.main --config=configs/gpu.py --workdir=runs/harp --config.data="('enwiki',)" --config.init=bert-base-uncased/

Hardware: any NVIDIA GPU with bf16; the lanes must be a multiple of the number of GPUs. About 33 hours on one H200 at 40 %
utilisation (estimated from FLOPs). Bit-exact resume on GPU additionally needs XLA_FLAGS=--xla_gpu_deterministic_ops=true.
Everything else is configs/tpu_v3.py.
"""

from harp_jax.configs import tpu_v3


def get_config(preset=""):
    c = tpu_v3.get_config(preset)
    c.prng = "threefry"
    c.mesh.data = -1  # all GPUs
    return c
