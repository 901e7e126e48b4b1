"""Distillation: the step's loss and gradients against numpy, its teacher, and
what it takes in ONNX Runtime."""

import json
import os
import pathlib
import sys

import numpy as np
import onnx
import pytest

import train_step
from memopt_program import PROGRAM, ROOT, memopt

sys.path.insert(0, str(ROOT / "bench"))
import distillation  # noqa: E402
import ort_memory  # noqa: E402

STUDENT = """
<ir_version: 8, opset_import: ["" : 18]>
student (float[batch, 4] x) => (float[batch, 3] y)
<float[4, 2] w = {0.5, -1, 0.25, 0.1, 0.2, 0.3, -0.4, 0.5},
 float[2, 3] u = {-0.6, 0.7, 0.8, -0.9, 0.3, 0.2}, float[3] b = {0.1, 0, -0.2}>
{
  inner = MatMul(x, w)
  h = Tanh(inner)
  product = MatMul(h, u)
  y = Add(product, b)
}
"""
# Wider, of other names, and with layers that would train.
TEACHER = """
<ir_version: 8, opset_import: ["" : 18]>
teacher (float[n, 4] x) => (float[n, 3] logits)
<float[4, 2] w = {1, -1, 0.5, 0.1, 0.2, 0.3, -0.4, 0.5},
 float[2, 3] u = {0.6, -0.7, 1.8, 0.9, 2.3, -1.2},
 float[2] scale = {1, 2}, float[2] bias = {0.1, -0.1},
 float[2] mean = {0.2, 0.3}, float[2] var = {1.5, 0.5},
 float ratio = {0.5}, bool training = {1}>
{
  inner = MatMul(x, w)
  normed, mean_next, var_next = BatchNormalization<training_mode = 1>(
      inner, scale, bias, mean, var)
  h = Tanh(normed)
  dropped = Dropout(h, ratio, training)
  logits = MatMul(dropped, u)
}
"""
T = 3.0


def write(folder: pathlib.Path, name: str, text: str) -> pathlib.Path:
    path = folder / f"{name}.onnxtxt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(name="models")
def both_models(tmp_path):
    return write(tmp_path, "student", STUDENT), write(tmp_path, "teacher",
                                                      TEACHER)


def weights_of(text):
    return {t.name: onnx.numpy_helper.to_array(t).astype(np.float64)
            for t in onnx.parser.parse_model(text).graph.initializer}


def log_softmax(z):
    z = z - z.max(1, keepdims=True)
    return z - np.log(np.exp(z).sum(1, keepdims=True))


def teacher_values(x):
    w = weights_of(TEACHER)
    normed = ((x @ w["w"] - w["mean"]) / np.sqrt(w["var"] + 1e-5) * w["scale"]
              + w["bias"])
    h = np.tanh(normed)
    return h, h @ w["u"]


def loss_of(w, x, target, *, alpha, match=0.0, ignore=None, mse=False):
    """As docs/distillation.md has it, in float64."""
    h = np.tanh(x @ w["w"])
    y = h @ w["u"] + w["b"]
    teacher_h, logits = teacher_values(x)
    features = match * np.mean((h - teacher_h) ** 2)
    if mse:
        return ((1 - alpha) * np.mean((y - target) ** 2)
                + alpha * np.mean((y - logits) ** 2) + features)
    rows = np.ones(len(x), bool) if ignore is None else target != ignore
    hard = -log_softmax(y)[np.arange(len(x)), np.where(rows, target, 0)]
    p, q = log_softmax(logits / T), log_softmax(y / T)
    soft = T * T * (np.exp(p) * (p - q)).sum(1)
    count = max(rows.sum(), 1)
    return (((1 - alpha) * hard + alpha * soft) * rows).sum() / count + features


def gradients_of(w, *arguments, **options):
    """Central differences."""
    found = {}
    for name, value in w.items():
        found[name] = np.zeros_like(value)
        for i in np.ndindex(value.shape):
            ends = []
            for sign in (1, -1):
                moved = dict(w, **{name: value.copy()})
                moved[name][i] += sign * 1e-5
                ends.append(loss_of(moved, *arguments, **options))
            found[name][i] = (ends[0] - ends[1]) / 2e-5
    return found


