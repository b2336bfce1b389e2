"""The generation job: hyperlinked text to TFRecord shards of pre-training pairs.

python -m data_pipeline.main --config=configs/data/FILE.py --output=DIR [--config.FIELD=VALUE …]
"""

from typing import Any

from absl import flags
from ml_collections import config_flags

from harp_jax.cli import run_with_config
from harp_jax.errors import InputError

config_flags.DEFINE_config_file("config", None, "A generation config, see configs/data/.", lock_config=True)
flags.DEFINE_string("output", None, "Directory for shards and manifest; made if absent, continued if unfinished.")
flags.DEFINE_enum("engine", "local", ["local"], "What runs the stages: processes and DuckDB on this machine.")


def main(args: Any) -> None:
    from data_pipeline.pipeline import generate

    if args.config is None or not args.output:
        raise InputError("--config=FILE.py and --output=DIR are both needed; see configs/data/")
    generate(args.config, args.output)


if __name__ == "__main__":
    run_with_config(main)
