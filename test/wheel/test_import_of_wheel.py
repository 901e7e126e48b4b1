"""The installed package on its own: no other package is there."""

import json
import os
import pathlib
import subprocess
import sys
import sysconfig

import onnx_memopt

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = '<ir_version: 8, opset_import: ["" : 18]>\n' \
       'g (float[8] x) => (float[8] y) { y = Exp (x) }\n'


def run(code, *arguments, **options):
    """In a Python that has nothing but the wheel."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PYTHONPATH", "ONNX_MEMOPT_BIN_DIR")}
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)],
                          env=environment, capture_output=True, text=True,
                          timeout=120, **options)


def test_importing_loads_nothing_heavy_and_is_quick():
    done = run("""
import sys, time, json
begin = time.process_time()
import onnx_memopt
onnx_memopt.optimize, onnx_memopt.Report
seconds = time.process_time() - begin
print(json.dumps([seconds, [m for m in ("onnx", "onnxruntime", "torch", "numpy",
                                        "onnx_ir") if m in sys.modules]]))
""")
    assert done.returncode == 0, done.stderr
    seconds, loaded = json.loads(done.stdout)
    assert loaded == []
    # docs/python.md has the figure; this is for what would be another design.
    assert seconds < 1


def test_it_works_without_onnx_and_onnxruntime(tmp_path):
    path = tmp_path / "model.onnxtxt"
    path.write_text(TEXT)
    done = run("""
import sys, onnx_memopt
report = onnx_memopt.analyze(sys.argv[1])
print(report.before.live_peak_bytes, onnx_memopt.session_options(report))
""", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("32 {'enable_cpu_mem_arena': True, ")


def test_the_programs_are_installed(tmp_path):
    scripts = pathlib.Path(sysconfig.get_path("scripts"))
    version = subprocess.run([scripts / "onnx-memopt", "--version"],
                             capture_output=True, text=True, check=True)
    assert version.stdout.split() == ["onnx-memopt", onnx_memopt.__version__]
    # The program finds the other one beside itself.
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    helped = subprocess.run([scripts / "onnx-memopt", "verify", "--help"],
                            capture_output=True, text=True, env=environment)
    assert helped.returncode == 0, helped.stderr
    assert "BEFORE AFTER" in helped.stdout


def test_versions_agree():
    from onnx_memopt import _core
    assert _core.__version__ == onnx_memopt.__version__
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{_core.__version__}"' in project


def test_all_public_names_exist():
    for name in onnx_memopt.__all__:
        assert getattr(onnx_memopt, name) is not None
    assert set(onnx_memopt.__all__) <= set(dir(onnx_memopt))
