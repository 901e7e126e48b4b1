"""Models that passes have made smaller, and students: what they take in ONNX
Runtime is what the program's report says, within 10 %.

Of what the runtime does with float16 (lib/analysis/half_on_cpu.h), one product after
another and movers of data between them are here; filters and functions that it
handles in its own way are not (docs/runtime_model.md).
"""

import json
import pathlib
import re
import subprocess

import numpy as np
import onnx
import ort_memory
import pytest
from graphs import info, model
from onnx import helper, numpy_helper
from predict import MIB, differs

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS, WIDTH, HIDDEN, BLOCKS = 2048, 512, 2048, 4
PASSES = ["half-precision", "factorize{rank=64,min-elements=1}", "tie-layers",
          "half-precision{interface=half}"]


def network(path):
    """Blocks as in a transformer without its attention. In three dimensions, so
    that no product takes up the sum behind it: fusions are not followed."""
    rng = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"

    def weight(name, *shape):
        values = rng.standard_normal(shape) / np.sqrt(shape[0])
        weights.append(numpy_helper.from_array(
            values.astype(np.float32), name))
        return name

    for i in range(BLOCKS):
        up = weight(f"up{i}", WIDTH, HIDDEN)
        down = weight(f"down{i}", HIDDEN, WIDTH)
        shape = numpy_helper.from_array(np.array([ROWS, 8, -1]), f"shape{i}")
        weights.append(shape)
        back = numpy_helper.from_array(np.array([1, ROWS, -1]), f"back{i}")
        weights.append(back)
        nodes += [
            helper.make_node("MatMul", [last, up], [f"h{i}"]),
            helper.make_node("Relu", [f"h{i}"], [f"r{i}"]),
            helper.make_node("Reshape", [f"r{i}", shape.name], [f"s{i}"]),
            helper.make_node("Transpose", [f"s{i}"], [f"t{i}"],
                             perm=[0, 2, 1]),
            helper.make_node("Reshape", [f"t{i}", back.name], [f"b{i}"]),
            helper.make_node("MatMul", [f"b{i}", down], [f"d{i}"]),
            helper.make_node("Add", [f"d{i}", last], [f"y{i}"])]
        last = f"y{i}"
    onnx.save(model(nodes, [info("x", [1, ROWS, WIDTH])],
                    [info(last, [1, ROWS, WIDTH])], weights), path)


def run(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True,
                          check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def check(report, path):
    default = report["runtime"]["default"]
    peaks = ort_memory.measure(path, {}, "all", 2)["peaks"]
    wrong = [line for line in
             (differs(default["first_peak_bytes"], peaks[0], 0.1, MIB),
              differs(default["steady_peak_bytes"], peaks[-1], 0.1, MIB))
             if line]
    assert not wrong


@pytest.mark.parametrize("passes", PASSES)
def test_a_smaller_model_takes_what_is_said(bin_dir, tmp_path, passes):
    source, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    network(source)
    run(bin_dir / "onnx-memopt", source, "-o", out, "-q", f"--passes={passes}")
    assert out.stat().st_size < source.stat().st_size
    onnx.checker.check_model(str(out), full_check=True)
    check(json.loads((tmp_path / "out.json").read_text())["after"], out)


def test_a_student_takes_what_is_said(bin_dir, tmp_path):
    source, out = tmp_path / "model.onnx", tmp_path / "student.onnx"
    network(source)
    run(bin_dir / "onnx-memopt", "suggest-student", source, "-o", out, "-q")
    report = tmp_path / "report.json"
    run(bin_dir / "onnx-memopt", out, "--analyze", "-q", "--json", report)
    check(json.loads(report.read_text())["before"], out)


def test_kernels_of_float16_are_those_of_the_runtime():
    from onnxruntime.capi import onnxruntime_pybind11_state as state
    text = (ROOT / "lib/analysis/half_on_cpu.cc").read_text()
    listed = {(domain, name): int(since or 1) for domain, name, since in
              re.findall(r'\{"([^"]*)", "(\w+)"(?:, (\d+))?\},', text)}
    have = {}
    for kernel in state.get_all_opkernel_def():
        types = {t for allowed in kernel.type_constraints.values()
                 for t in allowed}
        if (kernel.provider == "CPUExecutionProvider"
                and "tensor(float16)" in types):
            key = (kernel.domain, kernel.op_name)
            first = kernel.version_range[0]
            have[key] = min(have.get(key, first), first)
    assert {key: have.get(key) for key in listed} == {
        key: max(since, have.get(key, 0)) for key, since in listed.items()}
    # Of ONNX's own operators none is left out but what float32 graphs have not.
    assert {name for domain, name in have if not domain} - {
        name for domain, name in listed if not domain} <= {
            "BitCast", "Celu", "Dropout", "DynamicSlice", "MemcpyFromHost",
            "MemcpyToHost"}