def data(rows=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 4)), rng.integers(0, 3, rows)


CASES = {
    "both": (["--alpha", "0.3"], {"alpha": 0.3}),
    "soft": (["--alpha", "1"], {"alpha": 1.0}),
    "matched": (["--alpha", "0", "--match", "h=h", "--match-weight", "0.7"],
                {"alpha": 0.0, "match": 0.7}),
    "all": (["--match", "h=h", "--ignore-index", "2"],
            {"alpha": 0.5, "match": 1.0, "ignore": 2}),
    "soft without some": (["--alpha", "1", "--ignore-index", "1"],
                          {"alpha": 1.0, "ignore": 1}),
    "mse": (["--alpha", "0.4", "--loss", "mse", "--match", "h=h"],
            {"alpha": 0.4, "match": 1.0, "mse": True}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("extra", [
    [], ["--order", "file"], ["--checkpoint", "optimal", "--dim", "batch=6"]],
    ids=["", "file", "checkpoints"])
def test_loss_and_gradients(case, extra, models, tmp_path):
    student, teacher = models
    flags, options = CASES[case]
    if extra and case not in ("both", "all"):
        pytest.skip("enough with two cases")
    if "mse" not in options:
        flags = [*flags, *(["--temperature", str(T)] if options["alpha"] else
                           [])]
    step = train_step.make_step(student, tmp_path, "--teacher", teacher,
                                "--optimizer", "none", *flags, *extra)
    onnx.checker.check_model(onnx.load(step), full_check=True)
    x, target = data()
    if "mse" in options:
        target = np.random.default_rng(1).normal(size=(6, 3))
    w = {name: value.astype(np.float32)
         for name, value in weights_of(STUDENT).items()}
    for level in (train_step.ALL, train_step.NONE):
        found = train_step.Loop(step, w, {"x": x, "target": target},
                                level=level).run()
        exact = {k: v.astype(np.float64) for k, v in w.items()}
        np.testing.assert_allclose(
            found["loss"], loss_of(exact, x, target, **options), rtol=1e-5)
        for name, value in gradients_of(exact, x, target, **options).items():
            if not value.any():  # no term has it
                continue
            np.testing.assert_allclose(found[f"{name}.grad"], value, rtol=1e-3,
                                       atol=1e-5, err_msg=name)


def test_the_teacher_is_a_constant_of_the_step(models, tmp_path):
    student, teacher = models
    report = tmp_path / "report.json"
    step = train_step.make_step(
        student, tmp_path, "--teacher", teacher, "--optimizer", "adam",
        "--gradients", "--json", str(report), "--initial-state",
        tmp_path / "start.onnx")
    model = onnx.load(step)
    assert {i.name for i in model.graph.input} == {
        "x", "target", "learning_rate", "step", "w", "u", "b",
        *(f"{p}.adam_{s}" for p in "wub" for s in "mv")}
    assert not any("teacher" in o.name for o in model.graph.output)
    start = onnx.load(tmp_path / "start.onnx").graph.initializer
    assert not any("teacher" in t.name for t in start)
    held = {t.name: onnx.numpy_helper.to_array(t)
            for t in model.graph.initializer}
    for name in ("w", "u", "scale"):
        np.testing.assert_array_equal(
            held[f"teacher/{name}"],
            weights_of(TEACHER)[name].astype(np.float32))
    normed = [n for n in model.graph.node if n.op_type == "BatchNormalization"]
    assert len(normed) == 1 and len(normed[0].output) == 1
    assert json.loads(report.read_text())["teacher"]["nodes"] == 5
    # Only soft targets: there is no target.
    step = train_step.make_step(student, tmp_path, "--teacher", teacher,
                                "--alpha", "1")
    assert "target" not in [i.name for i in onnx.load(step).graph.input]


@pytest.mark.parametrize("flags", [
    ["--match", "h=h"], ["--ignore-index", "1"]], ids=["matched", "some left out"])
def test_micro_batches_are_one_batch(flags, models, tmp_path):
    student, teacher = models
    x, target = data(8)
    w = {name: value.astype(np.float32)
         for name, value in weights_of(STUDENT).items()}
    results = []
    for dim, count in ((8, 1), (2, 4)):
        step = train_step.make_step(
            student, tmp_path, "--teacher", teacher, *flags, "--optimizer",
            "adam", "--dim", f"batch={dim}", "--accumulate", str(count))
        run = train_step.Loop(step, w, {"x": x, "target": target}, rate=0.1)
        results.append([run.run() for _ in range(3)])
    for expected, found in zip(*results):
        for key, value in found.items():
            np.testing.assert_allclose(value, expected[key], rtol=1e-4,
                                       atol=1e-6, err_msg=key)


def test_half_precision_leaves_the_teacher_alone(models, tmp_path):
    student, teacher = models
    step = train_step.make_step(student, tmp_path, "--teacher", teacher,
                                "--match", "h=h", "--precision", "float16")
    model = onnx.load(step)
    halves = {t.name for t in model.graph.initializer
              if t.data_type == onnx.TensorProto.FLOAT16}
    assert not any(name.startswith("teacher/") for name in halves)
    x, target = data()
    w = {name: value.astype(np.float32)
         for name, value in weights_of(STUDENT).items()}
    found = train_step.Loop(
        step, w, {"x": x, "target": target, "loss_scale": 1024}).run()
    exact = loss_of({k: v.astype(np.float64) for k, v in w.items()}, x, target,
                    alpha=0.5, match=1.0)
    # T is 2 here.
    assert found["loss"] == pytest.approx(exact, rel=0.2)
    assert found["w.next"].dtype == np.float32 and (found["w.next"] != w["w"]).any()


def test_names_that_both_have_and_inputs_by_place(tmp_path):
    model = onnx.parser.parse_model(STUDENT)
    model.graph.node[2].output[0] = model.graph.node[3].input[0] = "teacher/h"
    student = tmp_path / "student.onnx"
    onnx.save(model, student)
    teacher = write(tmp_path, "teacher", TEACHER.replace("[n, 4] x", "[n, 4] p")
                    .replace("MatMul(x,", "MatMul(p,"))
    report = tmp_path / "report.json"
    step = train_step.make_step(student, tmp_path, "--teacher", teacher,
                                "--json", str(report))
    model = onnx.load(step)
    onnx.checker.check_model(model, full_check=True)
    assert any(t.name == "teacher_2/w" for t in model.graph.initializer)
    assert 'input "x" is the teacher\'s "p" too' in json.loads(
        report.read_text())["notes"]
    # Another type: an input of its own.
    teacher.write_text(TEACHER.replace("[n, 4] x", "[n, 5] p").replace(
        "MatMul(x,", "MatMul(cut,").replace(
            "{\n  inner", "{\n  cut = Gather<axis = 1>(p, places)\n  inner")
        .replace("<float[4, 2]", "<int64[4] places = {0, 1, 2, 3}, float[4, 2]"),
        encoding="utf-8")
    step = train_step.make_step(student, tmp_path, "--teacher", teacher, "--dim",
                                "n=6", "--dim", "batch=6")
    shapes = {i.name: i.shape for i in train_step.session(step).get_inputs()}
    assert shapes["teacher_2/p"] == [6, 5] and shapes["x"] == [6, 4]


def external(folder, text, name):
    model = onnx.parser.parse_model(text)
    for tensor in model.graph.initializer:  # raw bytes alone can be outside
        tensor.CopyFrom(onnx.numpy_helper.from_array(
            onnx.numpy_helper.to_array(tensor), tensor.name))
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / f"{name}.onnx", save_as_external_data=True,
              location=f"{name}.bin", size_threshold=0)
    return folder / f"{name}.onnx"


@pytest.mark.parametrize("apart", [False, True])
def test_external_data_of_both(apart, tmp_path):
    teacher = external(tmp_path / ("t" if apart else "s"), TEACHER, "teacher")
    student = external(tmp_path / "s", STUDENT, "student")
    x, target = data()
    w = {name: value.astype(np.float32)
         for name, value in weights_of(STUDENT).items()}
    losses = []
    for made in (student, write(tmp_path, "student", STUDENT)):
        step = made.parent / "step.onnx"
        result = memopt("train", made, "--teacher", teacher, "-o", step, "-q",
                        cwd=tmp_path)
        assert result.code == 0, result.stderr
        losses.append(train_step.Loop(step, w, {"x": x, "target": target}).run()
                      ["loss"])
    assert losses[0] == losses[1]
    places = {e.value for t in onnx.load(
        student.parent / "step.onnx", load_external_data=False).graph.initializer
        for e in t.external_data if e.key == "location"}
    assert places == {"step.onnx.data" if apart else "teacher.bin"}


def layers_of(name, channels, count, classes=10):
    """Convolutions whose activations are large beside their weights."""
    rng = np.random.default_rng(len(name))
    lines, weights, last, inputs = [], [], "x", 3
    for i in range(count):
        lines.append(f"  c{i} = Conv<pads = [1, 1, 1, 1]>({last}, w{i})\n"
                     f"  r{i} = Relu(c{i})")
        weights.append((f"w{i}", (channels, inputs, 3, 3)))
        last, inputs = f"r{i}", channels
    text = (f'<ir_version: 8, opset_import: ["" : 18]>\n'
            f"{name} (float[batch, 3, 32, 32] x) => (float[batch, {classes}] y)"
            "\n{\n" + "\n".join(lines) + f"""
  pooled = GlobalAveragePool({last})
  flat = Flatten(pooled)
  y = MatMul(flat, head)
}}
""")
    model = onnx.parser.parse_model(text)
    for weight, shape in [*weights, ("head", (channels, classes))]:
        model.graph.initializer.append(onnx.numpy_helper.from_array(
            rng.normal(0, 0.1, shape).astype(np.float32), weight))
    return model


@pytest.mark.parametrize("flags", [
    [], ["--accumulate", "2"], ["--checkpoint", "sqrt"]],
    ids=["plain", "accumulated", "sqrt"])
def test_the_teachers_activations_die_at_once(flags, tmp_path):
    """The peak is that of the student alone, or the teacher's: not both."""
    models = {}
    for name, channels, count in (("student", 8, 6), ("teacher", 24, 8)):
        models[name] = tmp_path / f"{name}.onnx"
        onnx.save(layers_of(name, channels, count), models[name])
    report = tmp_path / "report.json"
    peaks = {}
    for name, more in (("alone", []), ("taught", [
            "--teacher", models["teacher"]])):
        step = train_step.make_step(
            models["student"], tmp_path, "--loss", "mse", "--dim", "batch=32",
            "--json", str(report), *flags, *more)
        predicted = json.loads(report.read_text())["predicted"]
        # At level "all" convolutions have a layout of their own, which
        # predictions do not know (docs/runtime_model.md).
        measured = ort_memory.measure(step, level="basic")["peaks"][-1]
        peaks[name] = (predicted["peak_steady_bytes"], measured)
    for predicted, measured in peaks.values():
        assert abs(measured - predicted) <= 0.1 * predicted, peaks
    # Two activations of the teacher are 6 MiB, 3 of a micro-batch; the sum
    # would be 20 to 60 % above the student alone.
    assert peaks["taught"][1] <= 1.15 * peaks["alone"][1], peaks


@pytest.mark.parametrize("flags, reason, code", [
    (["--temperature", "0"], "--temperature: 0 is not above 0", 2),
    (["--temperature", "-1"], "--temperature: -1 is not above 0", 2),
    (["--alpha", "1.5"], "--alpha: 1.5 is not from 0 to 1", 2),
    (["--alpha", "nan"], "--alpha: nan is not from 0 to 1", 2),
    (["--alpha", "0"], "leaves nothing to the teacher", 2),
    (["--match", "h"], "--match: expected STUDENT=TEACHER", 2),
    (["--match", "hh=h"], 'the student computes no tensor "hh"; near names: '
     '"h"', 2),
    (["--match", "h=droped"], 'the teacher computes no tensor "droped"; near '
     'names: "dropped"', 2),
    (["--match", "y=h"], 'the student\'s "y" is float[batch, 3], and the '
     'teacher\'s "h" is float[batch, 2]', 2),
    (["--match-weight", "0", "--match", "h=h"], "--match-weight: 0", 2),
    (["--teacher-output", "z"], 'has no output "z"; it has "logits"', 2),
    (["--loss", "mse", "--temperature", "2"], "--loss mse has none", 2),
    (["--loss", "output"], "--soft-output", 2),
    (["--soft-output", "z"], 'computes no tensor "z"', 2),
    (["--match", "h=h", "--accumulate", "2", "--ignore-index", "0"],
     "has no weight for features", 2),
])
def test_options_that_do_not_fit(flags, reason, code, models, tmp_path):
    student, teacher = models
    fails(tmp_path, student, teacher, flags, reason, code)


def fails(folder, student, teacher, flags, reason, code=1, output="s.onnx"):
    before = set(folder.iterdir())
    result = memopt("train", student, "--teacher", teacher, "-o", output, *flags,
                    cwd=folder)
    assert result.code == code, result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1 and reason in result.stderr
    assert set(folder.iterdir()) == before


def test_teachers_that_do_not_fit(models, tmp_path):
    student, teacher = models
    bad = write(tmp_path, "bad", TEACHER.replace("n, 3]", "n, 5]").replace(
        "float[2, 3] u = {0.6, -0.7, 1.8, 0.9, 2.3, -1.2}",
        "float[2, 5] u = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}"))
    fails(tmp_path, student, bad, [],
          'the teacher\'s "logits" is float[batch, 5]: they cannot be compared',
          2)
    bad.write_text(TEACHER.replace("[n, 4] x", "[8, 4] x").replace("n, 3", "8, 3"),
                   encoding="utf-8")
    fails(tmp_path, student, bad, [], 'input "x" is float[8, 4] in the teacher, '
          "and float[batch, 4] in the student", 2)
    train_step.make_step(student, tmp_path, "--teacher", bad, "--dim", "batch=8")
    bad.write_text(TEACHER.replace('"" : 18', '"" : 17'), encoding="utf-8")
    fails(tmp_path, student, bad, [], "bad.onnxtxt: it has opset 17 of ai.onnx, "
          "and the model beside it 18")
    bad.write_text(
        '<ir_version: 8, opset_import: ["" : 18]>\n'
        "t (float[n, 4] x) => (float[n, 4] y)\n{\n  y = Tanh(x)\n}\n",
        encoding="utf-8")
    fails(tmp_path, student, bad, [], "this one has no weights")
    fails(tmp_path, student, tmp_path / "none.onnx", [], "none.onnx: no such")
    held = external(tmp_path / "e", TEACHER, "teacher")
    (tmp_path / "e" / "teacher.bin").unlink()
    fails(tmp_path, student, held, [], "the weights of a teacher are needed")
    fails(tmp_path, student, teacher, [], "is the teacher: give another file", 2,
          output=teacher.name)


def test_options_need_a_teacher(models, tmp_path):
    result = memopt("train", models[0], "-o", "s.onnx", "--alpha", "0.3",
                    cwd=tmp_path)
    assert result.code == 2
    assert "--alpha needs --teacher" in result.stderr


@pytest.mark.skipif(os.environ.get("ONNX_MEMOPT_SLOW") != "1",
                    reason="takes a minute: ONNX_MEMOPT_SLOW=1")
def test_few_labels_and_a_teacher_beat_few_labels():
    pytest.importorskip("sklearn.datasets")
    best, found = distillation.compare(seeds=5, samples=200, epochs=60,
                                       program=PROGRAM)
    mean = {way: np.mean(values) for way, values in found.items()}
    assert best > 0.95
    assert mean["alone"] < mean["taught"] < best
    assert mean["alone"] < mean["taught, more"] < best
