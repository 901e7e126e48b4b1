"""What `onnx-memopt train` says of options and models that do not fit, and what
it writes."""

import json

import numpy as np
import onnx
import pytest

import train_step
from memopt_program import SHARED, memopt

LINEAR = """
<ir_version: 8, opset_import: ["" : 18]>
linear (float[4, 3] x) => (float[4, 2] y)
<float[3, 2] w = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, float[2] b = {0, 1}>
{
  product = MatMul(x, w)
  y = Add(product, b)
}
"""


@pytest.fixture(name="linear")
def linear_model(tmp_path):
    path = tmp_path / "linear.onnxtxt"
    path.write_text(LINEAR, encoding="utf-8")
    return path


def fails(folder, text, *arguments, code=1):
    path = folder / "m.onnxtxt"
    path.write_text(text, encoding="utf-8")
    before = set(folder.iterdir())
    result = memopt("train", path, "-o", "s.onnx", *arguments, cwd=folder)
    assert result.code == code, result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert set(folder.iterdir()) == before
    return result.stderr


@pytest.mark.parametrize("arguments, reason", [
    (["--freeze", "nowhere*"], 'no weight matches "nowhere*"'),
    (["--loss-output", "z"], 'has no output "z"; it has "y"'),
    (["--optimizer", "lion"], "expected one of adam, adamw"),
    (["--clip-norm", "0"], "--clip-norm: 0 is out of range"),
    (["--beta1", "1"], "--beta1: 1 is out of range"),
    (["--dim", "batch"], "--dim: expected NAME=N"),
    (["--batch", "0"], '--batch: "0" is not a positive number'),
    (["--batch", "8"], "no input has a first dimension with a name"),
    (["--checkpoint", "sqrt", "--budget", "1GiB"], "--budget needs"),
    (["--html", "-"], "--html needs files"),
])
def test_options_that_do_not_fit(arguments, reason, tmp_path):
    assert reason in fails(tmp_path, LINEAR, *arguments, code=2)


def test_a_batch_is_the_named_first_dimension(tmp_path):
    text = LINEAR.replace("[4, 3] x", "[batch, 3] x").replace("[4, 2] y",
                                                             "[batch, 2] y")
    assert "--dim says batch=4" in fails(tmp_path, text, "--batch", "8", "--dim",
                                         "batch=4", code=2)
    result = memopt("train", "m.onnxtxt", "-o", "s.onnx", "--batch", "8",
                    cwd=tmp_path)
    assert result.code == 0, result.stderr
    inputs = {i.name: i.type.tensor_type.shape.dim
              for i in onnx.load(tmp_path / "s.onnx").graph.input}
    assert [d.dim_value for d in inputs["x"]] == [8, 3]
    assert inputs["target"][0].dim_value == 8


@pytest.mark.parametrize("text, reason", [
    (LINEAR.replace('"" : 18', '"" : 8'), "opset 8 cannot be raised to 16"),
    (LINEAR.replace("y = Add", "y = Det(w)\n  z = Add").replace(
        "(float[4, 2] y)", "(float y)"), "needs an output of known rank"),
    ("""<ir_version: 8, opset_import: ["" : 18]>
     g (int64[4] x) => (int64[4] y) { y = Add(x, x) }""",
     "no output is of a floating-point type"),
    ("""<ir_version: 8, opset_import: ["" : 18]>
     g (float[4, 4] x) => (float[4, 4] y) { y = Add(x, x) }""",
     "no weight can be trained"),
    ("""<ir_version: 8, opset_import: ["" : 18]>
     g (float[4, 4] x) => (float[4, 4] y) <float[4, 4] w = {
     1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}>
     { d = Mul(x, w)  e = Det(d)  y = Add(e, x) }""",
     'Det): there is no gradient rule'),
    (LINEAR.replace("x)", "target)").replace("(x,", "(target,"),
     'an input or weight "target"'),
])
def test_models_that_cannot_be_trained(text, reason, tmp_path):
    assert reason in fails(tmp_path, text)


def test_a_frozen_weight_stays_in_the_model(linear, tmp_path):
    step = train_step.make_step(linear, tmp_path, "--loss", "mse",
                                "--freeze", "w")
    graph = onnx.load(step).graph
    assert "w" in {t.name for t in graph.initializer}
    assert {o.name for o in graph.output} == {"loss", "step.next", "b.next"}
    onnx.checker.check_model(onnx.load(step), full_check=True)


