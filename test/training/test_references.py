"""Gradients and three steps of training against what PyTorch computed.

The references are in $ONNX_MEMOPT_SHARED/training; its README says what is in
them.
"""

import numpy as np
import pytest

import train_step
from memopt_program import SHARED

NAMES = ["mlp", "resnet_bn", "unet_gn", "gpt2_tiny", "llama_tiny"]
FOLDER = SHARED / "training"
OPTIMIZERS = {
    "sgd": (0.01, ["--optimizer", "momentum", "--momentum", "0.9"]),
    "adam": (1e-3, ["--optimizer", "adam"]),
    "adamw": (1e-3, ["--optimizer", "adamw", "--weight-decay", "0.01"]),
}
# The tied weight has one name in the model and another in the reference.
RENAMED = {"lm_head.weight": "transformer.wte.weight"}


def reference(name):
    if not (FOLDER / f"{name}.onnx").is_file():
        pytest.skip(f"{FOLDER}: no training references there")
    return FOLDER / f"{name}.onnx", np.load(FOLDER / f"{name}.npz")


def options(values) -> list[str]:
    is_mse = values["target"].dtype.kind == "f"
    return ["--loss", "mse" if is_mse else "cross-entropy"]


def start(model, values, step, rate=0.01, level=train_step.ALL):
    weights = train_step.initializers(model)
    # The export ran the model once, which moved these.
    for name, value in weights.items():
        if name.endswith(("running_mean", "running_var")):
            weights[name] = np.full_like(value, name.endswith("running_var"))
    inputs = [i.name for i in train_step.session(step).get_inputs()]
    own = next(i for i in inputs if i not in weights and i != "target")
    return train_step.Loop(
        step, weights, {own: values["in/0"], "target": values["target"]}, rate,
        level)


def is_corrected_variance(found, expected) -> bool:
    """PyTorch keeps the unbiased running variance, ONNX the biased one. After
    three steps 0.9^3 of the start is left of both."""
    start_left = 0.9**3
    ratios = (expected - start_left) / (found - start_left)
    counts = [4 * side * side for side in (4, 8, 16, 32)]
    return any(np.allclose(ratios, n / (n - 1), rtol=1e-4) for n in counts)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_pytorch(name, tmp_path):
    model, values = reference(name)
    step = train_step.make_step(model, tmp_path, "--optimizer", "none",
                                *options(values))
    outputs = start(model, values, step).run()
    expected = {k.removeprefix("grad/"): v for k, v in values.items()
                if k.startswith("grad/")}
    found = {}
    for key, value in outputs.items():
        parameter = key.removesuffix(".grad")
        if parameter != key:
            renamed = RENAMED.get(parameter, parameter)
            found[renamed if renamed in expected else parameter] = value
    assert set(found) == set(expected)
    for parameter, gradient in expected.items():
        difference = np.abs(found[parameter] - gradient).max()
        assert difference <= 1e-4 * np.abs(gradient).max(), parameter


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NAMES)
def test_three_steps_are_those_of_pytorch(name, optimizer, tmp_path):
    model, values = reference(name)
    rate, flags = OPTIMIZERS[optimizer]
    step = train_step.make_step(model, tmp_path, *flags, *options(values))
    loop = start(model, values, step, rate)
    losses = [float(loop.run()["loss"]) for _ in range(3)]
    np.testing.assert_allclose(losses, values[f"{optimizer}/loss"], rtol=1e-5)
    assert loop.state["step"] == 3
    compared = 0
    weights = train_step.initializers(model)
    for key, value in loop.state.items():
        expected = values.get(f"{optimizer}/{RENAMED.get(key, key)}")
        if expected is None:
            expected = values.get(f"{optimizer}/{key}")
        if expected is None or key not in weights:
            continue
        compared += 1
        if key.endswith("running_var"):
            assert is_corrected_variance(value, expected), key
            continue
        # Adam divides by the root of a gradient's square: an element whose
        # gradient is no larger than its rounding (as that of a key's bias,
        # which is zero) moves anyhow.
        difference = np.linalg.norm(value - expected)
        moved = np.linalg.norm(expected - weights[key])
        limit = 1e-5 * np.linalg.norm(expected) + 1e-3 * moved
        assert difference <= limit, key
    assert compared >= 5
