"""share-initializers lets a Gemm read a transposed copy as the original: the
same bits come out, for one row and for many."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import runtime
from programs import Programs

TITLE = "transposed weights"


def tied(op: str, rows: int, **attributes) -> onnx.ModelProto:
    table = np.random.default_rng(0).standard_normal(
        (200, 96), dtype=np.float32)
    weight = table if attributes.get("transB") else table.T
    # The copy is that of a table that is looked into: transposed or not.
    kept = table if not attributes.get("transB") else table.T
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["x"]),
         helper.make_node(op, ["h", "w"], ["y"], **attributes)], "tied",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [rows]),
         helper.make_tensor_value_info("h", TensorProto.FLOAT, [rows, 96])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 200]),
         helper.make_tensor_value_info("x", TensorProto.FLOAT,
                                       [rows, kept.shape[1]])],
        [numpy_helper.from_array(np.ascontiguousarray(kept), "table"),
         numpy_helper.from_array(np.ascontiguousarray(weight), "w")])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("op, attributes", [
    ("MatMul", {}), ("Gemm", {}), ("Gemm", {"transB": 1, "alpha": 0.5})])
def test_same_bits(op, attributes, rows, bin_dir, tmp_path, tallies):
    model = tied(op, rows, **attributes)
    source, output = tmp_path / "tied.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    Programs(bin_dir).optimize(source, output, "--passes=share-initializers")
    shared = onnx.load(output)
    onnx.checker.check_model(shared, full_check=True)
    assert [t.name for t in shared.graph.initializer] == ["table"]
    assert output.stat().st_size < 0.6 * source.stat().st_size
    rng = np.random.default_rng(1)
    feeds = {"ids": runtime.feed_value(
        rng.integers(0, 90, [rows]), TensorProto.INT64),
             "h": runtime.feed_value(rng.standard_normal(
                 (rows, 96), dtype=np.float32), TensorProto.FLOAT)}
    for level in (runtime.NONE, runtime.ALL):
        before = runtime.run(model, feeds, level)
        after = runtime.run(shared, feeds, level)
        assert not runtime.differences(before, after, set())
        tallies[TITLE].add("runs compared")
