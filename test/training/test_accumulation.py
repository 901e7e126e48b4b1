"""Gradient accumulation: a step of several micro-batches against steps of one,
and what it takes in ONNX Runtime."""

import json
import pathlib
import sys

import numpy as np
import onnx
import pytest

import train_step
from memopt_program import ROOT
from test_references import options, reference

sys.path.insert(0, str(ROOT / "bench"))
import ort_memory  # noqa: E402

COUNT = 3

# The batch has a name, and classes may be left out of the mean.
PERCEPTRON = """
<ir_version: 8, opset_import: ["" : 18]>
perceptron (float[batch, 4] x) => (float[batch, 3] y)
<float[4, 3] w = {1, -1, 0.5, 0.1, 0.2, 0.3, -0.4, 0.5, -0.6, 0.7, 0.8, -0.9},
 float[3] b = {0, 0.1, 0.2}>
{
  product = MatMul(x, w)
  sum = Add(product, b)
  y = Tanh(sum)
}
"""


def different(values, seed):
    """Another micro-batch of the same kind."""
    rng = np.random.default_rng(seed)
    changed = []
    for value in (values["in/0"], values["target"]):
        order = rng.permutation(value.size)
        changed.append(value.reshape(-1)[order].reshape(value.shape))
    return changed


def statistics(weights):
    return {name: np.full_like(value, name.endswith("running_var"))
            for name, value in weights.items()
            if name.endswith(("running_mean", "running_var"))}


def loop(step, model, data):
    weights = train_step.initializers(model)
    weights.update(statistics(weights))
    inputs = [i.name for i in train_step.session(step).get_inputs()]
    own = next(i for i in inputs if i not in weights and i != "target")
    return train_step.Loop(step, weights, {own: data[0], "target": data[1]})


def close(found, expected, limit=1e-5):
    return np.abs(found - expected).max() <= limit * np.abs(expected).max()


@pytest.mark.parametrize("name, checkpoint", [
    ("mlp", "none"), ("unet_gn", "none"), ("llama_tiny", "none"),
    ("resnet_bn", "none"), ("resnet_bn", "sqrt"), ("gpt2_tiny", "sqrt")])
def test_the_mean_of_the_gradients_of_micro_batches(name, checkpoint, tmp_path):
    model, values = reference(name)
    flags = [*options(values), "--optimizer", "none", "--checkpoint",
             checkpoint]
    parts = [different(values, seed) for seed in range(COUNT)]
    step = train_step.make_step(model, tmp_path, *flags)
    moved = {}  # running statistics go from one micro-batch to the next
    each = []
    for part in parts:
        one = loop(step, model, part)
        one.state.update(moved)
        each.append(one.run())
        moved = {k: one.state[k] for k in statistics(one.state)}
    step = train_step.make_step(model, tmp_path, *flags, "--accumulate",
                                str(COUNT))
    onnx.checker.check_model(onnx.load(step), full_check=True)
    found = loop(step, model, [np.concatenate(p) for p in zip(*parts)]).run()
    assert set(found) == set(each[0])
    for key, value in found.items():
        if key == "step.next":
            assert value == 1
        elif key.endswith(".next"):
            assert close(value, each[-1][key], 1e-6), key
        else:
            assert close(value, sum(e[key] for e in each) / COUNT), key


@pytest.mark.parametrize("flags", [
    ["--optimizer", "momentum", "--clip-norm", "0.05"],
    ["--optimizer", "adamw", "--weight-decay", "0.1", "--clip-value", "1e-3"],
    ["--ignore-index", "1", "--optimizer", "adam", "--gradients"],
], ids=["clipped", "adamw", "some left out"])
def test_equal_to_one_large_batch(flags, tmp_path):
    model = tmp_path / "perceptron.onnxtxt"
    model.write_text(PERCEPTRON, encoding="utf-8")
    rng = np.random.default_rng(0)
    fixed = {"x": rng.normal(size=(8, 4)),
             "target": [1, 1, 0, 2, 2, 1, 0, 2]}
    weights = train_step.initializers(
        train_step.make_step(model, tmp_path, "--freeze", "w"))
    weights = {"w": weights["w"], "b": np.array([0, 0.1, 0.2], np.float32)}
    results = []
    for dim, count in ((8, 1), (2, 4), (None, 4)):
        sizes = ["--dim", f"batch={dim}"] if dim else []
        step = train_step.make_step(model, tmp_path, *flags, *sizes,
                                    "--accumulate", str(count))
        shapes = {i.name: i.shape for i in train_step.session(step).get_inputs()}
        if dim:
            assert shapes["x"] == [8, 4] and shapes["target"] == [8]
        run = train_step.Loop(step, weights, fixed, rate=0.1)
        results.append([run.run() for _ in range(3)])
    for found in results[1:]:
        for expected, outputs in zip(results[0], found):
            assert set(outputs) == set(expected)
            for key, value in outputs.items():
                np.testing.assert_allclose(value, expected[key], rtol=1e-5,
                                           atol=1e-7, err_msg=key)


