"""Files that are written: whole or not at all, the same every time, and the
data of weights beside them."""

import json
import os
import subprocess

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

from memopt_program import PROGRAM, memopt, parse, save, unprivileged

WEIGHTS = np.random.default_rng(0).standard_normal((3, 64, 64)).astype(
    np.float32)


@pytest.fixture(name="model")
def model_with_data(tmp_path) -> str:
    """w0 and w1 in w.bin, w2 in the model; one node is dead."""
    (tmp_path / "w.bin").write_bytes(WEIGHTS[:2].tobytes())
    model = parse("""
    g (float[1, 64] x) => (float[1, 64] y) {
      a = MatMul(x, w0)
      dead = Neg(a)
      b = MatMul(a, w1)
      y = MatMul(b, w2)
    }""")
    for i in range(2):
        tensor = model.graph.initializer.add(
            name=f"w{i}", data_type=TensorProto.FLOAT, dims=[64, 64],
            data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "w.bin"), ("offset", str(i * 16384)),
                           ("length", "16384")):
            tensor.external_data.add(key=key, value=value)
    model.graph.initializer.append(numpy_helper.from_array(WEIGHTS[2], "w2"))
    return save(model, tmp_path)


def result_of(path) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        path, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.ones((1, 64), np.float32)})[0]


def contents(folder) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()
            and p.suffix != ".json"}


def locations(path) -> dict[str, str]:
    model = onnx.load(path, load_external_data=False)
    return {t.name: next((e.value for e in t.external_data
                          if e.key == "location"), "")
            for t in model.graph.initializer}


# The mode, in the model's folder or another: where each weight is then.
CASES = [
    ("auto", "o.onnx", ["w.bin", "w.bin", ""]),
    ("reference", "o.onnx", ["w.bin", "w.bin", ""]),
    ("copy", "o.onnx", ["o.onnx.data", "o.onnx.data", ""]),
    ("all", "o.onnx", ["o.onnx.data"] * 3),
    ("auto", "out/o.onnx", ["o.onnx.data", "o.onnx.data", ""]),
    ("copy", "out/o.onnx", ["o.onnx.data", "o.onnx.data", ""]),
    ("all", "out/o.onnx", ["o.onnx.data"] * 3),
]


@pytest.mark.parametrize("mode, output, where", CASES)
def test_modes(tmp_path, model, mode, output, where):
    """The right place, the same results, the same files when run again, no
    other file, and the source as it was."""
    (tmp_path / "out").mkdir()
    folder = (tmp_path / output).parent
    before = contents(tmp_path)
    expected = result_of(tmp_path / model)
    seen = []
    for _ in range(2):
        done = memopt(model, "-o", output, "--external-data", mode,
                      cwd=tmp_path)
        assert done.code == 0, done.stderr
        seen.append(contents(folder))
        assert list(locations(tmp_path / output).values()) == where
        assert np.array_equal(result_of(tmp_path / output), expected)
    assert seen[0] == seen[1]
    data = {"o.onnx.data"} if "o.onnx.data" in where else set()
    new = {"o.onnx"} | data
    kept = set() if folder != tmp_path else set(before)
    assert set(seen[0]) == kept | new
    assert {k: v for k, v in contents(tmp_path).items() if k in before
            } == before
    listed = json.loads((folder / "o.json").read_text())["outputs"]
    assert {os.path.basename(p) for p in listed} == new | {"o.json"}


@pytest.mark.parametrize("mode", ["auto", "copy", "all"])
def test_in_place_with_data(tmp_path, model, mode):
    """Over itself, and again over what that wrote."""
    expected = result_of(tmp_path / model)
    for _ in range(2):
        done = memopt(model, model, "--external-data", mode, cwd=tmp_path)
        assert done.code == 0, done.stderr
        assert np.array_equal(result_of(tmp_path / model), expected)
    assert not [n for n in contents(tmp_path) if "tmp" in n]


