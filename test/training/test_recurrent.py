"""Gradients of LSTM, GRU and RNN, written out step by step: the loss is that of
the runtime's own kernel, and its slope along random directions is that of the
gradient."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import train_step

STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 5, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def network(op, direction="forward", *, biases=True, states=True, layout=0,
            **attributes):
    """The model, its weights and its input, in float64."""
    rng = np.random.default_rng(len(op))
    count = 2 if direction == "bidirectional" else 1
    gates = GATES[op]
    weights = {"w": (count, gates * HIDDEN, WIDTH),
               "r": (count, gates * HIDDEN, HIDDEN)}
    inputs = ["x", "w", "r", "", "", "", ""]
    state = (BATCH, count, HIDDEN) if layout else (count, BATCH, HIDDEN)
    if biases:
        weights["b"] = (count, 2 * gates * HIDDEN)
        inputs[3] = "b"
    if states:
        weights["h0"] = state
        inputs[5] = "h0"
        if op == "LSTM":
            weights["c0"] = state
            inputs[6] = "c0"
    results = ["y", "yh"] + (["yc"] if op == "LSTM" else [])
    shape = (BATCH, STEPS, WIDTH) if layout else (STEPS, BATCH, WIDTH)
    values = {k: rng.normal(0, 0.5, s) for k, s in weights.items()}
    nodes = [helper.make_node(
        op, inputs[:6 + (op == "LSTM")], results, hidden_size=HIDDEN,
        direction=direction, layout=layout, **attributes)]
    values["flat"] = np.array([-1])
    parts = []
    for i, name in enumerate(results):
        nodes.append(helper.make_node("Reshape", [name, "flat"], [f"v{i}"]))
        size = count * BATCH * HIDDEN * (STEPS if i == 0 else 1)
        values[f"factor{i}"] = rng.normal(size=size)
        nodes.append(helper.make_node("Mul", [f"v{i}", f"factor{i}"],
                                      [f"m{i}"]))
        parts.append(f"m{i}")
    nodes.append(helper.make_node("Concat", parts, ["all"], axis=0))
    nodes.append(helper.make_node("ReduceSum", ["all"], ["total"], keepdims=0))
    return nodes, values, list(weights), rng.normal(size=shape), shape


def model_of(nodes, values, shape, real):
    code = helper.np_dtype_to_tensor_dtype(np.dtype(real))
    graph = helper.make_graph(
        nodes, "recurrent",
        [helper.make_tensor_value_info("x", code, shape)],
        [helper.make_tensor_value_info("total", code, ())],
        [numpy_helper.from_array(
            v.astype(real) if v.dtype.kind == "f" else v, k)
         for k, v in values.items()])
    return helper.make_model(graph, ir_version=8, opset_imports=[
        helper.make_opsetid("", 18)])


@pytest.mark.parametrize("op, direction, options", [
    ("LSTM", "forward", {}),
    ("LSTM", "bidirectional", {"states": False}),
    ("GRU", "reverse", {"biases": False}),
    ("GRU", "forward", {"linear_before_reset": 1}),
    ("GRU", "bidirectional", {"states": False, "linear_before_reset": 1}),
    ("GRU", "forward", {"states": False, "biases": False}),
    ("RNN", "bidirectional", {}),
])
def test_gradients(op, direction, options, tmp_path):
    nodes, values, weights, x, shape = network(op, direction, **options)
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, values, shape, np.float32), path)
    flags = [f for name in values if name not in weights
             and values[name].dtype.kind == "f" for f in ("--freeze", name)]
    step = train_step.make_step(path, tmp_path, "--loss", "output",
                                "--optimizer", "none", *flags)
    assert op not in {n.op_type for n in onnx.load(step).graph.node}
    loop = train_step.Loop(step, train_step.initializers(path), {"x": x})
    outputs = loop.run()
    # onnx's evaluator computes in the type that it is given.
    total = train_step.session(path).run(None, {"x": x.astype(np.float32)})[0]
    np.testing.assert_allclose(outputs["loss"], total, rtol=1e-4, atol=1e-4)
    rng = np.random.default_rng(1)

    def loss(changed):
        model = model_of(nodes, {**values, **changed}, shape, np.float32)
        return float(train_step.session(model.SerializeToString()).run(
            None, {"x": x.astype(np.float32)})[0])

    for name in weights:
        gradient = outputs[f"{name}.grad"].astype(np.float64)
        assert gradient.shape == values[name].shape
        # Along the gradient, where the slope is its length.
        direction = gradient / np.linalg.norm(gradient)
        direction += 0.3 * rng.normal(size=direction.shape) / np.sqrt(
            direction.size)
        length = 1e-2
        slope = (loss({name: values[name] + length * direction})
                 - loss({name: values[name] - length * direction}))
        slope /= 2 * length
        expected = (gradient * direction).sum()
        assert abs(slope - expected) <= 3e-3 * np.linalg.norm(gradient), name


def test_an_op_with_lengths_is_refused(tmp_path):
    nodes, values, _, _, shape = network("GRU")
    nodes[0].input[4] = "lengths"
    values["lengths"] = np.full(BATCH, STEPS, np.int32)
    path = tmp_path / "model.onnx"
    onnx.save(model_of(nodes, values, shape, np.float32), path)
    with pytest.raises(train_step.TrainError, match="GRU.*no gradient rule"):
        train_step.make_step(path, tmp_path, "--loss", "output")
