"""Writes a small model with weights, to try things on.

    python examples/python/make_model.py encoder model.onnx
    python examples/python/make_model.py classifier model.onnx

encoder: what reads text: four layers of attention, tokens in, two classes out;
  batch and length are open.
classifier: what looks at pictures: convolutions with skip connections, ten
  classes; the batch is open.
"""

from __future__ import annotations

import sys

import numpy
import onnx
from onnx import numpy_helper

WIDTH, HEADS, LAYERS, WORDS = 128, 4, 4, 1000

ATTENTION = """
  q{i} = MatMul (h{i}, query{i})
  k{i} = MatMul (h{i}, key{i})
  v{i} = MatMul (h{i}, value{i})
  q{i}h = Reshape (q{i}, heads)
  k{i}h = Reshape (k{i}, heads)
  v{i}h = Reshape (v{i}, heads)
  q{i}t = Transpose <perm = [0, 2, 1, 3]> (q{i}h)
  k{i}t = Transpose <perm = [0, 2, 3, 1]> (k{i}h)
  v{i}t = Transpose <perm = [0, 2, 1, 3]> (v{i}h)
  product{i} = MatMul (q{i}t, k{i}t)
  scores{i} = Mul (product{i}, scale)
  weights{i} = Softmax (scores{i})
  mixed{i} = MatMul (weights{i}, v{i}t)
  mixed{i}t = Transpose <perm = [0, 2, 1, 3]> (mixed{i})
  merged{i} = Reshape (mixed{i}t, width)
  projected{i} = MatMul (merged{i}, out{i})
  sum{i} = Add (h{i}, projected{i})
  norm{i} = LayerNormalization (sum{i}, gain, shift)
  wide{i} = MatMul (norm{i}, up{i})
  active{i} = Relu (wide{i})
  narrow{i} = MatMul (active{i}, down{i})
  sum{i}b = Add (norm{i}, narrow{i})
  h{next} = LayerNormalization (sum{i}b, gain, shift)
"""

BLOCK = """
  conv{i}a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (h{i}, w{i}a)
  relu{i} = Relu (conv{i}a)
  conv{i}b = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (relu{i}, w{i}b)
  skip{i} = Add (h{i}, conv{i}b)
  h{next} = Relu (skip{i})
"""


def encoder() -> tuple[str, dict[str, tuple[int, ...]]]:
    """The text of the model, and the shapes of its weights."""
    shapes: dict[str, tuple[int, ...]] = {"embedding": (WORDS, WIDTH),
                                          "head": (WIDTH, 2)}
    body = "  h0 = Gather (embedding, tokens)\n"
    for i in range(LAYERS):
        body += ATTENTION.format(i=i, next=i + 1)
        for name in ("query", "key", "value", "out"):
            shapes[f"{name}{i}"] = (WIDTH, WIDTH)
        shapes[f"up{i}"] = (WIDTH, 4 * WIDTH)
        shapes[f"down{i}"] = (4 * WIDTH, WIDTH)
    depth = WIDTH // HEADS
    gains, shifts = (", ".join([value] * WIDTH) for value in "10")
    return f"""<ir_version: 8, opset_import: ["" : 17]>
encoder (int64[batch, length] tokens) => (float[batch, 2] classes)
<int64[4] heads = {{0, 0, {HEADS}, {depth}}}, int64[3] width = {{0, 0, {WIDTH}}},
 float scale = {{{depth ** -0.5}}},
 float[{WIDTH}] gain = {{{gains}}}, float[{WIDTH}] shift = {{{shifts}}}> {{
{body}
  pooled = ReduceMean <axes = [1], keepdims = 0> (h{LAYERS})
  classes = MatMul (pooled, head)
}}""", shapes


def classifier() -> tuple[str, dict[str, tuple[int, ...]]]:
    channels, blocks = 16, 4
    shapes: dict[str, tuple[int, ...]] = {"stem": (channels, 3, 3, 3),
                                          "head": (channels, 10)}
    body = ("  h0 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]>"
            " (image, stem)\n")
    for i in range(blocks):
        body += BLOCK.format(i=i, next=i + 1)
        shapes[f"w{i}a"] = shapes[f"w{i}b"] = (channels, channels, 3, 3)
    return f"""<ir_version: 8, opset_import: ["" : 17]>
classifier (float[batch, 3, 32, 32] image) => (float[batch, 10] classes) {{
{body}
  pooled = ReduceMean <axes = [2, 3], keepdims = 0> (h{blocks})
  classes = MatMul (pooled, head)
}}""", shapes


def scale(name: str, shape: tuple[int, ...]) -> float:
    """Keeps activations about as large as they are, and starts near nothing
    where a sum or the classes follow."""
    inputs = numpy.prod(shape[1:] if len(shape) == 4 else shape[:1])
    last = name == "head" or (len(shape) == 4 and name.endswith("b"))
    return float((2 / inputs) ** 0.5) * (0.1 if last else 1)


def main(kind: str, path: str) -> None:
    text, shapes = {"encoder": encoder, "classifier": classifier}[kind]()
    model = onnx.parser.parse_model(text)
    random = numpy.random.default_rng(0)
    for name, shape in shapes.items():
        values = random.standard_normal(shape) * scale(name, shape)
        model.graph.initializer.append(numpy_helper.from_array(
            values.astype(numpy.float32), name))
    onnx.checker.check_model(model)
    onnx.save(model, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
