"""Runs the launcher of `onnx-memopt verify` for its tests; makes models."""

import subprocess
import sys

from memopt_program import ROOT, parse, save

LAUNCHER = ROOT / "python" / "bin" / "onnx-memopt-verify"

# Two branches of 4 KiB a row.
BRANCHES = """
branches (float[rows, 1024] x) => (float[rows, 1024] y) {
  a = Exp(x)
  b = Neg(a)
  c = Sin(x)
  d = Neg(c)
  y = Add(b, d)
}"""
DIFFERENT_BRANCHES = BRANCHES.replace("Sin", "Cos")


def cli(*arguments, cwd) -> subprocess.CompletedProcess:
    """The launcher of a source tree, as the native program runs it."""
    return subprocess.run([sys.executable, LAUNCHER, *map(str, arguments)],
                          cwd=cwd, capture_output=True, text=True, timeout=60,
                          check=False)


def write(folder, text: str, name: str) -> str:
    return str(folder / save(parse(text), folder, name))


def one_error(done: subprocess.CompletedProcess) -> str:
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr
