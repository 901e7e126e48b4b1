"""Real models, with weights of random values, through the real programs.

All are compared by structure (comparison.ValueNumbers), weights included. The
runtime runs those that take it seconds; ONNX_MEMOPT_SLOW=1 runs the others too,
which needs 16 GB of memory and some minutes.
"""

import dataclasses
import os
import pathlib

import numpy as np
import onnx
import pytest

import comparison
import runtime
import shapes
from checks import changes, invalid
from programs import Programs

TITLE = "shared models"
SLOW = os.environ.get("ONNX_MEMOPT_SLOW") == "1"


@dataclasses.dataclass(frozen=True)
class Case:
    dims: dict[str, int] = dataclasses.field(default_factory=dict)
    slow: bool = False  # for the runtime
    expose: bool = False  # compare values inside the graph


CASES = {
    "bert": Case(),
    "bert_dyn": Case({"batch": 2, "seq": 7}, expose=True),
    "gpt2": Case(slow=True),
    "gpt2_dyn": Case({"batch": 2, "seq": 5}),
    "llama4l": Case(slow=True),
    "mobilenetv3": Case(expose=True),
    "resnet50": Case(),
    "resnet50_dyn": Case({"batch": 2}),
    "srgan_dyn": Case({"height": 12, "width": 20}, expose=True),
    "unet_sd": Case(slow=True),
    "vae_dec": Case(slow=True),
    "vit_b16": Case(),
}


@pytest.fixture(name="materialized")
def fixture_materialized(request, materialize):
    """The name `request.param` and the model with weights."""
    return request.param, materialize(request.param)


def make_feeds(model: onnx.ModelProto, dims: dict[str, int]) -> dict:
    rng = np.random.default_rng(0)
    feeds = {}
    for info in model.graph.input:
        tensor = info.type.tensor_type
        shape = [dims[d.dim_param] if d.dim_param else d.dim_value
                 for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if dtype.kind == "f":
            value = rng.standard_normal(shape).astype(dtype)
        else:
            value = rng.integers(0, 100, shape).astype(dtype)
        feeds[info.name] = runtime.feed_value(value, tensor.elem_type)
    return feeds


def dim_options(dims: dict[str, int]) -> list[str]:
    return [word for name, size in dims.items()
            for word in ("--dim", f"{name}={size}")]


def test_no_model_is_forgotten(shared_dir):
    found = {p.stem for p in (shared_dir / "models").glob("*.onnx")}
    assert found == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_sizes_are_known_without_weights(name, bin_dir, shared_dir, tallies):
    path = shared_dir / "models" / f"{name}.onnx"
    report = Programs(bin_dir).analyze(path, *dim_options(CASES[name].dims))
    known = [t for t in report["tensors"] if t["bytes"] is not None]
    total = len(report["tensors"])
    model = onnx.load(path, load_external_data=False)
    assert total >= sum(len(n.output) for n in model.graph.node)
    assert len(known) >= 0.99 * total, report["unknown_tensors"]
    assert len(report["unknown_tensors"]) == total - len(known)
    tallies[TITLE + ": tensors"].add("sized", len(known))
    tallies[TITLE + ": tensors"].add("not sized", total - len(known))


@pytest.mark.parametrize("name", CASES)
def test_round_trip_without_weights(name, bin_dir, shared_dir, tmp_path):
    source = shared_dir / "models" / f"{name}.onnx"
    # Data is referred to where it is, and these models have none.
    copy = tmp_path / source.name
    copy.write_bytes(source.read_bytes())
    output = tmp_path / "out.onnx"
    Programs(bin_dir).copy(copy, output)
    assert output.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("materialized", CASES, indirect=True)
def test_shared_model(materialized, bin_dir, tallies):
    name, source = materialized
    case = CASES[name]
    output = source.with_name("out.onnx")
    report = Programs(bin_dir).rewrite(source, output,
                                       *dim_options(case.dims))
    model = onnx.load(source, load_external_data=False)
    rewritten = onnx.load(output, load_external_data=False)
    numbers = comparison.ValueNumbers(str(source.parent))
    assert changes(model, rewritten, numbers) == []
    assert not invalid(source)
    assert not invalid(output)
    counts = tallies[TITLE]
    counts.add("models whose outputs are computed in the same way")
    assert report["after"]["live_peak_bytes"] <= (
        report["before"]["live_peak_bytes"])
    if case.slow and not SLOW:
        counts.add("not run, only compared by structure")
        return
    feeds = make_feeds(model, case.dims)
    for level, threads in ((runtime.NONE, 1), (runtime.ALL, 0)):
        before = runtime.run(str(source), feeds, level, threads)
        after = runtime.run(str(output), feeds, level, threads)
        assert runtime.differences(before, after) == []
        assert any(len(set(v.data)) > 2 for v in before.values())
        counts.add("runs compared")
    if case.expose:
        compare_inner_values(source, model, feeds, report, tallies)


def compare_inner_values(source: pathlib.Path, model, feeds, report, tallies):
    exposed = source.with_name("exposed.onnx")
    exposed.write_bytes(shapes.expose_all(model).SerializeToString())
    real = runtime.run(str(exposed), feeds, runtime.NONE)
    removed = set(real) - set(shapes.main_tensors(report))
    present = {name: v for name, v in real.items() if name not in removed}
    shape_counts = tallies[TITLE + ": tensors"]
    assert len(present) >= 0.9 * len(real)
    assert shapes.mismatches(report, present, shape_counts) == []
