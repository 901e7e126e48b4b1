"""The light networks of the onnx package: real graphs whose weights are made by
ConstantOfShape, so that a few kilobytes run like the real thing."""

import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import runtime
from checks import Checker
from programs import Programs

TITLE = "light networks of the onnx package"
FOLDER = pathlib.Path(onnx.__file__).parent / "backend/test/data/light"
NAMES = ["bvlc_alexnet", "densenet121", "inception_v1", "inception_v2",
         "resnet50", "shufflenet", "squeezenet", "vgg19", "zfnet512"]


def test_no_network_is_forgotten():
    found = {p.stem.removeprefix("light_") for p in FOLDER.glob("*.onnx")}
    assert found == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_light_network(name, bin_dir, tmp_path, tallies):
    model = onnx.load(FOLDER / f"light_{name}.onnx")
    weights = {t.name for t in model.graph.initializer}
    rng = np.random.default_rng(0)
    feeds = {}
    for info in model.graph.input:
        if info.name not in weights:
            shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
            feeds[info.name] = runtime.feed_value(
                rng.standard_normal(shape, dtype=np.float32),
                TensorProto.FLOAT)
    shape_counts = tallies[TITLE + ": tensors"]
    before = shape_counts["agree in type, shape and bytes"]
    failures = Checker(Programs(bin_dir), tmp_path, tallies[TITLE],
                       shape_counts).check(name, model, [feeds])
    assert not failures, "\n".join(failures)
    results = sum(len(node.output) for node in model.graph.node)
    assert (shape_counts["agree in type, shape and bytes"] - before
            >= 0.99 * results)
    assert tallies[TITLE]["runs compared (not optimized)"] > 0
