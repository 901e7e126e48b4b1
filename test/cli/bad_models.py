"""Models that are broken or hostile, as bytes, by name.

Each maker gets the folder that the model will be in, and may put other files
there. BROKEN must be refused; ODD is legal, or may be read in part, and must
not be refused, crash or take long.
"""

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from memopt_program import parse

Maker = Callable[..., bytes]
BROKEN: dict[str, tuple[Maker, str]] = {}  # with a word of the message
ODD: dict[str, Maker] = {}


def broken(word: str):
    def register(maker: Maker) -> Maker:
        BROKEN[maker.__name__] = (maker, word)
        return maker
    return register


def odd(maker: Maker) -> Maker:
    ODD[maker.__name__] = maker
    return maker


def info(name: str, dims, element=TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, dims)


def model(nodes, inputs, outputs, initializers=(), functions=(),
          opset: int = 18) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(
        graph, functions=list(functions), ir_version=10,
        opset_imports=[helper.make_opsetid("", opset),
                       helper.make_opsetid("f", 1)])


def sample() -> bytes:
    """A small valid model."""
    return parse("""
    g (float[2, 3] x) => (float[2, 3] y)
    <float[3] w = {1, 2, 3}, int64[2] shape = {2, 3}> {
      a = Add(x, w)
      b = Reshape(a, shape)
      y = Relu(b)
    }""").SerializeToString()


def unary(op: str = "Relu") -> onnx.ModelProto:
    return model([helper.make_node(op, ["x"], ["y"], name="n")],
                 [info("x", [4])], [info("y", [4])])


@broken("empty")
def empty(folder):
    return b""


@broken("text")
def text(folder):
    return b"not a model, but a letter\n" * 40


@broken("byte")
def random_bytes(folder):
    return random.Random(1).randbytes(100_000)


@broken("graph")
def no_graph(folder):
    return onnx.ModelProto(ir_version=8).SerializeToString()


@broken("cycle")
def cyclic_graph(folder):
    return model([helper.make_node("Add", ["x", "b"], ["a"], name="n1"),
                  helper.make_node("Relu", ["a"], ["b"], name="n2")],
                 [info("x", [4])], [info("b", [4])]).SerializeToString()


@broken('"y"')
def duplicate_result(folder):
    return model([helper.make_node("Relu", ["x"], ["y"]),
                  helper.make_node("Exp", ["x"], ["y"])],
                 [info("x", [4])], [info("y", [4])]).SerializeToString()


@broken('"w"')
def duplicate_initializer(folder):
    w = numpy_helper.from_array(np.ones(4, np.float32), "w")
    return model([helper.make_node("Add", ["x", "w"], ["y"])],
                 [info("x", [4])], [info("y", [4])],
                 [w, w]).SerializeToString()


@broken('"x"')
def duplicate_input(folder):
    return model([helper.make_node("Relu", ["x"], ["y"])],
                 [info("x", [4]), info("x", [4])],
                 [info("y", [4])]).SerializeToString()


@broken('"ghost"')
def undefined_operand(folder):
    return model([helper.make_node("Add", ["x", "ghost"], ["y"], name="sum")],
                 [info("x", [4])], [info("y", [4])]).SerializeToString()


@broken('"ghost"')
def undefined_output(folder):
    return model([helper.make_node("Relu", ["x"], ["y"])],
                 [info("x", [4])], [info("ghost", [4])]).SerializeToString()


@broken('"ghost"')
def undefined_in_a_branch(folder):
    branch = helper.make_graph([helper.make_node("Relu", ["ghost"], ["b"])],
                               "branch", [], [info("b", [4])])
    return model([helper.make_node("If", ["c"], ["y"], then_branch=branch,
                                   else_branch=branch)],
                 [info("c", [], TensorProto.BOOL)],
                 [info("y", [4])]).SerializeToString()


@broken('"x"')
def negative_input_dim(folder):
    result = unary()
    dim = result.graph.input[0].type.tensor_type.shape.dim[0]
    dim.dim_value = -7
    return result.SerializeToString()


@broken('"w"')
def negative_weight_dim(folder):
    w = TensorProto(name="w", data_type=1, dims=[-4], raw_data=bytes(16))
    return model([helper.make_node("Add", ["x", "w"], ["y"])],
                 [info("x", [4])], [info("y", [4])], [w]).SerializeToString()


