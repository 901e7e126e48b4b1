"""`onnx-memopt verify`, and the library behind it."""

import json
import math
import os
import pathlib
import re
import shutil

import jsonschema
import numpy as np
import onnx
import pytest

from memopt_program import ROOT, memopt, save
from onnx_memopt import _compare
from onnx_memopt._verify_text import format_bytes, format_seconds, to_text
from onnx_memopt._verify import verify
from verify_program import (BRANCHES, DIFFERENT_BRANCHES, cli, one_error,
                            write)

MIB = 2**20


# --- Outputs ---


def test_a_model_equals_itself(tmp_path):
    model = write(tmp_path, BRANCHES, "a.onnx")
    result = verify(model, model, dims={"rows": 64}, runs=2)
    assert result.equal and result.bit_equal
    assert result.max_relative_error == 0.0
    assert result.dims == {"rows": 64} and result.assumed_dims == []
    assert [(i.name, i.shape) for i in result.inputs] == [("x", [64, 1024])]
    assert [(o.name, o.shape, o.bit_equal) for o in result.outputs] == [
        ("y", [64, 1024], True)]


def test_error_is_relative_to_the_largest_value(tmp_path):
    # The largest of |y| = 8 * |x| against a difference of |x| / 2, at the same
    # element: 1/16.
    before = write(tmp_path, """
        f (float[4096] x) => (float[4096] y)
        <float k = {8.0}> { y = Mul(x, k) }""", "a.onnx")
    after = write(tmp_path, """
        f (float[4096] x) => (float[4096] y)
        <float k = {8.5}> { y = Mul(x, k) }""", "b.onnx")
    result = verify(before, after, runs=1)
    assert not result.equal and not result.bit_equal
    assert result.max_relative_error == pytest.approx(1 / 16, rel=1e-5)
    assert verify(before, after, runs=1, tolerance=0.0626).equal
    assert not verify(before, after, runs=1, tolerance=0.0624).equal

    done = cli(before, after, cwd=tmp_path)
    assert done.returncode == 3 and done.stderr == ""
    assert "y  largest error 0.062 of the largest value" in done.stdout
    assert done.stdout.endswith("DIFFERENT: beyond the tolerance of 1e-05\n")
    done = cli(before, after, "--tolerance", "0.07", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.endswith("equal: within the tolerance of 0.07\n")


def test_nans_with_equal_bits_are_bit_equal(tmp_path):
    # The root of about half of the inputs is NaN.
    roots = write(tmp_path, "f (float[999] x) => (float[999] y) "
                  "{ y = Sqrt(x) }", "a.onnx")
    result = verify(roots, roots, runs=1)
    assert result.bit_equal and result.equal
    numbers = write(
        tmp_path, """f (float[999] x) => (float[999] y) {
                       z = Abs(x)
                       y = Sqrt(z)
                     }""", "b.onnx")
    result = verify(roots, numbers, runs=1)
    assert not result.equal and math.isinf(result.max_relative_error)
    assert "not comparable: NaN" in to_text(result)
    assert result.to_dict()["max_relative_error"] is None


def nan(bits: int) -> np.ndarray:
    return np.array([bits], np.uint32).view(np.float32)


@pytest.mark.parametrize("before, after, expected", [
    ([1.0, 2.0], [1.0, 2.0], (True, 0.0)),
    ([0.0, 2.0], [-0.0, 2.0], (False, 0.0)),
    ([1.0, -4.0], [2.0, -4.0], (False, 0.25)),
    ([math.nan, 1.0], [math.nan, 1.0], (True, 0.0)),
    ([math.nan, 1.0], [1.0, 1.0], (False, math.inf)),
    ([1.0, 1.0], [1.0, math.nan], (False, math.inf)),
    ([math.inf, 1.0], [math.inf, 1.5], (False, 0.5)),
    ([math.inf, 1.0], [-math.inf, 1.0], (False, math.inf)),
    ([0.0], [1e-30], (False, math.inf)),
    ([], [], (True, 0.0)),
])
def test_comparing_floats(before, after, expected):
    arrays = [np.array(v, np.float32) for v in (before, after)]
    assert _compare.compare_arrays(*arrays) == expected


def test_comparing_other_types():
    compare = _compare.compare_arrays
    # A quiet NaN with another payload: a NaN, but other bits.
    assert compare(nan(0x7FC00000), nan(0x7FC00001)) == (False, 0.0)
    # These are one double.
    large = np.array([2**62, 2**62 + 1], np.int64)
    assert compare(large, large[::-1])[0] is False
    assert compare(large, large[::-1])[1] > 0
    assert compare(np.array(3, np.uint8), np.array(4, np.uint8)) == (
        False, 1 / 3)
    assert compare(np.array([True]), np.array([False])) == (False, 1.0)
    # More than is compared at once; the error is in the last part.
    before = np.ones(2_100_000, np.float16)
    after = before.copy()
    after[-1] = 2
    assert compare(before, after) == (False, 1.0)


def test_strings_are_compared(tmp_path):
    model = write(tmp_path, "f (string[2, 9] x) => (string[2, 9] y) "
                  "{ y = Identity(x) }", "a.onnx")
    longer = write(tmp_path, """<ir_version: 10, opset_import: ["" : 20]>
        f (string[2, 9] x) => (string[2, 9] y) <string end = {"s"}>
        { y = StringConcat(x, end) }""", "b.onnx")
    assert verify(model, model, runs=1).bit_equal
    result = verify(model, longer, runs=1)
    assert not result.equal and math.isinf(result.max_relative_error)


@pytest.mark.parametrize("after, expected", [
    ("f (float[4] x) => (float[4] z) { z = Neg(x) }",
     ['output "y" is in the model before only',
      'output "z" is in the model after only']),
    ("f (float[4] x) => (double[4] y) { y = Cast<to = 11>(x) }",
     ['output "y" was of type tensor(float) and is of tensor(double)']),
    ("f (float[4] x) => (float[8] y) { y = Concat<axis = 0>(x, x) }",
     ['output "y" was of shape [4] and is of [8]']),
    ("f (float[5] x) => (float[5] y) { y = Neg(x) }",
     ['input "x" was tensor(float) of shape [4] and is tensor(float) of shape '
      '[5]']),
    ("f (float[4] x, float[4] w) => (float[4] y) { y = Add(x, w) }",
     ['input "w" is in the model after only']),
])
def test_other_outputs_or_inputs(after, expected, tmp_path):
    before = write(tmp_path, "f (float[4] x) => (float[4] y) { y = Neg(x) }",
                   "a.onnx")
    done = cli(before, write(tmp_path, after, "b.onnx"), "--runs", "1",
               "--json", "r.json", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["differences"] == expected
    assert not result["equal"] and not result["bit_equal"]
    assert "DIFFERENT: not the same inputs and outputs" in done.stdout


def test_an_input_that_is_gone_is_no_difference(tmp_path):
    before = write(tmp_path, "f (float[4] x, float[4] w) => (float[4] y) "
                   "{ y = Neg(x) }", "a.onnx")
    after = write(tmp_path, "f (float[4] x) => (float[4] y) { y = Neg(x) }",
                  "b.onnx")
    assert verify(before, after, runs=1).bit_equal


# --- Inputs ---


def test_dims_that_are_not_given_are_one_and_it_says_so(tmp_path):
    write(tmp_path, BRANCHES, "a.onnx")
    done = cli("a.onnx", "a.onnx", "--json", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "input:  x float[1?, 1024]\n" in done.stdout
    assert "  ? was not given, so it is 1; --dim NAME=N" in done.stdout
    assert "\n    rows\n" in done.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["dims"] == {"rows": {"value": 1, "assumed": True}}
    assert result["inputs"][0]["assumed_axes"] == [0]


def test_indices_stay_inside_a_table_of_two_rows(tmp_path):
    model = write(tmp_path, """
        f (int64[50] kind) => (float[50, 3] y)
        <float[2, 3] table = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}>
        { y = Gather(table, kind) }""", "a.onnx")
    result = verify(model, model, runs=1)
    assert result.bit_equal
    assert result.notes == ["integers are below 2: with those below 100 the "
                            "model does not run"]


@pytest.mark.parametrize("kind", ["float16", "double", "bool", "int8", "int32",
                                  "uint8", "uint64", "string"])
@pytest.mark.parametrize("shape", ["[]", "[3, 0]", "[2, 3]"])
def test_every_type_of_input(kind, shape, tmp_path):
    kinds = {"float16": 10, "double": 11, "bool": 9, "int8": 3, "int32": 6,
             "uint8": 2, "uint64": 13, "string": 8}
    dims = json.loads(shape)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])], "g",
        [onnx.helper.make_tensor_value_info("x", kinds[kind], dims)],
        [onnx.helper.make_tensor_value_info("y", kinds[kind], dims)])
    model = tmp_path / save(onnx.helper.make_model(
        graph, ir_version=10,
        opset_imports=[onnx.helper.make_opsetid("", 18)]), tmp_path)
    result = verify(model, model, runs=1)
    assert result.bit_equal and result.inputs[0].shape == dims


