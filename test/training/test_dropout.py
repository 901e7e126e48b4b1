"""Dropout in a step: its masks follow from seed, step, node and element."""

import json

import numpy as np
import onnx
import pytest

import train_step

RATIO = 0.3
ROWS, COLUMNS = 64, 96

# The gradient of w is the sum of the mask over the rows, scaled: with x = 1 and
# the sum as loss, each element of the product's gradient is 0 or 1 / 0.7.
MASKED = f"""
<ir_version: 8, opset_import: ["" : 18]>
masked (float[{ROWS}, {COLUMNS}] x) => (float total)
<float[{ROWS}, {COLUMNS}] w, float ratio = {{{RATIO}}},
 bool training = {{1}}>
{{
  scaled = Mul(x, w)
  a = Dropout(scaled, ratio, training)
  b, mask = Dropout(a, ratio, training)
  total = ReduceSum<keepdims = 0>(b)
}}
"""


def write(folder, text=MASKED):
    model = onnx.parser.parse_model(text)
    for tensor in model.graph.initializer:
        if tensor.name == "w":
            tensor.CopyFrom(onnx.numpy_helper.from_array(
                np.ones((ROWS, COLUMNS), np.float32), "w"))
    if "w" not in {t.name for t in model.graph.initializer}:
        model.graph.initializer.append(onnx.numpy_helper.from_array(
            np.ones((ROWS, COLUMNS), np.float32), "w"))
    path = folder / "masked.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture(name="masks")
def masks_of_steps(tmp_path):
    """gradient(seed, step), of a model with two Dropouts in a row."""
    step = train_step.make_step(write(tmp_path), tmp_path, "--loss", "output",
                                "--optimizer", "none")
    assert "Dropout" not in {n.op_type for n in onnx.load(step).graph.node}
    loop = train_step.Loop(
        step, {"w": np.ones((ROWS, COLUMNS), np.float32)},
        {"x": np.ones((ROWS, COLUMNS))})

    def gradient(seed, number):
        loop.state["seed"] = np.array(seed, np.int64)
        loop.state["step"] = np.array(number, np.int64)
        return loop.run()["w.grad"]
    return gradient


def test_masks_keep_the_share_that_they_should(masks):
    kept = []
    for number in range(20):
        gradient = masks(7, number)
        scale = (1 - RATIO)**-2  # both kept
        assert np.allclose(gradient[gradient != 0], scale, rtol=1e-5)
        kept.append(gradient != 0)
    kept = np.array(kept)
    share = (1 - RATIO)**2  # two masks that know nothing of each other
    deviation = np.sqrt(share * (1 - share))
    assert abs(kept.mean() - share) < 4 * deviation / np.sqrt(kept.size)
    # Along rows, along columns and from step to step, as independent numbers.
    for axis in range(3):
        means = kept.mean(axis=tuple(i for i in range(3) if i != axis))
        count = kept.size / kept.shape[axis]
        assert np.abs(means - share).max() < 5 * deviation / np.sqrt(count)
        assert 0.5 < means.std() / (deviation / np.sqrt(count)) < 1.5
    centred = kept - share
    for shift in [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (1, 1, 0),
                  (0, 2, 0), (0, 0, 7)]:
        moved = np.roll(centred, shift, axis=(0, 1, 2))
        correlation = (centred * moved).mean() / deviation**2
        assert abs(correlation) < 5 / np.sqrt(kept.size), shift


def test_masks_depend_on_seed_and_step_alone(masks):
    first = masks(1, 5)
    assert (masks(1, 5) == first).all()
    for seed, number in [(2, 5), (1, 6), (-1, 5), (2**61, 5), (5, 1)]:
        assert 0.2 < (masks(seed, number) != first).mean() < 0.8


# Recomputed where that saves memory.
DEEP = """
<ir_version: 8, opset_import: ["" : 18]>
deep (float[batch, 32] x) => (float[batch, 32] y)
<float ratio = {0.2}, bool training = {1}>
{
""" + "".join(f"""
  m{i} = MatMul({'x' if i == 0 else f'd{i - 1}'}, w{i})
  t{i} = Tanh(m{i})
  d{i}, k{i} = Dropout(t{i}, ratio, training)
""" for i in range(8)) + """
  y = Identity(d7)
}
"""


def deep_model(folder):
    model = onnx.parser.parse_model(DEEP)
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.normal(0, 0.2, (32, 32)).astype(np.float32)
               for i in range(8)}
    for name, value in weights.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    path = folder / "deep.onnx"
    onnx.save(model, path)
    return path, weights


@pytest.mark.parametrize("batch", ["64", None])
def test_recomputation_repeats_the_masks(batch, tmp_path):
    model, weights = deep_model(tmp_path)
    rng = np.random.default_rng(1)
    fixed = {"x": rng.normal(size=(64, 32)), "target": np.zeros((64, 32))}
    report = tmp_path / "report.json"
    found = []
    for mode in ("none", "sqrt") if batch else ("none",):
        dims = ["--dim", f"batch={batch}"] if batch else []
        step = train_step.make_step(model, tmp_path, "--loss", "mse",
                                    "--checkpoint", mode, *dims, "--json",
                                    str(report))
        if mode == "sqrt":
            assert json.loads(report.read_text())["recomputed"]
        loop = train_step.Loop(step, weights, fixed, level=train_step.NONE)
        loop.state["seed"] = np.array(3, np.int64)
        found.append([loop.run() for _ in range(2)])
    assert found[0][0]["loss"] != found[0][1]["loss"]
    for expected, outputs in zip(found[0], found[-1]):
        for key, value in expected.items():
            np.testing.assert_array_equal(outputs[key], value)


def test_each_micro_batch_has_its_own_mask(tmp_path):
    text = MASKED.replace("(float total)", f"(float[{ROWS}, {COLUMNS}] y)")
    text = text.replace("  b, mask = Dropout(a, ratio, training)\n", "")
    text = text.replace("total = ReduceSum<keepdims = 0>(b)",
                        "y = Identity(a)")
    step = train_step.make_step(write(tmp_path, text), tmp_path, "--loss",
                                "mse", "--optimizer", "none", "--accumulate",
                                "2")
    loop = train_step.Loop(
        step, {"w": np.ones((ROWS, COLUMNS), np.float32)},
        {"x": np.ones((2 * ROWS, COLUMNS)),
         "target": np.zeros((2 * ROWS, COLUMNS))})
    gradient = loop.run()["w.grad"]
    levels = np.unique(np.round(gradient / gradient.max(), 3))
    np.testing.assert_allclose(levels, [0, 0.5, 1])


def test_a_mode_that_is_an_input_stays_a_dropout(tmp_path):
    model = tmp_path / "m.onnxtxt"
    model.write_text("""
<ir_version: 8, opset_import: ["" : 18]>
g (float[4, 4] x, bool training) => (float[4, 4] y)
<float ratio = {0.5}, float[4] w = {1, 2, 3, 4}>
{
  a = Mul(x, w)
  y = Dropout(a, ratio, training)
}
""", encoding="utf-8")
    step = train_step.make_step(model, tmp_path, "--loss", "mse")
    assert "Dropout" in {n.op_type for n in onnx.load(step).graph.node}
    assert "seed" not in {i.name for i in onnx.load(step).graph.input}
