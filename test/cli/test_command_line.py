"""What the command line promises: options, exit codes, what goes where."""

import json
import os
import pty
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from memopt_program import (PROGRAM, ROOT, SHARED, analyze, memopt, parse,
                            save, tensor)

DYNAMIC = """
g (float[batch, 8, size] x) => (float[batch, 8, size] y) {
  a = Exp(x)
  dead = Sin(x)
  y = Add(a, x)
}"""


@pytest.fixture(name="model")
def small_model(tmp_path) -> str:
    return save(parse(DYNAMIC), tmp_path)


def names(folder) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_help_fits_and_shows_examples(tmp_path):
    result = memopt("--help", cwd=tmp_path)
    assert result.code == 0 and result.stderr == ""
    assert max(map(len, result.stdout.split("\n"))) <= 80
    assert "Examples:" in result.stdout and "Exit codes:" in result.stdout
    assert memopt("-h", cwd=tmp_path).stdout == result.stdout


def test_help_names_every_option(tmp_path):
    """An option is read only if the help has it."""
    source = (ROOT / "tools/onnx-memopt/arguments.cc").read_text()
    options = re.findall(r'app_\.(?:add_option|add_flag|set_version_flag)\('
                         r'\s*"([^"]+)"', source)
    assert len(options) > 12
    text = memopt("--help", cwd=tmp_path).stdout
    for option in options:
        first = next((o for o in option.split(",") if o.startswith("--")),
                     option)
        assert first in text, option


def test_version(tmp_path):
    result = memopt("--version", cwd=tmp_path)
    assert result.code == 0
    assert re.fullmatch(r"onnx-memopt \d+\.\d+\.\d+\n", result.stdout)


def test_list_passes(tmp_path):
    result = memopt("--list-passes", cwd=tmp_path)
    assert result.code == 0
    for name in ("drop-dead", "share-initializers", "reorder"):
        assert re.search(rf"^{name}: ", result.stdout, re.M)
    assert max(map(len, result.stdout.split("\n"))) <= 80


@pytest.mark.parametrize("arguments, word", [
    ([], "no model"), (["m.onnx", "--no-such-option"], "--no-such-option"),
    (["m.onnx", "a.onnx", "b.onnx"], "b.onnx"),
    (["m.onnx", "--dim", "batch"], "NAME=N"),
    (["m.onnx", "--dim", "batch=x"], "positive number"),
    (["m.onnx", "--dim", "batch=0"], "positive number"),
    (["m.onnx", "--dim", "batch="], "positive number"),
    (["m.onnx", "--dim", "=3"], "NAME=N"),
    (["m.onnx", "--dim", "nobody=3"], "batch, size"),
    (["m.onnx", "--input-shape", "x:1,8"], "3 dimensions"),
    (["m.onnx", "--input-shape", "nobody:1"], "x"),
    (["m.onnx", "--input-shape", "x"], "NAME:N"),
    (["m.onnx", "--input-shape", ":1,2"], "NAME:N"),
    (["m.onnx", "--input-shape", ""], "NAME:N"),
    (["m.onnx", "--input-shape", "1,2"], "3 dimensions"),
    (["m.onnx", "--input-shape", "1,,2"], "positive number"),
    (["m.onnx", "--input-shape", "2,8,5", "--input-shape", "x:2,8,5"],
     'two shapes are given for input "x"'),
    (["m.onnx", "--input-shape", "2,8,5", "--input-shape", "2,8,5"],
     "two shapes for the only input"),
    (["m.onnx", "--input-shape", "x:2,8,5", "--input-shape", "x:2,8,6"],
     'two shapes for input "x"'),
    (["m.onnx", "--passes", "polish"], "drop-dead"),
    (["m.onnx", "--passes", "reorder{beams=3}"], "beam"),
    (["m.onnx", "--passes", "reorder{"], '"}" is missing'),
    (["m.onnx", "--external-data", "some"], "reference"),
    (["m.onnx", "--max-peak", "lots"], "512MiB"),
    (["m.onnx", "--top", "few"], "--top"),
    (["m.onnx", "--analyze", "-o", "a.onnx"], "--analyze"),
    (["-"], "stdin"), (["m.onnx", "-o", "-", "--json", "-"], "stdout"),
])
def test_wrong_usage(tmp_path, model, arguments, word):
    """Exit code 2, one line that says what is possible, and no file."""
    result = memopt(*arguments, cwd=tmp_path)
    assert result.code == 2
    assert result.stderr.startswith("error: ") and word in result.stderr
    assert result.stderr.count("\n") == 1 and result.stdout == ""
    assert names(tmp_path) == [model]


