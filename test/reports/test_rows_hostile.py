"""Reports of files that are cut, wrong, or made to do harm."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from memopt_program import measured, memopt, parse, save

MB = 1000 * 1000


@pytest.mark.parametrize("location, word", [
    ("../x.bin", ".."), ("sub/../../x.bin", ".."), ("/etc/passwd", "absolute"),
    ("link.bin", "symbolic link")])
@pytest.mark.parametrize("mode", ["auto", "copy", "reference"])
def test_R21_data_outside_the_models_folder(tmp_path, location, word, mode):
    """A location that leads out of the folder is refused when it is read, so
    that nothing from there is copied into what is written."""
    folder = tmp_path / "model"
    (folder / "out").mkdir(parents=True)
    (tmp_path / "x.bin").write_bytes(bytes(16))
    (folder / "link.bin").symlink_to(tmp_path / "x.bin")
    model = parse("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    tensor = model.graph.initializer.add(
        name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    name = save(model, folder)
    for arguments in (["--analyze"], ["-o", "out/o.onnx"], []):
        if arguments != ["--analyze"]:
            arguments = [*arguments, "--external-data", mode]
        result = memopt(name, *arguments, cwd=folder)
        assert result.code == 1
        assert result.stderr.startswith('error: m.onnx: tensor "w"')
        assert word in result.stderr
    assert list((folder / "out").iterdir()) == []


def test_R21_a_reference_is_never_written_out_of_the_folder(tmp_path):
    """A model written elsewhere does not refer back with "..": it is refused,
    with the way out."""
    model = parse("g (float[4] x) => (float[4] y) { y = Add(x, w) }")
    tensor = model.graph.initializer.add(
        name="w", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (tmp_path / "out").mkdir()
    result = memopt(save(model, tmp_path), "-o", "out/o.onnx",
                    "--external-data", "reference", cwd=tmp_path)
    assert result.code == 1
    assert "copy" in result.stderr
    assert list((tmp_path / "out").iterdir()) == []


def shape_model(op: str, target: list[int]) -> onnx.ModelProto:
    operands = ["s"] if op == "ConstantOfShape" else ["x", "s"]
    graph = helper.make_graph(
        [helper.make_node(op, operands, ["y"], name="n")], "g",
        [helper.make_tensor_value_info("x", 1, [4])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.array(target, np.int64), "s")])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize("op", ["ConstantOfShape", "Expand", "Reshape", "Tile"])
@pytest.mark.parametrize("arguments", [["--analyze"], []])
def test_R22_a_shape_of_a_million_dims_is_refused(tmp_path, op, arguments):
    """One line that names node and tensor, at once, in little memory, and
    nothing is written."""
    folder = tmp_path / "model"
    folder.mkdir()
    name = save(shape_model(op, [1] * 1_000_000), folder)
    result = measured(name, *arguments, cwd=folder, tmp=tmp_path)
    assert result.code == 1
    assert result.stderr == (
        f'error: {name}: node "n" ({op}): tensor "s" asks for 1000000 '
        "dimensions, at most 1024 are allowed\n")
    assert result.cpu_seconds < 1 and result.peak_rss_bytes < 200 * MB
    assert [path.name for path in folder.iterdir()] == [name]


def test_R22_a_target_that_does_not_fit(tmp_path):
    """2^31 elements from 4: what cannot be is not taken for sized."""
    folder = tmp_path / "model"
    folder.mkdir()
    name = save(shape_model("Reshape", [2**31]), folder)
    result = measured(name, "--analyze", cwd=folder, tmp=tmp_path)
    assert result.code in (0, 1)
    assert result.cpu_seconds < 1 and result.peak_rss_bytes < 200 * MB


def test_R22_a_weight_of_enormous_shape_is_refused(tmp_path):
    """The shape that a Reshape asks for is stored with 2^31 elements of which
    none is there."""
    folder = tmp_path / "model"
    folder.mkdir()
    model = parse("g (float[4] x) => (float[n] y) { y = Reshape(x, s) }")
    model.graph.initializer.add(name="s", data_type=TensorProto.INT64,
                                dims=[2**31])
    result = measured(save(model, folder), cwd=folder, tmp=tmp_path)
    assert result.code == 1 and '"s"' in result.stderr
    assert result.cpu_seconds < 1 and result.peak_rss_bytes < 200 * MB


def test_F11_one_line_for_what_is_no_model(tmp_path):
    """Cut, text, or not there: one line with the position where there is one,
    exit code 1."""
    data = parse("g (float[4] x) => (float[4] y) { y = Relu(x) }"
                 ).SerializeToString()
    (tmp_path / "cut.onnx").write_bytes(data[:len(data) // 2])
    (tmp_path / "text.onnx").write_text("hello\n")
    for name, word in (("cut.onnx", "byte"), ("text.onnx", "text"),
                       ("missing.onnx", "no such file")):
        result = memopt(name, cwd=tmp_path)
        assert result.code == 1
        assert result.stderr.startswith(f"error: {name}: ")
        assert result.stderr.count("\n") == 1 and word in result.stderr
