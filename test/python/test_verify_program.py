"""`onnx-memopt verify` as a program: how it is found, and what goes wrong."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from memopt_program import PROGRAM, ROOT, memopt, parse, save
from onnx_memopt import _verify as library
from onnx_memopt._verify_text import to_text
from onnx_memopt._verify import UsageError, VerifyError, verify
from verify_program import BRANCHES, LAUNCHER, cli, one_error, write


def native(*arguments, cwd, path: str) -> subprocess.CompletedProcess:
    done = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True,
                          check=True)
    if "verify BEFORE AFTER" not in done.stdout:
        pytest.skip(f"{PROGRAM} has no commands: it is of another tree")
    return subprocess.run([PROGRAM, *arguments], cwd=cwd, capture_output=True,
                          text=True, env={**os.environ, "PATH": path},
                          timeout=60, check=False)


def extension(folder: pathlib.Path, name: str, text: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / f"onnx-memopt-{name}"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(folder)


def test_native_program_runs_what_is_on_the_path(tmp_path):
    path = extension(tmp_path / "bin", "verify", 'printf "<%s>" "$@"; exit 3')
    done = native("verify", "a b", "--dim", "n=1", cwd=tmp_path, path=path)
    assert (done.returncode, done.stdout) == (3, "<a b><--dim><n=1>")
    # What cannot be run is passed over.
    (tmp_path / "bin" / "onnx-memopt-verify").chmod(0o644)
    other = extension(tmp_path / "other", "verify", "echo other")
    done = native("verify", cwd=tmp_path, path=f"{path}::.:{other}")
    assert done.stdout == "other\n"


def test_native_program_takes_a_file_before_a_command(tmp_path):
    path = extension(tmp_path / "bin", "verify", "echo run")
    save(parse(BRANCHES), tmp_path, "verify")
    done = native("verify", "--analyze", cwd=tmp_path, path=path)
    assert done.returncode == 0 and "5 nodes" in done.stdout
    # A folder is no model.
    (tmp_path / "verify").unlink()
    (tmp_path / "verify").mkdir()
    done = native("verify", cwd=tmp_path, path=path)
    assert done.stdout == "run\n"


def test_native_program_says_what_it_looked_for(tmp_path):
    done = native("vrify", "a.onnx", "b.onnx", cwd=tmp_path, path="/nowhere")
    assert done.returncode == 2
    assert one_error(done).startswith(
        "error: vrify: no such file, and no program onnx-memopt-vrify on PATH")
    # Names of files are none of commands.
    done = native("nothing.onnx", cwd=tmp_path, path="/nowhere")
    assert done.returncode == 1 and "onnx-memopt-" not in done.stderr


def test_native_program_finds_the_source_tree(tmp_path):
    program = tmp_path / "build" / "release" / "bin" / "onnx-memopt"
    program.parent.mkdir(parents=True)
    (tmp_path / "python").mkdir()
    native("--version", cwd=tmp_path, path="/nowhere")  # or skips
    shutil.copy(PROGRAM, program)
    extension(tmp_path / "python" / "bin", "verify", "echo source tree")
    environment = {**os.environ, "PATH": "/nowhere"}

    def run() -> str:
        return subprocess.run([program, "verify"], env=environment, text=True,
                              capture_output=True, check=True).stdout

    assert run() == "source tree\n"
    extension(program.parent, "verify", "echo beside")
    assert run() == "beside\n"


# --- What goes wrong ---


def test_missing_and_broken_files(tmp_path):
    model = write(tmp_path, BRANCHES, "a.onnx")
    done = cli("a.onnx", "none.onnx", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error(done) == "error: none.onnx: no such file\n"
    (tmp_path / "broken.onnx").write_bytes(b"\x08\xff\xff nothing")
    done = cli("broken.onnx", "a.onnx", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error(done).startswith("error: broken.onnx: ")
    with pytest.raises(VerifyError, match="broken.onnx"):
        verify(model, tmp_path / "broken.onnx")
    done = cli("a.onnx", "a.onnx", "--json", "no/r.json", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error(done) == "error: no/r.json: no such folder\n"


@pytest.mark.parametrize("arguments", [
    [], ["a.onnx"], ["a.onnx", "a.onnx", "a.onnx"], ["--nothing"],
    ["a.onnx", "a.onnx", "--dim", "rows"],
    ["a.onnx", "a.onnx", "--dim", "rows=0"],
    ["a.onnx", "a.onnx", "--dim", "rows=" + "9" * 5000],
    ["a.onnx", "a.onnx", "--dim", "rows=1", "--dim", "rows=2"],
    ["a.onnx", "a.onnx", "--tolerance", "nan"],
    ["a.onnx", "a.onnx", "--runs", "0"], ["a.onnx", "a.onnx", "--seed", "-1"],
    ["a.onnx", "a.onnx", "--level", "most"],
    ["a.onnx", "a.onnx", "--timeout", "0"],
])
def test_wrong_usage(arguments, tmp_path):
    write(tmp_path, BRANCHES, "a.onnx")
    done = cli(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert one_error(done).endswith("; see onnx-memopt verify --help\n")


def test_a_dimension_that_the_model_lacks(tmp_path):
    model = write(tmp_path, BRANCHES, "a.onnx")
    done = cli("a.onnx", "a.onnx", "--dim", "batch=2", cwd=tmp_path)
    assert done.returncode == 2
    assert one_error(done) == ('error: a.onnx: no input has a dimension '
                               '"batch"; named ones: rows\n')
    with pytest.raises(UsageError):
        verify(model, model, dims={"batch": 2})


def test_what_does_not_run_or_takes_too_long(tmp_path):
    write(tmp_path, """
        f (float[n] x, int64[3] i) => (float[2, 2] y, int64[3] j)
        <int64[2] shape = {2, 2}>
        { y = Reshape(x, shape)
          j = Neg(i) }""", "a.onnx")
    done = cli("a.onnx", "a.onnx", "--dim", "n=3", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error(done).startswith("error: a.onnx: does not run: ")
    write(tmp_path, BRANCHES, "b.onnx")
    done = cli("b.onnx", "b.onnx", "--timeout", "0.01", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error(done) == ("error: b.onnx: took longer than 0.01 s with "
                               "default options\n")
    # More than there is: an exbibyte.
    done = cli("b.onnx", "b.onnx", "--dim", f"rows={2**48}", cwd=tmp_path)
    assert done.returncode == 1 and "memory" in one_error(done)


def test_output_that_cannot_be_written(tmp_path):
    write(tmp_path, BRANCHES, "a.onnx")
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, LAUNCHER, "a.onnx", "a.onnx", "--runs", "1"],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True,
            timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "error: stdout: No space left on device\n"


def test_names_that_the_terminal_lacks(tmp_path):
    model = parse("f (float[4] x) => (float[4] y) { y = Neg(x) }")
    model.graph.input[0].name = model.graph.node[0].input[0] = "\u03c6"
    save(model, tmp_path, "a.onnx")
    done = subprocess.run(
        [sys.executable, LAUNCHER, "a.onnx", "a.onnx", "--runs", "1"],
        cwd=tmp_path, env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "input:  \\u03c6 float" in done.stdout


def test_a_process_that_is_killed(tmp_path, monkeypatch):
    model = write(tmp_path, BRANCHES, "a.onnx")
    killed = tmp_path / "killed.py"
    killed.write_text("import os, signal\n"
                      "os.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(library, "_SCRIPT", killed)
    with pytest.raises(VerifyError, match="a.onnx: .*ran out of memory"):
        verify(model, model)


def test_how_a_process_ended():
    assert "ran out of memory" in library._how_it_ended(-9, b"")
    assert library._how_it_ended(-11, b"one\ntwo\n") == (
        "the process that ran it crashed with SIGSEGV: two")
    assert library._how_it_ended(7, b"") == (
        "the process that ran it ended with exit code 7")


def test_where_memory_cannot_be_measured(tmp_path, monkeypatch):
    model = write(tmp_path, BRANCHES, "a.onnx")
    monkeypatch.setattr(library, "_measurement", lambda _: library.Measurement(
        None, 0.5, [library.Run(0.25, None), library.Run(0.125, None)]))
    result = library.verify(model, model)
    assert result.bit_equal
    assert any("memory cannot be measured" in note for note in result.notes)
    assert re.search("bare: run 1 +- +- +-$", to_text(result), re.MULTILINE)
    assert "125 ms" in to_text(result)


def test_importing_is_light():
    code = ("import sys, onnx_memopt._verify; "
            "print({'onnx', 'onnxruntime', 'numpy'} & set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True,
                          env={**os.environ, "PYTHONPATH": ROOT / "python"},
                          text=True, check=True)
    assert done.stdout == "set()\n"


def test_version_is_that_of_the_native_program(tmp_path):
    assert (cli("--version", cwd=tmp_path).stdout ==
            memopt("--version", cwd=tmp_path).stdout)


def test_runs_as_a_module(tmp_path):
    write(tmp_path, BRANCHES, "a.onnx")
    done = subprocess.run(
        [sys.executable, "-m", "onnx_memopt._verify_cli", "a.onnx", "a.onnx",
         "--level", "none", "--threads", "2", "--runs", "1"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": ROOT / "python"},
        capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("ONNX Runtime ")
    assert "level none, 2 threads, 1 run, seed 0\n" in done.stdout


def test_help_fits(tmp_path):
    done = cli("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert max(map(len, done.stdout.split("\n"))) <= 80
    source = (ROOT / "python/onnx_memopt/_verify_cli.py").read_text()
    options = re.findall(r'add_argument\("(--[\w-]+)"', source)
    assert len(options) > 7
    for option in options:
        assert option in done.stdout, option
