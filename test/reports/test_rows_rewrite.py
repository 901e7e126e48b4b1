"""Reports of rewrites that break models, and of bad orders of nodes."""

import itertools

import ml_dtypes
import numpy as np
import onnx
import onnx.checker
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from memopt_program import (ROOT, analyze, memopt, parse, rewrite, save,
                            tensor)


def run(path, inputs: dict, optimize: bool = True) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    if not optimize:
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


HALF_PRECISION = """
g (float[1, 8] x) => (float[1, 8] y, float16[1, 8] copy) {
  y = Cast<to = 1>(sum)
  sum = Add(scaled, h)
  scaled = Mul(h, h)
  h = Cast<to = 10>(x)
  copy = Identity(h)
}"""

UNUSED = """
g (float[2, 3] x) => (float[2, 3] y) <float[3] w = {1, 2, 3}> {
  dead = Exp(x)
  a = Add(x, w)
  dead2 = Mul(dead, dead)
  y = Relu(a)
}"""


@pytest.mark.parametrize("text", [HALF_PRECISION, UNUSED])
def test_R55_every_written_model_passes_the_checker(tmp_path, text):
    """Casts were put at the end of the node list: what is written is sorted
    and passes the full check of ONNX, with inference."""
    _, out = rewrite(save(parse(text), tmp_path), cwd=tmp_path)
    onnx.checker.check_model(out, full_check=True)


