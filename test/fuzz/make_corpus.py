#!/usr/bin/env python3
"""Makes the seeds of the fuzz target import_fuzz.

    python test/fuzz/make_corpus.py [FOLDER]

Writes `seed-NAME.onnx` files: operator cases of the onnx package that differ in
structure, and small models for what no case has (local functions, external
data, sparse initializers, dynamic shapes, payloads). Files of other names are
inputs that once found a fault; they stay.
"""

import pathlib
import sys

import onnx
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.backend.test.case.node import collect_testcases

FOLDER = pathlib.Path(__file__).parent / "corpus" / "import_fuzz"
MAX_BYTES = 6500

CASES = [
    "add_bcast", "attention_4d", "batchnorm_example", "bernoulli",
    "cast_FLOAT_to_FLOAT8E4M3FN", "concat_2d_axis_1", "constant",
    "constantofshape_float_ones", "constant_pad", "dequantizelinear_int4",
    "einsum_batch_matmul", "expand_dim_changed", "gather_0", "if", "if_opt",
    "if_seq", "identity_opt", "layer_normalization_2d_axis0_expanded", "loop11",
    "loop13_seq", "loop16_seq_none", "lstm_defaults",
    "nonmaxsuppression_suppress_by_IOU", "range_float_type_positive_delta",
    "range_float_type_positive_delta_expanded",
    "resize_downsample_scales_cubic", "reshape_reordered_all_dims",
    "scan9_sum", "scan_sum", "sequence_insert_at_back",
    "sequence_map_add_1_sequence_1_tensor",
    "sequence_map_add_1_sequence_1_tensor_expanded", "shape_start_1_end_2",
    "slice_negative_axes", "split_to_sequence_1",
    "split_variable_parts_1d_opset18", "string_concat", "top_k",
    "unique_sorted_with_axis",
    "ai_onnx_ml_label_encoder_tensor_mapping",
]

DYNAMIC = """
<ir_version: 8, opset_import: ["" : 17]>
dynamic (float[batch, seq, 8] x, float[?, 8] y, float[0] z)
  => (float[batch, heads, seq, 4] q)
<float[8, 8] w, int64[2] tail = {2, 4}, int64[1] axis = {0}>
{
  p = MatMul(x, w)
  shape = Shape(p)
  zero = Constant <value = int64 {0}> ()
  one = Constant <value = int64 {1}> ()
  b = Gather(shape, zero)
  s = Gather(shape, one)
  bu = Unsqueeze(b, axis)
  su = Unsqueeze(s, axis)
  target = Concat <axis = 0> (bu, su, tail)
  r = Reshape(p, target)
  q = Transpose <perm = [0, 2, 1, 3]> (r)
  dead = Relu(y)
}
"""

FUNCTIONS = """
<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
calls (float[2, n] x) => (float[2, n] y, float[2, n] same)
{
  t = local.twice (x)
  y = local.outer <scale = 2.0> (t, x)
  same = local.pass (x)
}
<domain: "local", opset_import: ["" : 18]>
twice (a) => (b) { b = Add(a, a) }
<domain: "local", opset_import: ["" : 18, "local" : 1]>
outer <scale> (a, c) => (d)
{
  e = local.twice (a)
  k = Constant <value_float: float = @scale> ()
  f = Mul(e, k)
  d = Sub(f, c)
}
<domain: "local", opset_import: ["" : 18]>
pass (a) => (a) { b = Neg(a) }
"""

NESTED = """
<ir_version: 9, opset_import: ["" : 18]>
nested (float[4] x, bool c, int64 n) => (float[4] y, float[k, 4] rows)
<bool yes = {1}>
{
  outer = Relu(x)
  y, rows = Loop (n, yes, outer) <body = body
    (int64 i, bool go, float[4] carried)
      => (bool again, float[4] next, float[4] row)
    {
      again = Identity(go)
      next = If (c) <
        then_branch = then_graph () => (float[4] a)
          { b = Exp(carried) a = Add(b, outer) },
        else_branch = else_graph () => (float[4] a) { a = Neg(carried) }
      >
      row = Sigmoid(next)
    }>
  unused = Tanh(outer)
}
"""

SCAN = """
<ir_version: 9, opset_import: ["" : 18]>
scans (float[8] init, float[3, t, 8] xs) => (float[8] last, float[8, t, 3] all)
{
  last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1],
    scan_output_axes = [1], body = step
    (float[8] state, float[3, 8] slice)
      => (float[8] new_state, float[8, 3] out)
    {
      out = Transpose <perm = [1, 0]> (slice)
      sum = ReduceSum <keepdims = 0> (slice, axis)
      new_state = Add(state, sum)
    }> (init, xs)
}
"""


def from_text(text: str) -> onnx.ModelProto:
    return parser.parse_model(text)


