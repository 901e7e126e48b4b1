"""onnx-memopt suggest-student: what it keeps, how wide it is, and that it runs."""

import json
import os
import shutil

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import train_step
from memopt_program import ROOT, SHARED, memopt

SLOW = os.environ.get("ONNX_MEMOPT_SLOW") == "1"
LEVELS = [ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
          ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
          ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
          ort.GraphOptimizationLevel.ORT_ENABLE_ALL]


def suggest(model, folder, *flags):
    student = folder / "student.onnx"
    result = memopt("suggest-student", model, "-o", student, "--json", "-", "-q",
                    *flags, cwd=folder)
    assert result.code == 0, result.stderr
    return student, json.loads(result.stdout)


def shapes(values):
    return {v.name: [d.dim_param or d.dim_value
                     for d in v.type.tensor_type.shape.dim] for v in values}


def runs(student, sizes, levels=LEVELS):
    """At these levels, with the same results; gives them."""
    rng = np.random.default_rng(0)
    feeds, first = {}, None
    for level in levels:
        session = train_step.session(str(student), level=level)
        for value in session.get_inputs():
            shape = [sizes.get(d, d) for d in value.shape]
            feeds.setdefault(value.name, rng.integers(0, 40, shape)
                             if "int" in value.type
                             else rng.normal(size=shape).astype(np.float32))
        found = session.run(None, feeds)
        assert all(np.isfinite(f).all() for f in found)
        first = first or found
        for a, b in zip(first, found):
            np.testing.assert_allclose(a, b, atol=2e-3, rtol=1e-3)
    return first


def parameters(model):
    return sum(np.prod(t.dims) for t in onnx.load(model).graph.initializer
               if t.data_type == onnx.TensorProto.FLOAT)


# A transformer with sizes that have names, as PyTorch writes it.
def transformer(layers=4, hidden=32, heads=4, inner=64, classes=7):
    rng = np.random.default_rng(0)
    weights, lines = [], []

    def weight(name, *shape):
        weights.append(onnx.numpy_helper.from_array(
            rng.normal(size=shape).astype(np.float32), name))
        return name

    def numbers(name, *values):
        weights.append(onnx.numpy_helper.from_array(
            np.array(values, np.int64), name))
        return name

    size = hidden // heads
    numbers("zero", 0), numbers("one", 1), numbers("heads", heads)
    numbers("size", size), numbers("hidden", hidden)
    lines.append("shape = Shape(x)")
    lines.append("batch = Gather(shape, zero)")
    lines.append("seq = Gather(shape, one)")
    lines.append("split = Concat<axis = 0>(batch, seq, heads, size)")
    lines.append("join = Concat<axis = 0>(batch, seq, hidden)")
    lines.append(f"h0 = Gather({weight('table', 50, hidden)}, x)")
    last = "h0"
    for i in range(layers):
        p = f"l{i}_"
        lines.append(f"{p}n = LayerNormalization<axis = -1>({last}, "
                     f"{weight(p + 'g', hidden)}, {weight(p + 'b', hidden)})")
        for part in "qkv":
            lines.append(f"{p}{part}m = MatMul({p}n, "
                         f"{weight(p + part + 'w', hidden, hidden)})")
            lines.append(f"{p}{part}a = Add({p}{part}m, "
                         f"{weight(p + part + 'b', hidden)})")
            lines.append(f"{p}{part}r = Reshape({p}{part}a, split)")
            order = "0, 2, 3, 1" if part == "k" else "0, 2, 1, 3"
            lines.append(f"{p}{part} = Transpose<perm = [{order}]>({p}{part}r)")
        lines += [f"{p}s = MatMul({p}q, {p}k)", f"{p}p = Softmax<axis = -1>({p}s)",
                  f"{p}c = MatMul({p}p, {p}v)",
                  f"{p}t = Transpose<perm = [0, 2, 1, 3]>({p}c)",
                  f"{p}o = Reshape({p}t, join)",
                  f"{p}om = MatMul({p}o, {weight(p + 'ow', hidden, hidden)})",
                  f"{p}r = Add({last}, {p}om)",
                  f"{p}f = MatMul({p}r, {weight(p + 'fw', hidden, inner)})",
                  f"{p}fr = Relu({p}f)",
                  f"{p}fo = MatMul({p}fr, {weight(p + 'gw', inner, hidden)})",
                  f"{p}h = Add({p}r, {p}fo)"]
        last = f"{p}h"
    lines.append(f"y = MatMul({last}, {weight('head', hidden, classes)})")
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]>\n'
        f"t (int64[b, s] x) => (float[b, s, {classes}] y)\n{{\n"
        + "\n".join(lines) + "\n}\n")
    model.graph.initializer.extend(weights)
    return model


