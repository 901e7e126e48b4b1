"""`onnx-memopt moments`, and factorize with what it writes."""

import json
import struct
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from memopt_program import ROOT, memopt
from onnx_memopt import _moments

LAUNCHER = ROOT / "python" / "bin" / "onnx-memopt-moments"


def cli(*arguments, cwd) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, LAUNCHER, *map(str, arguments)],
                          cwd=cwd, capture_output=True, text=True, timeout=60,
                          check=False)


def save(tmp_path, nodes, weights, shape, name="m.onnx"):
    graph = helper.make_graph(
        nodes, "layers",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in weights.items()])
    model = onnx.shape_inference.infer_shapes(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10))
    onnx.save(model, tmp_path / name)


def run(path, x):
    import onnxruntime
    session = onnxruntime.InferenceSession(
        str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def skewed(*shape):
    """Most of it in a few directions along the last axis."""
    scales = np.exp2(-np.arange(shape[-1]) / 4).astype(np.float32)
    turn, _ = np.linalg.qr(RNG.standard_normal((shape[-1], shape[-1])))
    return (random(*shape) * scales) @ turn.astype(np.float32)


# Node, weight, data.
CASES = {
    "MatMul": (("MatMul", ["x", "w"], {}), random(48, 32), skewed(5, 40, 48)),
    "MatMul wide": (("MatMul", ["x", "w"], {}), random(32, 48),
                    skewed(200, 32)),
    "MatMul from the left": (("MatMul", ["w", "x"], {}), random(40, 32),
                             skewed(3, 100, 32).swapaxes(1, 2).copy()),
    "Gemm": (("Gemm", ["x", "w"], {"transB": 1, "transA": 1}), random(40, 32),
             skewed(200, 32).T.copy()),
    "Conv": (("Conv", ["x", "w"], {"pads": [1, 0, 2, 1], "strides": [2, 1],
                                   "dilations": [1, 2]}),
             random(40, 8, 3, 3),
             skewed(2, 11, 13, 8).transpose(0, 3, 1, 2).copy()),
    "Conv with auto_pad": (("Conv", ["x", "w"], {"auto_pad": "SAME_UPPER",
                                                 "strides": [2, 2]}),
                           random(40, 8, 3, 3),
                           skewed(2, 12, 13, 8).transpose(0, 3, 1, 2).copy()),
}


@pytest.mark.parametrize("name", CASES)
def test_the_error_of_outputs_is_the_least_there_is(name, tmp_path):
    (op, operands, attributes), weight, data = CASES[name]
    save(tmp_path, [helper.make_node(op, operands, ["y"], **attributes)],
         {"w": weight}, data.shape)
    np.savez(tmp_path / "all.npz", x=data)
    done = cli("m.onnx", "--feeds", "all.npz", "-o", "m.moments", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "moments of 1 layers" in done.stdout
    # Of two runs with the same inputs the mean is the same.
    moments = _moments.collect(str(tmp_path / "m.onnx"),
                               [str(tmp_path / "all.npz")] * 2)["w"]

    def errors(*options):
        report = memopt("m.onnx", "-o", "f.onnx", "-q", "--json", "-",
                        "--passes=factorize{rank=6,min-elements=1"
                        + "".join(options) + "}", cwd=tmp_path)
        assert report.code == 0, report.stderr
        remark = json.loads(report.stdout)["passes"][0]["remarks"][0]
        a, b = run(tmp_path / "m.onnx", data), run(tmp_path / "f.onnx", data)
        return float(np.linalg.norm(a - b) / np.linalg.norm(a)), remark

    blind, _ = errors()
    seen, remark = errors(",moments=m.moments")
    assert " of the outputs, " in remark
    # The best there is: A as the inputs see it, truncated. Those of the runtime
    # have a ridge of a thousandth, which costs a little.
    matrix = (weight.T if op == "Gemm" else weight.reshape(len(weight), -1))
    left = op == "Gemm" or operands[1] == "w" and op == "MatMul"
    values, vectors = np.linalg.eigh(moments.astype(np.float64))
    root = vectors * np.sqrt(np.maximum(values, 0))
    spectrum = np.linalg.svd(root.T @ matrix if left else matrix @ root,
                             compute_uv=False)
    best = np.sqrt((spectrum[6:] ** 2).sum() / (spectrum ** 2).sum())
    assert best * 0.999 <= seen <= best * 1.05
    assert seen < (0.95 if op == "Conv" else 0.8) * blind


def test_one_budget_for_layers_with_moments_and_without(tmp_path):
    """A layer whose inputs lie in few directions pays for the other."""
    save(tmp_path, [helper.make_node("MatMul", ["x", "v"], ["h"]),
                    helper.make_node("MatMul", ["h", "w"], ["y"])],
         {"v": random(64, 64), "w": random(64, 64)}, [200, 64])
    np.savez(tmp_path / "x.npz", x=skewed(200, 64))
    assert cli("m.onnx", "--feeds", "x.npz", "-o", "m.moments",
               cwd=tmp_path).returncode == 0
    sizes = {}
    for budget in ("0.05", "0.3"):
        done = memopt("m.onnx", "-o", f"{budget}.onnx", "-q", "--json", "-",
                      f"--passes=factorize{{error-budget={budget},"
                      "moments=m.moments,min-elements=1}", cwd=tmp_path)
        assert done.code == 0, done.stderr
        remarks = json.loads(done.stdout)["passes"][0]["remarks"]
        squares = [float(r.split("error ")[1].split()[0]) ** 2
                   for r in remarks if "rank" in r and "error " in r]
        assert 0 < sum(squares) / 2 <= float(budget) ** 2 * 1.001
        sizes[budget] = (tmp_path / f"{budget}.onnx").stat().st_size
    original = (tmp_path / "m.onnx").stat().st_size
    assert sizes["0.3"] < sizes["0.05"] < original


def safetensors(header, data=b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(side, begin, end, kind="F32"):
    return {"w": {"dtype": kind, "shape": [side, side],
                  "data_offsets": [begin, end]}}


@pytest.mark.parametrize("content, says", [
    (b"", "empty file"),
    (b"1234", "no safetensors file: its header is longer"),
    (b"\xff" * 16, "no safetensors file: its header is longer"),
    (safetensors(b"[1]"), "header is no JSON object"),
    (safetensors(b"{"), "header is no JSON object"),
    (safetensors({"w": 3}), "no square float32 matrix"),
    (safetensors(entry(2, 0, 16, "F16"), bytes(16)), "no square float32"),
    (safetensors(entry(2, 0, 16), bytes(8)), "no square float32"),
    (safetensors(entry(3, 0, 16), bytes(16)), "no square float32"),
    (safetensors(entry(2 ** 62, 0, 0)), "no square float32"),
    (safetensors(entry(2, 0, 16), bytes(16)), "are of 2 inputs; expected 64"),
    (safetensors(entry(64, 0, 4 * 64 ** 2),
                 (-np.eye(64, dtype=np.float32)).tobytes()),
     "are no moments"),
    (safetensors(entry(64, 0, 4 * 64 ** 2),
                 np.full((64, 64), np.nan, np.float32).tobytes()),
     "are no moments"),
])
def test_files_that_are_no_moments(content, says, tmp_path):
    save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])],
         {"w": random(64, 64)}, [1, 64])
    (tmp_path / "bad").write_bytes(content)
    done = memopt("m.onnx", "-o", "f.onnx",
                  "--passes=factorize{rank=3,moments=bad}", cwd=tmp_path)
    assert done.code == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert says in done.stderr
    assert not (tmp_path / "f.onnx").exists()


