"""factorize on weights of known rank: the rank is found, and the outputs are
those of the model before, up to rounding."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import runtime
from programs import ProgramError, Programs, peak_bytes

TITLE = "layers of low rank"


def low_rank(rng, rows: int, columns: int, rank: int) -> np.ndarray:
    return (rng.standard_normal((rows, rank))
            @ rng.standard_normal((rank, columns)) / rank).astype(np.float32)


def separable(rng, shape, rank: int) -> np.ndarray:
    """[o, i, kh, kw], of this rank by rows and columns."""
    o, i, kh, kw = shape
    matrix = low_rank(rng, i * kh, o * kw, rank)
    return matrix.reshape(i, kh, o, kw).transpose(2, 0, 1, 3).copy()


RNG = np.random.default_rng(0)
# Node, weight, where it is an operand, shape of the data, rank to be found.
LAYERS = {
    "MatMul": (("MatMul", {}), low_rank(RNG, 96, 64, 5), 1, (2, 3, 96), 5),
    "MatMul wide": (("MatMul", {}), low_rank(RNG, 64, 96, 7), 1, (4, 64), 7),
    "MatMul of a vector": (("MatMul", {}), low_rank(RNG, 64, 96, 7), 1, (64,),
                           7),
    "MatMul from the left": (("MatMul", {}), low_rank(RNG, 64, 96, 3), 0,
                             (2, 96, 5), 3),
    "MatMul with a vector": (("MatMul", {}), low_rank(RNG, 64, 96, 3), 0,
                             (96,), 3),
    "Gemm": (("Gemm", {"alpha": 0.5, "beta": 2.0}), low_rank(RNG, 96, 64, 5),
             1, (3, 96), 5),
    "Gemm transposed": (("Gemm", {"transB": 1, "transA": 1}),
                        low_rank(RNG, 64, 96, 5), 1, (96, 3), 5),
    "Conv 1x1": (("Conv", {"strides": [2, 2]}),
                 low_rank(RNG, 64, 80, 6).reshape(64, 80, 1, 1), 1,
                 (2, 80, 9, 9), 6),
    "Conv by channels": (("Conv", {"pads": [1, 0, 2, 1], "strides": [2, 1],
                                   "dilations": [1, 2]}),
                         low_rank(RNG, 64, 16 * 9, 6).reshape(64, 16, 3, 3),
                         1, (2, 16, 11, 13), 6),
    "Conv by rows and columns": (
        ("Conv", {"pads": [1, 0, 2, 1], "strides": [2, 1],
                  "dilations": [1, 2]}),
        separable(RNG, (32, 16, 5, 3), 4), 1, (2, 16, 11, 13), 4),
    "Conv with auto_pad": (("Conv", {"auto_pad": "SAME_UPPER",
                                     "strides": [2, 2]}),
                           low_rank(RNG, 64, 16 * 9, 6).reshape(64, 16, 3, 3),
                           1, (2, 16, 11, 13), 6),
    "Conv of signals": (("Conv", {"pads": [1, 1]}),
                        low_rank(RNG, 64, 32 * 3, 6).reshape(64, 32, 3), 1,
                        (2, 32, 20), 6),
}


def make_model(name: str) -> tuple[onnx.ModelProto, dict]:
    (op, attributes), weight, place, shape, _ = LAYERS[name]
    operands = ["x", "w"] if place == 1 else ["w", "x"]
    initializers = [numpy_helper.from_array(weight, "w")]
    if op != "MatMul":
        outputs = weight.shape[0] if op == "Conv" or attributes.get(
            "transB") else weight.shape[1]
        operands.append("bias")
        initializers.append(numpy_helper.from_array(
            np.linspace(-1, 1, outputs, dtype=np.float32), "bias"))
    graph = helper.make_graph(
        [helper.make_node(op, operands, ["y"], **attributes)], "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        initializers)
    model = onnx.shape_inference.infer_shapes(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    data = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    return model, {"x": runtime.feed_value(data, TensorProto.FLOAT)}


@pytest.mark.parametrize("name", LAYERS)
def test_known_rank(name, bin_dir, tmp_path, tallies):
    model, feeds = make_model(name)
    source, output = tmp_path / "layer.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    report = Programs(bin_dir).optimize(
        source, output, "--passes=factorize{max-error=1e-5,min-elements=1}")
    assert f"rank {LAYERS[name][4]} of" in report["passes"][0]["remarks"][0]
    assert output.stat().st_size < source.stat().st_size
    onnx.checker.check_model(str(output), full_check=True)
    before = runtime.run(model, feeds, runtime.NONE)["y"]
    after = runtime.run(str(output), feeds, runtime.NONE)["y"]
    assert before.shape == after.shape
    a, b = (np.frombuffer(t.data, np.float32) for t in (before, after))
    assert np.abs(a - b).max() <= 1e-5 * np.abs(a).max()
    tallies[TITLE].add("layers compared")


def test_analyze_shows_ranks(bin_dir, tmp_path):
    model, _ = make_model("MatMul")
    source = tmp_path / "layer.onnx"
    onnx.save(model, source)
    report = Programs(bin_dir).analyze(
        source, "--passes=factorize{energy=0.9,min-elements=1}")
    assert '"w" [96, 64] MatMul: rank' in report["passes"][0]["remarks"][0]
    assert list(tmp_path.iterdir()) == [source]


def test_numbers_that_are_not_finite(bin_dir, tmp_path):
    model, _ = make_model("MatMul")
    weight = LAYERS["MatMul"][1].copy()
    weight[3, 4] = np.nan
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight, "w"))
    source = tmp_path / "layer.onnx"
    onnx.save(model, source)
    with pytest.raises(ProgramError, match="not finite"):
        Programs(bin_dir).optimize(source, tmp_path / "out.onnx",
                                   "--passes=factorize")


def test_factors_are_not_held_in_memory(bin_dir, tmp_path, monkeypatch):
    # 12 weights, all of them the same 16 MiB; their factors are 152 MiB.
    count, rows, columns, rank = 12, 256, 16384, 200
    np.random.default_rng(0).standard_normal((rows, columns)).astype(
        np.float32).tofile(tmp_path / "weights")
    weights = []
    for i in range(count):
        tensor = onnx.TensorProto(name=f"w{i}", dims=[rows, columns],
                                  data_type=onnx.TensorProto.FLOAT,
                                  data_location=onnx.TensorProto.EXTERNAL)
        for key, value in (("location", "weights"), ("offset", "0"),
                           ("length", str(4 * rows * columns))):
            tensor.external_data.add(key=key, value=value)
        weights.append(tensor)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", w.name], [f"y_{w.name}"])
         for w in weights], "g",
        [helper.make_tensor_value_info("x", 1, [1, rows])],
        [helper.make_tensor_value_info(f"y_{w.name}", 1, [1, columns])
         for w in weights], weights)
    model = helper.make_model(graph, ir_version=10,
                              opset_imports=[helper.make_opsetid("", 18)])
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    written, peaks = [], []
    # Where there is no folder for them, they are held after all.
    for folder in (scratch, tmp_path / "absent"):
        monkeypatch.setenv("TMPDIR", str(folder))
        peaks.append(peak_bytes(
            bin_dir / "onnx-memopt", tmp_path / "model.onnx", "-o",
            tmp_path / "out.onnx", "-q", f"--passes=factorize{{rank={rank}}}"))
        written.append((tmp_path / "out.onnx").read_bytes())
    assert written[0] == written[1]
    assert not list(scratch.iterdir())
    factors = count * rank * (rows + columns) * 4
    # Of the others 8 MiB may be held, and one pair is on its way.
    assert peaks[0] < peaks[1] - factors + (8 + 2 * 16) * 2 ** 20
    assert peaks[0] < 4 * rows * columns + 200e6
