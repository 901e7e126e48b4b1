"""`onnx-memopt moments`: what the layers of a model see of real inputs.

Runs the model on samples and adds up x' x of the rows x that each matrix of
weights is multiplied with. The pass factorize reads the sums: with them the error
that it keeps low is that of the layers' outputs on such inputs.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from onnx_memopt._tensors import (Failure, Parser, Usage, inputs_of,
                                  open_with_outputs, read_feeds, read_model,
                                  run_session)
from onnx_memopt._verify_cli import EXIT_MODEL_ERROR, EXIT_OK, EXIT_USAGE
from onnx_memopt._verify_text import printable

HELP = """\
Runs a model in ONNX Runtime on sample inputs and writes second moments of what
its layers see, for --passes=factorize{moments=FILE}.

Usage: onnx-memopt moments [OPTIONS] MODEL --feeds FILE... -o OUT

  MODEL                    .onnx file

  --feeds FILE             inputs by name, as numpy.savez writes them; may be
                           given several times, a run for each
  -o, --output OUT         where the moments go, in the format safetensors
  --max-side N             leave layers of more inputs alone: N * N numbers are
                           kept for each layer (4608)

  -h, --help               this text

Exit codes: 0 all went well, 1 a model or a file, 2 usage.
"""


class Layer(NamedTuple):
    """A node that multiplies its input with a matrix of weights."""

    weight: str
    data: str  # its other operand
    op_type: str
    side: int  # how many inputs the matrix has
    from_left: bool  # MatMul with the weights first
    attributes: Dict[str, Any]
    kernel: Tuple[int, ...]


def layers(model: Any) -> List[Layer]:
    """Those that factorize splits, as far as the main graph has them."""
    shapes = {t.name: tuple(t.dims) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    shapes[node.output[0]] = tuple(attribute.t.dims)
    return [layer for node in model.graph.node if node.domain in ("", "ai.onnx")
            for layer in _layer_of(node, shapes)]


def _layer_of(node: Any, shapes: Dict[str, Tuple[int, ...]]
              ) -> Iterator[Layer]:
    import onnx
    if node.op_type not in ("MatMul", "Gemm", "Conv"):
        return
    attributes = {a.name: onnx.helper.get_attribute_value(a)
                  for a in node.attribute}
    data, weight = node.input[0], node.input[1]
    shape = shapes.get(weight)
    from_left = False
    if shape is None and node.op_type == "MatMul" and data in shapes:
        data, weight, shape, from_left = weight, data, shapes[data], True
    if shape is None or data in shapes:
        return
    if node.op_type == "Conv":
        if len(shape) < 3 or attributes.get("group", 1) != 1:
            return
        side = 1
        for extent in shape[1:]:
            side *= extent
        yield Layer(weight, data, "Conv", side, False, attributes, shape[2:])
    elif len(shape) == 2:
        last = from_left or bool(attributes.get("transB", 0))
        yield Layer(weight, data, node.op_type, shape[1 if last else 0],
                    from_left, attributes, ())


def rows_of(layer: Layer, x: Any) -> Any:
    """[rows, side]: what the matrix is multiplied with."""
    if layer.op_type == "Conv":
        return _patches(x, layer.kernel, layer.attributes)
    if layer.from_left:
        return (x.reshape(1, -1) if x.ndim == 1 else
                x.swapaxes(-1, -2).reshape(-1, layer.side))
    if layer.attributes.get("transA", 0):
        x = x.T
    return x.reshape(-1, layer.side)


def _patches(x: Any, kernel: Tuple[int, ...],
             attributes: Dict[str, Any]) -> Any:
    import itertools

    import numpy as np
    rank = len(kernel)
    strides = attributes.get("strides") or [1] * rank
    dilations = attributes.get("dilations") or [1] * rank
    pads = list(attributes.get("pads") or [0] * 2 * rank)
    windows = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    mode = attributes.get("auto_pad", b"NOTSET")
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        for i, extent in enumerate(x.shape[2:]):
            outputs = -(-extent // strides[i])
            total = max((outputs - 1) * strides[i] + windows[i] - extent, 0)
            small, large = total // 2, total - total // 2
            pads[i], pads[rank + i] = ((small, large) if mode == b"SAME_UPPER"
                                       else (large, small))
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])])
    outputs = [(extent - window) // stride + 1 for extent, window, stride
               in zip(padded.shape[2:], windows, strides)]
    parts = []
    for offsets in itertools.product(*map(range, kernel)):
        index = [slice(o * d, o * d + (n - 1) * s + 1, s) for o, d, n, s
                 in zip(offsets, dilations, outputs, strides)]
        parts.append(padded[(slice(None), slice(None), *index)])
    # [batch, channels, kernel, positions]: the order of the weights.
    stacked = np.stack(parts, axis=2).reshape(
        x.shape[0], x.shape[1] * len(parts), -1)
    return stacked.swapaxes(1, 2).reshape(-1, stacked.shape[1])


def collect(path: str, feeds: List[str],
            max_side: int = 4608) -> Dict[str, Any]:
    """By the name of the weight: the mean of x' x over all rows of all runs."""
    import numpy as np
    model = read_model(path)
    found = [layer for layer in layers(model) if layer.side <= max_side]
    if not found:
        raise Failure("it has no layer with a matrix of weights of at most "
                      f"{max_side} inputs")
    inputs = {value.name for value in model.graph.input}
    names = sorted({layer.data for layer in found} - inputs)
    session = open_with_outputs(path, model, names or [
        value.name for value in model.graph.output][:1])
    sums: Dict[str, Any] = {}
    counts: Dict[str, int] = {}
    for file in feeds:
        given = inputs_of(session, {}, read_feeds(file), 0)
        values = dict(given)
        if names:
            values.update(zip(names, run_session(session, names, given)))
        for layer in found:
            rows = rows_of(layer, values[layer.data]).astype(np.float64)
            if not np.isfinite(rows).all():
                raise Failure(f'"{layer.data}" has numbers that are not '
                              f"finite with {file}")
            product = rows.T @ rows
            if layer.weight in sums:
                product += sums[layer.weight]
            sums[layer.weight] = product
            counts[layer.weight] = counts.get(layer.weight, 0) + len(rows)
    return {name: (product / max(counts[name], 1)).astype(np.float32)
            for name, product in sums.items()}


