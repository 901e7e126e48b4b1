"""Compares a report's tensors with the real ones."""

import math

import onnx
from onnx import TensorProto

import runtime

BITS = {"float4e2m1": 4, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2,
        "bool": 8, "double": 64, "float": 32, "complex64": 64,
        "complex128": 128, "bfloat16": 16}


def element_bits(dtype: str) -> int:
    """Of an element type by its ONNX name: "int64", "float8e4m3fn"."""
    if dtype in BITS:
        return BITS[dtype]
    element = getattr(TensorProto, dtype.upper())
    return onnx.helper.tensor_dtype_to_np_dtype(element).itemsize * 8


def parse_shape(text: str) -> list[int | None]:
    """"[1, batch, 2*n]" as [1, None, None]."""
    dims, depth, word = [], 0, ""
    for letter in text[1:-1] + ",":
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            word = word.strip()
            if word:
                dims.append(int(word) if word.isdecimal() else None)
            word = ""
        else:
            word += letter
    return dims


def split_optional(dtype: str) -> tuple[str, str]:
    """"optional(float[4, 8])" as ("float", "[4, 8]"): the runtime gives what
    is inside."""
    inner = dtype.removeprefix("optional(").removesuffix(")")
    element, bracket, dims = inner.partition("[")
    return element, bracket + dims


def main_tensors(report: dict) -> dict[str, dict]:
    """The tensors of the main graph by name."""
    return {t["name"]: t for t in report["tensors"] if "graph" not in t}


def mismatches(report: dict, real: dict, counts) -> list[str]:
    """One line for each tensor of `real` (by name) that is not as reported.

    What the report does not know is counted, and no mismatch.
    """
    reported = main_tensors(report)
    lines = []
    for name, value in real.items():
        if not isinstance(value, runtime.Tensor):
            counts.add("no dense tensor: not compared")
            continue
        if name not in reported:
            lines.append(f'tensor "{name}" is not in the report')
            continue
        lines += _mismatch(reported[name], value, counts)
    return lines


def _mismatch(reported: dict, real: runtime.Tensor, counts) -> list[str]:
    lines = []
    name = reported["name"]
    if (reported["dtype"] or "").startswith("optional("):
        element, shape = split_optional(reported["dtype"])
        reported = {**reported, "dtype": element, "shape": shape or None}
    if reported["dtype"] is None:
        counts.add("type unknown to the report")
    elif reported["dtype"] != real.dtype:
        lines.append(f'"{name}": reported as {reported["dtype"]}, is '
                     f"{real.dtype}")
    if reported["shape"] is None:
        counts.add("rank unknown to the report")
        if reported["bytes"] is not None:
            lines.append(f'"{name}": a size without a shape')
        return lines
    dims = parse_shape(reported["shape"])
    if len(dims) != len(real.shape) or any(
            d is not None and d != r for d, r in zip(dims, real.shape)):
        lines.append(f'"{name}": reported as {reported["shape"]}, is '
                     f"{list(real.shape)}")
    if None in dims:
        counts.add("a size unknown to the report, or symbolic")
        return lines
    if real.dtype == "string" or reported["bytes"] is None:
        if real.dtype != "string":
            lines.append(f'"{name}": a shape without a size')
        counts.add("strings: no size")
        return lines
    size = (math.prod(real.shape) * element_bits(real.dtype) + 7) // 8
    if reported["bytes"] != size:
        lines.append(f'"{name}": reported {reported["bytes"]} bytes, has '
                     f"{size}")
    if not lines:
        counts.add("agree in type, shape and bytes")
    return lines


def expose_all(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with every value of its main graph as an output."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    outputs = {output.name for output in exposed.graph.output}
    for node in exposed.graph.node:
        for name in node.output:
            if name and name not in outputs:
                outputs.add(name)
                exposed.graph.output.add().name = name
    return exposed