def test_the_initial_state_is_what_a_step_begins_with(linear, tmp_path):
    start = tmp_path / "start.onnx"
    step = train_step.make_step(linear, tmp_path, "--loss", "mse",
                                "--optimizer", "adamw", "--initial-state",
                                start)
    state = train_step.initializers(start)
    inputs = {i.name for i in train_step.session(step).get_inputs()}
    assert inputs - set(state) == {"x", "target", "learning_rate"}
    assert set(state) < inputs
    np.testing.assert_allclose(
        state["w"], [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    assert not state["w.adam_m"].any() and state["step"] == 0


@pytest.mark.parametrize("flags, norm", [
    (["--clip-norm", "0.5"], 0.5),
    (["--clip-norm", "1e9"], None),
    (["--clip-value", "1e-3"], np.sqrt(8) * 1e-3),
])
def test_gradients_are_clipped(flags, norm, linear, tmp_path):
    weights = {"w": np.full((3, 2), 2, np.float32),
               "b": np.ones(2, np.float32)}
    fixed = {"x": np.ones((4, 3)), "target": np.zeros((4, 2))}

    def length(*options):
        step = train_step.make_step(linear, tmp_path, "--loss", "mse",
                                    "--gradients", *options)
        loop = train_step.Loop(step, weights, fixed, rate=1)
        loop.run()
        return np.sqrt(sum(((loop.state[k] - v)**2).sum()
                           for k, v in weights.items()))

    free = length()
    assert length(*flags) == pytest.approx(norm or free, rel=1e-4)


def test_tied_weights_get_the_sum_of_both_gradients(tmp_path):
    model = tmp_path / "tied.onnxtxt"
    model.write_text("""
<ir_version: 8, opset_import: ["" : 18]>
tied (float[2, 2] x) => (float total)
<float[2, 2] w = {1, 2, 3, 4}>
{
  a = MatMul(x, w)
  b = MatMul(a, w)
  total = ReduceSum<keepdims = 0>(b)
}
""", encoding="utf-8")
    step = train_step.make_step(model, tmp_path, "--loss", "output",
                                "--optimizer", "none")
    w = np.array([[1, 2], [3, 4]], np.float32)
    x = np.array([[1, 0], [2, 1]], np.float32)
    outputs = train_step.Loop(step, {"w": w}, {"x": x}).run()
    ones = np.ones((2, 2), np.float32)
    expected = x.T @ (ones @ w.T) + (x @ w).T @ ones
    np.testing.assert_allclose(outputs["w.grad"], expected)


def test_ignored_positions_do_not_count(tmp_path):
    model = tmp_path / "classes.onnxtxt"
    model.write_text(LINEAR, encoding="utf-8")
    weights = {"w": np.ones((3, 2), np.float32),
               "b": np.array([0, 1], np.float32)}
    x = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
    step = train_step.make_step(model, tmp_path, "--optimizer", "none",
                                "--ignore-index=-100")
    some, all_ignored = (
        train_step.Loop(step, weights, {"x": x, "target": target}).run()
        for target in ([0, -100, 1, -100], [-100] * 4))
    logits = x[[0, 2]] @ weights["w"] + weights["b"]
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    assert some["loss"] == pytest.approx(
        -np.log(p[[0, 1], [0, 1]]).mean(), rel=1e-5)
    np.testing.assert_allclose(
        some["b.grad"], (p - np.eye(2)).mean(0), rtol=1e-4)
    assert all_ignored["loss"] == 0 and not all_ignored["w.grad"].any()


def test_a_symbolic_batch_stays_symbolic(tmp_path):
    model = tmp_path / "batch.onnxtxt"
    model.write_text(LINEAR.replace("[4, 3]", "[batch, 3]").replace(
        "[4, 2] y", "[batch, 2] y"), encoding="utf-8")
    weights = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
    step = train_step.make_step(model, tmp_path, "--loss", "mse")
    for batch in (1, 5):
        loop = train_step.Loop(step, weights, {
            "x": np.ones((batch, 3)), "target": np.zeros((batch, 2))})
        assert loop.run()["loss"] == pytest.approx(9)
        np.testing.assert_allclose(loop.state["b"], -0.01 * 3, rtol=1e-5)


LOSS = """
<ir_version: 8, opset_import: ["" : 18]>
huber (float[n, c] y, float[n, c] wanted, float[n, c] weight) => (float loss)
<float one = {1}, float half = {0.5}>
{
  d = Sub(y, wanted)
  a = Abs(d)
  near = Mul(half, d)
  square = Mul(near, d)
  far = Sub(a, half)
  is_near = Less(a, one)
  part = Where(is_near, square, far)
  weighted = Mul(part, weight)
  loss = ReduceMean<keepdims = 0>(weighted)
}
"""


def test_a_loss_may_be_a_file(linear, tmp_path):
    loss = tmp_path / "huber.onnxtxt"
    loss.write_text(LOSS, encoding="utf-8")
    step = train_step.make_step(linear, tmp_path, "--loss", loss,
                                "--optimizer", "none")
    weights = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}
    x = np.ones((4, 3), np.float32)
    wanted = np.array([[2.5, 0], [3, 3], [3.25, 9], [4.5, 3]], np.float32)
    weight = np.arange(8, dtype=np.float32).reshape(4, 2)
    outputs = train_step.Loop(step, weights, {
        "x": x, "wanted": wanted, "weight": weight}).run()
    d = 3 - wanted
    value = np.where(abs(d) < 1, d * d / 2, abs(d) - 0.5)
    assert outputs["loss"] == pytest.approx((value * weight).mean(), rel=1e-6)
    np.testing.assert_allclose(
        outputs["b.grad"], (np.clip(d, -1, 1) * weight).sum(0) / 8, rtol=1e-6)


@pytest.mark.parametrize("old, new, reason", [
    ("18", "17", "it is of opset 17, and the model of 18"),
    ("n, c] y", "n, c] z", "no input of the loss is named as an output"),
    ("(float loss)", "(float loss, float[n, c] d)", "a loss has one output"),
    ("wanted", "w", "a name that it has already"),
])
def test_losses_that_do_not_fit(old, new, reason, tmp_path):
    loss = tmp_path / "loss.onnxtxt"
    text = LOSS.replace("Sub(y,", "Sub(z,") if new.endswith("z") else LOSS
    loss.write_text(text.replace(old, new), encoding="utf-8")
    stderr = fails(tmp_path, LINEAR, "--loss", loss)
    assert "loss.onnxtxt: " in stderr and reason in stderr


# Eight layers whose activations, 4 MiB each, the backward pass reads.
DEEP = """
<ir_version: 8, opset_import: ["" : 18]>
deep (float[4096, 256] x) => (float[4096, 1] y)
<float[256] w = {%s}, int64[1] axes = {1}> {
  a0 = Mul (x, w)
%s
  y = ReduceMean (a8, axes)
}
""" % (", ".join(["0.5"] * 256), "\n".join(
    f"  t{i} = Exp (a{i})\n  a{i + 1} = Tanh (t{i})" for i in range(8)))


def test_the_page_has_the_plans(tmp_path):
    """--html: the report of the step, with what is made again."""
    (tmp_path / "deep.onnxtxt").write_text(DEEP, encoding="utf-8")
    result = memopt("train", "deep.onnxtxt", "--loss", "mse", "--checkpoint",
                    "optimal", "-o", "step.onnx", "--html", "step.html",
                    "--json", "plan.json", cwd=tmp_path)
    if "no HTML report" in result.stderr:
        pytest.skip(result.stderr.strip())
    assert result.code == 0, result.stderr
    assert "wrote step.html" in result.stdout
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["recomputed"] and plan["curve"]
    page = (tmp_path / "step.html").read_text(encoding="utf-8")
    report = json.loads(page.partition('id="report">')[2]
                        .partition("</script>")[0])
    assert report["model"]["path"] == "step.onnx"
    assert [c["first"] for c in report["checkpoints"]] == [
        c["first"] for c in plan["recomputed"]]
    assert sum(c["bytes"] for c in report["checkpoints"]) > 0
    assert [p["peak_bytes"] for p in report["pareto"]] == [
        p["peak_bytes"] for p in plan["curve"]]
    assert report["outputs"] == ["step.onnx", "step.html"]


def test_a_report_says_what_training_would_keep(tmp_path):
    model = SHARED / "training" / "unet_gn.onnx"
    if not model.is_file():
        pytest.skip(f"{model}: not there")
    result = memopt(model, "--analyze", "--training", "--json", "r.json",
                    cwd=tmp_path)
    assert result.code == 0, result.stderr
    training = json.loads((tmp_path / "r.json").read_text())["training"]
    assert training["reason"] is None
    sizes = [value["bytes"] for value in training["saved"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == training["saved_for_backward_bytes"] > 0
    peaks = [plan["peak_bytes"] for plan in training["plans"]]
    assert peaks == sorted(peaks, reverse=True)
    assert "saved for backward" in result.stdout
    (tmp_path / "ints.onnxtxt").write_text(
        '<ir_version: 9, opset_import: ["" : 18]>\n'
        "g (int64[4] x) => (int64[4] y) { y = Neg(x) }\n")
    result = memopt("ints.onnxtxt", "--analyze", "--training", cwd=tmp_path)
    assert result.code == 0, result.stderr
    assert "none: no output is of a floating-point type" in result.stdout