def graphs_of(graph):
    """The graph and all that are nested in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_of(attribute.g)


def test_R55_the_carried_network_passes_the_checker(tmp_path):
    """The same for a real network."""
    name = save(onnx.load(ROOT / "test/models/mobilenetv3.onnx",
                          load_external_data=False), tmp_path)
    _, out = rewrite(name, cwd=tmp_path)
    for graph in graphs_of(out.graph):
        for initializer in graph.initializer:
            # The checker wants the file.
            initializer.ClearField("data_location")
            if initializer.external_data:
                del initializer.external_data[:]
                initializer.raw_data = bytes(
                    4 * int(np.prod(initializer.dims)))
    onnx.checker.check_model(out, full_check=True)


# The attention of a GPT-2 at opset 10.
GPT2_BLOCK = """
<ir_version: 5, opset_import: ["" : 10]>
g (float[1, 4, 8] x) => (float[1, 4, 8] y) {
  n1 = Transpose<perm = [0, 2, 1]>(x)
  n2 = MatMul(x, n1)
  n3 = Softmax<axis = 2>(n2)
  n4 = MatMul(n3, x)
  n5 = Identity(n4)
  n7 = Exp(n5)
  y = Add(n5, x)
}"""


def defined(graph: onnx.GraphProto) -> list[str]:
    return ([i.name for i in graph.input] +
            [i.name for i in graph.initializer] +
            [o for n in graph.node for o in n.output if o])


def test_R57_no_name_is_defined_twice(tmp_path):
    """Nothing that is written defines a tensor twice, and a model that does
    is refused by name."""
    model = parse(GPT2_BLOCK)
    model.graph.initializer.append(numpy_helper.from_array(
        np.zeros((2, 2), np.float32), "spare"))
    for node in model.graph.node:
        node.name = "same"
    _, out = rewrite(save(model, tmp_path), cwd=tmp_path)
    names = defined(out.graph)
    assert len(names) == len(set(names)) and "n7" not in names
    onnx.checker.check_model(out, full_check=True)

    model.graph.node[5].output[0] = "n4"
    result = memopt(save(model, tmp_path), cwd=tmp_path)
    assert result.code == 1
    assert '"n4"' in result.stderr and "twice" in result.stderr


def loop_with_unsorted_body() -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Add", ["doubled", "one"], ["next"]),
         helper.make_node("Identity", ["cond"], ["go_on"]),
         helper.make_node("Add", ["now", "now"], ["doubled"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
         helper.make_tensor_value_info("now", 1, [4])],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", 1, [4])])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)],
        "g", [helper.make_tensor_value_info("x", 1, [4])],
        [helper.make_tensor_value_info("y", 1, [4])],
        [numpy_helper.from_array(np.int64(3), "trips"),
         numpy_helper.from_array(np.ones(4, np.float32), "one")])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_R58_unsorted_body_is_accepted_and_sorted(tmp_path):
    """A quantizer left a Loop's body out of order: it is read with a warning,
    and sorted in what is written."""
    name = save(loop_with_unsorted_body(), tmp_path)
    report, out = rewrite(name, cwd=tmp_path)
    assert any('"body"' in w and "order" in w for w in report["warnings"])
    body = out.graph.node[0].attribute[0].g
    order = [n.output[0] for n in body.node]
    assert order.index("doubled") < order.index("next")
    onnx.checker.check_model(out, full_check=True)
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(run(tmp_path / "out.onnx", {"x": x})[0], 8 * x + 7)


def test_R59_a_name_used_by_a_branch_is_used(tmp_path):
    """What only a branch of an If reads is neither removed nor dead before
    the If has run."""
    def branch(name: str, op: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(op, ["same"], [f"{name}_y"])], name, [],
            [helper.make_tensor_value_info(f"{name}_y", 1, [64])])

    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["kept"]),
         helper.make_node("Exp", ["kept"], ["same"]),
         helper.make_node("Sin", ["x"], ["other"]),
         helper.make_node("Cos", ["other"], ["last"]),
         helper.make_node("If", ["cond"], ["y"], name="choose",
                          then_branch=branch("then", "Neg"),
                          else_branch=branch("else", "Abs"))],
        "g", [helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
              helper.make_tensor_value_info("x", 1, [64])],
        [helper.make_tensor_value_info("y", 1, [64]),
         helper.make_tensor_value_info("last", 1, [64])])
    name = save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path)
    report = analyze(name, cwd=tmp_path)
    assert tensor(report, "same")["end"] == 5  # the If is step 4
    _, out = rewrite(name, cwd=tmp_path)
    assert {"kept", "same"} <= set(defined(out.graph))
    x = np.linspace(-2, 2, 64, dtype=np.float32)
    for cond in (True, False):
        inputs = {"cond": np.array(cond), "x": x}
        for a, b in zip(run(tmp_path / name, inputs),
                        run(tmp_path / "out.onnx", inputs), strict=True):
            assert np.array_equal(a, b)


def test_R61_left_out_operands_are_no_tensors(tmp_path):
    """An empty name stands for an operand or result that is left out."""
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "", "", "h0"],
                         ["", "h", ""], hidden_size=8),
        helper.make_node("Clip", ["h", "", "top"], ["c"]),
        helper.make_node("Unsqueeze", ["c", "axis"], ["u"]),
        helper.make_node("Resize", ["u", "", "scales"], ["y"])]
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((1, 32, 4)).astype(np.float32),
               "r": rng.standard_normal((1, 32, 8)).astype(np.float32),
               "h0": np.zeros((1, 2, 8), np.float32),
               "top": np.float32(0.5), "axis": np.array([0], np.int64),
               "scales": np.array([1, 1, 2, 2], np.float32)}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [5, 2, 4])],
        [helper.make_tensor_value_info("y", 1, [1, 1, 4, 16])],
        [numpy_helper.from_array(np.asarray(v), k)
         for k, v in weights.items()])
    name = save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path)
    report, out = rewrite(name, cwd=tmp_path)
    assert "" not in [t["name"] for t in report["tensors"]]
    assert report["complete"]
    assert [list(n.input) for n in out.graph.node] == [
        list(n.input) for n in nodes]
    assert [list(n.output) for n in out.graph.node] == [
        list(n.output) for n in nodes]
    x = {"x": rng.standard_normal((5, 2, 4)).astype(np.float32)}
    assert np.array_equal(run(tmp_path / name, x)[0],
                          run(tmp_path / "out.onnx", x)[0])


def test_R63_outputs_stay(tmp_path):
    """Outputs that others read too, that are an input, or that are a weight
    stay, in name, order and type."""
    model = parse("""
    g (float[4] x) => (float[4] middle, float[4] x, float[4] w, float[4] y,
                       float[4] twin)
    <float[4] w = {1, 2, 3, 4}, float[4] twin = {1, 2, 3, 4}> {
      middle = Add(x, w)
      gone = Exp(middle)
      y = Relu(middle)
    }""")
    _, out = rewrite(save(model, tmp_path), cwd=tmp_path)
    assert ([o.SerializeToString() for o in out.graph.output] ==
            [o.SerializeToString() for o in model.graph.output])
    x = {"x": np.array([1, -2, 3, -4], np.float32)}
    for a, b in zip(run(tmp_path / "m.onnx", x),
                    run(tmp_path / "out.onnx", x), strict=True):
        assert np.array_equal(a, b)


ELEMENTS = [(name, bits) for names, bits in [
    (["INT2", "UINT2"], 2),
    (["INT4", "UINT4", "FLOAT4E2M1"], 4),
    (["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
      "FLOAT8E8M0", "INT8", "UINT8", "BOOL"], 8),
    (["FLOAT16", "BFLOAT16", "INT16", "UINT16"], 16),
    (["FLOAT", "INT32", "UINT32"], 32),
    (["DOUBLE", "INT64", "UINT64", "COMPLEX64"], 64),
    (["COMPLEX128"], 128)] for name in names if name in
    TensorProto.DataType.keys()]


@pytest.mark.parametrize("element, bits", ELEMENTS)
def test_R65_every_element_type_has_its_size(tmp_path, element, bits):
    """5 x 3 elements of each type, as a weight and as an activation; a
    fraction of a byte at the end takes a whole one."""
    kind = TensorProto.DataType.Value(element)
    size = -(-15 * bits // 8)
    graph = helper.make_graph(
        [helper.make_node("Transpose", ["w"], ["y"])], "g", [],
        [helper.make_tensor_value_info("y", kind, [3, 5])],
        [TensorProto(name="w", data_type=kind, dims=[5, 3],
                     raw_data=bytes(size))])
    report, _ = rewrite(save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11),
        tmp_path), cwd=tmp_path)
    assert report["weights"]["bytes"] == size
    assert tensor(report, "w")["bytes"] == size
    assert tensor(report, "y")["bytes"] == size
    assert report["complete"]


def test_R65_float8_quantization(tmp_path):
    """Zero points in float8: quantized tensors take a byte an element."""
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
         helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"])],
        "g", [helper.make_tensor_value_info("x", 1, [64, 64])],
        [helper.make_tensor_value_info("y", 1, [64, 64])],
        [numpy_helper.from_array(np.float32(0.5), "scale"),
         numpy_helper.from_array(
             np.zeros((), ml_dtypes.float8_e4m3fn), "zero")])
    report, _ = rewrite(save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10),
        tmp_path), cwd=tmp_path)
    assert tensor(report, "q")["bytes"] == 64 * 64
    assert tensor(report, "q")["dtype"] == "float8e4m3fn"
    assert tensor(report, "y")["bytes"] == 64 * 64 * 4


def calibration(tensors: int) -> onnx.ModelProto:
    """A chain of Conv and Relu, and after all of it a maximum of each tensor,
    as calibration for quantization appends them."""
    nodes, last, watched = [], "x", []
    for i in range(tensors // 2):
        nodes += [helper.make_node("Conv", [last, "w"], [f"c{i}"],
                                   pads=[1, 1, 1, 1]),
                  helper.make_node("Relu", [f"c{i}"], [f"r{i}"])]
        watched += [f"c{i}", f"r{i}"]
        last = f"r{i}"
    nodes += [helper.make_node("ReduceMax", [name], [f"{name}_max"],
                               keepdims=0) for name in watched]
    weight = np.random.default_rng(0).standard_normal((4, 4, 3, 3)) / 6
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [1, 4, 32, 32])],
        [helper.make_tensor_value_info(last, 1, [1, 4, 32, 32])] +
        [helper.make_tensor_value_info(f"{name}_max", 1, [])
         for name in watched],
        [numpy_helper.from_array(weight.astype(np.float32), "w")])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_R66_statistics_move_next_to_what_they_watch(tmp_path):
    """60 activations and a maximum of each at the end: all are alive at once
    before, and a few after, in the file's order; the outputs are the same bits.
    What ONNX Runtime runs is measured in test/runtime/test_rows_order.py."""
    name = save(calibration(60), tmp_path)
    report, _ = rewrite(name, "--passes=reorder{target=ideal}", cwd=tmp_path)
    size = 4 * 32 * 32 * 4
    assert report["before"]["live_peak_bytes"] >= 60 * size
    assert report["after"]["live_peak_bytes"] <= 3 * size + 60 * 4
    assert report["after"]["packed_peak_bytes"] < 4 * size + 60 * 256
    x = np.random.default_rng(1).standard_normal(
        (1, 4, 32, 32)).astype(np.float32)
    for a, b in zip(run(tmp_path / name, {"x": x}, optimize=False),
                    run(tmp_path / "out.onnx", {"x": x}, optimize=False),
                    strict=True):
        assert np.array_equal(a, b)


BRANCHES = {
    "expand": ["e = Concat<axis = 1>(x, x, x, x, x, x, x, x)",
               "e2 = ReduceMax<axes = [2], keepdims = 1>(e)"],
    "shrink": ["s = ReduceMin<axes = [1, 2], keepdims = 1>(x)",
               "s2 = Exp(s)"],
}


@pytest.mark.parametrize("first, second",
                         list(itertools.permutations(BRANCHES)))
def test_R67_the_cheaper_of_two_orders(tmp_path, first, second):
    """A branch that expands its input and one that shrinks it, joined: both
    orders in the file end at the lower peak, and none gets worse."""
    body = "\n".join(BRANCHES[first] + BRANCHES[second])
    name = save(parse(f"""
    <ir_version: 8, opset_import: ["" : 13]>
    g (float[1, 16, 64] input) => (float[1, 128, 1] y) {{
      x = Sin(input)
      {body}
      y = Add(e2, s2)
    }}"""), tmp_path)
    report, _ = rewrite(name, cwd=tmp_path)
    row = 64 * 4
    # The small result first: it then lives beside x and its eight copies.
    best = (16 + 128) * row + 4
    if first == "expand":
        assert report["before"]["live_peak_bytes"] > best
    assert report["after"]["live_peak_bytes"] <= (
        report["before"]["live_peak_bytes"])
    assert report["after"]["live_peak_bytes"] == best