@broken('"x"')
def input_dims_near_the_limit(folder):
    return model([helper.make_node("Relu", ["x"], ["y"])],
                 [info("x", [2**62, 2**62])],
                 [info("y", [2**62, 2**62])]).SerializeToString()


@broken('"w"')
def weight_dims_near_the_limit(folder):
    w = TensorProto(name="w", data_type=1, dims=[2**62, 8], raw_data=b"")
    return model([helper.make_node("Add", ["x", "w"], ["y"])],
                 [info("x", [4])], [info("y", [4])], [w]).SerializeToString()


@broken('"w"')
def million_dim_weight(folder):
    w = TensorProto(name="w", data_type=1, dims=[1] * 1_000_000,
                    raw_data=bytes(4))
    return model([helper.make_node("Add", ["x", "w"], ["y"])],
                 [info("x", [4])], [info("y", [4])], [w]).SerializeToString()


@broken('"x"')
def million_dim_input(folder):
    return model([helper.make_node("Relu", ["x"], ["y"])],
                 [info("x", [1] * 1_000_000)],
                 [info("y", [4])]).SerializeToString()


@broken("calls itself")
def function_calls_itself(folder):
    function = helper.make_function(
        "f", "again", ["a"], ["b"],
        [helper.make_node("again", ["a"], ["b"], domain="f")],
        [helper.make_opsetid("f", 1)])
    return model([helper.make_node("again", ["x"], ["y"], domain="f")],
                 [info("x", [4])], [info("y", [4])],
                 functions=[function]).SerializeToString()


@broken("calls itself")
def functions_call_each_other(folder):
    functions = [helper.make_function(
        "f", name, ["a"], ["b"],
        [helper.make_node(other, ["a"], ["b"], domain="f")],
        [helper.make_opsetid("f", 1)])
        for name, other in (("ping", "pong"), ("pong", "ping"))]
    return model([helper.make_node("ping", ["x"], ["y"], domain="f")],
                 [info("x", [4])], [info("y", [4])],
                 functions=functions).SerializeToString()


@broken("expand")
def functions_expand_exponentially(folder):
    """30 functions, each with ten calls of the next: 10^30 nodes."""
    functions = []
    for i in range(30):
        op, domain = ("Relu", "") if i == 29 else (f"f{i + 1}", "f")
        names = ["a", *(f"t{j}" for j in range(9)), "b"]
        functions.append(helper.make_function(
            "f", f"f{i}", ["a"], ["b"],
            [helper.make_node(op, [p], [q], domain=domain)
             for p, q in zip(names, names[1:])],
            [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]))
    return model([helper.make_node("f0", ["x"], ["y"], domain="f")],
                 [info("x", [4])], [info("y", [4])],
                 functions=functions).SerializeToString()


@broken("expand")
def branches_expand_exponentially(folder):
    """Functions that put the graph they are given into both branches of an
    If, each given a graph that calls the next: 2^25 nodes."""
    choose = helper.make_node("If", ["c"], ["b"])
    for name in ("then_branch", "else_branch"):
        choose.attribute.add(name=name, ref_attr_name="g",
                             type=onnx.AttributeProto.GRAPH)
    functions = [helper.make_function(
        "f", f"twice{i}", ["c"], ["b"], [choose],
        [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)], ["g"])
        for i in range(25)]
    node = helper.make_node("Identity", ["c"], ["r25"])
    for i in reversed(range(25)):
        inner = helper.make_graph([node], f"g{i}", [], [info(f"r{i + 1}",
                                                             [4])])
        node = helper.make_node(f"twice{i}", ["c"], [f"r{i}"], domain="f",
                                g=inner)
    return model([node], [info("c", [], TensorProto.BOOL), info("x", [4])],
                 [info("r0", [4])], functions=functions).SerializeToString()


def field(number: int, data: bytes) -> bytes:
    """A length-delimited protobuf field."""
    def varint(value: int) -> bytes:
        out = b""
        while value > 0x7f:
            out += bytes([value & 0x7f | 0x80])
            value >>= 7
        return out + bytes([value])
    return varint(number << 3 | 2) + varint(len(data)) + data