@pytest.fixture(name="model")
def transformer_file(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(transformer(), path)
    return path


def test_fewer_layers(model, tmp_path):
    student, report = suggest(model, tmp_path, "--layers", "2", "--dim", "s=16",
                              "--batch", "2")
    assert [(r["before"], r["after"]) for r in report["layers"]] == [(4, 2)]
    read = onnx.load(student)
    onnx.checker.check_model(read, full_check=True)
    assert shapes(read.graph.input) == {"x": ["b", "s"]}
    assert shapes(read.graph.output) == {"y": ["b", "s", 7]}
    names = {t.name for t in read.graph.initializer}
    assert {"l0_qw", "l1_gw", "head"} <= names
    assert not any(n.startswith(("l2_", "l3_")) for n in names)
    assert runs(student, {"b": 2, "s": 5})[0].shape == (2, 5, 7)
    assert report["student"]["parameters"] == parameters(student)
    assert report["model"]["parameters"] == parameters(model)
    small, large = report["student"], report["model"]
    assert 0 < small["saved_activation_bytes"] < large["saved_activation_bytes"]
    # Whole blocks of PyTorch's allocator.
    assert 0 < small["training_bytes"] <= large["training_bytes"]


def test_narrower(model, tmp_path):
    student, report = suggest(model, tmp_path, "--width", "0.5", "--layers", "3")
    assert {(w["from"], w["to"]) for w in report["widths"]} == {(32, 16), (64, 32)}
    read = onnx.load(student)
    onnx.checker.check_model(read, full_check=True)
    held = {t.name: list(t.dims) for t in read.graph.initializer}
    assert held["l0_qw"] == [16, 16] and held["l0_fw"] == [16, 32]
    assert held["table"] == [50, 16] and held["head"] == [16, 7]
    assert held["l0_g"] == [16]
    out = runs(student, {"b": 2, "s": 5})[0]
    assert out.shape == (2, 5, 7) and out.std() > 0
    # Two heads of 8, as each of the four was.
    traced = onnx.load(student)
    traced.graph.output.append(onnx.helper.make_empty_tensor_value_info("l0_q"))
    session = train_step.session(traced.SerializeToString())
    queries = session.run(["l0_q"], {"x": np.zeros((2, 5), np.int64)})[0]
    assert queries.shape == (2, 2, 5, 8)


def test_widths_go_by_whole_heads(model, tmp_path):
    student, report = suggest(model, tmp_path, "--width", "0.3")
    assert report["layers"] == []
    held = {t.name: list(t.dims) for t in onnx.load(student).graph.initializer}
    assert held["l0_qw"] == [10, 8]  # 0.3 of 32; one head of 4
    runs(student, {"b": 1, "s": 3}, LEVELS[-1:])


def test_weights_follow_from_the_seed(model, tmp_path):
    first = suggest(model, tmp_path)[0].read_bytes()
    assert suggest(model, tmp_path)[0].read_bytes() == first
    student, _ = suggest(model, tmp_path, "--seed", "1")
    assert student.read_bytes() != first
    held = train_step.initializers(student)
    assert (held["l0_g"] == 1).all() and not held["l0_b"].any()
    assert not held["l1_qb"].any()
    assert held["l0_qw"].std() == pytest.approx((2 / 64) ** 0.5, rel=0.1)
    assert held["table"].std() == pytest.approx(0.02, rel=0.1)
    assert abs(held["l1_qw"].mean()) < 0.02
    assert (held["l0_qw"] != held["l0_kw"]).any()
    np.testing.assert_array_equal(held["heads"], [4])


def test_the_student_learns_from_its_model(model, tmp_path):
    student, _ = suggest(model, tmp_path, "--width", "0.5")
    step = train_step.make_step(student, tmp_path, "--teacher", model, "--alpha",
                                "1", "--optimizer", "adam")
    run = train_step.Loop(step, train_step.initializers(student), {
        "x": np.arange(12).reshape(3, 4)}, rate=0.01)
    losses = [run.run()["loss"] for _ in range(20)]
    assert losses[-1] < losses[0] / 2


def residual(channels=(8, 16), blocks=3):
    """Two stages of equal units, as a ResNet."""
    rng = np.random.default_rng(0)
    weights, lines = [], []

    def conv(name, source, inputs, outputs, kernel, stride=1, group=1):
        weights.append(onnx.numpy_helper.from_array(rng.normal(
            size=(outputs, inputs // group, kernel, kernel)).astype(np.float32),
            name + "w"))
        pad = kernel // 2
        lines.append(f"{name} = Conv<pads = [{pad}, {pad}, {pad}, {pad}], "
                     f"strides = [{stride}, {stride}], group = {group}>"
                     f"({source}, {name}w)")
        norm = [np.ones(outputs), np.zeros(outputs), np.zeros(outputs),
                np.ones(outputs)]
        for part, value in zip("gbmv", norm):
            weights.append(onnx.numpy_helper.from_array(
                value.astype(np.float32), name + part))
        lines.append(f"{name}n = BatchNormalization({name}, {name}g, {name}b, "
                     f"{name}m, {name}v)")
        return name + "n"

    last, inputs = "x", 3
    for s, outputs in enumerate(channels):
        last = conv(f"s{s}", last, inputs, outputs, 3, 2)
        for i in range(blocks):
            a = conv(f"s{s}b{i}c", last, outputs, outputs, 3)
            lines.append(f"s{s}b{i}r = Relu({a})")
            d = conv(f"s{s}b{i}d", f"s{s}b{i}r", outputs, outputs, 3, 1, outputs)
            lines.append(f"s{s}b{i} = Add({last}, {d})")
            last = f"s{s}b{i}"
        inputs = outputs
    weights.append(onnx.numpy_helper.from_array(
        rng.normal(size=(10, inputs)).astype(np.float32), "head"))
    weights.append(onnx.numpy_helper.from_array(np.zeros(10, np.float32), "hb"))
    lines += [f"p = GlobalAveragePool({last})", "f = Flatten(p)",
              "y = Gemm<transB = 1>(f, head, hb)"]
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]>\n'
        "r (float[n, 3, 16, 16] x) => (float[n, 10] y)\n{\n"
        + "\n".join(lines) + "\n}\n")
    model.graph.initializer.extend(weights)
    return model


def test_a_residual_network(tmp_path):
    model = tmp_path / "model.onnx"
    onnx.save(residual(), model)
    student, report = suggest(model, tmp_path, "--layers", "1", "--width", "0.5")
    assert [(r["before"], r["after"]) for r in report["layers"]] == [(3, 1)] * 2
    held = {t.name: list(t.dims) for t in onnx.load(student).graph.initializer}
    assert held["s0b0cw"] == [4, 4, 3, 3] and held["s0b0dw"] == [4, 1, 3, 3]
    assert held["s1w"] == [8, 4, 3, 3] and held["head"] == [10, 8]
    assert "s1b2cw" not in held and held["s1b0dv"] == [8]
    onnx.checker.check_model(onnx.load(student), full_check=True)
    assert runs(student, {"n": 2})[0].shape == (2, 10)


# Sizes of inputs in the tests: those that have names.
REAL = {
    "bert": (ROOT / "test/models/bert.onnx", {"batch": 1, "seq": 16}, 12),
    "gpt2": (SHARED / "models/gpt2.onnx", {}, 12),
    "gpt2_dyn": (SHARED / "models/gpt2_dyn.onnx", {"batch": 1, "seq": 16}, 12),
    "llama4l": (SHARED / "models/llama4l.onnx", {}, 4),
    "vit_b16": (SHARED / "models/vit_b16.onnx", {}, 12),
    "resnet50": (SHARED / "models/resnet50.onnx", {}, None),
    "mobilenetv3": (SHARED / "models/mobilenetv3.onnx", {}, None),
}


def with_its_constants(path, folder):
    """The model in `folder`; what of its external data is not trained is zero."""
    copy = folder / path.name
    shutil.copy(path, copy)
    ends = {}
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        entry = {e.key: e.value for e in tensor.external_data}
        if entry:
            place = folder / entry["location"]
            end = int(entry.get("offset", 0)) + int(entry["length"])
            ends[place] = max(ends.get(place, 0), end)
    for place, end in ends.items():
        with open(place, "wb") as data:
            data.truncate(end)  # takes no room
    return copy


@pytest.mark.parametrize("name", REAL)
@pytest.mark.skipif(not SLOW, reason="takes minutes: ONNX_MEMOPT_SLOW=1")
def test_real_networks(name, tmp_path):
    path, sizes, layers = REAL[name]
    if not path.is_file():
        pytest.skip(f"{path}: not there")
    model = with_its_constants(path, tmp_path)
    flags = ["--layers", "2", *(f"--dim={k}={v}" for k, v in sizes.items())]
    held = []
    for more in ([], ["--width", "0.5"]):
        student, report = suggest(model, tmp_path, *flags, *more)
        if layers:
            assert [(r["before"], r["after"]) for r in report["layers"]] == [
                (layers, 2)]
        assert all(r["after"] <= 2 for r in report["layers"])
        onnx.checker.check_model(str(student), full_check=True)
        runs(student, sizes)
        held.append(report["student"]["saved_activation_bytes"])
    assert held[1] < held[0] < report["model"]["saved_activation_bytes"]


@pytest.mark.parametrize("flags, reason", [
    (["--layers", "0"], "--layers: 0 is not a positive number"),
    (["--layers", "5"], "5 were asked for, and the model has 4 equal blocks"),
    (["--layers", "2", "--layers-ratio", "0.5"], "give one"),
    (["--layers-ratio", "0"], "--layers-ratio: 0 is not"),
    (["--width", "1.5"], "--width: 1.5 is not"),
    (["--width", "nan"], "--width: nan is not"),
    (["--narrow-output", "y"], "--narrow-output needs --width"),
    (["--width", "0.5", "--narrow-output", "z"], 'has no output "z"; near it: "y"'),
    (["--dim", "q=3"], "q"),
    (["--batch", "0"], "--batch: 0 is not"),
])
def test_options_that_do_not_fit(flags, reason, model, tmp_path):
    result = memopt("suggest-student", model, "-o", "s.onnx", *flags,
                    cwd=tmp_path)
    assert result.code == 2, result.stderr
    assert result.stderr.startswith("error: ") and reason in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "s.onnx").exists()


