"""train_step and estimate from Python."""

import pytest

import onnx_memopt

onnx = pytest.importorskip("onnx")

LINEAR = """
<ir_version: 10, opset_import: ["" : 18]>
linear (float[batch, 3] x) => (float[batch, 2] y)
<float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
  y = MatMul (x, w)
}
"""


@pytest.fixture
def linear(tmp_path):
    path = tmp_path / "linear.onnx"
    path.write_bytes(onnx.parser.parse_model(LINEAR).SerializeToString())
    return path


def test_a_step_from_a_file_and_from_memory(linear, tmp_path):
    options = {"loss": "mse", "optimizer": "momentum", "dims": {"batch": 4}}
    state = tmp_path / "state.onnx"
    path, report = onnx_memopt.train_step(linear, initial_state=state,
                                          **options)
    assert path == tmp_path / "linear.step.onnx"
    assert report.outputs == [str(path), str(state)]
    assert (report.parameters, report.parameter_bytes) == (1, 24)
    assert report.state_bytes == 24
    assert report.peak_steady_bytes > 0
    assert "1 parameters" in repr(report)
    proto, of_proto = onnx_memopt.train_step(onnx.load(linear), **options)
    assert isinstance(proto, onnx.ModelProto)
    assert proto == onnx.load(path)
    assert of_proto.nodes == report.nodes
    names = {value.name for value in proto.graph.output}
    assert {"loss", "w.next", "w.momentum.next"} <= names


def test_a_step_trains(linear):
    runtime = pytest.importorskip("onnxruntime")
    numpy = pytest.importorskip("numpy")
    step, _ = onnx_memopt.train_step(linear.read_bytes(), loss="mse",
                                     dims={"batch": 4})
    session = runtime.InferenceSession(step)
    feeds = {"x": numpy.ones((4, 3), numpy.float32),
             "target": numpy.zeros((4, 2), numpy.float32),
             "w": numpy.ones((3, 2), numpy.float32),
             "learning_rate": numpy.array(0.1, numpy.float32),
             "step": numpy.array(0, numpy.int64)}
    names = [output.name for output in session.get_outputs()]
    wanted = {value.name for value in session.get_inputs()}
    losses = []
    for _ in range(3):
        results = dict(zip(names, session.run(None, {
            name: value for name, value in feeds.items() if name in wanted})))
        losses.append(float(results["loss"]))
        feeds["w"] = results["w.next"]
    assert losses[0] > losses[1] > losses[2]


def test_a_trainer_makes_its_step(linear, tmp_path):
    pytest.importorskip("onnxruntime")
    numpy = pytest.importorskip("numpy")
    from onnx_memopt.training import Trainer
    trainer = Trainer(linear, loss="mse", optimizer="adamw", accumulate=2,
                      dims={"batch": 2}, learning_rate=0.1)
    assert trainer.report.micro_batches == 2
    batch = (numpy.ones((4, 3)), numpy.zeros((4, 2)))
    losses = trainer.fit([batch] * 3, progress=False)
    assert losses[0] > losses[1] > losses[2] and trainer.steps == 3
    trainer.write_model(tmp_path / "trained.onnx")
    tensor = onnx.load(tmp_path / "trained.onnx").graph.initializer[0]
    assert (onnx.numpy_helper.to_array(tensor) == trainer.state["w"]).all()
    half = Trainer(linear.read_bytes(), loss="mse", precision="float16",
                   loss_scale=64.0, dims={"batch": 4})
    half.fit([batch] * 2, progress=False)
    assert half.losses[1] < half.losses[0] and half.state["loss_scale"] == 64


# The mean of absolute differences, which is none of those with a name.
ABSOLUTE = """
<ir_version: 10, opset_import: ["" : 18]>
absolute (float[4, 2] y, float[4, 2] wanted) => (float loss) {
  difference = Sub (y, wanted)
  size = Abs (difference)
  loss = ReduceMean <keepdims = 0> (size)
}
"""


