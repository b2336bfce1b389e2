"""Export: python -m harp_jax.export --workdir=DIR --output=HF_DIR

Writes the newest checkpoint of a training workdir as a Hugging Face directory (`checkpoints/export.py`).
"""

import argparse
import sys

from harp_jax.base.cli import Parser, count, run
from harp_jax.base.errors import InputError
from harp_jax.base.files import lines


def arguments_parser() -> Parser:
    parser = Parser(
        prog="python -m harp_jax.export",
        description="Write a checkpoint as a Hugging Face directory for transformers and sentence-transformers.\n"
        "`harp export` and `python -m harp_jax.export` are the same command.",
        example="harp export --workdir=runs/ranker --output=ranker\n"
        "  harp export --encoder=all-MiniLM-L6-v2 --layers=3 --output=start",
    )
    parser.add_input("--workdir", default="", help="training workdir, whose newest valid checkpoint is exported")
    parser.add_input(
        "--encoder",
        model=True,
        default="",
        help="instead of --workdir: Hugging Face encoder whose first layers are exported",
    )
    parser.add_argument("--layers", type=count, default=0, help="first layers of --encoder to export, without heads")
    parser.add_argument("--sha256", default="", help="fail unless the model.safetensors of --encoder has this hash")
    parser.add_output("--output", required=True, help="directory to write; replaces an earlier export there")
    parser.add_argument(
        "--ranker",
        action="store_true",
        help="leave out the pre-training heads, which servers refuse to load (always done after fine-tuning or mlm_weight=0)",
    )
    parser.add_argument(
        "--format",
        action="append",
        default=[],
        choices=("onnx", "openvino"),
        help="also write the ranker for ONNX Runtime or OpenVINO; repeatable",
    )
    parser.add_argument("--int8", action="store_true", help="with --format: also write it in int8")
    parser.add_argument(
        "--calibration", default="", help="file of query<TAB>document lines to calibrate int8 on (--format=openvino)"
    )
    parser.add_argument("--license", default="", help="license for the model card, such as apache-2.0")
    parser.add_argument("--language", default="", help="language code for the model card, such as en")
    parser.add_argument("--base_model", default="", help="model that training started from, by its name on the Hub")
    parser.add_argument("--dataset", action="append", default=[], help="data set for the model card; repeatable")
    parser.add_argument("--results", default="", help="figures for the model card, from harp evaluate --per_query")
    parser.add_argument("--system", default="", help="run in --results that this model produced (if there are several)")
    parser.add_argument("--baseline", default="", help="run in --results to compare it with, such as BM25")
    parser.add_argument("--evaluated_on", default="", help="name of the query set in --results")
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.checkpoints.export import export_model, write_first_layers
    from harp_jax.checkpoints.model_card import About, read_figures

    given = [bool(option) for option in (arguments.workdir, arguments.encoder, arguments.layers)]
    own = ("encoder", "layers", "sha256", "output")
    more = [f"--{name}" for name, value in vars(arguments).items() if value and name not in own]
    for wrong, message in (
        (given not in ([True, False, False], [False, True, True]), "give --workdir, or --encoder with --layers"),
        (
            arguments.encoder and more,
            f"leave out {', '.join(more)}: --encoder exports only its first layers",
        ),
        (arguments.workdir and arguments.sha256, "--sha256 is only for --encoder; leave it out"),
        (
            (arguments.system or arguments.baseline or arguments.evaluated_on) and not arguments.results,
            "--system, --baseline and --evaluated_on describe --results; add it, or leave them out",
        ),
    ):
        if wrong:
            raise InputError(message)
    if arguments.encoder:
        write_first_layers(arguments.encoder, arguments.layers, arguments.output, arguments.sha256)
        print(f"{arguments.output}: {arguments.layers} layers of {arguments.encoder}")
        return
    calibration = read_pairs(arguments.calibration) if arguments.calibration else []
    export_model(
        arguments.workdir,
        arguments.output,
        ranker=arguments.ranker,
        about=About(
            license=arguments.license,
            language=arguments.language,
            base_model=arguments.base_model,
            datasets=tuple(arguments.dataset),
            figures=read_figures(arguments.results, arguments.system) if arguments.results else (),
            baseline=arguments.baseline,
            baseline_figures=read_figures(arguments.results, arguments.baseline) if arguments.baseline else (),
            evaluated_on=arguments.evaluated_on,
            command=("harp", "export", *sys.argv[1:]),
        ),
        formats=arguments.format,
        int8=arguments.int8,
        calibration=calibration,
    )
    print(f"exported {arguments.workdir} to {arguments.output}")


def read_pairs(path: str) -> list[tuple[str, str]]:
    """(query, document) from lines `query<TAB>document`. Raises InputError for a malformed line."""
    found = []
    for number, line in lines(path):
        query, tab, document = line.partition("\t")
        if not tab or not query.strip() or not document.strip():
            raise InputError(f"{path}, line {number}: not query<TAB>document; correct the line")
        found.append((query, document))
    return found


if __name__ == "__main__":
    run(main, arguments_parser())
