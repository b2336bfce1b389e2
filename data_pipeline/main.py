"""The generation job: hyperlinked text to TFRecord shards of pre-training pairs.

python -m data_pipeline.main --config=configs/data/FILE.py --output=DIR [--config.FIELD=VALUE …]
    [--engine=spark --master=spark://host:7077]
"""

import argparse
from functools import partial

from harp_jax.base.cli import ConfigParser, run
from harp_jax.base.errors import InputError


def arguments_parser() -> ConfigParser:
    parser = ConfigParser(
        prog="python -m data_pipeline.main",
        description="Generate pre-training pairs: turn hyperlinked pages into TFRecord shards and a manifest.\n"
        "docs/formats.md lists all fields. `harp generate` and `python -m data_pipeline.main` are the same command.",
        example="harp generate --config=data/html:recommended --config.source.paths=\"('site',)\" \\\n"
        "    --config.tokenizer=all-MiniLM-L6-v2 --config.encoder=idf --output=pairs",
    )
    parser.add_recorded_output("directory for shards and manifest; an unfinished job there resumes")
    parser.add_argument("--engine", default="local", choices=("local", "spark"), help="engine for the stages (local)")
    parser.add_argument("--master", default="", help="Spark master URL, or local[N] (config.workers local cores)")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from data_pipeline.engine.job import EngineFactory
    from data_pipeline.engine.local import LocalEngine
    from data_pipeline.pipeline import generate

    engine: EngineFactory = LocalEngine
    if arguments.engine == "local" and arguments.master:
        raise InputError("--master is for --engine=spark only")
    if arguments.engine == "spark":
        from data_pipeline.engine.spark import SparkEngine

        engine = partial(SparkEngine, master=arguments.master)
    generate(arguments.config, arguments.output, engine)


if __name__ == "__main__":
    run(main, arguments_parser())
