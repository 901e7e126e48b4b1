"""analyze, optimize, session_options and the report."""

import json
import pathlib
import subprocess
import sys
import threading
import time

import pytest

import onnx_memopt

onnx = pytest.importorskip("onnx")


def outputs(model, x):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model, providers=[
        "CPUExecutionProvider"])
    return session.run(None, {"x": x})


def test_every_kind_of_model_comes_back_as_it_was(proto, model_path):
    data = proto.SerializeToString()
    new, of_path = onnx_memopt.optimize(model_path, dims={"n": 16})
    assert new == model_path.with_name("wide.memopt.onnx") and new.is_file()
    text, _ = onnx_memopt.optimize(str(model_path), dims={"n": 16})
    assert text == str(new)
    from_bytes, of_bytes = onnx_memopt.optimize(data, dims={"n": 16})
    from_proto, of_proto = onnx_memopt.optimize(proto, dims={"n": 16})
    assert isinstance(from_bytes, bytes)
    assert from_bytes == new.read_bytes()
    assert isinstance(from_proto, onnx.ModelProto)
    assert from_proto.SerializeToString() == from_bytes
    peaks = {report.after.live_peak_bytes
             for report in (of_path, of_bytes, of_proto)}
    assert len(peaks) == 1
    assert of_bytes.model.path == "<memory>"
    assert of_bytes.model.sha256 == of_path.model.sha256
    assert of_bytes.model.size_bytes == len(data)


def test_an_ir_model_comes_back_as_one(proto):
    onnx_ir = pytest.importorskip("onnx_ir")
    model, report = onnx_memopt.optimize(onnx_ir.from_proto(proto))
    assert isinstance(model, onnx_ir.Model)
    assert report.after is not None
    onnx.checker.check_model(onnx_ir.to_proto(model))


def test_a_program_of_torch_comes_back_as_one(proto):
    # Not torch's own: what it has is asked for, not its type.
    onnx_ir = pytest.importorskip("onnx_ir")

    class Program:
        def __init__(self, model, exported_program):
            self.model = model
            self.exported_program = exported_program

    given = Program(onnx_ir.from_proto(proto), "exported")
    program, _ = onnx_memopt.optimize(given)
    assert isinstance(program, Program) and program is not given
    assert isinstance(program.model, onnx_ir.Model)
    assert program.exported_program == "exported"


def test_the_result_computes_the_same(proto):
    numpy = pytest.importorskip("numpy")
    new, report = onnx_memopt.optimize(proto, dims={"n": 16})
    x = numpy.linspace(0, 1, 16 * 4096, dtype=numpy.float32).reshape(16, 4096)
    for a, b in zip(outputs(proto.SerializeToString(), x),
                    outputs(new.SerializeToString(), x)):
        assert (a == b).all()
    assert (report.after.live_peak_bytes
            <= report.before.live_peak_bytes)


def test_the_report_has_the_numbers(model_path):
    report = onnx_memopt.analyze(model_path, dims={"n": [16, 32]})
    assert report.after is None and report.outputs == []
    assert [point.dims for point in report.sweep] == [[("n", 16)],
                                                      [("n", 32)]]
    # a and b, n * 4096 floats each.
    assert report.before.live_peak_bytes >= 2 * 32 * 4096 * 4
    names = {tensor.name for tensor in report.at_peak}
    assert {"a", "b"} <= names
    fields = json.loads(report.to_json())
    assert (fields["before"]["live_peak_bytes"]
            == report.before.live_peak_bytes)
    again = onnx_memopt.Report.from_json(report.to_json())
    assert again.before.live_peak_bytes == report.before.live_peak_bytes
    assert str(report) == report.to_text()
    assert "memory" in str(report) and "live peak" in repr(report)
    assert report.to_csv().startswith("graph,name,")
    assert json.loads(report.to_trace())["traceEvents"]
    assert report.to_dot().startswith("digraph")


def test_notebooks_show_a_table_in_which_names_are_text():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]>\n'
        'g (float[8] x) => (float[8] y) { y = Exp (x) }')
    model.graph.node[0].output[0] = "<script>alert(1)</script>"
    model.graph.output[0].name = "<script>alert(1)</script>"
    _, report = onnx_memopt.optimize(model)
    html = report._repr_html_()
    assert "<table>" in html and "before" in html
    assert "<script" not in html and "&lt;script&gt;" in html


