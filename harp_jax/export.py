"""Export: python -m harp_jax.export --workdir=DIR --output=HF_DIR

Writes the newest checkpoint of a training workdir as a Hugging Face directory (`checkpoints/export.py`).
"""

import argparse

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
    parser.add_input("--workdir", help="training workdir, whose newest valid checkpoint is exported")
    what = "instead of --workdir: Hugging Face encoder whose first layers are exported"
    parser.add_input("--encoder", model=True, help=what)
    parser.add_argument("--layers", type=count, default=0, help="first layers of --encoder to export, without heads")
    parser.add_argument("--sha256", help="fail unless the model.safetensors of --encoder has this hash")
    parser.add_output("--output", required=True, help="directory to write; replaces an earlier export there")
    what = (
        "leave out the pre-training heads, which servers refuse to load (always done after fine-tuning or mlm_weight=0)"
    )
    parser.add_argument("--ranker", action="store_true", help=what)
    what = "also write the ranker for ONNX Runtime or OpenVINO; repeatable"
    parser.add_argument("--format", action="append", default=[], choices=("onnx", "openvino"), help=what)
    parser.add_argument("--int8", action="store_true", help="with --format: also write it in int8")
    what = "file of query<TAB>document lines to calibrate int8 on (--format=openvino)"
    parser.add_argument("--calibration", help=what)
    return parser


def main(arguments: argparse.Namespace) -> None:
    from harp_jax.checkpoints.export import export_model, write_first_layers

    if bool(arguments.encoder) == bool(arguments.workdir) or bool(arguments.encoder) != bool(arguments.layers):
        raise InputError("give --workdir, or --encoder with --layers")
    if arguments.encoder:
        own = ("encoder", "layers", "sha256", "output")
        if more := [f"--{name}" for name, value in vars(arguments).items() if value and name not in own]:
            raise InputError(f"leave out {', '.join(more)}: --encoder exports only its first layers")
        write_first_layers(arguments.encoder, arguments.layers, arguments.output, arguments.sha256)
        print(f"{arguments.output}: {arguments.layers} layers of {arguments.encoder}")
        return
    if arguments.sha256:
        raise InputError("--sha256 is only for --encoder; leave it out")
    pairs = []
    for number, line in lines(arguments.calibration) if arguments.calibration else ():
        query, tab, document = line.partition("\t")
        if not tab or not query.strip() or not document.strip():
            raise InputError(f"{arguments.calibration}, line {number}: not query<TAB>document; correct the line")
        pairs.append((query, document))
    export_model(arguments.workdir, arguments.output, arguments.ranker, arguments.format, arguments.int8, pairs)
    print(f"exported {arguments.workdir} to {arguments.output}")


if __name__ == "__main__":
    run(main, arguments_parser())
