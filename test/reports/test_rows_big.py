"""Reports of large models and of data outside the model file."""

import json
import os
import pathlib

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from memopt_program import measured, memopt, parse, rewrite, save

MB = 1000 * 1000
MIB = 1 << 20


def external(name: str, dims: list[int], location: str, offset: int = 0,
             **fields: str) -> TensorProto:
    """A float tensor whose data is in another file."""
    result = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims,
                         data_location=TensorProto.EXTERNAL)
    entries = {"location": location, "offset": str(offset),
               "length": str(4 * int(np.prod(dims))), **fields}
    for key, value in entries.items():
        result.external_data.add(key=key, value=value)
    return result


def sparse_file(path: pathlib.Path, size: int, marks: list[int]) -> None:
    """A file of zeros that takes no room on the disk, with a different byte
    at each mark."""
    with open(path, "wb") as out:
        for i, mark in enumerate(marks):
            out.seek(mark)
            out.write(bytes([i + 1]))
        out.truncate(size)


def two_layers(folder: pathlib.Path) -> str:
    """A small model with its two weights in w.bin."""
    weights = np.random.default_rng(0).standard_normal(
        (2, 64, 64)).astype(np.float32)
    (folder / "w.bin").write_bytes(weights.tobytes())
    model = parse("""
    g (float[1, 64] x) => (float[1, 64] y) {
      h = MatMul(x, w0)
      unused = Neg(h)
      y = MatMul(h, w1)
    }""")
    model.graph.initializer.extend(
        [external(f"w{i}", [64, 64], "w.bin", i * 64 * 64 * 4)
         for i in range(2)])
    return save(model, folder)


def run(path: pathlib.Path, inputs: dict) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(
        path, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def test_R08_weights_beyond_2_gib_stay_on_the_disk(tmp_path):
    """2.4 GB of weights are analysed and the model rewritten without ever
    being in memory."""
    folder = tmp_path / "model"
    folder.mkdir()
    dims = [[1000, 200000], [200000, 1000], [1000, 200000]]
    sparse_file(folder / "w.bin", 2400 * MB, [0, 800 * MB, 1600 * MB])
    model = parse("""
    g (float[1, 1000] x) => (float[1, 200000] y) {
      a = MatMul(x, w0)
      b = MatMul(a, w1)
      y = MatMul(b, w2)
    }""")
    model.graph.initializer.extend(
        [external(f"w{i}", d, "w.bin", i * 800 * MB)
         for i, d in enumerate(dims)])
    name = save(model, folder)
    result = measured(name, "--analyze", "--json", "-", cwd=folder,
                      tmp=tmp_path)
    assert result.code == 0, result.stderr
    assert json.loads(result.stdout)["weights"]["bytes"] == 2400 * MB
    assert result.peak_rss_bytes < 64 * MIB
    result = measured(name, "-o", "out.onnx", cwd=folder, tmp=tmp_path)
    assert result.code == 0, result.stderr
    assert result.peak_rss_bytes < 64 * MIB


def test_R11_true_cause_of_a_file_that_is_cut_or_too_large(tmp_path):
    """A cut file is reported as cut, with the byte where it ends early, and
    one above 2 GiB as too large; never as one that lacks its opset."""
    data = parse("""
    g (float[64] x) => (float[64] y) <float[64] w = {0}> {
      y = Add(x, x)
    }""").SerializeToString()
    (tmp_path / "cut.onnx").write_bytes(data[:-20])
    result = memopt("cut.onnx", cwd=tmp_path)
    assert result.code == 1
    assert result.stderr.startswith("error: cut.onnx: ")
    assert "byte" in result.stderr and "opset" not in result.stderr

    sparse_file(tmp_path / "large.onnx", (1 << 31) + 1, [0])
    result = memopt("large.onnx", cwd=tmp_path)
    assert result.code == 1
    assert result.stderr.startswith("error: large.onnx: ")
    assert "2 GiB" in result.stderr and "opset" not in result.stderr


def test_R12_external_fields_survive_without_the_data(tmp_path):
    """With the data file absent, a rewrite leaves each external tensor as it
    was, byte by byte, extra entries and doc strings included."""
    model = parse("""
    g (float[64, 64] x) => (float[64, 64] y) {
      unused = Neg(x)
      h = MatMul(x, w0)
      y = MatMul(h, w1)
    }""")
    tensors = [external("w0", [64, 64], "absent.bin", 4096, checksum="ab12"),
               external("w1", [64, 64], "sub/absent.bin")]
    tensors[0].doc_string = "first layer"
    tensors[1].metadata_props.add(key="k", value="v")
    model.graph.initializer.extend(tensors)
    _, out = rewrite(save(model, tmp_path), cwd=tmp_path)
    assert [n.op_type for n in out.graph.node] == ["MatMul", "MatMul"]
    assert ([t.SerializeToString() for t in out.graph.initializer] ==
            [t.SerializeToString() for t in tensors])


def test_R13_output_in_another_folder_loads(tmp_path):
    """The data goes where the model goes, so that a runtime finds it."""
    name = two_layers(tmp_path)
    (tmp_path / "other" / "dir").mkdir(parents=True)
    result = memopt(name, "-o", "other/dir/out.onnx", cwd=tmp_path)
    assert result.code == 0, result.stderr
    x = np.ones((1, 64), np.float32)
    assert np.array_equal(run(tmp_path / name, {"x": x})[0],
                          run(tmp_path / "other/dir/out.onnx", {"x": x})[0])


def test_R15_every_file_written_is_listed(tmp_path):
    """Whoever publishes the model need not guess names."""
    name = two_layers(tmp_path)
    (tmp_path / "new").mkdir()
    result = memopt(name, "-o", "new/renamed.onnx", cwd=tmp_path)
    assert result.code == 0, result.stderr
    written = sorted(str(p.relative_to(tmp_path))
                     for p in (tmp_path / "new").iterdir())
    report = json.loads((tmp_path / "new/renamed.json").read_text())
    assert sorted(report["outputs"]) == written
    assert "new/renamed.onnx.data" in written
    for path in written:
        assert f"wrote {path}" in result.stdout


def test_R18_memory_is_a_fraction_of_the_model(tmp_path):
    """16 blocks with 256 MiB of weights: analysis and a rewrite that copies
    the data stay below a fifth of that, under a limit on address space."""
    folder = tmp_path / "model"
    (folder / "out").mkdir(parents=True)
    blocks, size = 16, 16 * MIB
    sparse_file(folder / "w.bin", blocks * size,
                [i * size for i in range(blocks)])
    nodes, tensors = [], []
    for i in range(blocks):
        last = "x" if i == 0 else f"h{i - 1}"
        tensors += [external(f"q{i}", [1024, 1024], "w.bin", i * size),
                    external(f"u{i}", [1024, 1024], "w.bin",
                             i * size + 4 * MIB),
                    external(f"d{i}", [2048, 1024], "w.bin",
                             i * size + 8 * MIB)]
        nodes += [
            helper.make_node("MatMul", [last, f"q{i}"], [f"a{i}"]),
            helper.make_node("Softmax", [f"a{i}"], [f"s{i}"]),
            helper.make_node("Add", [last, f"s{i}"], [f"r{i}"]),
            helper.make_node("MatMul", [f"r{i}", f"u{i}"], [f"m{i}"]),
            helper.make_node("Concat", [f"m{i}", f"r{i}"], [f"c{i}"], axis=1),
            helper.make_node("MatMul", [f"c{i}", f"d{i}"], [f"h{i}"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [8, 1024])],
        [helper.make_tensor_value_info(f"h{blocks - 1}", 1, [8, 1024])],
        tensors)
    name = save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10),
        folder)
    for arguments in (["--analyze"], ["-o", "out/copy.onnx"]):
        result = measured(name, *arguments, cwd=folder, tmp=tmp_path,
                          address_space_bytes=512 * MIB)
        assert result.code == 0, result.stderr
        assert result.peak_rss_bytes < blocks * size // 5


