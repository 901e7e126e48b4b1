"""Random networks over images: what reaches across the border of a part.

    model, sizes = image_models.make(random.Random(7))

Convolutions of all strides, dilations, paddings and groups, pooling, Resize,
DepthToSpace, residual sums, joined branches. `sizes` are the height and width
that the model takes; with a named extent, several pairs.
"""

import random

import numpy as np
import onnx
from onnx import helper

# An extent is never smaller than this, so that every window covers an element.
SMALLEST = 7


class Builder:
    """Nodes one after the other, on the latest tensor of each resolution."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.nodes = []
        self.weights = []
        self.numbers = np.random.default_rng(rng.randrange(1 << 30))
        # Name, channels, and what the extent has been multiplied by.
        self.tensors = [("image", 4, 1.0)]

    def weight(self, shape, scale=1.0) -> str:
        name = f"w{len(self.weights)}"
        values = self.numbers.standard_normal(shape).astype(np.float32) * scale
        self.weights.append(onnx.numpy_helper.from_array(values, name))
        return name

    def constant(self, values, dtype) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(
            np.array(values, dtype), name))
        return name

    def add(self, op, inputs, channels, scale, **attributes) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name],
                                           name=f"n{len(self.nodes)}",
                                           **attributes))
        self.tensors.append((name, channels, scale))

    def step(self) -> None:
        self.rng.choice([
            self.conv, self.conv, self.conv, self.activation, self.pool,
            self.normalize, self.resize, self.depth_to_space,
            self.conv_transpose, self.join, self.join])()

    def conv(self) -> None:
        x, channels, scale = self.tensors[-1]
        rng = self.rng
        stride = 1 if scale < 0.5 else rng.choice([1, 1, 1, 2])
        kernel = rng.choice([1, 2, 3, 3, 5])
        dilation = rng.choice([1, 1, 2]) if stride == 1 else 1
        group = rng.choice([1, 1, 2, channels])
        if channels % group:
            group = 1
        out = channels if group > 1 else rng.choice([4, 8])
        attributes = {"strides": [stride, stride],
                      "dilations": [dilation, dilation], "group": group,
                      "kernel_shape": [kernel, kernel]}
        if dilation == 1 and rng.random() < 0.3:
            attributes["auto_pad"] = rng.choice(["SAME_UPPER", "SAME_LOWER"])
        else:
            reach = (kernel - 1) * dilation
            before = [rng.randint(reach // 2, reach) for _ in range(2)]
            after = [rng.randint(reach // 2, reach) for _ in range(2)]
            if rng.random() < 0.6:  # the extent stays
                after = [reach - b for b in before]
            attributes["pads"] = before + after
        fan = kernel * kernel * channels // group
        self.add("Conv", [x, self.weight((out, channels // group, kernel,
                                          kernel), fan ** -0.5),
                          self.weight((out,))], out, scale / stride,
                 **attributes)

    def conv_transpose(self) -> None:
        x, channels, scale = self.tensors[-1]
        if scale >= 2:
            return self.activation()
        kernel = self.rng.choice([2, 3, 4])
        pads = [self.rng.randint(0, 1) for _ in range(4)]
        return self.add(
            "ConvTranspose",
            [x, self.weight((channels, 4, kernel, kernel), 0.3)], 4, scale * 2,
            strides=[2, 2], pads=pads, kernel_shape=[kernel, kernel])

    def activation(self) -> None:
        x, channels, scale = self.tensors[-1]
        if self.rng.random() < 0.3:
            return self.add("PRelu", [x, self.weight((channels, 1, 1))],
                            channels, scale)
        return self.add(self.rng.choice(["Relu", "Sigmoid", "Tanh"]), [x],
                        channels, scale)

    def normalize(self) -> None:
        self.rng.choice([self.batch_norm, self.instance_norm,
                         self.group_norm, self.squeeze])()

    def instance_norm(self) -> None:
        x, channels, scale = self.tensors[-1]
        self.add("InstanceNormalization",
                 [x, self.weight((channels,)), self.weight((channels,))],
                 channels, scale, epsilon=1e-3)

    def group_norm(self) -> None:
        """As PyTorch's exporter writes it."""
        x, channels, scale = self.tensors[-1]
        groups = channels // self.rng.choice([2, 4])
        self.nodes.append(helper.make_node("Shape", [x], [f"{x}/shape"]))
        self.add("Reshape", [x, self.constant([0, groups, -1], np.int64)],
                 channels, scale)
        self.add("InstanceNormalization",
                 [self.tensors[-1][0], self.weight((groups,)),
                  self.weight((groups,))], channels, scale)
        self.add("Reshape", [self.tensors[-1][0], f"{x}/shape"], channels,
                 scale)
        self.add("Mul", [self.tensors[-1][0], self.weight((channels, 1, 1))],
                 channels, scale)
        self.add("Add", [self.weight((channels, 1, 1)), self.tensors[-1][0]],
                 channels, scale)
        # What is between them is none of the images.
        self.tensors[-6:-1] = self.tensors[-6:-5]

    def squeeze(self) -> None:
        """What the mean of the image says scales each channel."""
        x, channels, scale = self.tensors[-1]
        mean = f"{x}/mean"
        self.nodes.append(helper.make_node(
            *self.rng.choice([
                ("GlobalAveragePool", [x], [mean]),
                ("ReduceMax", [x, self.constant([2, -1], np.int64)], [mean]),
            ])))
        self.nodes.append(helper.make_node("Sigmoid", [mean], [f"{mean}/gate"]))
        self.add("Mul", [x, f"{mean}/gate"], channels, scale)

    def batch_norm(self) -> None:
        x, channels, scale = self.tensors[-1]
        variance = self.constant(np.linspace(0.5, 2, channels), np.float32)
        self.add("BatchNormalization",
                 [x, self.weight((channels,)), self.weight((channels,)),
                  self.weight((channels,)), variance], channels, scale)

    def pool(self) -> None:
        x, channels, scale = self.tensors[-1]
        rng = self.rng
        kernel = rng.choice([2, 3])
        stride = 1 if scale < 0.5 else rng.choice([1, 2])
        ceil_mode = rng.randint(0, 1)
        # A last window that is all padding: releases of onnx and of the
        # runtime differ on whether it is there.
        most = 0 if ceil_mode else kernel - 1
        attributes = {
            "kernel_shape": [kernel, kernel], "strides": [stride, stride],
            "pads": [rng.randint(0, kernel - 1) for _ in range(2)]
                    + [rng.randint(0, most) for _ in range(2)],
            "ceil_mode": ceil_mode}
        op = rng.choice(["MaxPool", "AveragePool"])
        if op == "AveragePool":
            attributes["count_include_pad"] = rng.randint(0, 1)
        self.add(op, [x], channels, scale / stride, **attributes)

    def resize(self) -> None:
        x, channels, scale = self.tensors[-1]
        if scale >= 2:
            return self.activation()
        mode = self.rng.choice(["nearest", "linear"])
        attributes = {"mode": mode, "coordinate_transformation_mode":
                      self.rng.choice(["asymmetric", "half_pixel"])}
        if mode == "nearest":
            attributes["nearest_mode"] = "floor"
        return self.add(
            "Resize", [x, "", self.constant([1, 1, 2, 2], np.float32)],
            channels, scale * 2, **attributes)

    def depth_to_space(self) -> None:
        x, channels, scale = self.tensors[-1]
        if channels % 8 or scale >= 2:
            return self.conv()
        return self.add("DepthToSpace", [x], channels // 4, scale * 2,
                        blocksize=2, mode=self.rng.choice(["DCR", "CRD"]))

    def join(self) -> None:
        """A branch of its own, put together with what it started from."""
        x, channels, scale = self.tensors[-1]
        branch = x
        for _ in range(self.rng.randint(1, 2)):
            reach = self.rng.choice([1, 3, 5])
            before = self.rng.randint(0, reach - 1)
            after = reach - 1 - before
            self.add("Conv", [branch, self.weight(
                (channels, channels, reach, reach), 0.2)], channels, scale,
                pads=[before, before, after, after],
                kernel_shape=[reach, reach])
            branch = self.tensors[-1][0]
        if self.rng.random() < 0.7:
            return self.add("Add", [x, branch], channels, scale)
        return self.add("Concat", [x, branch], 2 * channels, scale, axis=1)


def make(rng: random.Random) -> tuple[onnx.ModelProto, list]:
    """The model, and pairs of height and width that it takes."""
    builder = Builder(rng)
    for _ in range(rng.randint(2, 7)):
        builder.step()
        if builder.tensors[-1][1] > 16:
            break
    named = rng.random() < 0.4
    sizes = [(rng.randint(4 * SMALLEST, 60), rng.randint(4 * SMALLEST, 60))]
    if named:
        sizes += [(4 * SMALLEST, 61), (90, 33)]
    shape = ["height", "width"] if named else list(sizes[0])
    outputs = [builder.tensors[-1][0]]
    if len(builder.tensors) > 3 and rng.random() < 0.3:
        outputs.append(builder.tensors[-3][0])
    graph = helper.make_graph(
        builder.nodes, "image_model",
        [helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT,
                                       [1, 4, *shape])],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
         for name in outputs], builder.weights)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model), sizes
