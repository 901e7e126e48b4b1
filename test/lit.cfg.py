"""How lit runs the textual tests.

    ./dev build && .venv/bin/lit -v test/passes

A test is a model in ONNX's text format. `#` starts a comment there, so a test
says in comments what to run on itself and what to expect:

    # RUN: onnx-memopt-opt --passes=reorder --print-after-all %s | FileCheck %s
    # CHECK: graph
    # CHECK-NEXT: MatMul

Programs are those in build/release/bin; another folder is named by
ONNX_MEMOPT_BIN_DIR or by `--param bin_dir=FOLDER`. Besides lit's own %s, %S and
%t there are %python, the interpreter in .venv, and %models, the folder of the
networks that the repository carries.
"""

import os
import pathlib
import sys

import lit.formats

root = pathlib.Path(__file__).resolve().parents[1]
bin_dir = pathlib.Path(
    lit_config.params.get("bin_dir")
    or os.environ.get("ONNX_MEMOPT_BIN_DIR")
    or root / "build" / "release" / "bin").resolve()
llvm_bin_dir = lit_config.params.get("llvm_bin_dir", "/usr/lib/llvm-19/bin")

config.name = "onnx-memopt"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".onnxtxt"]
config.test_source_root = str(root / "test")
config.test_exec_root = str(root / "build" / "lit")
# Folders whose models are inputs of other tests.
config.excludes = ["Inputs", "equivalence", "fuzz", "golden", "models",
                   "support", "unit"]

if not bin_dir.is_dir():
    lit_config.fatal(f"{bin_dir}: no such folder; ./dev build makes it")
config.environment["PATH"] = os.pathsep.join(
    [str(bin_dir), llvm_bin_dir, str(root / ".venv" / "bin"),
     os.environ.get("PATH", os.defpath)])
# Sanitizers are set by whoever runs the tests.
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%python", f'"{sys.executable}"'))
config.substitutions.append(("%models", str(root / "test" / "models")))
