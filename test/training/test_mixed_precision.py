"""Steps in 16 bits with float32 weights: they follow those in float32, and an
overflow skips a step."""

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto

import train_step
from test_references import NAMES, OPTIMIZERS, options, reference, start

HALVES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
BEYOND = 2.0**124
LINEAR = """
<ir_version: 10, opset_import: ["" : 22]>
linear (float[4, 3] x) => (float[4, 2] y)
<float[3, 2] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, float[2] b = {0, 1}>
{
  product = MatMul(x, w)
  y = Add(product, b)
}
"""


def element_types(step) -> dict[str, int]:
    model = onnx.shape_inference.infer_shapes(onnx.load(step), strict_mode=True)
    return {v.name: v.type.tensor_type.elem_type for v in
            [*model.graph.value_info, *model.graph.input, *model.graph.output]}


def of_products(step) -> set[int]:
    model = onnx.load(step)
    types = element_types(step)
    return {types[node.output[0]] for node in model.graph.node
            if node.op_type in ("MatMul", "Gemm", "Conv", "Einsum")}


@pytest.mark.parametrize("name", NAMES)
def test_three_steps_follow_those_in_float32(name, tmp_path):
    model, values = reference(name)
    rate, flags = OPTIMIZERS["adamw"]
    step = train_step.make_step(model, tmp_path, *flags, *options(values),
                                "--precision", "float16")
    assert of_products(step) == {TensorProto.FLOAT16}
    loop = start(model, values, step, rate)
    loop.state["loss_scale"] = np.array(4096, np.float32)
    losses = [float(loop.run()["loss"]) for _ in range(3)]
    np.testing.assert_allclose(losses, values["adamw/loss"], rtol=1e-2)
    assert loop.state["step"] == 3 and loop.state["good_steps"] == 3
    for key, value in train_step.initializers(model).items():
        if key in loop.state:
            assert loop.state[key].dtype == value.dtype


@pytest.mark.parametrize("name", ["resnet_bn", "unet_gn", "llama_tiny"])
def test_gradients_are_those_of_float32_but_for_rounding(name, tmp_path):
    model, values = reference(name)
    step = train_step.make_step(model, tmp_path, "--optimizer", "none",
                                *options(values), "--precision", "float16")
    loop = start(model, values, step)
    loop.state["loss_scale"] = np.array(1024, np.float32)
    outputs = loop.run()
    checked = 0
    for key, value in outputs.items():
        expected = values.get(f"grad/{key.removesuffix('.grad')}")
        if expected is None or np.linalg.norm(expected) < 1e-4:
            continue
        error = np.linalg.norm(value - expected) / np.linalg.norm(expected)
        assert error < 0.05, key
        checked += 1
    assert checked >= 5


@pytest.fixture(name="linear")
def linear_model(tmp_path):
    path = tmp_path / "linear.onnxtxt"
    path.write_text(LINEAR, encoding="utf-8")
    return path


def linear_loop(step, scale):
    rng = np.random.default_rng(0)
    loop = train_step.Loop(
        step, {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)},
        {"x": 100 * rng.normal(size=(4, 3)), "target": np.zeros((4, 2))}, rate=1e-6)
    loop.state["loss_scale"] = np.array(scale, np.float32)
    return loop


@pytest.mark.parametrize("flags", [[], ["--accumulate", "2"],
                                   ["--clip-norm", "1"]])
def test_an_overflow_skips_the_step_and_halves_the_scale(flags, linear,
                                                         tmp_path):
    step = train_step.make_step(linear, tmp_path, "--loss", "mse",
                                "--optimizer", "momentum", "--precision",
                                "float16", "--loss-scale-steps", "3", *flags)
    # The CPU's kernels compute in float32: so does this overflow.
    loop = linear_loop(step, BEYOND)
    if "--accumulate" in flags:
        for name in ("x", "target"):
            loop.state[name] = np.concatenate([loop.state[name]] * 2)
    before = {k: loop.state[k].copy() for k in ("w", "b", "w.momentum")}
    loop.state["good_steps"] = np.array(2, np.int64)
    while True:
        scale = loop.state["loss_scale"]
        loss = loop.run()["loss"]
        assert np.isfinite(loss)
        if loop.state["loss_scale"] >= scale:
            break
        assert loop.state["loss_scale"] == scale / 2
        assert loop.state["step"] == 0 and loop.state["good_steps"] == 0
        for key, value in before.items():
            np.testing.assert_array_equal(loop.state[key], value)
    assert scale < BEYOND  # it did overflow
    assert loop.state["step"] == 1 and loop.state["good_steps"] == 1
    assert np.abs(loop.state["w"] - before["w"]).max() > 0
    loop.run()
    loop.run()
    assert loop.state["loss_scale"] == 2 * scale  # after three good steps
    assert loop.state["good_steps"] == 0 and loop.state["step"] == 3


def test_the_initial_state_has_the_scale(linear, tmp_path):
    begin = tmp_path / "start.onnx"
    train_step.make_step(linear, tmp_path, "--loss", "mse", "--precision",
                         "float16", "--loss-scale", "512", "--initial-state",
                         begin)
    state = train_step.initializers(begin)
    assert state["loss_scale"] == 512 and state["good_steps"] == 0
    assert state["w"].dtype == np.float32


def test_bfloat16_needs_no_scale(linear, tmp_path):
    """Of bfloat16 ONNX Runtime has no CPU kernels: onnx's evaluator runs it."""
    step = train_step.make_step(linear, tmp_path, "--loss", "mse",
                                "--precision", "bfloat16", "--gradients")
    assert of_products(step) == {TensorProto.BFLOAT16}
    onnx.checker.check_model(onnx.load(step), full_check=True)
    folder = tmp_path / "float32"
    folder.mkdir()
    wide = train_step.make_step(linear, folder, "--loss", "mse", "--gradients")
    rng = np.random.default_rng(0)
    feeds = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32),
             "x": rng.normal(size=(4, 3)).astype(np.float32),
             "target": rng.normal(size=(4, 2)).astype(np.float32),
             "learning_rate": np.array(0.1, np.float32), "step": np.array(0, np.int64)}
    found, expected = (onnx.reference.ReferenceEvaluator(str(path)).run(
        ["loss", "w.grad", "b.next"], feeds) for path in (step, wide))
    for a, b in zip(found, expected):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=0.03, atol=0.03)


def test_weights_in_16_bits_are_refused(linear, tmp_path):
    model = onnx.parser.parse_model(linear.read_text(encoding="utf-8"))
    graph = model.graph
    for value in [*graph.input, *graph.output]:
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for tensor in graph.initializer:
        value = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))
    path = tmp_path / "half.onnx"
    onnx.save(model, path)
    with pytest.raises(train_step.TrainError, match="needs weights in float32"):
        train_step.make_step(path, tmp_path, "--loss", "mse", "--precision",
                             "float16")