def test_default_names(tmp_path, model):
    assert memopt(model, cwd=tmp_path).code == 0
    assert names(tmp_path) == ["m.memopt.json", "m.memopt.onnx", model]
    text = tmp_path / "t.onnxtxt"
    text.write_text('<ir_version: 8, opset_import: ["" : 17]>\n' + DYNAMIC)
    assert memopt("t.onnxtxt", cwd=tmp_path).code == 0
    assert {"t.memopt.onnxtxt", "t.memopt.json"} <= set(names(tmp_path))


@pytest.mark.parametrize("arguments", [
    ["-o", "o.onnx"], ["--output", "o.onnx"], ["--output=o.onnx"],
    ["o.onnx"]])
def test_named_output(tmp_path, model, arguments):
    assert memopt(model, *arguments, cwd=tmp_path).code == 0
    assert names(tmp_path) == [model, "o.json", "o.onnx"]
    assert [n.op_type for n in onnx.load(tmp_path / "o.onnx").graph.node] == [
        "Exp", "Add"]


def test_analyze_writes_nothing(tmp_path, model):
    result = memopt(model, "--analyze", cwd=tmp_path)
    assert result.code == 0 and names(tmp_path) == [model]
    report = analyze(model, cwd=tmp_path)
    assert report["passes"] == [] and report["after"] is None
    assert len(report["nodes"]) == 3  # the dead one as well


def test_in_place(tmp_path, model):
    """The output may be the input; the second time there is nothing to do."""
    assert memopt(model, model, cwd=tmp_path).code == 0
    first = (tmp_path / model).read_bytes()
    assert len(onnx.load(tmp_path / model).graph.node) == 2
    assert memopt(model, model, cwd=tmp_path).code == 0
    assert (tmp_path / model).read_bytes() == first
    assert names(tmp_path) == ["m.json", model]


def test_pipes(tmp_path, model):
    """A model in on stdin and out on stdout, its report on stderr."""
    data = (tmp_path / model).read_bytes()
    done = subprocess.run([PROGRAM, "-", "-o", "-"], input=data, check=True,
                          capture_output=True, cwd=tmp_path, timeout=60)
    assert len(onnx.load_from_string(done.stdout).graph.node) == 2
    assert b"activations" in done.stderr
    assert names(tmp_path) == [model]
    result = memopt("-", "-o", "out.onnx", "-q", cwd=tmp_path, stdin=data)
    assert result.code == 0 and result.stdout == "" and result.stderr == ""
    assert (tmp_path / "out.onnx").read_bytes() == done.stdout
    result = memopt("-", "--analyze", cwd=tmp_path, stdin=b"")
    assert result.code == 1 and result.stderr == "error: stdin: empty file\n"


def test_json_on_stdout_is_alone(tmp_path, model):
    for arguments in (["--analyze"], ["-o", "o.onnx"], ["--analyze", "-v"]):
        result = memopt(model, "--json", "-", *arguments, cwd=tmp_path)
        assert result.code == 0 and result.stderr == ""
        assert json.loads(result.stdout)["schema_version"] == 1


def test_json_file(tmp_path, model):
    result = memopt(model, "--analyze", "--json", "r.json", cwd=tmp_path)
    assert result.code == 0 and "wrote r.json" in result.stdout
    assert json.loads((tmp_path / "r.json").read_text())["outputs"] == [
        "r.json"]


def test_quiet_and_verbose(tmp_path, model):
    quiet = memopt(model, "-q", cwd=tmp_path)
    assert (quiet.code, quiet.stdout, quiet.stderr) == (0, "", "")
    verbose = memopt(model, "-v", cwd=tmp_path)
    assert re.search(r"reorder .*\(\d+\.\d+ s\)", verbose.stdout)