@pytest.mark.parametrize("kind", ["path", "proto"])
def test_a_model_of_the_loss(linear, tmp_path, kind):
    loss = onnx.parser.parse_model(ABSOLUTE)
    if kind == "path":
        (tmp_path / "absolute.onnxtxt").write_text(ABSOLUTE)
        loss = str(tmp_path / "absolute.onnxtxt")
    step, _ = onnx_memopt.train_step(onnx.load(linear), loss=loss,
                                     dims={"batch": 4})
    inputs = {value.name for value in step.graph.input}
    assert "wanted" in inputs and "target" not in inputs
    assert any(node.op_type == "Abs" for node in step.graph.node)
    with pytest.raises(onnx_memopt.OptionError, match="loss: expected"):
        onnx_memopt.train_step(linear, loss="absolute")
    with pytest.raises(FileNotFoundError, match="none.onnx"):
        onnx_memopt.train_step(linear, loss="none.onnx", dims={"batch": 4})


@pytest.mark.parametrize("kind", ["path", "proto"])
def test_a_teacher(linear, tmp_path, kind):
    teacher = onnx.parser.parse_model(LINEAR.replace("1, 2, 3", "3, 2, 1"))
    if kind == "path":
        onnx.save(teacher, tmp_path / "teacher.onnx")
        teacher = tmp_path / "teacher.onnx"
    step, report = onnx_memopt.train_step(
        onnx.load(linear), teacher=teacher, temperature=4.0, alpha=0.7,
        match={"y": "y"}, match_weight=0.5, dims={"batch": 4})
    assert (report.teacher_nodes, report.teacher_bytes) == (1, 24)
    held = {tensor.name for tensor in step.graph.initializer}
    assert "teacher/w" in held and "w" not in held
    with pytest.raises(onnx_memopt.OptionError, match="alpha: 2 is not from"):
        onnx_memopt.train_step(linear, teacher=teacher, alpha=2)
    with pytest.raises(onnx_memopt.OptionError, match='near names: "y"'):
        onnx_memopt.train_step(linear, teacher=teacher, match={"yy": "y"})
    with pytest.raises(onnx_memopt.OptionError, match="they need a teacher"):
        onnx_memopt.train_step(linear, temperature=2.0)


def test_what_does_not_fit_is_said(linear):
    with pytest.raises(onnx_memopt.OptionError, match="optimizer: expected"):
        onnx_memopt.train_step(linear, optimizer="best")
    with pytest.raises(onnx_memopt.OptionError, match="precision: expected"):
        onnx_memopt.train_step(linear, precision="int8")
    with pytest.raises(onnx_memopt.OptionError, match="accumulate: 0 is not"):
        onnx_memopt.train_step(linear, accumulate=0)
    with pytest.raises(onnx_memopt.OptionError, match="checkpoint"):
        onnx_memopt.train_step(linear, budget="1MiB", checkpoint="sqrt")
    with pytest.raises(onnx_memopt.BudgetError, match="no plan within"):
        onnx_memopt.train_step(linear, loss="mse", budget=1,
                               dims={"batch": 4})
    with pytest.raises(onnx_memopt.OptionError, match="in memory"):
        onnx_memopt.train_step(linear.read_bytes(), output="x.onnx")


def test_an_estimate():
    from conftest import ROOT
    model = ROOT / "test" / "estimate" / "recorded" / "hf_bert.onnx"
    one = onnx_memopt.estimate(model, batch=1)
    eight = onnx_memopt.estimate(model.read_bytes(), batch=8, precision="fp16",
                                 max_batch=True, memory="4GiB")
    assert eight["batch"] == 8
    assert (eight["activation_bytes_a_sample"] * 2
            == pytest.approx(one["activation_bytes_a_sample"], rel=0.05))
    assert eight["max_batch"] > 8 and eight["fits_budget"]
    assert "total_bytes" in dict(one) and len(one) == len(list(one))
    assert "needs" in str(one) and "<pre>" in one._repr_html_()
    with pytest.raises(onnx_memopt.OptionError, match="9"):
        onnx_memopt.estimate(model, zero=9)
    with pytest.raises(onnx_memopt.OptionError, match="no dimension"):
        onnx_memopt.estimate(model, dims={"rows": 3})
    with pytest.raises(FileNotFoundError, match="no such file"):
        onnx_memopt.estimate("nothing.onnx")


def test_verify_takes_models(linear):
    pytest.importorskip("onnxruntime")
    new, _ = onnx_memopt.optimize(linear)
    result = onnx_memopt.verify(linear.read_bytes(), new, runs=1)
    assert result.equal and isinstance(result, onnx_memopt.VerifyResult)