def write(moments: Dict[str, Any], path: str) -> None:
    """As safetensors: length of the header, header, matrices."""
    header: Dict[str, Any] = {}
    at = 0
    for name, matrix in moments.items():
        header[name] = {"dtype": "F32", "shape": list(matrix.shape),
                        "data_offsets": [at, at + matrix.nbytes]}
        at += matrix.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    part = f"{path}.part"
    with open(part, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for matrix in moments.values():
            file.write(matrix.tobytes())
    os.replace(part, path)


def _arguments(words: Optional[List[str]]) -> Any:
    parser = Parser("onnx-memopt moments", HELP)
    parser.add_argument("model")
    parser.add_argument("--feeds", action="append", default=[])
    parser.add_argument("-o", "--output")
    parser.add_argument("--max-side", type=int, default=4608)
    arguments = parser.parse_args(words)
    if not arguments.feeds:
        raise Usage("--feeds: expected a file of sample inputs")
    if arguments.output is None:
        raise Usage("-o: expected a file for the moments")
    return arguments


def main(words: Optional[List[str]] = None) -> int:
    """The program; the exit code."""
    try:
        arguments = _arguments(words)
        moments = collect(arguments.model, arguments.feeds,
                          arguments.max_side)
        write(moments, arguments.output)
    except Usage as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except (OSError, ValueError, ImportError, Failure) as error:
        line = " ".join(str(error).split())
        print(f"error: {printable(line)}", file=sys.stderr)
        return EXIT_MODEL_ERROR
    size = sum(matrix.nbytes for matrix in moments.values())
    print(f"wrote {printable(arguments.output)}: moments of {len(moments)} "
          f"layers, {size / 2**20:.1f} MiB")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
