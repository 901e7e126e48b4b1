"""Runs the onnx-memopt program for the Python tests.

    result = memopt("m.onnx", "--analyze", "--json", "-", cwd=tmp_path)
    assert result.code == 0, result.stderr
    report = json.loads(result.stdout)

The program is the one in $ONNX_MEMOPT_BIN_DIR, or the release build's.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass

import onnx
import onnx.parser
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN_DIR = pathlib.Path(
    os.environ.get("ONNX_MEMOPT_BIN_DIR", ROOT / "build" / "release" / "bin"))
SHARED = pathlib.Path(os.environ.get("ONNX_MEMOPT_SHARED",
                                     ROOT.parent / "shared"))
PROGRAM = BIN_DIR / "onnx-memopt"

# No test needs longer; a hang is a failure.
TIMEOUT_SECONDS = 60

# Runs between pytest and the program and tells what the program used. The
# kernel counts what the parent had before exec as the child's, so that a big
# parent hides a small child: this one is small.
_METER = """
import json, os, resource, sys
limit, figures, program = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
if limit:
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
pid = os.posix_spawn(program[0], program, os.environ)
_, status, used = os.wait4(pid, 0)
with open(figures, "w") as out:
    json.dump([used.ru_maxrss * 1024, used.ru_utime + used.ru_stime], out)
os._exit(os.waitstatus_to_exitcode(status) & 0xff)
"""


# Files that may not be read or written are so for everyone but root.
NOBODY = 65534


def unprivileged(folder: pathlib.Path) -> int | None:
    """The user for a test of permissions: None if this one is not root; else
    nobody, who is let into `folder`."""
    if os.geteuid() != 0:
        return None
    for part in (folder, *folder.parents):
        if part.stat().st_uid == 0 and part.stat().st_mode & 0o001 == 0:
            if not part.is_relative_to(tempfile.gettempdir()):
                pytest.skip(f"{part} is closed to other users")
            part.chmod(part.stat().st_mode | 0o011)
    done = subprocess.run([PROGRAM, "--version"], user=NOBODY, cwd="/",
                          capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("other users cannot run the program")
    return NOBODY


@dataclass
class Result:
    """What a run of the program gave."""

    code: int
    stdout: str
    stderr: str
    peak_rss_bytes: int = 0  # where it was measured
    cpu_seconds: float = 0.0


def memopt(*arguments, cwd, stdin: bytes | None = None,
           user: int | None = None) -> Result:
    """Runs onnx-memopt in `cwd`, as another user where one is given."""
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)], cwd=cwd, timeout=TIMEOUT_SECONDS,
        user=user, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
        capture_output=True, check=False)
    return Result(done.returncode, done.stdout.decode("utf-8", "replace"),
                  done.stderr.decode("utf-8", "replace"))


def measured(*arguments, cwd, tmp: pathlib.Path,
             address_space_bytes: int = 0) -> Result:
    """The same, with the memory and CPU time that the program took.

    `tmp` is a folder outside `cwd` for the figures.
    """
    figures = tmp / "figures.json"
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", _METER, str(address_space_bytes),
         figures, PROGRAM, *map(str, arguments)],
        cwd=cwd, timeout=TIMEOUT_SECONDS, stdin=subprocess.DEVNULL,
        capture_output=True, check=False)
    rss, seconds = json.loads(figures.read_text())
    return Result(done.returncode, done.stdout.decode("utf-8", "replace"),
                  done.stderr.decode("utf-8", "replace"), rss, seconds)


def analyze(model, *arguments, cwd) -> dict:
    """The JSON report of a run that writes no model."""
    result = memopt(model, "--analyze", "--json", "-", *arguments, cwd=cwd)
    assert result.code == 0, result.stderr
    return json.loads(result.stdout)


def rewrite(model, *arguments, cwd) -> tuple[dict, onnx.ModelProto]:
    """The JSON report and the model of a rewrite to out.onnx."""
    result = memopt(model, "-o", "out.onnx", *arguments, cwd=cwd)
    assert result.code == 0, result.stderr
    report = json.loads((cwd / "out.json").read_text())
    return report, onnx.load(cwd / "out.onnx", load_external_data=False)


def parse(text: str) -> onnx.ModelProto:
    """A model in ONNX's text syntax; without a header, opset 18."""
    if not text.lstrip().startswith("<"):
        text = '<ir_version: 10, opset_import: ["" : 18]>\n' + text
    return onnx.parser.parse_model(text)


def save(model: onnx.ModelProto, folder: pathlib.Path,
         name: str = "m.onnx") -> str:
    """Writes the model as it is, valid or not; gives its name back."""
    (folder / name).write_bytes(model.SerializeToString())
    return name


def shared_model(name: str) -> pathlib.Path:
    """A real network; the test is skipped where it is not at hand."""
    path = SHARED / "models" / name
    if not path.exists():
        pytest.skip(f"{name} is not in {SHARED / 'models'}")
    return path


def tensor(report: dict, name: str) -> dict:
    """The report's row of a tensor of the main graph."""
    found = [t for t in report["tensors"]
             if t["name"] == name and t.get("graph", 0) == 0]
    assert len(found) == 1, f"{len(found)} rows of {name}"
    return found[0]


def node(report: dict, name: str) -> dict:
    found = [n for n in report["nodes"] if n["name"] == name]
    assert len(found) == 1, f"{len(found)} rows of {name}"
    return found[0]