@pytest.mark.parametrize("permissions", [0o600, 0o640, 0o644])
def test_data_has_the_models_permissions(tmp_path, model, permissions):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/o.onnx").write_bytes(b"old")
    (tmp_path / "out/o.onnx").chmod(permissions)
    assert memopt(model, "-o", "out/o.onnx", cwd=tmp_path).code == 0
    for name in ("o.onnx", "o.onnx.data"):
        assert (tmp_path / "out" / name).stat().st_mode & 0o777 == permissions


def test_missing_data_says_how_to_proceed(tmp_path, model):
    """The analysis does without; a copy cannot be made, and the message says
    what can."""
    (tmp_path / "w.bin").unlink()
    (tmp_path / "out").mkdir()
    assert memopt(model, "--analyze", cwd=tmp_path).code == 0
    assert memopt(model, cwd=tmp_path).code == 0
    result = memopt(model, "-o", "out/o.onnx", cwd=tmp_path)
    assert result.code == 1
    assert result.stderr.count("\n") == 1
    for word in ("w.bin", "w0", "--external-dir"):
        assert word in result.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_external_dir(tmp_path, model):
    """The data may be in another folder than the model."""
    (tmp_path / "data").mkdir()
    (tmp_path / "w.bin").rename(tmp_path / "data/w.bin")
    (tmp_path / "out").mkdir()
    done = memopt(model, "-o", "out/o.onnx", "--external-dir", "data",
                  cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert result_of(tmp_path / "out/o.onnx").shape == (1, 64)
    data = (tmp_path / model).read_bytes()
    done = memopt("-", "-o", "out/p.onnx", "--external-dir", "data",
                  cwd=tmp_path, stdin=data)
    assert done.code == 0, done.stderr
    assert np.array_equal(result_of(tmp_path / "out/o.onnx"),
                          result_of(tmp_path / "out/p.onnx"))


def check_failed(result, path: str) -> None:
    assert result.code == 1
    assert result.stderr.startswith(f"error: {path}: "), result.stderr
    assert result.stderr.count("\n") == 1


def test_output_folder_is_missing(tmp_path, model):
    before = sorted(os.listdir(tmp_path))
    result = memopt(model, "-o", "nowhere/o.onnx", cwd=tmp_path)
    check_failed(result, "nowhere/o.onnx")
    assert sorted(os.listdir(tmp_path)) == before


def test_output_is_a_folder(tmp_path, model):
    (tmp_path / "o.onnx").mkdir()
    check_failed(memopt(model, "-o", "o.onnx", cwd=tmp_path), "o.onnx")
    assert list((tmp_path / "o.onnx").iterdir()) == []


def test_report_cannot_be_written(tmp_path, model):
    result = memopt(model, "--analyze", "--json", "nowhere/r.json",
                    cwd=tmp_path)
    check_failed(result, "nowhere/r.json")


def test_output_folder_is_read_only(tmp_path, model):
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o555)
    try:
        result = memopt(model, "-o", "out/o.onnx", cwd=tmp_path,
                        user=unprivileged(tmp_path))
    except PermissionError:
        pytest.skip("other users cannot run the program")
    check_failed(result, "out/o.onnx")
    assert "permission denied" in result.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_stdout_is_full(tmp_path, model):
    """A model or a report that cannot be written to stdout is an error."""
    for arguments in (["-o", "-"], ["--analyze", "--json", "-"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PROGRAM, model, *arguments], cwd=tmp_path,
                                  stdout=full, stderr=subprocess.PIPE,
                                  check=False, timeout=60)
        assert done.returncode == 1
        assert done.stderr.startswith(b"error: ")
        assert done.stderr.count(b"\n") == 1


@pytest.fixture(name="full_disk")
def small_disk(tmp_path):
    """A disk with 40 KiB left."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", folder],
        capture_output=True, check=False)
    if mount.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("mode", ["copy", "all"])
def test_disk_is_full(tmp_path, model, full_disk, mode):
    """Nothing is left of a model that does not fit, and what was there is as
    it was."""
    (full_disk / "o.onnx").write_bytes(b"old")
    result = memopt(model, "-o", "disk/o.onnx", "--external-data", mode,
                    cwd=tmp_path)
    check_failed(result, "disk/o.onnx")
    assert "space" in result.stderr
    assert contents(full_disk) == {"o.onnx": b"old"}
