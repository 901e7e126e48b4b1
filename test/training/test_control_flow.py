"""Gradients of If, Loop and Scan, calls of functions, Attention, and models of
older opsets: the loss is that of the model as it was, and its slope along the
gradient is the gradient's length, by differences."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import train_step

HEAD = '<ir_version: 8, opset_import: ["" : 18]>\n'

BRANCH = HEAD + """
g (REAL[3, 4] x, REAL[4, 4] w, REAL[4, 4] v) => (REAL y)
<bool yes = {1}, int64[1] one = {1}> {
  z = If (yes) <
    then_branch = then () => (REAL[3, 4] t) <REAL[4] b = {1, 2, 3, 4}> {
      a = MatMul(x, w)
      t = Add(a, b)
    },
    else_branch = other () => (REAL[3, 4] e) { e = MatMul(x, v) }>
  q = Mul(z, z)
  p = ReduceSum<keepdims = 0>(v)
  s = ReduceSum<keepdims = 0>(q)
  y = Add(s, p)
}"""

LOOP = HEAD + """
g (REAL[3, 4] x, REAL[4, 4] w) => (REAL y)
<int64 trips = {3}, bool yes = {1}> {
  last, all = Loop (trips, yes, x) <
    body = body (int64 i, bool c, REAL[3, 4] h)
      => (bool d, REAL[3, 4] n, REAL[3, 4] o) {
      d = Identity(c)
      m = MatMul(h, w)
      r = CastLike(i, m)
      k = Add(m, r)
      n = Tanh(k)
      o = Mul(n, r)
    }>
  t = ReduceSum<keepdims = 0>(last)
  q = Mul(all, all)
  s = ReduceSum<keepdims = 0>(q)
  y = Add(s, t)
}"""

SCAN = HEAD + """
g (REAL[3, 5, 4] x, REAL[4, 4] w, REAL[3, 4] h) => (REAL y)
<REAL[5] f = {1, -2, 3, 0.5, 1.5}> {
  last, all = Scan (h, x) <num_scan_inputs = 1, scan_input_axes = [1],
      scan_input_directions = [1], scan_output_axes = [-1],
      body = body (REAL[3, 4] s, REAL[3, 4] i) => (REAL[3, 4] n, REAL[3, 4] o) {
      m = MatMul(s, w)
      k = Add(m, i)
      n = Tanh(k)
      o = Mul(n, i)
    }>
  t = ReduceSum<keepdims = 0>(last)
  q = Mul(all, f)
  s = ReduceSum<keepdims = 0>(q)
  y = Add(s, t)
}"""

CALL = """<ir_version: 8, opset_import: ["" : 18, "own" : 1]>
g (REAL[3, 4] x, REAL[4, 4] w) => (REAL y) {
  a = own.layer(x, w)
  b = own.layer(a, w)
  y = ReduceSum<keepdims = 0>(b)
}
<domain: "own", opset_import: ["" : 18]>
layer (x, w) => (y) {
  m = MatMul(x, w)
  y = Tanh(m)
}"""

# Axes and parts are attributes, Softmax is of all axes from one on.
OLD = """<ir_version: 7, opset_import: ["" : 11]>
g (REAL[3, 4] x, REAL[4, 4] w) => (REAL y) {
  m = MatMul(x, w)
  a, b = Split<axis = 1, split = [1, 3]>(m)
  p = Softmax(b)
  u = Unsqueeze<axes = [0]>(p)
  v = Squeeze<axes = [0]>(u)
  d = Dropout<ratio = 0.5>(v)
  q = Mul(d, a)
  r = Mul(q, q)
  y = ReduceSum<keepdims = 0, axes = [0, 1]>(r)
}"""

ATTENTION = """<ir_version: 10, opset_import: ["" : 23]>
g (REAL[2, 5, 8] x, REAL[8, 8] w, REAL[8, 4] v) => (REAL y) {
  q = MatMul(x, w)
  k = MatMul(x, v)
  z = Attention<q_num_heads = 4, kv_num_heads = 2, is_causal = 1>(q, k, k)
  t = Mul(z, z)
  y = ReduceSum<keepdims = 0>(t)
}"""


def model_of(text, real, weights):
    model = onnx.parser.parse_model(text.replace("REAL", real))
    graph = model.graph
    for name, value in weights.items():
        place = [i.name for i in graph.input].index(name)
        kind = graph.input[place].type.tensor_type.elem_type
        del graph.input[place]
        graph.initializer.append(numpy_helper.from_array(
            value.astype(onnx.helper.tensor_dtype_to_np_dtype(kind)), name))
    return model


@pytest.mark.parametrize("text, names, gone", [
    (BRANCH, ["w", "v"], "If"), (LOOP, ["w"], "Loop"),
    (SCAN, ["w", "h"], "Scan"), (CALL, ["w"], "layer"), (OLD, ["w"], None),
    (ATTENTION, ["w", "v"], "Attention")])
def test_gradients(text, names, gone, tmp_path):
    rng = np.random.default_rng(7)
    graph = onnx.parser.parse_model(text.replace("REAL", "float")).graph
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim]
              for i in graph.input}
    values = {k: rng.normal(0, 0.5, s) for k, s in shapes.items()}
    x = {"x": values.pop("x")}
    weights = {k: values[k] for k in names}
    path = tmp_path / "model.onnx"
    onnx.save(model_of(text, "float", weights), path)
    start = tmp_path / "start.onnx"
    step = train_step.make_step(path, tmp_path, "--loss", "output",
                                "--optimizer", "none", "--initial-state",
                                str(start))
    assert gone not in {n.op_type for n in onnx.load(step).graph.node}
    outputs = train_step.Loop(step, train_step.initializers(start), x).run()

    def loss(changed):
        model = model_of(text, "float", {**weights, **changed})
        return float(train_step.session(model.SerializeToString()).run(
            None, {"x": x["x"].astype(np.float32)})[0])

    assert outputs["loss"] == pytest.approx(loss({}), rel=1e-4)
    for name in names:
        gradient = outputs[f"{name}.grad"].astype(np.float64)
        length = 1e-2
        size = np.linalg.norm(gradient)
        assert size > 0.01
        moved = length / size * gradient
        slope = (loss({name: weights[name] + moved})
                 - loss({name: weights[name] - moved})) / (2 * length)
        assert slope == pytest.approx(size, rel=5e-3), name


def test_what_is_known_at_run_time_only_is_refused(tmp_path):
    text = BRANCH.replace("<bool yes = {1}, int64[1]", "<int64[1]").replace(
        "g (", "g (bool yes, ")
    weights = {"w": np.ones((4, 4)), "v": np.ones((4, 4))}
    path = tmp_path / "model.onnx"
    onnx.save(model_of(text, "float", weights), path)
    with pytest.raises(train_step.TrainError,
                       match=r"\(If\): it is written out .* known before"):
        train_step.make_step(path, tmp_path, "--loss", "output")


def test_a_softmax_over_several_axes_stays_in_its_opset(tmp_path):
    text = OLD.replace("Softmax(b)", "Softmax<axis = 0>(b)")
    path = tmp_path / "model.onnx"
    onnx.save(model_of(text, "float", {"w": np.ones((4, 4))}), path)
    with pytest.raises(train_step.TrainError, match="several axes at once"):
        train_step.make_step(path, tmp_path, "--loss", "output")
