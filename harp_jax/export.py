"""Export: python -m harp_jax.export --workdir=DIR --output=HF_DIR

The newest checkpoint of a training workdir as a Hugging Face directory (`checkpoints/export.py`).
"""

import argparse
import sys
from types import ModuleType

from harp_jax.cli import Parser, run


def arguments_parser() -> Parser:
    parser = Parser(
        prog="python -m harp_jax.export",
        description="Write a checkpoint as a Hugging Face directory for transformers and sentence-transformers.",
        example="python -m harp_jax.export --workdir=runs/ranker --output=ranker",
    )
    parser.add_argument(
        "--workdir", required=True, help="training workdir; its newest checkpoint that verifies is used"
    )
    parser.add_argument("--output", required=True, help="directory to write; an earlier export there is replaced")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.checkpoints.export import export

    export(arguments.workdir, arguments.output)
    print(f"exported {arguments.workdir} to {arguments.output}")


class CallableModule(ModuleType):
    """Importing this module replaces the package's attribute `export`, a function of the library: so it is callable too."""

    def __call__(self, workdir: str, output: str) -> None:
        """`checkpoints.export.export`."""
        from harp_jax.checkpoints.export import export

        export(workdir, output)


sys.modules[__name__].__class__ = CallableModule

if __name__ == "__main__":
    run(main, arguments_parser())
