"""Writes a transformer of any size, to measure how the program scales.

Each layer is an encoder block as exporters write it when every attention head
has weights of its own: 160 nodes, of which 12 for each of 12 heads.

    x - LayerNorm - 12 x (q, k, v, scores, softmax, context) - Concat - project
      - add - LayerNorm - MatMul - gelu (5 nodes) - MatMul - add

The weights are external, in a file that is as long as they are but stores
nothing: all of them read as zero. By default they count 28 MB a layer.

usage: generate.py OUT.onnx [--nodes N | --layers N] [--hidden N] [--ffn N]
"""

import argparse
import os
import sys

from onnx import (ModelProto, TensorProto, ValueInfoProto, helper)

HEADS = 12
NODES_PER_LAYER = 160
ALIGNMENT_BYTES = 4096
OPSET = 18


class Builder:
    """Nodes and initializers of the model under construction."""

    def __init__(self, data_name):
        self.model = ModelProto(ir_version=9, producer_name="bench")
        self.model.opset_import.add(domain="", version=OPSET)
        self.graph = self.model.graph
        self.graph.name = "transformer"
        self.data_name = data_name
        self.data_bytes = 0
        # The parts of the names of what is being added.
        self.scope = ""

    def node(self, op_type, inputs, output, **attributes):
        output = f"{self.scope}/{output}"
        self.graph.node.append(
            helper.make_node(op_type, inputs, [output],
                             name=f"{output}/{op_type}", **attributes))
        return output

    def weight(self, name, *dims):
        """A float initializer in the data file."""
        size_bytes = 4
        for dim in dims:
            size_bytes *= dim
        tensor = self.graph.initializer.add(
            name=f"{self.scope}.{name}", dims=dims,
            data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        for key, value in (("location", self.data_name),
                           ("offset", self.data_bytes),
                           ("length", size_bytes)):
            tensor.external_data.add(key=key, value=str(value))
        self.data_bytes += -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        return tensor.name

    def constant(self, name, value):
        """A float scalar in the model file."""
        self.graph.initializer.append(
            helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
        return name

    def linear(self, x, name, fan_in, fan_out):
        y = self.node("MatMul",
                      [x, self.weight(f"{name}.weight", fan_in, fan_out)],
                      f"{name}_matmul")
        return self.node("Add", [y, self.weight(f"{name}.bias", fan_out)],
                         name)

    def norm(self, x, name, hidden):
        return self.node("LayerNormalization",
                         [x, self.weight(f"{name}.weight", hidden),
                          self.weight(f"{name}.bias", hidden)],
                         name, axis=-1, epsilon=1e-5)

    def head(self, x, mask, hidden):
        size = hidden // HEADS
        q = self.linear(x, "query", hidden, size)
        k = self.linear(x, "key", hidden, size)
        v = self.linear(x, "value", hidden, size)
        k = self.node("Transpose", [k], "key_transposed", perm=[0, 2, 1])
        scores = self.node("MatMul", [q, k], "scores")
        scores = self.node("Mul", [scores, "scale"], "scaled")
        scores = self.node("Add", [scores, mask], "masked")
        scores = self.node("Softmax", [scores], "probabilities", axis=-1)
        return self.node("MatMul", [scores, v], "context")

    def attention(self, x, mask, hidden):
        scope = self.scope
        normed = self.norm(x, "attention_norm", hidden)
        contexts = []
        for head in range(HEADS):
            self.scope = f"{scope}/head.{head}"
            contexts.append(self.head(normed, mask, hidden))
        self.scope = scope
        joined = self.node("Concat", contexts, "heads", axis=-1)
        y = self.linear(joined, "project", hidden, hidden)
        return self.node("Add", [x, y], "attention_residual")

    def feed_forward(self, x, hidden, ffn):
        y = self.norm(x, "ffn_norm", hidden)
        y = self.linear(y, "up", hidden, ffn)
        z = self.node("Div", [y, "sqrt2"], "gelu_scaled")
        z = self.node("Erf", [z], "gelu_erf")
        z = self.node("Add", [z, "one"], "gelu_shifted")
        z = self.node("Mul", [y, z], "gelu_product")
        z = self.node("Mul", [z, "half"], "gelu")
        z = self.linear(z, "down", ffn, hidden)
        return self.node("Add", [x, z], "ffn_residual")


def write_transformer(path, nodes, hidden=768, ffn=None, sequence=128):
    """Writes PATH and PATH.data; returns the bytes of the weights.

    What is left of `nodes` after whole layers becomes element-wise nodes.
    """
    ffn = ffn or 4 * hidden
    # One head's width; the model is as wide as its heads together.
    hidden = hidden // HEADS * HEADS
    builder = Builder(os.path.basename(path) + ".data")
    for name, value in (("scale", (hidden // HEADS) ** -0.5),
                        ("sqrt2", 2 ** 0.5), ("one", 1.0), ("half", 0.5)):
        builder.constant(name, value)
    x = "embedding"
    for layer in range(nodes // NODES_PER_LAYER):
        builder.scope = f"encoder/layer.{layer}"
        x = builder.attention(x, "mask", hidden)
        x = builder.feed_forward(x, hidden, ffn)
    builder.scope = "tail"
    for i in range(nodes % NODES_PER_LAYER):
        x = builder.node("Tanh", [x], f"tanh.{i}")
    shape = [1, sequence, hidden]
    for name, dims in (("embedding", shape), ("mask", [1, 1, sequence])):
        builder.graph.input.append(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
    output = ValueInfoProto()
    output.CopyFrom(helper.make_tensor_value_info(x, TensorProto.FLOAT, shape))
    builder.graph.output.append(output)
    with open(path, "wb") as file:
        file.write(builder.model.SerializeToString())
    with open(path + ".data", "wb") as file:
        file.truncate(builder.data_bytes)
    return builder.data_bytes


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0])
    parser.add_argument("out", metavar="OUT.onnx")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--nodes", type=int, default=10_000)
    size.add_argument("--layers", type=int)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--ffn", type=int)
    arguments = parser.parse_args()
    nodes = arguments.nodes
    if arguments.layers is not None:
        nodes = arguments.layers * NODES_PER_LAYER
    if nodes < 1 or arguments.hidden < HEADS:
        parser.error(f"expected at least one node and a width of {HEADS}")
    size_bytes = write_transformer(arguments.out, nodes, arguments.hidden,
                                   arguments.ffn)
    print(f"{arguments.out}: {nodes} nodes, {size_bytes} bytes of weights")


if __name__ == "__main__":
    sys.exit(main())
