"""The examples, where what they use is installed, and their types."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def run_example(name, *arguments):
    done = subprocess.run(
        [sys.executable, EXAMPLES / "python" / f"{name}.py", *arguments],
        capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_file(model_path):
    output = run_example("optimize_file", str(model_path), "n=16")
    assert "wide.memopt.onnx" in output
    assert "inputs: ['x']" in output or "session options: {" in output


def test_a_pipeline_of_onnx_ir(model_path, tmp_path):
    pytest.importorskip("onnx_ir")
    import onnx
    out = tmp_path / "out.onnx"
    assert "memory" in run_example("onnx_ir_pipeline", model_path, out)
    onnx.checker.check_model(onnx.load(out), full_check=True)


def test_after_export_from_torch(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    out = tmp_path / "out.onnx"
    assert "memory" in run_example("torch_export", out)
    assert out.is_file()


def test_a_pass_of_olive(model_path, tmp_path):
    pytest.importorskip("olive", reason="Olive is not installed")
    assert "wrote" in run_example("olive_pass", model_path, tmp_path / "out")


@pytest.mark.parametrize("changed", [True, False])
def test_the_pass_says_whether_it_changed_the_model(proto, changed):
    onnx_ir = pytest.importorskip("onnx_ir")
    import onnx
    from onnx_memopt.passes import MemOptPass
    if changed:
        # Nothing reads it, so that drop-dead drops it.
        proto.graph.node.append(onnx.helper.make_node("Exp", ["x"], ["dead"]))
    model = onnx_ir.from_proto(proto)
    result = onnx_ir.passes.Sequential(MemOptPass(passes="drop-dead"))(model)
    assert result.model is model
    assert result.modified == changed
    assert "dead" not in {value.name for node in model.graph
                          for value in node.outputs}


def test_types_are_right(tmp_path):
    """mypy --strict on the package as installed, its stub and the examples."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    import onnx_memopt
    package = pathlib.Path(onnx_memopt.__file__).parent
    assert (package / "py.typed").is_file()
    assert (package / "_core.pyi").is_file()
    examples = sorted((EXAMPLES / "python").glob("*.py"))
    assert len(examples) == 5
    modules = [f"-monnx_memopt{name}" for name in (
        "", "._api", "._core", "._errors", "._models", ".olive", ".passes")]
    for what in (modules, examples):
        done = subprocess.run(
            [sys.executable, "-m", "mypy", "--config-file",
             ROOT / "pyproject.toml", "--cache-dir", tmp_path, *what],
            capture_output=True, text=True, timeout=600, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_with_the_installed_library(tmp_path, model_path):
    """find_package(onnx_memopt), with the public headers alone."""
    build = os.environ.get("ONNX_MEMOPT_BUILD_DIR")
    if not build:
        pytest.skip("ONNX_MEMOPT_BUILD_DIR says where the library was built")
    prefix, example = tmp_path / "prefix", tmp_path / "build"
    commands = [
        ["cmake", "--install", build, "--component", "cxx", "--prefix", prefix],
        ["cmake", "-G", "Ninja", "-S", EXAMPLES / "cpp", "-B", example,
         f"-DCMAKE_PREFIX_PATH={prefix};{ROOT}/build/deps/onnx"],
        ["cmake", "--build", example],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    headers = {path.name for path in (prefix / "include").rglob("*.h")}
    assert "optimize.h" in headers and "graph.h" not in headers
    done = subprocess.run([example / "peak", model_path], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "activations, live at the peak" in done.stdout