def test_a_mask_hides_nothing(tmp_path):
    # With a mask of zeros both outputs would be zero.
    text = """
        f (float[9] x, bool[9] pad_mask) => (float[9] y)
        <float zero = {0.0}>
        { z = Exp(x)
          y = Where(pad_mask, z, zero) }"""
    before = write(tmp_path, text, "a.onnx")
    after = write(tmp_path, text.replace("Exp", "Abs"), "b.onnx")
    assert not verify(before, after, runs=1).equal


def test_seeds_give_other_inputs(tmp_path):
    # The largest error over the largest value depends on the values.
    before = write(tmp_path, "f (float[9] x) => (float[9] y) { y = Exp(x) }",
                   "a.onnx")
    after = write(tmp_path, "f (float[9] x) => (float[9] y) { y = Abs(x) }",
                  "b.onnx")
    errors = [verify(before, after, runs=1, seed=seed).max_relative_error
              for seed in (0, 1, 0)]
    assert errors[0] == errors[2] != errors[1]


def test_random_ops_draw_the_same(tmp_path):
    model = write(tmp_path, """f (float[50] x) => (float[50] y) {
        noise = RandomNormalLike(x)
        y = Add(x, noise)
    }""", "a.onnx")
    assert verify(model, model, runs=2).bit_equal


