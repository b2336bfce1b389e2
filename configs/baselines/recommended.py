"""HARP as we recommend it for small encoders and short trainings: ADP, no MLM, no dropout; the controls' budget.

harp train --config=configs/baselines/recommended.py --workdir=runs/recommended --config.init=MiniLM-L6-v2/

Hardware, time and budget: see configs/baselines/harp.py. `--set scale=small` in a plan makes it minutes on a CPU. The pairs are
those of the generation preset of the same name. Figures: docs/experiments/recommended.md.
"""

from harp_jax.configs.baselines import harp

from harp_jax.config import PRESETS


def get_config():
    c = harp.get_config()
    c.update_from_flattened_dict(PRESETS["recommended"])
    return c