def test_what_goes_wrong_is_one_line(tmp_path):
    save(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])],
         {"w": random(64, 64)}, [1, 64])
    save(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], {}, [1, 64],
         "none.onnx")
    np.savez(tmp_path / "x.npz", x=random(1, 64))
    np.savez(tmp_path / "other.npz", z=random(1, 64))
    np.savez(tmp_path / "inf.npz", x=np.full((1, 64), np.inf, np.float32))
    for arguments, code, says in [
            (["m.onnx", "-o", "o"], 2, "--feeds"),
            (["m.onnx", "--feeds", "x.npz"], 2, "-o"),
            (["m.onnx", "--feeds", "other.npz", "-o", "o"], 2, 'no input "x"'),
            (["m.onnx", "--feeds", "no.npz", "-o", "o"], 1, "no.npz"),
            (["no.onnx", "--feeds", "x.npz", "-o", "o"], 1, "no.onnx"),
            (["none.onnx", "--feeds", "x.npz", "-o", "o"], 1, "no layer"),
            (["m.onnx", "--feeds", "inf.npz", "-o", "o"], 1, "not finite"),
            (["m.onnx", "--feeds", "x.npz", "-o", "o", "--max-side", "8"], 1,
             "no layer")]:
        done = cli(*arguments, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert done.stderr.startswith("error: ") and says in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "o").exists()
