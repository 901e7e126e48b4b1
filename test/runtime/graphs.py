"""Models for the runtime model's tests: random graphs, and loops and branches.

In a random graph every tensor is [R, 1024] floats, R * 4 KiB; values may be
read many times, or not at all; operators are in place, views, or neither.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

COLUMNS = 1024


def info(name, shape, element=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def model(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "graph", inputs, outputs,
                              list(initializers))
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def constant(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


class RandomGraph:
    """A model from a seed, with `count` operators or a few more."""

    def __init__(self, seed, count, rows):
        self.rng = np.random.default_rng(seed)
        self.nodes = []
        self.initializers = []
        self.rows = {"x": rows, "w": rows // 2}
        for _ in range(count):
            self.add()

    def pick(self):
        names = list(self.rows)
        # Late ones more often: long chains, and some that live long.
        weights = np.arange(1, len(names) + 1, dtype=float)
        return str(self.rng.choice(names, p=weights / weights.sum()))

    def node(self, op, inputs, rows, **attributes):
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"],
                                           name=name, **attributes))
        if rows:
            self.rows[f"{name}_out"] = rows
        return f"{name}_out"

    def constant(self, values):
        name = f"c{len(self.initializers)}"
        self.initializers.append(constant(name, values))
        return name

    def add(self):
        source = self.pick()
        rows = self.rows[source]
        kind = self.rng.integers(0, 12)
        if kind < 5:
            op = ["Sin", "Cos", "Relu", "Tanh", "Sigmoid"][kind]
            self.node(op, [source], rows)
        elif kind < 8:
            same = [n for n, r in self.rows.items() if r == rows]
            other = str(self.rng.choice(same))
            self.node(["Add", "Mul", "Sub"][kind - 5], [source, other], rows)
        elif kind == 8 and rows < 4096:
            self.node("Concat", [source, source], 2 * rows, axis=0)
        elif kind == 9 and rows > 64:
            self.node("Slice", [source, self.constant([0]),
                                self.constant([rows // 2]),
                                self.constant([0])], rows // 2)
        elif kind == 10:
            flat = self.node("Reshape",
                             [source, self.constant([rows * COLUMNS])], 0)
            back = self.node("Exp", [flat], 0)
            self.node("Reshape",
                      [back, self.constant([rows, COLUMNS])], rows)
        else:
            shape = self.node("Shape", [source], 0)
            self.node("Reshape", [source, shape], rows)

    def build(self):
        made = [n for n in self.rows if n not in ("x", "w")]
        read = {name for node in self.nodes for name in node.input}
        ends = [n for n in made if n not in read]
        # One value that nobody reads stays that way, if there are several.
        outputs = ends[1:] if len(ends) > 2 else ends
        return model(
            self.nodes,
            [info(n, [self.rows[n], COLUMNS]) for n in ("x", "w")],
            [info(n, [self.rows[n], COLUMNS]) for n in outputs],
            self.initializers)


def subgraph(name, nodes, inputs, outputs):
    return helper.make_graph(nodes, name, inputs, outputs)


def scan(axis):
    """Eight steps along `axis`, with two intermediate tensors of 2 MiB."""
    node = helper.make_node
    part, whole = [512, 1024], [8, 512, 1024]
    if axis == 1:
        whole = [512, 8, 1024]
    body = subgraph("body", [node("Sin", ["part"], ["s"]),
                             node("Cos", ["s"], ["c"]),
                             node("Add", ["s", "c"], ["done"])],
                    [info("part", part)], [info("done", part)])
    return model([node("Sin", ["x"], ["s0"]),
                  node("Scan", ["s0"], ["y"], num_scan_inputs=1, body=body,
                       scan_input_axes=[axis], scan_output_axes=[axis])],
                 [info("x", whole)], [info("y", whole)])


def scan_with_state():
    node = helper.make_node
    part, whole = [512, 1024], [8, 512, 1024]
    body = subgraph("body", [node("Add", ["state", "part"], ["next"]),
                             node("Sin", ["next"], ["s"]),
                             node("Cos", ["s"], ["done"])],
                    [info("state", part), info("part", part)],
                    [info("next", part), info("done", part)])
    return model([node("Scan", ["i", "x"], ["z", "y"], num_scan_inputs=1,
                       body=body)],
                 [info("i", part), info("x", whole)],
                 [info("z", part), info("y", whole)])


def loop():
    node = helper.make_node
    part, whole = [512, 1024], [8, 512, 1024]
    body = subgraph("body", [node("Identity", ["go"], ["go_on"]),
                             node("Gather", ["all", "trip"], ["part"], axis=0),
                             node("Sin", ["part"], ["s"]),
                             node("Add", ["state", "s"], ["next"]),
                             node("Cos", ["s"], ["done"])],
                    [info("trip", [], TensorProto.INT64),
                     info("go", [], TensorProto.BOOL), info("state", part)],
                    [info("go_on", [], TensorProto.BOOL), info("next", part),
                     info("done", part)])
    return model([node("Sin", ["x"], ["all"]),
                  node("Loop", ["trips", "", "i"], ["z", "y"], body=body),
                  node("Abs", ["y"], ["a"])],
                 [info("i", part), info("x", whole)],
                 [info("z", part), info("a", whole)],
                 [numpy_helper.from_array(np.array(8, np.int64), "trips")])


def branch():
    """An If that takes the branch with the larger peak."""
    node = helper.make_node
    shape = [1024, 1024]
    then = subgraph("then", [node("Sin", ["s0"], ["s"]),
                             node("Cos", ["s"], ["c"]),
                             node("Add", ["s", "c"], ["t"])], [],
                    [info("t", shape)])
    otherwise = subgraph("else", [node("Relu", ["s0"], ["e"])], [],
                         [info("e", shape)])
    return model([node("Sin", ["x"], ["s0"]),
                  node("If", ["c0"], ["z"], then_branch=then,
                       else_branch=otherwise),
                  node("Cos", ["z"], ["y"])],
                 [info("x", shape), info("c0", [], TensorProto.BOOL)],
                 [info("y", shape)])


def held_buffer():
    """64 MiB that die early are held for a later tensor of their shape."""
    node = helper.make_node
    return model(
        [node("Sin", ["x"], ["a"]),
         node("ReduceMax", ["a"], ["m"], keepdims=1),
         node("Add", ["w", "m"], ["b"]), node("Sin", ["b"], ["c"]),
         node("ReduceMax", ["c"], ["n"], keepdims=1),
         node("Add", ["x", "n"], ["d"]),
         node("ReduceMax", ["d"], ["y"], keepdims=1)],
        [info("x", [16384, COLUMNS]), info("w", [12288, COLUMNS])],
        [info("y", [1, 1])])


def save(proto, path):
    onnx.save(proto, str(path))
    return path