def nested(depth: int) -> bytes:
    """Identity nodes that hold graphs that hold nodes, and so on."""
    outer = unary("Identity")
    inner = b""
    for _ in range(depth):
        attribute = (field(1, b"body") + b"\xa0\x01\x05" + field(6, inner))
        node = (field(1, b"x") + field(2, b"z") + field(4, b"Op") +
                field(5, attribute) + field(7, b"unknown.domain"))
        inner = field(1, node)
    head = onnx.ModelProto()
    head.CopyFrom(outer)
    head.ClearField("graph")
    graph = outer.graph.SerializeToString() + inner
    return head.SerializeToString() + field(7, graph)


@broken("nested")
def subgraphs_nested_10000_deep(folder):
    return nested(10_000)


@broken("nested")
def subgraphs_nested_80_deep(folder):
    return nested(80)


def with_external(**entries: str) -> bytes:
    w = TensorProto(name="w", data_type=1, dims=[4],
                    data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        w.external_data.add(key=key, value=value)
    return model([helper.make_node("Add", ["x", "w"], ["y"])],
                 [info("x", [4])], [info("y", [4])], [w]).SerializeToString()


@broken("..")
def external_above_the_folder(folder):
    (folder.parent / "outside.bin").write_bytes(bytes(16))
    return with_external(location="../outside.bin")


@broken("..")
def external_through_dots(folder):
    return with_external(location="sub/../../outside.bin")


@broken("absolute")
def external_absolute(folder):
    return with_external(location="/etc/hostname")


@broken("symbolic link")
def external_symlink(folder):
    (folder.parent / "outside.bin").write_bytes(bytes(16))
    (folder / "w.bin").symlink_to(folder.parent / "outside.bin")
    return with_external(location="w.bin")


@broken("symbolic link")
def external_symlinked_folder(folder):
    (folder / "sub").symlink_to(folder.parent)
    return with_external(location="sub/outside.bin")


@broken("regular")
def external_folder(folder):
    (folder / "w.bin").mkdir()
    return with_external(location="w.bin")


@broken("location")
def external_nowhere(folder):
    return with_external(offset="0")


@broken("offset")
def external_negative_offset(folder):
    return with_external(location="w.bin", offset="-4", length="16")


@broken("offset")
def external_huge_offset(folder):
    return with_external(location="w.bin", offset="99999999999999999999")


@broken("large")
def external_offset_near_the_limit(folder):
    return with_external(location="w.bin", offset=str(2**63 - 5))


@broken("length")
def external_negative_length(folder):
    return with_external(location="w.bin", length="-16")


@broken("length")
def external_huge_length(folder):
    return with_external(location="w.bin", length=str(2**62))


@broken("offset")
def external_offset_no_number(folder):
    return with_external(location="w.bin", offset="0x10")


@broken("16 bytes")
def external_beyond_the_end(folder):
    (folder / "w.bin").write_bytes(bytes(16))
    return with_external(location="w.bin", offset="8")


@odd
def external_missing(folder):
    return with_external(location="w.bin")


@odd
def many_inputs(folder):
    count = 100_000
    return model([helper.make_node("Relu", ["x0"], ["y"])],
                 [info(f"x{i}", [4]) for i in range(count)],
                 [info("y", [4])]).SerializeToString()


@odd
def control_characters_in_names(folder):
    names = ["\x1b[31mred", "two\nlines", "bell\x07", "\u202eflipped",
             "tab\tand\rreturn"]
    nodes = [helper.make_node("Relu", [a], [b], name=b)
             for a, b in zip(names, names[1:])]
    return model(nodes, [info(names[0], [4])],
                 [info(names[-1], [4])]).SerializeToString()


@odd
def names_that_are_not_utf8(folder):
    data = model([helper.make_node("Relu", ["xxxx"], ["yyyy"])],
                 [info("xxxx", [4])], [info("yyyy", [4])]).SerializeToString()
    return data.replace(b"xxxx", b"\xff\xfe\xc0x").replace(
        b"yyyy", b"\xf0\x28\x8cy")


@odd
def long_attribute_list(folder):
    return model([helper.make_node("Relu", ["x"], ["y"],
                                   values=list(range(2_000_000)))],
                 [info("x", [4])], [info("y", [4])]).SerializeToString()


@odd
def many_attributes(folder):
    node = helper.make_node("Relu", ["x"], ["y"])
    for i in range(100_000):
        node.attribute.add(name=f"a{i}", type=onnx.AttributeProto.INT, i=i)
    return model([node], [info("x", [4])],
                 [info("y", [4])]).SerializeToString()


def sized_by(op: str, operands: list[str], values: dict,
             **attributes) -> bytes:
    """A node whose result is as large as the constants that it reads say."""
    return model([helper.make_node(op, operands, ["y"], name="huge",
                                   **attributes)],
                 [info("x", [4, 4])], [info("y", None)],
                 [numpy_helper.from_array(np.array(v, np.int64), k)
                  for k, v in values.items()]).SerializeToString()


@broken("2^63 bytes")
def huge_tile(folder):
    return sized_by("Tile", ["x", "r"], {"r": [2**40, 2**40]})


@odd
def huge_range(folder):
    return sized_by("Range", ["a", "b", "c"],
                    {"a": -2**62, "b": 2**62, "c": 1})


@broken("2^63 bytes")
def huge_constant_of_shape(folder):
    return sized_by("ConstantOfShape", ["s"], {"s": [2**40, 2**40]})


@odd
def huge_pad(folder):
    return sized_by("Pad", ["x", "p"],
                    {"p": [2**62, 2**62, 2**62, 2**62]})


@broken("2^63 bytes")
def huge_expand(folder):
    return sized_by("Expand", ["x", "s"], {"s": [2**62, 1, 1]})


@odd
def negative_constant_of_shape(folder):
    return sized_by("ConstantOfShape", ["s"], {"s": [-5, 3]})


@odd
def reshape_to_two_gib_elements(folder):
    return sized_by("Reshape", ["x", "s"], {"s": [2**31]})


@broken('node "huge" (ConstantOfShape): tensor "s" asks for 1000000')
def million_dim_shape_value(folder):
    return sized_by("ConstantOfShape", ["s"], {"s": [1] * 1_000_000})


@broken('node "huge" (Reshape): tensor "s" asks for 1000000')
def million_dim_reshape(folder):
    return sized_by("Reshape", ["x", "s"], {"s": [1] * 1_000_000})


@broken('node "huge" (RandomNormal): attribute "shape" asks for 1000000')
def million_dim_attribute(folder):
    return sized_by("RandomNormal", [], {}, shape=[1] * 1_000_000)


@odd
def unknown_ops(folder):
    return model([helper.make_node("Nobody", ["x"], ["a"], domain="knows"),
                  helper.make_node("Knows", ["a", "x"], ["y"], domain="f")],
                 [info("x", [4])], [info("y", [4])]).SerializeToString()


@odd
def wrong_number_of_operands(folder):
    return model([helper.make_node("Add", ["x"], ["a"]),
                  helper.make_node("Relu", ["a", "x", "x"], ["y", "z"])],
                 [info("x", [4])], [info("y", [4])]).SerializeToString()


# One type of each way to store elements: raw, and each typed field.
STORED = [(TensorProto.FLOAT, "float_data", 4),
          (TensorProto.COMPLEX64, "float_data", 8),
          (TensorProto.FLOAT16, "int32_data", 2),
          (TensorProto.BFLOAT16, "int32_data", 2),
          (TensorProto.INT8, "int32_data", 1),
          (TensorProto.BOOL, "int32_data", 1),
          (TensorProto.INT32, "int32_data", 4),
          (TensorProto.INT4, "int32_data", 0.5),
          (TensorProto.FLOAT8E4M3FN, "int32_data", 1),
          (TensorProto.INT64, "int64_data", 8),
          (TensorProto.DOUBLE, "double_data", 8),
          (TensorProto.COMPLEX128, "double_data", 16),
          (TensorProto.UINT64, "uint64_data", 8),
          (TensorProto.UINT32, "uint64_data", 4),
          (TensorProto.STRING, "string_data", 0)]


def short_weight(element: int, where: str) -> bytes:
    """A weight of 10 elements of which only 4 are there."""
    w = TensorProto(name="short", data_type=element, dims=[10])
    if where == "raw_data":
        width = next(width for e, _, width in STORED if e == element)
        w.raw_data = bytes(int(4 * width))
    elif where == "string_data":
        w.string_data.extend([b"a"] * 4)
    else:
        getattr(w, where).extend([0] * 4)
    return model([helper.make_node("Identity", ["short"], ["y"])], [],
                 [info("y", [10], element)], [w]).SerializeToString()