def test_verbose_has_every_formula(tmp_path):
    """The text has three, and all of them with -v."""
    path = SHARED / "models/gpt2_dyn.onnx"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {path.parent}")
    formulas = analyze(path, cwd=tmp_path)["before"]["live_peak_formulas"]
    assert len(formulas) > 3
    short = memopt(path, "--analyze", cwd=tmp_path).stdout
    assert f"and {len(formulas) - 3} more" in short
    whole = memopt(path, "--analyze", "-v", cwd=tmp_path).stdout
    assert all(f[:20] in whole for f in formulas)


def test_two_runs_give_the_same_report(tmp_path, model):
    reports = []
    for _ in range(2):
        assert memopt(model, "-o", "o.onnx", cwd=tmp_path).code == 0
        text = (tmp_path / "o.json").read_text()
        reports.append(re.sub(r'"seconds": ?[\d.e-]+', "", text))
    assert reports[0] == reports[1]


def test_dims_and_input_shapes(tmp_path, model):
    size = 2 * 8 * 5 * 4
    for arguments in (["--dim", "batch=2", "--dim", "size=5"],
                      ["--input-shape", "x:2,8,5"],
                      ["--input-shape", "2,8,5"],
                      ["--input-shape", "2x8x5"],
                      ["--input-shape", "x:2x8x5"]):
        report = analyze(model, *arguments, cwd=tmp_path)
        assert tensor(report, "y")["bytes"] == size, arguments
    assert report["inputs_bytes"] == size


def test_a_shape_without_a_name_needs_a_single_input(tmp_path):
    """With several inputs the error lists them."""
    name = save(parse("g (float[n] a, float[n] b) => (float[n] y)"
                      " { y = Add(a, b) }"), tmp_path)
    result = memopt(name, "--analyze", "--input-shape", "4", cwd=tmp_path)
    assert result.code == 2 and result.stderr.count("\n") == 1
    assert "it has a, b" in result.stderr


def test_sweep_has_every_combination(tmp_path, model):
    report = analyze(model, "--dim", "batch=32,1,8,8", "--dim", "size=10,20",
                     cwd=tmp_path)
    assert [(p["dims"]["batch"], p["dims"]["size"])
            for p in report["sweep"]] == [
        (1, 10), (1, 20), (8, 10), (8, 20), (32, 10), (32, 20)]
    last = report["sweep"][-1]
    largest = 2 * 32 * 8 * 20 * 4  # a and dead
    assert last["before"]["live_peak_bytes"] == largest
    assert report["before"]["live_peak_bytes"] == largest


def test_max_peak(tmp_path):
    """The gate is on weights, inputs and packed activations together."""
    model = parse("g (float[1024] x) => (float[1024] y) { y = Add(x, w) }")
    model.graph.initializer.append(
        numpy_helper.from_array(np.ones(1024, np.float32), "w"))
    name = save(model, tmp_path)
    assert analyze(name, cwd=tmp_path)["before"]["total_bytes"] == 3 * 4096
    assert memopt(name, "--analyze", "--max-peak", "12KiB",
                  cwd=tmp_path).code == 0
    result = memopt(name, "--analyze", "--max-peak", "12287", cwd=tmp_path)
    assert result.code == 3
    assert result.stderr.startswith("gate failed: ")
    assert "12288, more than 12287 bytes" in result.stderr


def test_max_peak_needs_all_sizes(tmp_path):
    """A peak that is not known passes no gate."""
    name = save(parse("g (float[4] x) => (float[a, b] y) {"
                      " n = NonZero(x) y = Cast<to = 1>(n) }"), tmp_path)
    result = memopt(name, "--analyze", "--max-peak", "1GiB", cwd=tmp_path)
    assert result.code == 3 and "unknown" in result.stderr


def test_fail_on_growth_passes_what_did_not_grow(tmp_path, model):
    result = memopt(model, "--fail-on-growth", cwd=tmp_path)
    assert result.code == 0 and result.stderr == ""


# The order that is best for seq=9 is worse than the file's for seq=1: `a` takes
# 40 and leaves 20, `b` takes 12*seq and leaves 12; both are then joined.
GROWS = """
g (float[2, 5] x, float[seq, 3] z) => (float[8] y)
<int64[1] first = {0}> {
  a = Exp(x)
  small_a = ReduceSum<keepdims = 0>(a, first)
  b = Exp(z)
  small_b = ReduceSum<keepdims = 0>(b, first)
  y = Concat<axis = 0>(small_a, small_b)
}"""


