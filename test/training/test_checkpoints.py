"""Training steps with recomputation give the same numbers: bit for bit where
the runtime runs the nodes as they are, and nearly so where it fuses those that
the backward pass no longer reads from."""

import json

import numpy as np
import pytest

import train_step
from memopt_program import SHARED, memopt
from test_references import FOLDER, NAMES, options, reference, start


LEVELS = (train_step.NONE, train_step.ALL)


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
    for mode in ("sqrt", "optimal"):
        again = steps(model, values, tmp_path, "--checkpoint", mode,
                      "--json", str(report))
        if mode == "sqrt" and name != "mlp":
            assert json.loads(report.read_text())["recomputed"]
        for level, expected_steps, found_steps in zip(LEVELS, plain, again):
            for expected, found in zip(expected_steps, found_steps):
                assert set(expected) == set(found)
                for key, value in expected.items():
                    limit = 0 if level == train_step.NONE else 1e-5
                    scale = np.abs(value).max()
                    assert np.abs(found[key] - value).max() <= limit * scale, key


def curve(model, tmp_path, *flags):
    report = tmp_path / "report.json"
    train_step.make_step(model, tmp_path, *flags, "--checkpoint", "optimal",
                         "--json", str(report))
    return json.loads(report.read_text())


def test_the_budget_is_kept_and_the_curve_falls(tmp_path):
    model = SHARED / "models" / "gpt2_dyn.onnx"
    if not model.is_file():
        pytest.skip(f"{model}: not there")
    flags = ["--dim", "batch=4", "--dim", "seq=256", "--optimizer", "momentum"]
    points = curve(model, tmp_path, *flags)["curve"]
    peaks = [point["peak_bytes"] for point in points]
    times = [point["added_time"] for point in points]
    assert len(points) > 3
    assert peaks == sorted(peaks, reverse=True)
    assert times == sorted(times)
    budget = (peaks[0] + peaks[-1]) // 2
    chosen = curve(model, tmp_path, *flags, "--budget", str(budget))
    predicted = chosen["predicted"]
    assert max(predicted.values()) <= budget
    cheapest = next(p for p in points if p["peak_bytes"] <= budget)
    assert chosen["added_time"] == pytest.approx(cheapest["added_time"])


def test_a_budget_below_the_floor_says_what_holds_it(tmp_path):
    if not (FOLDER / "mlp.onnx").is_file():
        pytest.skip(f"{FOLDER}: no training references there")
    result = memopt("train", FOLDER / "mlp.onnx", "-o", "s.onnx", "--budget",
                    "1KiB", cwd=tmp_path)
    assert result.code == 1
    assert "no plan within 1.00 KiB was found; the least is" in result.stderr
    assert "held by" in result.stderr
    assert not list(tmp_path.iterdir())