def wide_model(folder: pathlib.Path) -> pathlib.Path:
    """Small weights, large activations."""
    layers = "\n".join(
        f"  c{i} = Conv<pads = [1, 1, 1, 1]>({'x' if i == 0 else f'r{i - 1}'}, "
        f"w{i})\n  r{i} = Relu(c{i})" for i in range(6))
    text = f"""
<ir_version: 8, opset_import: ["" : 18]>
wide (float[batch, 8, 48, 48] x) => (float[batch, 8] y)
{{
{layers}
  p = GlobalAveragePool(r5)
  y = Flatten(p)
}}
"""
    model = onnx.parser.parse_model(text)
    rng = np.random.default_rng(0)
    for i in range(6):
        model.graph.initializer.append(onnx.numpy_helper.from_array(
            rng.normal(0, 0.1, (8, 8, 3, 3)).astype(np.float32), f"w{i}"))
    path = folder / "wide.onnx"
    onnx.save(model, path)
    return path


def test_the_peak_falls_as_predicted(tmp_path):
    model = wide_model(tmp_path)
    predicted, measured = [], []
    for dim, count in ((32, 1), (4, 8)):
        report = tmp_path / "report.json"
        step = train_step.make_step(
            model, tmp_path, "--loss", "mse", "--dim", f"batch={dim}",
            "--accumulate", str(count), "--json", str(report))
        fields = json.loads(report.read_text())
        assert fields["micro_batches"] == count
        predicted.append(fields["predicted"]["peak_steady_bytes"])
        measured.append(ort_memory.measure(step, level="all")["peaks"][-1])
    assert predicted[1] < predicted[0] / 4
    assert measured[1] < measured[0] / 4
    for found, expected in zip(measured, predicted):
        assert abs(found - expected) <= 0.15 * expected + 2**20


def test_what_is_split_and_what_batch_norm_sees_is_said(tmp_path):
    model, _ = reference("resnet_bn")
    report = tmp_path / "report.json"
    train_step.make_step(model, tmp_path, "--accumulate", "2", "--json",
                         str(report))
    notes = " ".join(json.loads(report.read_text())["notes"])
    assert "statistics of each micro-batch" in notes
    assert "move 2 times a step" in notes

    shared = tmp_path / "shared.onnxtxt"
    shared.write_text(PERCEPTRON.replace(
        "float[batch, 4] x)", "float[batch, 4] x, float[4] scale)").replace(
        "MatMul(x, w)", "MatMul(scaled, w)").replace(
        "{\n  product", "{\n  scaled = Mul(x, scale)\n  product"),
        encoding="utf-8")
    step = train_step.make_step(shared, tmp_path, "--accumulate", "2", "--dim",
                                "batch=3", "--json", str(report))
    notes = " ".join(json.loads(report.read_text())["notes"])
    assert 'the same for all micro-batches: "scale"' in notes
    shapes = {i.name: i.shape for i in train_step.session(step).get_inputs()}
    assert shapes["x"] == [6, 4] and shapes["scale"] == [4]


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "9999999"])
def test_counts_that_are_none(count, tmp_path):
    model = tmp_path / "m.onnxtxt"
    model.write_text(PERCEPTRON, encoding="utf-8")
    with pytest.raises(train_step.TrainError, match="accumulate"):
        train_step.make_step(model, tmp_path, "--accumulate", count)
