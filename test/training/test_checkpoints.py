"""Training steps with recomputation give the same numbers: bit for bit where
the runtime runs the nodes as they are, and nearly so where it fuses those that
the backward pass no longer reads from. And they take the memory that is
predicted."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest

import train_step
from memopt_program import PROGRAM, SHARED, memopt
from test_references import FOLDER, NAMES, options, reference, start

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import ort_memory  # noqa: E402


LEVELS = (train_step.NONE, train_step.ALL)
MIB = 1 << 20


def steps(model, values, tmp_path, *flags):
    """Two steps, for each level."""
    step = train_step.make_step(model, tmp_path, "--optimizer", "momentum",
                                *options(values), *flags)
    loops = [start(model, values, step, level=level) for level in LEVELS]
    return [[loop.run() for _ in range(2)] for loop in loops]


@pytest.mark.parametrize("name", NAMES)
def test_recomputed_steps_are_equal(name, tmp_path):
    model, values = reference(name)
    report = tmp_path / "report.json"
    plain = steps(model, values, tmp_path)
    for mode in ("sqrt", "per-layer", "optimal"):
        if mode == "per-layer" and name in ("resnet_bn", "unet_gn"):
            continue  # their modules are not numbered
        again = steps(model, values, tmp_path, "--checkpoint", mode,
                      "--json", str(report))
        if mode != "optimal" and name != "mlp":
            assert json.loads(report.read_text())["recomputed"]
        for level, expected_steps, found_steps in zip(LEVELS, plain, again):
            for expected, found in zip(expected_steps, found_steps):
                assert set(expected) == set(found)
                for key, value in expected.items():
                    limit = 0 if level == train_step.NONE else 1e-5
                    scale = np.abs(value).max()
                    assert np.abs(found[key] - value).max() <= limit * scale, key


def test_images_are_pooled_where_they_lie(tmp_path):
    # Not copied into the runtime's own layout, of 8 or 16 channels a block.
    model, values = reference("unet_gn")
    step = train_step.make_step(model, tmp_path, *options(values))
    optimized = tmp_path / "optimized.onnx"
    ort_memory.measure(step, {}, "all", runs=0, optimized=optimized)
    nodes = onnx.load(optimized, load_external_data=False).graph.node
    kinds = [node.op_type for node in nodes]
    assert "AveragePool" in kinds and "ReorderInput" not in kinds


def test_a_file_order_gives_the_same_numbers(tmp_path):
    model, values = reference("resnet_bn")
    plain = steps(model, values, tmp_path)[0]
    again = steps(model, values, tmp_path, "--checkpoint", "sqrt", "--order",
                  "file")[0]
    for expected, found in zip(plain, again):
        for key, value in expected.items():
            assert np.array_equal(found[key], value), key


def shared_model(name):
    model = SHARED / "models" / f"{name}.onnx"
    if not model.is_file():
        pytest.skip(f"{model}: not there")
    return model


def report_of(model, tmp_path, *flags):
    report = tmp_path / "report.json"
    step = train_step.make_step(model, tmp_path, *flags, "--json", str(report))
    return step, json.loads(report.read_text())


def test_the_budget_is_kept_and_the_curve_falls(tmp_path):
    model = shared_model("resnet50_dyn")
    flags = ["--dim", "batch=8"]
    _, best = report_of(model, tmp_path, *flags, "--checkpoint", "optimal")
    peaks = [point["peak_bytes"] for point in best["curve"]]
    times = [point["added_time"] for point in best["curve"]]
    assert len(peaks) > 3
    assert peaks == sorted(peaks, reverse=True)
    assert times == sorted(times)
    budget = (peaks[0] + peaks[-1]) // 2
    _, chosen = report_of(model, tmp_path, *flags, "--budget", str(budget))
    assert max(chosen["predicted"].values()) <= budget
    # There is room for what predictions are off.
    cheapest = next(p for p in best["curve"]
                    if p["peak_bytes"] <= 0.8 * budget)
    assert chosen["added_time"] <= cheapest["added_time"] + 1e-9
    # At the memory of the usual rules, no more time than these.
    for rule in ("sqrt", "per-layer"):
        _, usual = report_of(model, tmp_path, *flags, "--checkpoint", rule)
        peak = max(usual["predicted"].values())
        at_most = [p["added_time"] for p in best["curve"]
                   if p["peak_bytes"] <= peak]
        assert at_most and at_most[0] <= usual["added_time"] + 1e-9, rule
    # Modules of the exporter are named.
    assert any(m.startswith("layer1.") for s in best["recomputed"]
               for m in s["modules"])


def test_what_is_predicted_is_what_it_takes(tmp_path):
    """In the steady state, too, with session options as they come."""
    model, _ = reference("unet_gn")
    large = tmp_path / "large.onnx"
    train_step.resize_input(model, large, (4, 3, 128, 128))
    step, report = report_of(large, tmp_path, "--loss", "mse", "--checkpoint",
                             "optimal")
    peaks = ort_memory.measure(step, {}, "all", 2, runs=2)["peaks"]
    predicted = max(report["predicted"].values())
    assert max(peaks) <= predicted * 1.1 + 4 * MIB
    assert max(peaks) >= predicted * 0.85 - 4 * MIB
    _, plain = report_of(large, tmp_path, "--loss", "mse")
    assert predicted < max(plain["predicted"].values()) / 2


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_predicted_like_the_step(name, tmp_path):
    """What `train` predicts is what is predicted of its file."""
    model, values = reference(name)
    step, made = report_of(model, tmp_path, *options(values), "--checkpoint",
                           "optimal")
    done = subprocess.run(
        [PROGRAM.with_name("onnx-memopt-opt"), step, "--predict",
         "folding=on,fusion=on,threads=2,mapped=none"],
        stdout=subprocess.PIPE, text=True, check=True)
    read = json.loads(done.stdout)
    assert read["complete"]
    assert made["predicted"] == {"peak_first_bytes": read["first"],
                                 "peak_steady_bytes": read["steady"]}
    # The main program counts the scratch of one thread.
    done = memopt(step, "--analyze", "-q", "--json", "-", cwd=tmp_path)
    assert done.code == 0, done.stderr
    report = json.loads(done.stdout)["before"]["runtime"]["default"]
    for which in ("first", "steady"):
        expected = read[which]
        assert abs(report[f"{which}_peak_bytes"] - expected) <= 0.05 * expected


def test_a_step_for_a_bare_session(tmp_path):
    """It takes what is predicted without arena and memory pattern, which is
    far less, and says in its metadata that it was made for that."""
    model, _ = reference("unet_gn")
    large = tmp_path / "large.onnx"
    train_step.resize_input(model, large, (4, 3, 128, 128))
    flags = ["--loss", "mse", "--session", "bare"]
    _, plain = report_of(large, tmp_path, *flags)
    budget = int(0.6 * max(plain["predicted"].values()))
    step, report = report_of(large, tmp_path, *flags, "--budget", str(budget))
    peaks = ort_memory.measure(step, ort_memory.BARE, "all", 2, runs=2)["peaks"]
    predicted = max(report["predicted"].values())
    assert max(peaks) <= budget
    assert abs(max(peaks) - predicted) <= 0.1 * predicted + MIB
    assert report["session"] == {"enable_cpu_mem_arena": False,
                                 "enable_mem_pattern": False}
    stated = {p.key: p.value for p in onnx.load(step).metadata_props}
    assert json.loads(stated["onnx_memopt.session_options"]) == {
        "enable_cpu_mem_arena": False, "enable_mem_pattern": False}
    # And the order, where that is not the default.
    step, _ = report_of(large, tmp_path, "--loss", "mse", "--order", "file")
    stated = {p.key: p.value for p in onnx.load(step).metadata_props}
    assert json.loads(stated["onnx_memopt.session_options"]) == {
        "execution_order": "PRIORITY_BASED"}


def test_a_budget_below_the_floor_says_what_holds_it(tmp_path):
    if not (FOLDER / "mlp.onnx").is_file():
        pytest.skip(f"{FOLDER}: no training references there")
    result = memopt("train", FOLDER / "mlp.onnx", "-o", "s.onnx", "--budget",
                    "1KiB", cwd=tmp_path)
    assert result.code == 1
    assert "no plan within 1.00 KiB was found; the least is" in result.stderr
    assert "held by" in result.stderr
    assert not list(tmp_path.iterdir())


def test_per_layer_needs_names_of_modules(tmp_path):
    model, _ = reference("resnet_bn")  # its modules are named, not numbered
    result = memopt("train", model, "-o", "s.onnx", "--checkpoint",
                    "per-layer", cwd=tmp_path)
    assert result.code == 2
    assert "--checkpoint per-layer: the model does not say" in result.stderr
    assert not list(tmp_path.iterdir())
