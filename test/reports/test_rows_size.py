"""Reports of files that grow, and of weights that are stored twice."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from memopt_program import analyze, memopt, node, parse, rewrite, save, tensor

MIB = 1 << 20


def ops(model: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in model.graph.node]


def test_R01_tile_of_a_constant_is_not_stored(tmp_path):
    """Tiling a 4 KiB constant to 4 MiB stays an operation: folded, it would
    be 1,024 times as large in the file."""
    model = parse("""
    g (float[1, 1024, 1024] x) => (float[1, 1024, 1024] y)
    <int64[3] repeats = {1, 1024, 1}> {
      tiled = Tile(w, repeats)
      y = Add(x, tiled)
    }""")
    model.graph.initializer.append(numpy_helper.from_array(
        np.arange(1024, dtype=np.float32).reshape(1, 1, 1024), "w"))
    name = save(model, tmp_path)
    report, out = rewrite(name, cwd=tmp_path)
    assert ops(out) == ["Tile", "Add"]
    grown = ((tmp_path / "out.onnx").stat().st_size -
             (tmp_path / name).stat().st_size)
    assert grown <= 2048
    assert report["weights"]["bytes"] == 1024 * 4 + 3 * 8
    assert tensor(report, "tiled")["bytes"] == 4 * MIB
    # What folding costs is said: 4 MiB less the 4 KiB that it replaces.
    assert len(growth_notes(report)) == 1
    assert "4.00 MiB more" in growth_notes(report)[0]
    loaded = loaded_bytes(name, tmp_path)
    assert abs(loaded - 4 * MIB) < 4096


def test_R02_constant_of_shape_is_an_activation(tmp_path):
    """A generated constant takes memory while it is used, and none in the
    file."""
    report, out = rewrite(save(parse("""
    g (float[512, 512] x) => (float[512, 512] y)
    <int64[2] shape = {512, 512}> {
      zeros = ConstantOfShape(shape)
      y = Add(x, zeros)
    }"""), tmp_path), cwd=tmp_path)
    assert ops(out) == ["ConstantOfShape", "Add"]
    assert tensor(report, "zeros")["kind"] == "activation"
    assert tensor(report, "zeros")["bytes"] == MIB
    assert report["weights"]["bytes"] == 16
    # The node alone holds its result; the sum cannot be written over it.
    assert report["nodes"][0]["live_bytes"] == MIB


@pytest.mark.parametrize("element, bytes_each", [
    (TensorProto.INT8, 1.0), (TensorProto.UINT8, 1.0), (TensorProto.INT4, 0.5),
])
def test_R05_quantized_weights_stay_small(tmp_path, element, bytes_each):
    """A quantized weight counts as what it is; its dequantized form is an
    activation, and is not stored."""
    shape = [64, 32, 3, 3]
    count = int(np.prod(shape))
    weight = TensorProto(name="w", data_type=element, dims=shape,
                         raw_data=bytes(int(count * bytes_each)))
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["w", "scale"], ["wf"]),
         helper.make_node("Conv", ["x", "wf"], ["y"], pads=[1, 1, 1, 1])],
        "g", [helper.make_tensor_value_info("x", 1, [1, 32, 16, 16])],
        [helper.make_tensor_value_info("y", 1, [1, 64, 16, 16])],
        [weight, numpy_helper.from_array(np.float32(0.5), "scale")])
    name = save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10),
        tmp_path)
    report, out = rewrite(name, cwd=tmp_path)
    assert ops(out) == ["DequantizeLinear", "Conv"]
    assert tensor(report, "w")["bytes"] == count * bytes_each
    assert report["weights"]["bytes"] == count * bytes_each + 4
    assert tensor(report, "wf")["kind"] == "activation"
    assert tensor(report, "wf")["bytes"] == count * 4
    assert ((tmp_path / "out.onnx").stat().st_size <=
            (tmp_path / name).stat().st_size)


def int8_layers() -> onnx.ModelProto:
    """An int8 embedding and matrix that are cast and scaled for use, and a
    product in integers, which stays one."""
    rng = np.random.default_rng(0)
    model = parse("""
    <ir_version: 8, opset_import: ["" : 13]>
    g (int64[1, 16] ids) => (float[1, 16, 64] y)
    <float scale = {0.02}, int8 zero = {0}> {
      real_words = Cast<to = 1>(words)
      table = Mul(real_words, scale)
      rows = Gather(table, ids)
      q, q_scale, q_zero = DynamicQuantizeLinear(rows)
      product = MatMulInteger(q, w, q_zero, zero)
      real = Cast<to = 1>(product)
      y = Mul(real, q_scale)
    }""")
    model.graph.initializer.extend([
        numpy_helper.from_array(
            rng.integers(-127, 127, (4096, 64), np.int8), "words"),
        numpy_helper.from_array(
            rng.integers(-127, 127, (64, 64), np.int8), "w")])
    return model


def loaded_bytes(name: str, folder) -> int:
    """The size of the model as ONNX Runtime has it after it was loaded."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC)
    options.optimized_model_filepath = str(folder / "loaded.onnx")
    onnxruntime.InferenceSession(folder / name, options,
                                 providers=["CPUExecutionProvider"])
    return (folder / "loaded.onnx").stat().st_size


