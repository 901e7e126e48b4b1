"""Weights outside the model file are not read: 2 GiB of them take no memory."""

import resource
import subprocess
import sys

import pytest

onnx = pytest.importorskip("onnx")

GIB = 1 << 30
CODE = """
import resource, sys
import onnx_memopt
model, report = onnx_memopt.optimize(sys.argv[1], passes=sys.argv[2])
print(model, report.weights.bytes,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def large_model(folder):
    """Weights of 2 GiB and a bit in a file of holes."""
    text = ('<ir_version: 10, opset_import: ["" : 18]>\n'
            "g (float[1, 16384] x) => (float[1, 32784] y) {\n"
            "  y = MatMul (x, w)\n}\n")
    model = onnx.parser.parse_model(text)
    weight = model.graph.initializer.add()
    weight.name = "w"
    weight.data_type = onnx.TensorProto.FLOAT
    weight.dims.extend([16384, 32784])
    weight.data_location = onnx.TensorProto.EXTERNAL
    size = 16384 * 32784 * 4
    for key, value in {"location": "w.data", "offset": "0",
                       "length": str(size)}.items():
        weight.external_data.add(key=key, value=value)
    with open(folder / "w.data", "wb") as file:
        file.truncate(size)
    path = folder / "large.onnx"
    path.write_bytes(model.SerializeToString())
    return path, size


def test_a_file_is_optimized_without_its_weights(tmp_path):
    path, size = large_model(tmp_path)
    assert size > 2 * GIB
    done = subprocess.run([sys.executable, "-c", CODE, path, "reorder"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    new, weights, peak_kib = done.stdout.split()
    assert int(weights) == size
    assert int(peak_kib) < GIB // 4 // 1024
    # It refers to the same file, which has no blocks still.
    written = onnx.load(new, load_external_data=False)
    assert written.graph.initializer[0].external_data[0].value == "w.data"
    assert (tmp_path / "w.data").stat().st_blocks * 512 < 1 << 20


def test_a_model_of_onnx_ir_keeps_its_external_tensors(tmp_path):
    onnx_ir = pytest.importorskip("onnx_ir")
    from onnx_memopt.passes import MemOptPass
    path, size = large_model(tmp_path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    optimizer = MemOptPass(passes="reorder", annotate=True)
    model = optimizer(onnx_ir.load(path)).model
    assert optimizer.report.weights.bytes == size
    tensor = model.graph.initializers["w"].const_value
    assert isinstance(tensor, onnx_ir.ExternalTensor)
    assert tensor.path == str(tmp_path / "w.data")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < GIB // 4
