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