def test_R75_a_dynamic_detector_is_rewritten_quickly(tmp_path):
    """A 10 MB detector with a dynamic batch and image takes half a second of
    processor time at most, the whole program included."""
    rng = np.random.default_rng(0)
    nodes, tensors, last, channels = [], [], "x", 3
    for i in range(60):
        width = 32 if i < 8 else 72 if i < 30 else 88
        tensors.append(numpy_helper.from_array(
            rng.standard_normal((width, channels, 3, 3)).astype(np.float32),
            f"w{i}"))
        nodes += [
            helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"],
                             pads=[1, 1, 1, 1],
                             strides=[2, 2] if i in (8, 30) else [1, 1]),
            helper.make_node("Sigmoid", [f"c{i}"], [f"s{i}"]),
            helper.make_node("Mul", [f"c{i}", f"s{i}"], [f"a{i}"])]
        last, channels = f"a{i}", width
    nodes += [
        helper.make_node("Shape", [last], ["shape"], start=0, end=2),
        helper.make_node("Concat", ["shape", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", [last, "target"], ["flat"]),
        helper.make_node("Transpose", ["flat"], ["y"], perm=[0, 2, 1])]
    tensors.append(numpy_helper.from_array(np.array([-1], np.int64), "rest"))
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", 1, ["batch", 3, "h", "w"])],
        [helper.make_tensor_value_info("y", 1, ["batch", "boxes", 88])],
        tensors)
    name = save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path)
    assert (tmp_path / name).stat().st_size > 10 * MB
    folder = tmp_path / "figures"
    folder.mkdir()
    result = measured(name, "-o", "out.onnx", cwd=tmp_path, tmp=folder)
    assert result.code == 0, result.stderr
    assert json.loads((tmp_path / "out.json").read_text())["complete"]
    assert result.cpu_seconds < 0.5


@pytest.mark.parametrize("mode", ["all", "copy"])
def test_F01_writing_twice_gives_the_same_files(tmp_path, mode):
    """External data is never appended to: the second run's files are those of
    the first."""
    name = two_layers(tmp_path)
    (tmp_path / "new").mkdir()
    seen = []
    for _ in range(2):
        result = memopt(name, "-o", "new/out.onnx", "--external-data", mode,
                        cwd=tmp_path)
        assert result.code == 0, result.stderr
        seen.append({p.name: p.read_bytes()
                     for p in (tmp_path / "new").iterdir()
                     if p.suffix != ".json"})
    assert seen[0] == seen[1]
    assert set(seen[0]) == {"out.onnx", "out.onnx.data"}
    assert len(seen[0]["out.onnx.data"]) == os.stat(tmp_path / "w.bin").st_size
