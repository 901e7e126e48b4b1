"""--max-slowdown, --budget, the session options that are recommended, and sizes
that are given by shape."""

import json
import subprocess

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from memopt_program import PROGRAM, memopt, parse, save

MIB = 1024 ** 2


def mlp(batch="64", rows="128"):
    """Two products with weights of 1 MiB each, and a hidden tensor of 4 KiB for
    each row: 32 MiB in all, between 2 MiB before and after."""
    model = parse(f"""
        mlp (float[{batch}, {rows}, 64] x) => (float[{batch}, {rows}, 64] y) {{
          [node_up] wide = MatMul (x, up)
          [node_relu] active = Relu (wide)
          [node_down] y = MatMul (active, down)
        }}""")
    rng = np.random.default_rng(0)
    for name, shape in (("up", (64, 4096)), ("down", (4096, 64))):
        model.graph.initializer.append(numpy_helper.from_array(
            rng.standard_normal(shape, dtype=np.float32), name))
    return model


@pytest.fixture(name="folder")
def folder_of_mlp(tmp_path):
    save(mlp(), tmp_path)
    return tmp_path


def run(folder, *options):
    """The report, and how the program ended."""
    result = memopt("m.onnx", *options, cwd=folder)
    return json.loads((folder / "m.memopt.json").read_text()), result


def steady(report, when="after"):
    return report[when]["runtime"]["default"]["steady_peak_bytes"]


def parts(report):
    """Of the regions that split has made, as its remarks say."""
    remarks = next(p for p in report["passes"] if p["name"] == "split")
    return [int(r.split(" parts")[0].rsplit(" ", 1)[1])
            for r in remarks["remarks"] if " parts" in r]


def test_less_time_means_fewer_parts(folder):
    """Each part reads 2 MiB of weights again."""
    found = {}
    for percent in (1, 10, 300):
        report, result = run(folder, "--max-slowdown", str(percent))
        assert result.code == 0, result.stderr
        # The little that nobody sees comes on top.
        assert report["time_ratio"] <= 1 + percent / 100 + 0.02
        found[percent] = steady(report)
    assert found[300] <= found[10] <= found[1]
    assert found[300] < steady(report, "before") / 4


def test_a_budget_is_met_with_as_few_parts_as_that_takes(folder):
    lowest = steady(run(folder, "--max-slowdown", "300")[0])
    reports = []
    for budget in (200 * MIB, 60 * MIB, 30 * MIB):
        report, result = run(folder, "--budget", str(budget))
        assert result.code == 0, result.stderr
        assert report["budget"] == {"bytes": budget, "met": True,
                                    "reached_bytes": steady(report),
                                    "reason": None}
        assert steady(report) <= budget
        assert "Budget" in result.stdout and ": met" in result.stdout
        reports.append(report)
    assert lowest < 30 * MIB
    # Nothing to do for the first, and no more than needed for the others.
    assert parts(reports[0]) == []
    assert sum(parts(reports[1])) <= sum(parts(reports[2]))


def test_a_budget_that_cannot_be_met_says_why(folder):
    report, result = run(folder, "--budget", "1MiB")
    assert result.code == 3
    assert result.stderr.startswith(
        "gate failed: the budget of 1.00 MiB is not met: the smallest steady "
        "peak reached is ")
    assert len(result.stderr.splitlines()) == 1
    budget = report["budget"]
    assert not budget["met"]
    # The output is 2 MiB.
    assert 2 * MIB < budget["reached_bytes"] == steady(report)
    assert budget["reached_bytes"] < steady(report, "before") / 4
    assert '(2.00 MiB)' in budget["reason"]
    assert budget["reason"] in " ".join(result.stdout.split())
    # The best model is written.
    onnx.checker.check_model(str(folder / "m.memopt.onnx"))


def test_a_budget_keeps_to_the_slowdown_that_is_given(folder):
    free, _ = run(folder, "--budget", "1MiB")
    bound, result = run(folder, "--budget", "1MiB", "--max-slowdown", "2")
    assert result.code == 3
    assert bound["time_ratio"] <= 1.04
    assert bound["budget"]["reached_bytes"] >= free["budget"]["reached_bytes"]


