"""`onnx-memopt tensors`: which tensors overflow, and what goes wrong."""

import subprocess
import sys

import numpy as np
import onnx
import pytest

from memopt_program import ROOT, parse, save
from onnx_memopt import _tensors

LAUNCHER = ROOT / "python" / "bin" / "onnx-memopt-tensors"
MODEL = """
m (float[rows, 4] x) => (float[rows, 4] y) <float[1] s = {60000}> {
  a = Abs(x)
  b = Add(a, s)
  c = Mul(b, s)
  y = Div(c, s)
}"""
HALF = """
m (float[rows, 4] x) => (float[rows, 4] y) <float16[1] s = {60000}> {
  h = Cast<to = 10>(x)
  a = Abs(h)
  b = Add(a, s)
  c = Mul(b, s)
  d = Div(c, s)
  y = Cast<to = 1>(d)
}"""


def cli(*arguments, cwd) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, LAUNCHER, *map(str, arguments)],
                          cwd=cwd, capture_output=True, text=True, timeout=60,
                          check=False)


@pytest.fixture(name="models")
def fixture_models(tmp_path):
    half = parse(HALF)
    half.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(
        np.array([60000], np.float16), "s"))
    return save(parse(MODEL), tmp_path, "a.onnx"), save(half, tmp_path,
                                                        "b.onnx")


def test_first_overflow_is_named(models, tmp_path):
    done = cli(*models, "--dim", "rows=3", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "1 tensor overflows:"
    assert lines[1].startswith("  c <- Mul: 12 elements; the largest was 3.6")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "b.onnx"]


def test_given_inputs_and_equal_models(models, tmp_path):
    np.savez(tmp_path / "feeds.npz", x=np.ones((2, 4), np.float32))
    done = cli(models[0], models[0], "--feeds", "feeds.npz", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no tensor overflows, of 4 compared" in done.stdout
    found = _tensors.compare(str(tmp_path / models[0]),
                             str(tmp_path / models[1]),
                             feeds={"x": np.zeros((1, 4), np.float32)})
    assert [t.name for t in found] == ["a", "b", "c", "y"]
    assert found[0].error == 0


@pytest.mark.parametrize("arguments, code, text", [
    (["a.onnx"], 2, "required"),
    (["a.onnx", "none.onnx"], 1, "none.onnx"),
    (["a.onnx", "b.onnx", "--dim", "rows"], 2, "--dim: expected NAME=N"),
    (["a.onnx", "feeds.npz"], 1, "not an ONNX model"),
    (["a.onnx", "b.onnx", "--feeds", "feeds.npz"], 2, 'no input "x"'),
])
def test_errors_are_one_line(arguments, code, text, models, tmp_path):
    np.savez(tmp_path / "feeds.npz", z=np.ones((2, 4), np.float32))
    done = cli(*arguments, cwd=tmp_path)
    assert done.returncode == code
    assert done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ") and text in done.stderr