def scan_model() -> onnx.ModelProto:
    model = from_text(SCAN)
    model.graph.initializer.append(
        helper.make_tensor("axis", TensorProto.INT64, [1], [0]))
    return model


def dynamic_model() -> onnx.ModelProto:
    model = from_text(DYNAMIC)
    model.graph.input[1].type.tensor_type.shape.dim[0].Clear()
    model.graph.value_info.append(
        helper.make_tensor_value_info("p", TensorProto.FLOAT, [3, "lie", 8]))
    return model


def external_tensor(name: str, dims: list[int], **places: int):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims,
                         data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "weights.data", **places}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def weights_model() -> onnx.ModelProto:
    """Initializers of every kind: external, sparse, typed, raw, repeated."""
    raw = helper.make_tensor("raw", TensorProto.FLOAT, [2, 2], bytes(16),
                             raw=True)
    again = TensorProto()
    again.CopyFrom(raw)
    again.name = "again"
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [2], [1.0, 2.0])
    indices = helper.make_tensor("indices", TensorProto.INT64, [2], [0, 3])
    nodes = [
        helper.make_node("Sum", ["x", "raw", "again", "outside"], ["a"]),
        helper.make_node("Add", ["a", "typed"], ["b"]),
        helper.make_node("Add", ["b", "sparse"], ["y"]),
    ]
    matrix = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "weights",
        [matrix("x", TensorProto.FLOAT, [2, 2]),
         matrix("raw", TensorProto.FLOAT, [2, 2])],
        [matrix("y", TensorProto.FLOAT, [2, 2]),
         matrix("again", TensorProto.FLOAT, [2, 2])],
        initializer=[
            raw, again,
            helper.make_tensor("typed", TensorProto.FLOAT16, [2], [1, 2]),
            helper.make_tensor("text", TensorProto.STRING, [1], [b"abc"]),
            external_tensor("outside", [2, 2], offset=4096, length=16),
            external_tensor("outside_too", [2, 2], offset=4096, length=16),
        ],
        sparse_initializer=[
            helper.make_sparse_tensor(values, indices, [2, 2])])
    graph.quantization_annotation.add(tensor_name="a")
    return helper.make_model(graph, ir_version=10,
                             opset_imports=[helper.make_opsetid("", 18)])


def payload_model() -> onnx.ModelProto:
    """Weights large enough to be kept out of the skeleton, two of them equal,
    one in a Constant."""
    import numpy
    numbers = numpy.arange(288, dtype=numpy.float32).reshape(12, 24)
    flat = numpy_helper.from_array(numbers, "w")
    nodes = [
        helper.make_node("Constant", [], ["k"],
                         value=numpy_helper.from_array(numbers + 1)),
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "w2"], ["b"]),
        helper.make_node("Mul", ["b", "k"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "payloads",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [12, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        initializer=[flat, numpy_helper.from_array(numbers, "w2")])
    return helper.make_model(graph, ir_version=10,
                             opset_imports=[helper.make_opsetid("", 18)])


def unsorted_model() -> onnx.ModelProto:
    """Nodes that are not sorted, without names, of unknown domains."""
    nodes = [
        helper.make_node("Mystery", ["b", "", "x"], ["y", ""],
                         domain="nowhere", number=3, list=[1.0, 2.0]),
        helper.make_node("FusedMatMul", ["a", "x"], ["b"],
                         domain="com.microsoft", transA=1),
        helper.make_node("Split", ["x"], ["a", "rest"], axis=0, num_outputs=2),
    ]
    graph = helper.make_graph(
        nodes, "unsorted",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", -1])])
    return helper.make_model(
        graph, ir_version=10,
        opset_imports=[helper.make_opsetid("", 18),
                       helper.make_opsetid("com.microsoft", 1)])


MODELS = {
    "dynamic": dynamic_model,
    "functions": lambda: from_text(FUNCTIONS),
    "nested": lambda: from_text(NESTED),
    "payloads": payload_model,
    "scan-axes": scan_model,
    "unsorted": unsorted_model,
    "weights": weights_model,
}


def main() -> int:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    seeds = {name: make().SerializeToString() for name, make in MODELS.items()}
    wanted = {f"test_{name}" for name in CASES}
    for case in collect_testcases(None):
        if case.name in wanted:
            wanted.discard(case.name)
            seeds[case.name[5:]] = case.model.SerializeToString()
    if wanted:
        print("no such cases:", *sorted(wanted), file=sys.stderr)
    total = 0
    for name, data in sorted(seeds.items()):
        if len(data) > MAX_BYTES:
            print(f"{name}: {len(data)} bytes, left out", file=sys.stderr)
            continue
        total += len(data)
        (folder / f"seed-{name}.onnx").write_bytes(data)
    print(f"{len(seeds)} seeds, {total} bytes")
    return 1 if wanted else 0


if __name__ == "__main__":
    sys.exit(main())
