"""Contents of a compiled step, parsed from XLA's text: matrix products by type and library, memory traffic, collectives.

Sizes and counts are for one device. The body of a loop over microbatches appears once in the text and is counted `loops` times.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
FREE = {"parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "partition-id"}  # no kernel
CALLS = {"while", "call", "conditional"}  # run other computations
_BYTES = {"64": 8, "32": 4, "16": 2, "8": 1}


class Instruction(NamedTuple):
    """One line of a computation."""

    name: str
    shape: str  # of the result; a tuple in parentheses
    op: str
    rest: str  # operands and attributes

    @property
    def operands(self) -> list[str]:
        return re.findall(r"%([\w.-]+)", self.rest.partition(")")[0])

    @property
    def called(self) -> list[str]:
        """The computations that it runs."""
        named = re.findall(r"(?:calls|to_apply|body|condition|\w+_computation)=%([\w.-]+)", self.rest)
        branches = re.search(r"branch_computations=\{([^}]*)\}", self.rest)
        return named + (re.findall(r"%([\w.-]+)", branches[1]) if branches else [])


class Product(NamedTuple):
    """A matrix product or attention kernel: its FLOPs, the widest type of its factors, its library."""

    flops: float
    dtype: str
    by: str = "XLA"  # or cuBLASLt, cuDNN, Triton


class Contents(NamedTuple):
    """What one device executes in a step."""

    products: list[Product]
    traffic: int  # bytes that the kernels read and write; an upper bound, since a gather counts its whole table
    attention: tuple[int, int]  # calls of cuDNN, forward and backward

    def flops(self, *dtypes: str) -> float:
        """FLOPs of the products with these types (default: all)."""
        return sum(p.flops for p in self.products if not dtypes or p.dtype in dtypes)


def contents(hlo: str, loops: int = 1) -> Contents:
    """The contents of a compiled GPU program: its ENTRY computation and the loops that this calls."""
    computations = _parse(hlo)
    products, traffic, attention = [], 0, [0, 0]
    for name, times in _executed(computations, loops):
        lines = computations[name]
        shapes = {line.name: line.shape for line in lines}
        for line in lines:
            if line.op in FREE | CALLS or line.op.endswith("-done"):
                continue
            traffic += times * (size(line.shape) + sum(size(shapes.get(operand, "")) for operand in line.operands))
            inner = [computations.get(called, []) for called in line.called] if line.op == "fusion" else [[line]]
            for body in inner:
                around = shapes if body == [line] else {part.name: part.shape for part in body}
                here = [product for part in body if (product := _product(part, around))]
                triton = '"kind":"__triton' in line.rest
                products += [product._replace(by="Triton") if triton else product for product in here] * times
            if "__cudnn$fmha" in line.rest:
                attention["Backward" in line.rest] += times
    return Contents(products, traffic, (attention[0], attention[1]))


def collectives(hlo: str, loops: int = 1) -> list[tuple[str, int]]:
    """(kind, bytes of the result) of every collective that compiled HLO executes, largest first."""
    found: list[tuple[str, int]] = []
    times = loops
    for line in hlo.splitlines():
        if line and not line[0].isspace():
            times = 1 if line.startswith("ENTRY") else loops
        match = re.search(r"= (.*?) (" + "|".join(COLLECTIVES) + r")(-start)?\(", line)
        if match:
            found.extend([(match[2], size(match[1]))] * times)
    return sorted(found, key=lambda item: -item[1])


def size(shape: str) -> int:
    """Bytes of a shape in XLA's notation; for a tuple, the sum of its parts."""
    return sum(
        _BYTES.get(bits or "8", 4) * math.prod(_numbers(dims))
        for bits, dims in re.findall(r"\b(?:pred|[a-z]+(\d+)\w*)\[([\d,]*)\]", shape)
    )


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def _parse(hlo: str) -> dict[str, list[Instruction]]:
    """The instructions of every computation by its name; "ENTRY" is the program."""
    computations: dict[str, list[Instruction]] = {}
    lines: list[Instruction] = []
    for text in hlo.splitlines():
        if text.endswith("{") and not text[0].isspace() and (header := re.match(r"(ENTRY )?%?([\w.-]+)", text)):
            lines = computations.setdefault("ENTRY" if header[1] else header[2], [])
        elif found := re.match(r"\s+(?:ROOT )?%?([\w.-]+) = (.*?) ([a-z][\w-]*)\((.*)", text):
            lines.append(Instruction(*found.groups()))
    return computations


def _executed(computations: dict[str, list[Instruction]], loops: int) -> Iterator[tuple[str, int]]:
    """(computation, number of executions) for the program and everything it calls, except the bodies of fusions."""
    waiting = [("ENTRY", 1)]
    while waiting:
        name, times = waiting.pop()
        if name not in computations:
            continue
        yield name, times
        for line in computations[name]:
            if line.op in CALLS:
                waiting += [(called, loops if line.op == "while" else times) for called in line.called]


def _product(line: Instruction, shapes: dict[str, str]) -> Product | None:
    """The instruction as a product, or None if it is not one. `shapes`: shapes of the instructions around it, by name."""
    first, second = ([shapes.get(operand, "") for operand in line.operands] + ["", ""])[:2]
    dtypes = {shape.partition("[")[0] for shape in (first, second)}
    dtype = "f64" if "f64" in dtypes else "f32" if "f32" in dtypes else min(dtypes)
    if "__cudnn$fmha" in line.rest:
        rows, queries, heads, width = _dimensions(first)
        products = 5 if "Backward" in line.rest else 2
        return Product(products * 2.0 * rows * heads * queries * _dimensions(second)[1] * width, dtype, "cuDNN")
    contracted = re.search(r'lhs_contracting_dim(?:s=\{|ensions":\[)([\d",]*)', line.rest)
    if (line.op == "dot" or "__cublas" in line.rest) and contracted:
        whole = _dimensions(first)
        depth = math.prod(whole[i] for i in _numbers(contracted[1]))
        by = "cuBLASLt" if "__cublas" in line.rest else "XLA"
        return Product(2.0 * math.prod(_dimensions(line.shape)) * depth, dtype, by)
    return None


def _dimensions(shape: str) -> list[int]:
    """The dimensions of an array, or of the first array in a tuple."""
    found = re.search(r"\[([\d,]*)\]", shape)
    return _numbers(found[1]) if found else []