def test_fail_on_growth_looks_at_each_point_of_a_sweep(tmp_path):
    """The files are written, the code says that something grew, and the line
    says where."""
    name = save(parse(GROWS), tmp_path)
    arguments = [name, "-q", "--passes=reorder{target=ideal}",
                 "--dim", "seq=1,9"]
    assert memopt(*arguments, cwd=tmp_path).code == 0
    points = json.loads((tmp_path / "m.memopt.json").read_text())["sweep"]
    peaks = [[p[when]["live_peak_bytes"] for when in ("before", "after")]
             for p in points]
    # seq=1: first a, small_a, y follows with 64; then b before a: 12 + 60.
    # seq=9: 20 + 108 + 12; then 108 + 12.
    assert peaks == [[64, 72], [140, 120]]
    result = memopt(*arguments, "--fail-on-growth", cwd=tmp_path)
    assert result.code == 3
    assert result.stderr.startswith(
        "gate failed: seq=1: the live peak grew from 64 B to 72 B\n")
    assert names(tmp_path) == ["m.memopt.json", "m.memopt.onnx", "m.onnx"]


def test_max_peak_looks_at_each_point_of_a_sweep(tmp_path, model):
    """An error for each that is too large, in the order of the sweep."""
    result = memopt(model, "--analyze", "-q", "--dim", "batch=1,2,4", "--dim",
                    "size=8", "--max-peak", "1KiB", cwd=tmp_path)
    assert result.code == 3
    assert re.findall("gate failed: batch=([0-9]+): ", result.stderr) == [
        "2", "4"]


def test_progress_is_for_terminals_only(tmp_path, model):
    """On a terminal a line says what is done and is wiped; a pipe gets
    nothing."""
    master, slave = pty.openpty()
    try:
        done = subprocess.run([PROGRAM, model, "--analyze"], cwd=tmp_path,
                              stdout=subprocess.PIPE, stderr=slave,
                              check=False, timeout=60)
        os.close(slave)
        shown = os.read(master, 1 << 16).decode()
    finally:
        os.close(master)
    assert done.returncode == 0
    assert "reading ..." in shown and shown.endswith("\r\x1b[K")
    assert b"\x1b" not in done.stdout
    assert memopt(model, "--analyze", cwd=tmp_path).stderr == ""


@pytest.mark.parametrize("model", [
    p.name for p in sorted((SHARED / "models").glob("*.onnx"))] or [None])
def test_text_fits_80_columns(model, tmp_path):
    """Every network at hand, with all warnings and formulas."""
    if model is None:
        pytest.skip(f"no models in {SHARED / 'models'}")
    path = SHARED / "models" / model
    for arguments in (["-v"], ["--top", "1000"]):
        result = memopt(path, "--analyze", *arguments, cwd=tmp_path)
        assert result.code == 0 and result.stderr == ""
        assert max(map(len, result.stdout.split("\n"))) <= 80


def test_no_color_makes_no_difference(tmp_path, model):
    plain = memopt(model, "--analyze", cwd=tmp_path).stdout
    done = subprocess.run(
        [PROGRAM, model, "--analyze"], cwd=tmp_path, capture_output=True,
        env={**os.environ, "NO_COLOR": "1", "TERM": "xterm"}, check=True,
        timeout=60)
    assert done.stdout.decode() == plain and "\x1b" not in plain


def test_weights_of_several_subgraphs_are_noted_but_not_small_ones(tmp_path):
    """Each of the branches may get a copy of its own."""
    model = parse("""
g (float[512] x, bool flag) => (float[512] y) {
  y = If (flag) <
    then_branch = a () => (float[512] p) { q = Add(x, large)  p = Add(q, small) },
    else_branch = b () => (float[512] r) { s = Mul(x, large)  r = Mul(s, small) }
  >
}""")
    model.graph.initializer.extend([
        numpy_helper.from_array(np.arange(512, dtype=np.float32), "large"),
        numpy_helper.from_array(np.float32([3]), "small")])
    result = memopt(save(model, tmp_path), "--analyze", cwd=tmp_path)
    assert result.code == 0, result.stderr
    assert '"large" (2.00 KiB) is read by more than one subgraph' in result.stdout
    assert '"small"' not in result.stdout
