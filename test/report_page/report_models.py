"""Models whose reports the browser opens: one with hostile names, a long one."""

import random

import onnx
from onnx import TensorProto, helper

# Each tries to end the element that it is in, to run, or to deceive the eye.
HOSTILE_NAMES = [
    "</script><script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 2'>",
    "\"'><svg onload=window.pwned=3>",
    "<!--<script>",
    "line\u2028separator\u2029and\u0000nothing",
    "\u202egnp.exe",
    "javascript:window.pwned=4",
    "${window.pwned=5}",
]


def model_of(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def hostile() -> onnx.ModelProto:
    """A chain in which everything that has a name has a hostile one."""
    names = [f"{i} {name}" for i, name in enumerate(HOSTILE_NAMES)]
    nodes = [helper.make_node("Exp", [a], [b], name=f"node {b}")
             for a, b in zip(names, names[1:])]
    shape = [HOSTILE_NAMES[0], 64]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name in (names[0], names[-1])]
    return model_of(helper.make_graph(nodes, HOSTILE_NAMES[1], info[:1],
                                      info[1:]))


def branches(stages: int = 5, size: int = 112) -> onnx.ModelProto:
    """Stages of four branches that widen and narrow again, stored breadth
    first: run branch by branch it takes a fraction. For pictures."""
    nodes, weights = [], []

    def conv(source: str, name: str, channels: tuple[int, int]) -> str:
        weight = TensorProto(name=f"{name}.weight", dims=[*channels, 1, 1],
                             data_type=TensorProto.FLOAT,
                             raw_data=bytes(4 * channels[0] * channels[1]))
        weights.append(weight)
        nodes.append(helper.make_node("Conv", [source, weight.name], [name],
                                      name=f"/{name.replace('.', '/')}"))
        return name

    def relu(source: str) -> str:
        name = f"{source}_relu"
        nodes.append(helper.make_node("Relu", [source], [name],
                                      name=f"/{name.replace('.', '/')}"))
        return name

    x = "image"
    inputs = 3
    for stage in range(stages):
        at = f"stage{stage}"
        x = conv(x, f"{at}.stem", (32, inputs))
        inputs = 64
        tops = [relu(conv(x, f"{at}.branch{i}.widen", (64 + 32 * i, 32)))
                for i in range(4)]
        narrow = [conv(top, f"{at}.branch{i}.narrow", (16, 64 + 32 * i))
                  for i, top in enumerate(tops)]
        x = f"{at}.join"
        nodes.append(helper.make_node("Concat", narrow, [x], axis=1,
                                      name=f"/{at}/join"))
    shapes = {"image": [1, 3, size, size], x: [1, 64, size, size]}
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in shapes.items()]
    return model_of(helper.make_graph(nodes, "branches", infos[:1], infos[1:],
                                      weights))


def long_chain(count: int) -> onnx.ModelProto:
    """`count` nodes in layers with skip connections of several lengths, so
    that tens of buffers of different sizes live at a time."""
    rng = random.Random(7)
    nodes = []
    recent = ["x"]
    for i in range(count):
        name = f"/block{i // 100}/layer{i // 10}/node{i}"
        kind = i % 5
        if kind == 4:
            other = recent[rng.randrange(max(0, len(recent) - 60),
                                         len(recent))]
            node = helper.make_node("Add", [recent[-1], other], [f"t{i}"],
                                    name=name)
        else:
            op = ("Exp", "Relu", "Sin", "Neg")[kind]
            node = helper.make_node(op, [recent[-1]], [f"t{i}"], name=name)
        nodes.append(node)
        recent.append(f"t{i}")
    # What nobody has read lives to its own step only; these live to the end.
    outputs = [f"t{i}" for i in range(0, count, count // 16)] + [recent[-1]]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, 1024])
             for name in ["x", *dict.fromkeys(outputs)]]
    return model_of(helper.make_graph(nodes, "long", infos[:1], infos[1:]))


def with_lengths(layers: int = 4, width: int = 64) -> onnx.ModelProto:
    """Layers with a residual connection, for any batch and length."""
    nodes, weights = [], []
    x = "x"
    for i in range(layers):
        for name, dims in (("up", (width, 4 * width)),
                           ("down", (4 * width, width))):
            weights.append(TensorProto(
                name=f"{name}{i}", dims=dims, data_type=TensorProto.FLOAT,
                raw_data=bytes(16 * width * width)))
        nodes += [
            helper.make_node("MatMul", [x, f"up{i}"], [f"wide{i}"],
                             name=f"/layer{i}/up"),
            helper.make_node("Relu", [f"wide{i}"], [f"relu{i}"],
                             name=f"/layer{i}/relu"),
            helper.make_node("MatMul", [f"relu{i}", f"down{i}"],
                             [f"narrow{i}"], name=f"/layer{i}/down"),
            helper.make_node("Add", [x, f"narrow{i}"], [f"sum{i}"],
                             name=f"/layer{i}/add")]
        x = f"sum{i}"
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT,
                                           ["batch", "length", width])
             for name in ("x", x)]
    return model_of(helper.make_graph(nodes, "lengths", infos[:1], infos[1:],
                                      weights))