def test_sequences_are_refused(tmp_path):
    write(tmp_path, "f (seq(float[2]) x) => (float[2] y) "
          "{ y = ConcatFromSequence<axis = 0>(x) }", "a.onnx")
    done = cli("a.onnx", "a.onnx", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error(done) == (
        'error: a.onnx: input "x" is a seq(tensor(float)): expected tensors '
        "of numbers, bools or strings\n")


# --- Memory and time ---


def test_memory_is_what_the_tensors_take(tmp_path):
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this system cannot reset the peak of a process")
    # The input of 16 MiB is not counted. Both results of the chain are, since
    # an output is not written over anything.
    chain = write(tmp_path, """
        f (float[4096, 1024] x) => (float[4096, 1024] y) {
          a = Exp(x)
          y = Neg(a)
        }""", "a.onnx")
    # Three live at once.
    both = write(tmp_path, """
        f (float[4096, 1024] x) => (float[4096, 1024] y) {
          a = Exp(x)
          b = Sin(x)
          y = Add(a, b)
        }""", "b.onnx")
    result = verify(chain, both, tolerance=math.inf)
    assert result.before.bare.steady_peak_bytes == pytest.approx(
        32 * MIB, rel=0.1)
    assert result.after.bare.steady_peak_bytes == pytest.approx(
        48 * MIB, rel=0.1)
    # The arena keeps what it has.
    assert (result.after.default.steady_peak_bytes >=
            result.after.bare.steady_peak_bytes - MIB)
    for model in (result.before, result.after):
        assert model.default.session_bytes < 500 * MIB
        assert len(model.default.runs) == 3
        assert 0 < model.default.best_seconds <= model.default.median_seconds


def test_json_is_as_documented(tmp_path):
    write(tmp_path, BRANCHES, "a.onnx")
    write(tmp_path, DIFFERENT_BRANCHES, "b.onnx")
    schema = json.loads((ROOT / "docs" / "verify.schema.json").read_text())
    text = (ROOT / "docs" / "verify.md").read_text()
    for after in ("a.onnx", "b.onnx"):
        done = cli("a.onnx", after, "--runs", "2", "--json", "-", cwd=tmp_path)
        result = json.loads(done.stdout)
        jsonschema.validate(result, schema)
        assert done.returncode == (0 if result["equal"] else 3)
        assert result["before"]["bare"]["runs"][1]["seconds"] > 0
        for name in result:
            assert re.search(rf"^\| `{name}", text, re.MULTILINE), name


def test_one_run_has_no_steady_state(tmp_path):
    model = write(tmp_path, BRANCHES, "a.onnx")
    result = verify(model, model, runs=1)
    assert result.before.bare.steady_peak_bytes is None
    assert re.search(r"^ +steady ", to_text(result), re.MULTILINE) is None


def predicted(folder, sizes: dict) -> None:
    report = {"tool": {"name": "onnx-memopt"},
              "dims": {name: {"value": size, "assumed": False}
                       for name, size in sizes.items()},
              "after": {"runtime": {
                  "bare": {"first_peak_bytes": 5 * MIB,
                           "steady_peak_bytes": 6 * MIB},
                  "default": {"first_peak_bytes": 7 * MIB,
                              "steady_peak_bytes": None}}}}
    (folder / "b.json").write_text(json.dumps(report))


def test_prediction_of_the_report_beside_it(tmp_path):
    write(tmp_path, BRANCHES, "a.onnx")
    write(tmp_path, BRANCHES, "b.onnx")
    schema = json.loads((ROOT / "docs" / "verify.schema.json").read_text())

    def table(*extra) -> str:
        done = cli("a.onnx", "b.onnx", "--json", "r.json", *extra,
                   cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        jsonschema.validate(json.loads((tmp_path / "r.json").read_text()),
                            schema)
        assert max(map(len, done.stdout.split("\n"))) <= 80
        return done.stdout

    assert "predicted" not in table()
    predicted(tmp_path, {"rows": 8})
    text = table("--dim", "rows=8")
    rows = dict(re.findall(r"^ *(?:above it, )?(\w*:? ?(?:run 1|steady)) .* "
                           r"(- *|[\d.]+ \w+)$", text, re.MULTILINE))
    assert rows["bare: run 1"] == "5.00 MiB"
    assert rows["default: run 1"] == "7.00 MiB"
    text = table("--dim", "rows=9")
    assert "predicted" not in text
    assert "the prediction in b.json is for rows=8" in text
    (tmp_path / "b.json").write_text('{"after": {"runtime": []}}')
    assert "predicted" not in table()


def test_text_fits_and_is_safe(tmp_path):
    name = "\x1b[31m" + "long" * 40
    model = onnx.helper.make_model(onnx.helper.make_graph(
        [onnx.helper.make_node("Neg", [name], [name + "out"])], "g",
        [onnx.helper.make_tensor_value_info(name, 1, [name + "dim", 2])],
        [onnx.helper.make_tensor_value_info(name + "out", 1, None)]),
        ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 18)])
    save(model, tmp_path)
    done = cli("m.onnx", "m.onnx", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.split("\n"))) <= 80
    assert "\x1b" not in done.stdout


