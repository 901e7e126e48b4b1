"""bench/fit_time.py: what it reads from the program, and how it fits."""

import os
import pathlib

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("ONNX_MEMOPT_BIN_DIR")
                       or ROOT / "build" / "release" / "bin") / "onnx-memopt"


@pytest.fixture(name="fit_time")
def fit_time_module(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    import fit_time
    return fit_time


def test_known_constants_are_found_again(fit_time):
    """Samples of 6 us, 3 ps an operation and 30 ps a byte of weights."""
    rng = np.random.default_rng(0)
    samples = []
    for _ in range(50):
        flops, weights, data = (int(10 ** rng.uniform(6, 9)) for _ in range(3))
        seconds = 6e-6 + 3e-12 * flops + 30e-12 * weights
        samples.append((("product", flops, weights, False, data), seconds))
    rows = [fit_time.masked("product", fit_time.row_of(work))
            for work, _ in samples]
    found = fit_time.nonnegative(rows, [seconds for _, seconds in samples])
    assert found == pytest.approx([6, 3, 30, 0, 0], rel=0.02, abs=0.05)
    [line] = fit_time.fit(samples, 0.0)
    assert line.startswith("product: fixed_us ") and "50 nodes" in line


def test_fixed_costs_are_bounded(fit_time):
    rows = [fit_time.row_of(("move", 0, 0, False, data))
            for data in (10 ** 6, 2 * 10 ** 6, 4 * 10 ** 6)]
    found = fit_time.nonnegative(rows, [200e-6, 220e-6, 240e-6])
    assert found[0] == pytest.approx(fit_time.MAX_FIXED_US)


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_the_programs_lines_are_read(fit_time, tmp_path):
    model = tmp_path / "m.onnxtxt"
    model.write_text("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[n, 3] x) => (float[n, 2] y)
        <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {
          [product] p = MatMul (x, w)
          [relu] y = Relu (p)
        }""")
    work, total = fit_time.time_lines(PROGRAM, model, {"n": 4})
    # 4*3*2 multiply-adds; 12 elements in, 8 out.
    assert work == {"product": ("product", 48, 24, False, 80),
                    "relu": ("elementwise", 8, 0, False, 64)}
    assert 0 < total < 1e-3