@pytest.mark.parametrize("options, says", [
    (["--max-slowdown", "fast"], '"fast" is not a number of per cent'),
    (["--max-slowdown", "-1"], '"-1" is not a number of per cent'),
    (["--max-slowdown", "nan"], '"nan" is not a number of per cent'),
    (["--budget", "much"], "much"),
    (["--analyze", "--budget", "1GiB"], "--analyze rewrites nothing"),
    (["--analyze", "--max-slowdown", "5"], "--analyze rewrites nothing"),
])
def test_wrong_goals_are_refused(folder, options, says):
    result = memopt("m.onnx", *options, cwd=folder)
    assert result.code == 2 and says in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_session_options_are_those_that_the_runtime_model_predicts(folder):
    report, _ = run(folder, "--passes", "drop-dead")
    sessions = report["session_options"]
    options = [c["options"] for c in sessions["candidates"]]
    assert options[0] == {
        "enable_cpu_mem_arena": True, "enable_mem_pattern": True,
        "enable_mem_reuse": True, "execution_order": "DEFAULT",
        "disabled_optimizers": []}
    words = {"enable_cpu_mem_arena": "arena", "enable_mem_pattern": "pattern",
             "enable_mem_reuse": "reuse"}
    command = [str(PROGRAM.with_name("onnx-memopt-opt")), str(folder / "m.onnx")]
    for option in options:
        text = ["order=" + {"DEFAULT": "default", "PRIORITY_BASED": "priority"}
                [option["execution_order"]]]
        text += [f"{word}=off" for key, word in words.items()
                 if not option[key]]
        command += ["--predict", ",".join(text + ["mapped=none"])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    predicted = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(c["first_peak_bytes"], c["steady_peak_bytes"])
            for c in sessions["candidates"]] == [
                (p["first"], p["steady"]) for p in predicted]
    lowest = min(p["steady"] for p in predicted)
    best = options.index(sessions["recommended"])
    assert predicted[best]["steady"] * 0.97 <= lowest
    # The arena alone keeps more than the tensors take.
    assert not sessions["recommended"]["enable_mem_pattern"]


def test_slices_are_not_to_be_made_one_split(tmp_path):
    source = """
        g (float[2048, 1024] x) => (float[1024] a, float[1024] b)
        <int64[1] zero = {0}, int64[1] half = {1024}, int64[1] all = {2048}> {
          p = Slice (x, zero, half)
          a = ReduceSum <keepdims = 0> (p, zero)
          q = Slice (x, half, all)
          b = ReduceSum <keepdims = 0> (q, zero)
        }"""
    save(parse(source), tmp_path)
    report, _ = run(tmp_path)
    assert report["session_options"]["recommended"]["disabled_optimizers"] == [
        "GatherSliceToSplitFusion"]


@pytest.mark.parametrize("batch, rows, option", [
    ("batch", "rows", "--input-shape=x:64,128,64"),
    ("batch", "128", "--input-shape=64,128,64"),
])
def test_shapes_for_open_dimensions_are_planned_for(tmp_path, batch, rows,
                                                    option):
    save(mlp(batch, rows), tmp_path)
    report, result = run(tmp_path, option)
    assert report["dims"]["batch"] == {"value": 64, "assumed": False}
    assert any(" parts" in r for p in report["passes"] for r in p["remarks"])
    assert steady(report) < steady(report, "before") / 2
    # The rewritten model takes any batch.
    written = onnx.load(tmp_path / "m.memopt.onnx")
    shape = written.graph.input[0].type.tensor_type.shape
    assert shape.dim[0].dim_param == "batch"
    assert "check it: onnx-memopt verify " in result.stdout
    assert "--dim batch=64" in result.stdout.splitlines()[-1]


def test_a_shape_in_place_of_a_stated_one_is_not_written(tmp_path):
    save(mlp(), tmp_path)
    report, _ = run(tmp_path, "--input-shape=x:32,128,64")
    remarks = [r for p in report["passes"] for r in p["remarks"]]
    assert any("left as it is" in r for r in remarks)
    assert report["dims"] == {}


def test_the_text_ends_with_how_to_check(folder):
    result = memopt("m.onnx", cwd=folder)
    assert result.stdout.splitlines()[-1] == (
        "check it: onnx-memopt verify m.onnx m.memopt.onnx")
    assert "check it" not in memopt("m.onnx", "--analyze", cwd=folder).stdout
    result = memopt("m.onnx", "a b.onnx", cwd=folder)
    assert result.stdout.splitlines()[-1].endswith(" m.onnx 'a b.onnx'")