def test_numbers_as_people_read_them():
    sizes = (None, 0, 1023, 1024, 13421772, 2**40)
    assert [format_bytes(size) for size in sizes] == [
        "-", "0 B", "1023 B", "1.00 KiB", "12.8 MiB", "1.00 TiB"]
    assert [format_seconds(t) for t in (None, 2, 0.0123, 4e-6)] == [
        "-", "2.00 s", "12.3 ms", "4.00 us"]


# --- A real network ---


def with_weights(source: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """A copy of a network that is stored without its weights, with random ones
    that are positive, as variances have to be."""
    target = folder / source.name
    shutil.copy(source, target)
    model = onnx.load(target, load_external_data=False)
    rng = np.random.default_rng(7)
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entry = {e.key: e.value for e in tensor.external_data}
        path = folder / entry["location"]
        path.touch()
        fan = max(1, math.prod(tensor.dims[1:]))
        values = np.abs(rng.standard_normal(
            math.prod(tensor.dims), np.float32)) / fan
        with open(path, "r+b") as file:
            file.seek(int(entry.get("offset", 0)))
            file.write(values.tobytes())
    return target


def test_a_rewritten_network_is_bit_equal(tmp_path):
    model = with_weights(ROOT / "test" / "models" / "mobilenetv3.onnx",
                         tmp_path)
    assert memopt(model.name, "-q", cwd=tmp_path).code == 0
    result = verify(model, tmp_path / "mobilenetv3.memopt.onnx", runs=2)
    assert result.bit_equal, to_text(result)
    if result.before.bare.steady_peak_bytes is not None:
        assert (result.after.bare.steady_peak_bytes <=
                1.5 * result.before.bare.steady_peak_bytes)
