"""Small models that tests of estimates need."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model_of(nodes, inputs, outputs, weights, name="g") -> onnx.ModelProto:
    def infos(values):
        return [helper.make_tensor_value_info(*value) for value in values]
    return helper.make_model(
        helper.make_graph(nodes, name, infos(inputs), infos(outputs), weights),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def unet(levels: int = 4, blocks: int = 2, width: int = 8,
         size: int = 64) -> onnx.ModelProto:
    """Residual blocks down to small images and up again, with the result of
    each block on the way down read on the way up, as in a U-Net."""
    nodes, weights = [], []

    def conv(source, name, channels, stride=1, kernel=3):
        weights.append(numpy_helper.from_array(
            np.zeros((*channels, kernel, kernel), np.float32), f"{name}.w"))
        nodes.append(helper.make_node(
            "Conv", [source, f"{name}.w"], [name], name=name,
            pads=[kernel // 2] * 4, strides=[stride] * 2))
        return name

    def block(source, name, channels):
        shortcut = source
        if channels[0] != channels[1]:
            shortcut = conv(source, f"{name}.skip", channels, kernel=1)
        nodes.append(helper.make_node("Relu", [source], [f"{name}.r1"]))
        first = conv(f"{name}.r1", f"{name}.c1", channels)
        nodes.append(helper.make_node("Relu", [first], [f"{name}.r2"]))
        second = conv(f"{name}.r2", f"{name}.c2", (channels[0], channels[0]))
        nodes.append(helper.make_node("Add", [shortcut, second],
                                      [f"{name}.sum"]))
        return f"{name}.sum"

    x = conv("x", "stem", (width, 3))
    skips = []
    for level in range(levels):
        for i in range(blocks):
            x = block(x, f"down{level}.{i}", (width, width))
            skips.append(x)
        if level + 1 < levels:
            x = conv(x, f"down{level}.pool", (width, width), stride=2)
    x = block(x, "middle", (width, width))
    scales = numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "x2")
    weights.append(scales)
    for level in reversed(range(levels)):
        for i in range(blocks):
            name = f"up{level}.{i}"
            nodes.append(helper.make_node("Concat", [x, skips.pop()],
                                          [f"{name}.cat"], axis=1))
            x = block(f"{name}.cat", name, (width, 2 * width))
        if level > 0:
            nodes.append(helper.make_node("Resize", [x, "", "x2"],
                                          [f"up{level}.size"], mode="nearest"))
            x = f"up{level}.size"
    x = conv(x, "y", (3, width))
    shape = [1, 3, size, size]
    return model_of(nodes, [("x", TensorProto.FLOAT, shape)],
                    [(x, TensorProto.FLOAT, shape)], weights, "unet")


def half_with_float_softmax(rows: int = 64) -> onnx.ModelProto:
    """A 16-bit model that computes its softmax in float32."""
    weights = [numpy_helper.from_array(
        np.zeros((rows, rows), np.float16), name) for name in ("w1", "w2")]
    cast = [helper.make_node("Cast", ["h"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("Cast", ["s"], ["half"], to=TensorProto.FLOAT16)]
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["h"]), cast[0],
             helper.make_node("Softmax", ["wide"], ["s"]), cast[1],
             helper.make_node("MatMul", ["half", "w2"], ["y"])]
    shape = [1, rows, rows]
    return model_of(nodes, [("x", TensorProto.FLOAT16, shape)],
                    [("y", TensorProto.FLOAT16, shape)], weights)
