"""Reports of dynamic, missing and wrong shapes."""

import onnx
import pytest
from onnx import TensorProto, helper

from memopt_program import (analyze, memopt, parse, rewrite, save,
                            shared_model, tensor)

# An attention block as torch exports it without folding: sizes go through
# Shape, Gather and Concat to Reshape. No type is stated but the inputs'.
TRANSFORMER = """
<ir_version: 8, opset_import: ["" : 15]>
g (float[batch, seq, 64] x) => (float[batch, seq, 64] y)
<int64 zero = {0}, int64 one = {1}, int64[1] first = {0},
 int64[1] heads = {4}, int64[1] width = {16}, int64[1] model = {64}> {
  shape = Shape(x)
  b = Gather<axis = 0>(shape, zero)
  shape_again = Shape(x)
  s = Gather<axis = 0>(shape_again, one)
  b1 = Unsqueeze(b, first)
  s1 = Unsqueeze(s, first)
  split_shape = Concat<axis = 0>(b1, s1, heads, width)
  split = Reshape(x, split_shape)
  q = Transpose<perm = [0, 2, 1, 3]>(split)
  k = Transpose<perm = [0, 2, 3, 1]>(split)
  scores = MatMul(q, k)
  p = Softmax<axis = -1>(scores)
  mixed = MatMul(p, q)
  back = Transpose<perm = [0, 2, 1, 3]>(mixed)
  merge_shape = Concat<axis = 0>(b1, s1, model)
  merged = Reshape(back, merge_shape)
  y = Add(merged, x)
}"""


def test_R45_shape_arithmetic_is_followed(tmp_path):
    """Every tensor between Shape and Reshape gets its shape, bound or not."""
    name = save(parse(TRANSFORMER), tmp_path)
    report = analyze(name, cwd=tmp_path)
    assert report["complete"] and report["unknown_tensors"] == []
    assert tensor(report, "scores")["shape"] == "[batch, 4, seq, seq]"
    assert tensor(report, "merged")["shape"] == "[batch, seq, 64]"
    bound = analyze(name, "--dim", "batch=2", "--dim", "seq=10", cwd=tmp_path)
    assert tensor(bound, "split")["shape"] == "[2, 10, 4, 16]"
    assert tensor(bound, "scores")["bytes"] == 2 * 4 * 10 * 10 * 4


def test_R45_what_depends_on_data_is_unknown_and_not_zero(tmp_path):
    """A shape that only the run can tell is listed, and makes the report
    incomplete."""
    name = save(parse("""
    g (float[8, 8] x) => (float[a, b] y) {
      where = NonZero(x)
      counts = Cast<to = 1>(where)
      y = Neg(counts)
    }"""), tmp_path)
    report = analyze(name, cwd=tmp_path)
    assert not report["complete"]
    assert report["unknown_tensors"] == ["where", "counts", "y"]
    assert tensor(report, "counts")["bytes"] is None
    assert "unknown" in memopt(name, "--analyze", cwd=tmp_path).stdout


DETECTOR = """
g (float[batch, boxes, 4] boxes, float[batch, 80, boxes] scores)
  => (int64[n, 3] kept, float[k, 4] best)
<int64[1] limit = {100}, float[1] iou = {0.5}, float[1] least = {0.25},
 int64[1] flat = {-1}, int64[2] rows = {-1, 4}> {
  kept = NonMaxSuppression(boxes, scores, limit, iou, least)
  columns = Transpose<perm = [1, 0]>(kept)
  index = Reshape(columns, flat)
  all = Reshape(boxes, rows)
  best = Gather<axis = 0>(all, index)
}"""


@pytest.mark.parametrize("arguments", [[], ["--dim", "batch=4"]])
def test_R46_partial_result_for_a_detector(tmp_path, arguments):
    """What follows the suppression is unknown; the rest is not, and nothing
    fails."""
    name = save(parse(DETECTOR), tmp_path)
    report = analyze(name, *arguments, cwd=tmp_path)
    assert report["complete"] is False
    assert {"kept", "columns", "index", "best"} <= set(
        report["unknown_tensors"])
    assert tensor(report, "all")["bytes"] is not None
    _, out = rewrite(name, *arguments, cwd=tmp_path)
    assert out == onnx.load(tmp_path / name)


def test_R51_inputs_and_outputs_stay_dynamic(tmp_path):
    """Sizes that are bound for the report are not written to the model."""
    name = save(parse(TRANSFORMER), tmp_path)
    before = onnx.load(tmp_path / name).graph
    _, out = rewrite(name, "--dim", "batch=2", "--input-shape", "x:2,9,64",
                     cwd=tmp_path)
    for field in ("input", "output"):
        assert ([v.SerializeToString() for v in getattr(out.graph, field)] ==
                [v.SerializeToString() for v in getattr(before, field)])


@pytest.mark.parametrize("stored", [-1, 0])
def test_R54_sizes_stored_as_minus_one_or_zero(tmp_path, stored):
    """Old exporters write -1 or 0 for a size that is not known: it is read as
    dynamic, with a warning, and can be bound."""
    model = parse("g (float[1, 8] x) => (float[1, 8] y) { y = Relu(x) }")
    dim = model.graph.input[0].type.tensor_type.shape.dim[0]
    dim.dim_value = stored
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = stored
    name = save(model, tmp_path)
    report = analyze(name, cwd=tmp_path)
    assert any("dynamic" in w and '"x"' in w for w in report["warnings"])
    assert report["complete"]
    report = analyze(name, "--dim", "x[0]=5", cwd=tmp_path)
    assert tensor(report, "y")["bytes"] == 5 * 8 * 4


def stale(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with value_info for other sizes than its inputs have."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    names = [o for n in model.graph.node for o in n.output if o]
    outputs = {o.name for o in model.graph.output}
    del result.graph.value_info[:]
    result.graph.value_info.extend(
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [7, 7])
        for n in names if n not in outputs)
    return result


def sized(report: dict) -> float:
    rows = report["tensors"]
    return sum(t["bytes"] is not None for t in rows) / len(rows)


@pytest.mark.parametrize("info", ["absent", "stale"])
def test_F04_sizes_do_not_need_value_info(tmp_path, info):
    """Stored types are not needed, and do no harm where they are wrong."""
    model = parse(TRANSFORMER)
    del model.graph.value_info[:]
    name = save(stale(model) if info == "stale" else model, tmp_path)
    dims = ["--dim", "batch=2", "--dim", "seq=8"]
    report = analyze(name, *dims, cwd=tmp_path)
    assert sized(report) == 1
    assert tensor(report, "scores")["bytes"] == 2 * 4 * 8 * 8 * 4
    if info == "stale":
        assert any("follows" in w for w in report["warnings"])


@pytest.mark.parametrize("info", ["absent", "stale"])
def test_F04_bert_without_value_info(tmp_path, info):
    """At least 99 % of a real encoder's tensors, without a simplifier."""
    model = onnx.load(shared_model("bert_dyn.onnx"), load_external_data=False)
    dims = ["--dim", "batch=1", "--dim", "seq=128"]
    truth = analyze(save(model, tmp_path, "as_is.onnx"), *dims, cwd=tmp_path)
    wrong = stale(model)
    if info == "absent":
        del wrong.graph.value_info[:]
    report = analyze(save(wrong, tmp_path), *dims, cwd=tmp_path)
    assert sized(report) >= 0.99
    assert (report["before"]["live_peak_bytes"] ==
            truth["before"]["live_peak_bytes"])