def growth_notes(report: dict) -> list[str]:
    return [n for n in report["weights"]["notes"] if "ONNX Runtime" in n]


def test_F03_int8_model_does_not_grow_and_the_runtime_is_warned_of(tmp_path):
    """The file stays as small; what ONNX Runtime will make of it when it
    loads the model is said, and is what it does."""
    name = save(int8_layers(), tmp_path)
    size = (tmp_path / name).stat().st_size
    report, _ = rewrite(name, cwd=tmp_path)
    assert (tmp_path / "out.onnx").stat().st_size <= size
    assert len(growth_notes(report)) == 1
    assert "768 KiB more" in growth_notes(report)[0]  # 256 Ki x (4 - 1)
    grown = loaded_bytes(name, tmp_path) - size
    assert abs(grown - 768 * 1024) < 4096


def test_F03_no_warning_where_the_runtime_keeps_the_weights(tmp_path):
    """ONNX Runtime does not fold DequantizeLinear: no growth, no warning."""
    model = parse("""
    <ir_version: 8, opset_import: ["" : 13]>
    g (float[1, 512] x) => (float[1, 512] y)
    <float scale = {0.02}, int8 zero = {0}> {
      real = DequantizeLinear(w, scale, zero)
      y = MatMul(x, real)
    }""")
    model.graph.initializer.append(numpy_helper.from_array(
        np.ones((512, 512), np.int8), "w"))
    name = save(model, tmp_path)
    size = (tmp_path / name).stat().st_size
    assert growth_notes(analyze(name, cwd=tmp_path)) == []
    assert loaded_bytes(name, tmp_path) - size < 4096


def test_R24_tied_weight_stored_transposed(tmp_path):
    """Equal copies are merged; a transposed copy is reported with its bytes
    and left as it is."""
    table = np.random.default_rng(1).standard_normal(
        (1000, 32)).astype(np.float32)
    model = parse("""
    g (int64[1, 8] ids) => (float[1, 8, 1000] logits, float[1, 8, 32] again) {
      x = Gather(embedding, ids)
      logits = MatMul(x, head)
      again = Gather(copy, ids)
    }""")
    model.graph.initializer.extend([
        numpy_helper.from_array(table, "embedding"),
        numpy_helper.from_array(np.ascontiguousarray(table.T), "head"),
        numpy_helper.from_array(table, "copy")])
    name = save(model, tmp_path)
    before = analyze(name, cwd=tmp_path)["weights"]
    assert before["bytes"] == 3 * table.nbytes
    assert before["duplicate_bytes"] == table.nbytes
    assert before["transposed_bytes"] == table.nbytes
    assert any('"head"' in n and "transposed" in n and "125 KiB" in n
               for n in before["notes"])

    report, out = rewrite(name, cwd=tmp_path)
    assert [t.name for t in out.graph.initializer] == ["embedding", "head"]
    assert report["weights"]["after_bytes"] == 2 * table.nbytes
    assert memopt(name, "--analyze", cwd=tmp_path).stdout.count(
        "transposed") == 1


def test_R26_weight_of_both_branches_counts_once(tmp_path):
    """A weight that both branches of an If read is one weight, and a note
    names it."""
    def branch(graph_name: str, op: str) -> onnx.GraphProto:
        return helper.make_graph(
            [helper.make_node(op, ["x", "big"], [f"{graph_name}_y"])],
            graph_name, [],
            [helper.make_tensor_value_info(f"{graph_name}_y", 1, [256, 256])])

    graph = helper.make_graph(
        [helper.make_node("If", ["cond"], ["y"], name="choose",
                          then_branch=branch("then", "Add"),
                          else_branch=branch("else", "Sub"))],
        "g", [helper.make_tensor_value_info("cond", TensorProto.BOOL, []),
              helper.make_tensor_value_info("x", 1, [256, 256])],
        [helper.make_tensor_value_info("y", 1, [256, 256])],
        [numpy_helper.from_array(np.ones((256, 256), np.float32), "big")])
    name = save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10),
        tmp_path)
    report = analyze(name, cwd=tmp_path)
    assert report["weights"]["bytes"] == 256 * 256 * 4
    assert report["weights"]["count"] == 1
    assert [n for n in report["weights"]["notes"] if '"big"' in n]
    assert node(report, "choose")["live_bytes"] == 256 * 256 * 4
