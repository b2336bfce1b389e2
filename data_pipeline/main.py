"""The generation job: hyperlinked text to TFRecord shards of pre-training pairs.

python -m data_pipeline.main --config=configs/data/FILE.py --output=DIR [--config.FIELD=VALUE …]
    [--engine=spark --master=spark://host:7077]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from absl import flags
from ml_collections import config_flags

from harp_jax.cli import run_with_config
from harp_jax.errors import InputError

if TYPE_CHECKING:
    from data_pipeline.engine.engine import Engine

config_flags.DEFINE_config_file("config", None, "A generation config, see configs/data/.", lock_config=True)
flags.DEFINE_string("output", None, "Directory for shards and manifest; made if absent, continued if unfinished.")
flags.DEFINE_enum("engine", "local", ["local", "spark"], "What runs the stages: processes and DuckDB here, or Spark.")
flags.DEFINE_string(
    "master", "", "Of Spark: a master URL, local-cluster[…] or local[…]; empty: config.workers cores here."
)


def main(args: Any) -> None:
    from data_pipeline.pipeline import generate

    if args.config is None or not args.output:
        raise InputError("--config=FILE.py and --output=DIR are both needed; see configs/data/")
    generate(args.config, args.output, _engine(args))


def _engine(args: Any) -> Callable[..., Engine]:
    from data_pipeline.engine.engine import LocalEngine

    if args.engine == "spark":
        from data_pipeline.engine.spark import SparkEngine

        return partial(SparkEngine, master=args.master)
    if args.master:
        raise InputError("--master is for --engine=spark; give both or none")
    return LocalEngine


if __name__ == "__main__":
    run_with_config(main)