HELD = """
<ir_version: 8, opset_import: ["" : 18]>
m (float[4, 8] x) => (float[4, 3] y)
<int64[1] zero = {0}, int64[1] four = {4}, int64[1] one = {1}>
{
  h = MatMul(x, w)
  front = Slice(h, zero, four, one)
  back = Slice(h, four, eight, one)
  product = Mul(front, back)
  y = MatMul(product, u)
}
"""


def test_an_op_that_prevents_it(tmp_path):
    model = onnx.parser.parse_model(HELD)
    for name, value in (("w", np.ones((8, 8), np.float32)),
                        ("u", np.ones((4, 3), np.float32)),
                        ("eight", np.array([8], np.int64))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    result = memopt("suggest-student", path, "--width", "0.5", cwd=tmp_path)
    assert result.code == 2
    assert "(Slice)" in result.stderr and "8" in result.stderr
    result = memopt("suggest-student", path, "--layers", "1", cwd=tmp_path)
    assert result.code == 2 and "no block with weights repeats" in result.stderr


def test_an_output_that_is_a_width(tmp_path):
    model = transformer()
    del model.graph.node[-1]
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info(
        "l3_h", onnx.TensorProto.FLOAT, ["b", "s", 32]))
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    _, report = suggest(path, tmp_path, "--width", "0.5")
    assert any('width 32 is kept: output "l3_h"' in n for n in report["notes"])
    student, report = suggest(path, tmp_path, "--width", "0.5",
                              "--narrow-output", "l3_h", "--layers-ratio", "0.5")
    assert runs(student, {"b": 1, "s": 4}, LEVELS[-1:])[0].shape == (1, 4, 16)
    assert shapes(onnx.load(student).graph.output) == {"l3_h": ["b", "s", 16]}


