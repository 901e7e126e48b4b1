"""Files that are not models, and models that mean harm.

Each is refused with one line that names the file and what is wrong, in a second
of processor time and 200 MB, and nothing is written. What is odd but legal is
read.
"""

import os
import pathlib
import re

import pytest

import bad_models
from bad_models import BROKEN, ODD, STORED
from memopt_program import Result, measured, memopt, unprivileged

MB = 1000 * 1000
MAX_RSS_BYTES = 200 * MB
MAX_CPU_SECONDS = 1.0
# A report of 100,000 tensors takes longer to write than an error.
MAX_CPU_SECONDS_ODD = 5.0

# Not a line of its own, not a control character that could act on a terminal.
PRINTABLE_LINE = re.compile(r"error: [^\x00-\x1f\x7f-\x9f]+\n")


@pytest.fixture(name="folder")
def model_folder(tmp_path) -> pathlib.Path:
    path = tmp_path / "folder"
    path.mkdir()
    return path


def files(folder: pathlib.Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def run(folder: pathlib.Path, name: str, *arguments: str) -> Result:
    """Runs and checks what holds for every file, good or bad."""
    result = measured(name, *arguments, cwd=folder, tmp=folder.parent)
    assert result.code in (0, 1), (result.code, result.stderr)
    assert result.peak_rss_bytes < MAX_RSS_BYTES
    assert result.cpu_seconds < (
        MAX_CPU_SECONDS if result.code == 1 else MAX_CPU_SECONDS_ODD)
    return result


def check_refused(folder: pathlib.Path, name: str, *words: str) -> None:
    before = files(folder)
    result = run(folder, name)
    assert result.code == 1
    assert PRINTABLE_LINE.fullmatch(result.stderr), result.stderr
    assert result.stderr.startswith(f"error: {name}: ")
    assert len(result.stderr) < 600
    for word in words:
        assert word in result.stderr.removeprefix(f"error: {name}: ")
    assert result.stdout == ""
    assert files(folder) == before


@pytest.mark.parametrize("name", BROKEN)
def test_broken(folder, name):
    maker, word = BROKEN[name]
    (folder / "m.onnx").write_bytes(maker(folder))
    check_refused(folder, "m.onnx", word)


@pytest.mark.parametrize("name", ODD)
def test_odd(folder, name):
    (folder / "m.onnx").write_bytes(ODD[name](folder))
    result = run(folder, "m.onnx", "--analyze")
    assert result.code == 0, result.stderr
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", result.stdout)
    result = run(folder, "m.onnx")
    assert result.code == 0, result.stderr
    assert result.stderr == ""
    assert (set(files(folder)) ==
            {"m.onnx", "m.memopt.onnx", "m.memopt.json"})


@pytest.mark.parametrize("element, where", [
    (element, field) for element, typed, _ in STORED
    for field in ("raw_data", typed)
    if (element, field) != (bad_models.TensorProto.STRING, "raw_data")])
def test_weight_shorter_than_its_shape(folder, element, where):
    (folder / "m.onnx").write_bytes(bad_models.short_weight(element, where))
    check_refused(folder, "m.onnx", '"short"')


def test_truncated(folder):
    """Cut at 50 places: refused, or read where the cut is between two fields
    and what is left is a whole model."""
    data = bad_models.sample()
    for i in range(50):
        (folder / "m.onnx").write_bytes(data[:len(data) * i // 50])
        result = memopt("m.onnx", "--analyze", cwd=folder)
        assert result.code in (0, 1)
        if result.code == 1:
            assert PRINTABLE_LINE.fullmatch(result.stderr), result.stderr
            assert result.stderr.startswith("error: m.onnx: ")
        else:
            assert result.stderr == ""


def test_flipped_bytes(folder):
    """Any other value at any place: an answer, never a crash."""
    data = bad_models.sample()
    for i in range(0, len(data), 2):
        changed = bytearray(data)
        changed[i] ^= 0xff
        (folder / "m.onnx").write_bytes(changed)
        result = memopt("m.onnx", "--analyze", cwd=folder)
        assert result.code in (0, 1), (i, result.stderr)
        if result.code == 1:
            assert PRINTABLE_LINE.fullmatch(result.stderr), result.stderr


def test_missing(folder):
    check_refused(folder, "m.onnx", "no such file")


def test_directory(folder):
    (folder / "m.onnx").mkdir()
    check_refused(folder, "m.onnx", "director")


def test_device(folder):
    before = files(folder)
    result = run(folder, "/dev/zero", "-o", "out.onnx")
    assert result.code == 1
    assert result.stderr.startswith("error: /dev/zero: ")
    assert files(folder) == before


def test_fifo(folder):
    """Nothing waits for someone to write to a pipe that nobody has."""
    os.mkfifo(folder / "m.onnx")
    check_refused(folder, "m.onnx", "regular file")


def test_unreadable(folder):
    (folder / "m.onnx").write_bytes(bad_models.sample())
    (folder / "m.onnx").chmod(0)
    try:
        result = memopt("m.onnx", cwd=folder, user=unprivileged(folder))
    except PermissionError:
        pytest.skip("other users cannot run the program")
    assert result.code == 1
    assert result.stderr == "error: m.onnx: permission denied\n"


def test_above_2_gib(folder):
    (folder / "m.onnx").write_bytes(bad_models.sample())
    os.truncate(folder / "m.onnx", (1 << 31) + 100)
    check_refused(folder, "m.onnx", "2 GiB", "external data")


def test_zeros_below_2_gib(folder):
    """A sparse file of zeros is no model, and is not read to its end."""
    (folder / "m.onnx").write_bytes(b"")
    os.truncate(folder / "m.onnx", (1 << 31) - 100)
    check_refused(folder, "m.onnx", "not an ONNX file")


def test_git_lfs_pointer(folder):
    (folder / "m.onnx").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    check_refused(folder, "m.onnx", "git lfs pull")


def test_name_of_the_file_is_printed_safely(folder):
    result = run(folder, "new\nline\x1b[31m.onnx")
    assert result.code == 1
    assert PRINTABLE_LINE.fullmatch(result.stderr), result.stderr


def test_text_syntax_with_an_error_says_where(folder):
    (folder / "m.onnxtxt").write_text(
        '<ir_version: 8, opset_import: ["" : 17]>\n'
        "g (float[4] x) => (float[4] y) {\n  y = Relu(x\n}\n")
    check_refused(folder, "m.onnxtxt", "line")
