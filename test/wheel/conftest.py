"""Tests of the installed wheel; `./dev test` runs them in the environment that
it was installed into. Elsewhere they are skipped."""

import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "support"))


def is_installed() -> bool:
    try:
        return importlib.util.find_spec("onnx_memopt._core") is not None
    except ModuleNotFoundError:
        return False


def pytest_collection_modifyitems(items):
    if is_installed():
        return
    for item in items:
        if pathlib.Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(
                reason="the wheel is not installed: ./dev test does that"))


# The order of the file makes `b` and its copy live longest: the product is
# reduced at once in a better one.
WIDE = """
<ir_version: 10, opset_import: ["" : 18]>
wide (float[n, 4096] x) => (float[n, 1] y) {
  a = Exp (x)
  b = Sin (x)
  axes = Constant <value_ints = [1]> ()
  ra = ReduceSum (a, axes)
  rb = ReduceSum (b, axes)
  y = Add (ra, rb)
}
"""


@pytest.fixture
def proto():
    onnx = pytest.importorskip("onnx")
    return onnx.parser.parse_model(WIDE)


@pytest.fixture
def model_path(proto, tmp_path):
    path = tmp_path / "wide.onnx"
    path.write_bytes(proto.SerializeToString())
    return path