def test_it_says_what_it_would_be(model, tmp_path):
    before = set(tmp_path.iterdir())
    result = memopt("suggest-student", model, "--dim", "s=8", cwd=tmp_path)
    assert result.code == 0, result.stderr
    assert "layers      4 -> 2" in result.stdout
    assert "training, Adam, batch 1" in result.stdout
    result = memopt("suggest-student", model, cwd=tmp_path)
    assert "note: no estimate: the size of s is not known" in result.stdout
    assert set(tmp_path.iterdir()) == before


def test_a_constant_that_is_stated_in_a_width_is_named(tmp_path):
    rng = np.random.default_rng(0)

    def weight(name, *shape):
        return onnx.numpy_helper.from_array(
            rng.normal(size=shape).astype(np.float32), name)

    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[2, 64] x) => (float[2, 10] y)
        <float scale = {0.08838835}, float half = {0.5}> {
          h = MatMul (x, up)
          s = Mul (h, scale)
          t = Mul (s, half)
          y = MatMul (t, down)
        }""")
    model.graph.initializer.extend([weight("up", 64, 128),
                                    weight("down", 128, 10)])
    onnx.save(model, tmp_path / "model.onnx")
    _, said = suggest(tmp_path / "model.onnx", tmp_path, "--width", "0.5")
    assert ('constant "scale" is 1/sqrt(128), of a width that is now 64; it '
            "stays") in said["notes"]
    assert not any("half" in note for note in said["notes"])