def test_session_options_are_those_of_the_report(model_path):
    runtime = pytest.importorskip("onnxruntime")
    report = onnx_memopt.analyze(model_path, dims={"n": 512})
    options = onnx_memopt.session_options(report)
    assert isinstance(options, runtime.SessionOptions)
    best = report.recommended_session
    assert options.enable_mem_pattern == best.enable_mem_pattern
    assert options.enable_mem_reuse == best.enable_mem_reuse
    assert options.enable_cpu_mem_arena == best.enable_cpu_mem_arena
    runtime.InferenceSession(str(model_path), options)


@pytest.mark.parametrize("options, error, message", [
    ({"dims": {"m": 3}}, onnx_memopt.OptionError, '"m"'),
    ({"dims": {"n": 0}}, onnx_memopt.OptionError, "positive"),
    ({"passes": "nonsense"}, onnx_memopt.OptionError, "nonsense"),
    ({"budget": "many"}, onnx_memopt.OptionError, "many"),
    ({"max_slowdown": -1.0}, onnx_memopt.OptionError, "max_slowdown"),
    ({"max_slowdown": float("nan")}, onnx_memopt.OptionError, "max_slowdown"),
    ({"external_data": "x"}, onnx_memopt.OptionError, "external_data"),
])
def test_options_that_do_not_fit(model_path, options, error, message):
    with pytest.raises(error, match=message) as raised:
        onnx_memopt.optimize(model_path, **options)
    assert isinstance(raised.value, (onnx_memopt.Error, ValueError))
    assert list(model_path.parent.iterdir()) == [model_path]


def test_models_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.onnx"):
        onnx_memopt.analyze(tmp_path / "nothing.onnx")
    with pytest.raises(onnx_memopt.ModelError, match="<memory>"):
        onnx_memopt.analyze(b"no model")
    with pytest.raises(onnx_memopt.ModelError, match="empty"):
        onnx_memopt.analyze(b"")
    with pytest.raises(TypeError, match="expected a path"):
        onnx_memopt.analyze(3)
    with pytest.raises(onnx_memopt.OptionError, match="in memory"):
        onnx_memopt.optimize(b"x", output="y.onnx")


def test_progress_is_told_and_may_end_the_work(model_path):
    phases = []
    onnx_memopt.optimize(model_path, progress=phases.append)
    assert phases[0] == "reading" and "writing" in phases

    def fail(phase):
        raise RuntimeError("enough of " + phase)

    output = model_path.with_name("out.onnx")
    with pytest.raises(RuntimeError, match="enough of reading"):
        onnx_memopt.optimize(model_path, output=output, progress=fail)


def test_other_threads_run_meanwhile(slow_model):
    """The GIL is released: a thread of Python counts while the library works."""
    counted = 0
    done = threading.Event()

    def count():
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    onnx_memopt.analyze(slow_model)
    meanwhile = counted - before
    done.set()
    thread.join()
    assert meanwhile > 10


def test_control_c_ends_it_soon_and_leaves_no_file(slow_model, tmp_path):
    output = tmp_path / "out.onnx"
    # As a terminal sends it, but not too late on a busy machine: the work waits.
    code = ("import os, signal, sys, time, onnx_memopt\n"
            "def told(phase):\n"
            "    if phase == 'analysing':\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
            "        time.sleep(1)\n"
            "onnx_memopt.optimize(sys.argv[1], output=sys.argv[2],\n"
            "                     progress=told)\n")
    process = subprocess.Popen(
        [sys.executable, "-c", code, slow_model, output],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    _, errors = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert process.returncode != 0
    assert not output.exists()


@pytest.fixture
def slow_model(tmp_path) -> pathlib.Path:
    """A chain of nodes that takes a second or so."""
    count = 6000
    lines = [f"  t{i} = Exp (t{i - 1})" for i in range(1, count)]
    text = ('<ir_version: 8, opset_import: ["" : 18]>\n'
            f"g (float[64] t0) => (float[64] t{count - 1}) {{\n"
            + "\n".join(lines) + "\n}\n")
    path = tmp_path / "slow.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path
