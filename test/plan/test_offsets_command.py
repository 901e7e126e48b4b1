"""onnx-memopt-plan offsets, as a user runs it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get(
    "ONNX_MEMOPT_BIN_DIR", ROOT / "build" / "release" / "bin"))
PROGRAM = PROGRAM / "onnx-memopt-plan"
SHARED = pathlib.Path(os.environ.get("ONNX_MEMOPT_SHARED",
                                     ROOT.parent / "shared"))
DATA = SHARED / "data" / "offsets"

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason=f"{PROGRAM} is not built")

SMALL = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\n"


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True,
                          text=True, timeout=60, check=False)


def place(tmp_path, text, *options):
    (tmp_path / "in.csv").write_text(text)
    done = run("offsets", tmp_path / "in.csv", "-o", tmp_path / "out.csv",
               *options)
    return done, tmp_path / "out.csv"


def judge(instance, out, *options):
    """The verdict of the independent judge."""
    tool = SHARED / "tools" / "judge_offsets.py"
    if not tool.exists():
        pytest.skip(f"no judge: {tool}")
    done = subprocess.run([sys.executable, tool, instance, out, *options],
                          capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def test_help_goes_to_stdout():
    for arguments in (["--help"], ["offsets", "--help"]):
        done = run(*arguments)
        assert done.returncode == 0 and "offsets" in done.stdout
        assert done.stderr == ""


def test_a_plan_and_one_result_line(tmp_path):
    done, out = place(tmp_path, SMALL, "--threads", 1)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    assert result["height"] == result["lower_bound"] == 8
    assert result["proved_optimal"] is True and result["gap"] == 0
    assert "feasible" not in result
    lines = out.read_text().splitlines()
    assert lines[0] == "id,lower,upper,size,offset"
    assert [line.split(",")[0] for line in lines[1:]] == [
        "b1", "b2", "b3", "b4"]
    assert "best 8, bound 8" in done.stderr


def test_a_capacity_met_and_one_out_of_reach(tmp_path):
    done, _ = place(tmp_path, SMALL, "--capacity", 8)
    assert done.returncode == 0
    assert json.loads(done.stdout)["feasible"] is True
    done, out = place(tmp_path, SMALL, "--capacity", 7)
    assert done.returncode == 3
    assert json.loads(done.stdout)["feasible"] is False
    assert out.exists()


def test_other_columns_large_times_and_empty_lives(tmp_path):
    text = ("size,note,upper,lower,id\r\n"
            f"5,x,{2**62},{-2**62},a\r\n"
            "7,y,3,3,b\r\n\r\n"
            "6,z,4,3,c\r\n")
    done, out = place(tmp_path, text, "-q")
    assert done.returncode == 0 and done.stderr == ""
    assert json.loads(done.stdout)["height"] == 11
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert rows[1][:4] == ["a", str(-2**62), str(2**62), "5"]
    assert rows[2] == ["b", "3", "3", "7", "0"]


@pytest.mark.parametrize("text, line, says", [
    ("", 1, "no header"),
    ("id,lower,upper\n", 1, 'no column "size"'),
    ("id,lower,upper,size,size\n", 1, "twice"),
    ("id,lower,upper,size\na,0,1\n", 2, "3 fields, expected 4"),
    ("id,lower,upper,size\na,0,1,2\nb,0,x,2\n", 3, 'upper is "x"'),
    ("id,lower,upper,size\na,0,1,99999999999999999999\n", 2, "size is"),
    ("id,lower,upper,size\na,0,1,-5\n", 2, "negative size: -5"),
    ("id,lower,upper,size\na,4,1,5\n", 2, "before it begins"),
    ("id,lower,upper,size\na,0,1,5\na,0,1,5\n", 3, "second buffer"),
])
def test_a_malformed_file_is_one_line(tmp_path, text, line, says):
    done, out = place(tmp_path, text)
    assert done.returncode == 1
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert f"in.csv:{line}: " in done.stderr and says in done.stderr
    assert not out.exists()


def test_more_than_63_bits_is_one_line(tmp_path):
    text = f"id,lower,upper,size\na,0,1,{2**63 - 1}\nb,0,1,1\n"
    done, out = place(tmp_path, text)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "2^63" in done.stderr and not out.exists()


def test_no_such_file_folder_or_command(tmp_path):
    done = run("offsets", tmp_path / "none.csv", "-o", tmp_path / "out.csv")
    assert done.returncode == 1 and "none.csv" in done.stderr
    done, _ = place(tmp_path, SMALL)
    done = run("offsets", tmp_path / "in.csv", "-o", tmp_path / "no" / "o.csv")
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith(
        "error: ")
    assert run("pack").returncode == 2
    assert run().returncode == 2
    assert run("offsets", "--capacity", "-4").returncode == 2


@pytest.mark.parametrize("seed", [1, 2])
def test_two_runs_write_the_same_bytes(tmp_path, seed):
    text = "id,lower,upper,size\n" + "".join(
        f"{i},{i * 7 % 23},{i * 7 % 23 + 2 + i % 9},{1 + i * i % 97}\n"
        for i in range(70))
    plans = set()
    for _ in range(2):
        done, out = place(tmp_path, text, "--threads", 2, "--seed", seed,
                          "--max-states", 5000, "--max-placements", 5000)
        assert done.returncode == 0
        plans.add(out.read_text())
    assert len(plans) == 1


def instance(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"no instance: {path}")
    return path


@pytest.mark.parametrize("name", "ABCDEFGHIJK")
def test_minimalloc_at_capacity(tmp_path, name):
    path = instance(f"minimalloc/{name}.1048576.csv")
    out = tmp_path / "out.csv"
    # Generous: the machine may be busy.
    done = run("offsets", path, "-o", out, "--capacity", 1048576,
               "--time-limit", 50, "-q")
    assert done.returncode == 0, done.stdout
    code, verdict = judge(path, out, "--capacity", "1048576")
    assert code == 0 and verdict["valid"]


@pytest.mark.parametrize("name, most", [
    ("minimalloc/C.1048576.csv", 1039360),
    ("idealloc/G_1.csv", 3030937746),
    ("idealloc/resnet50.csv", int(1515472556 * 1.01)),
    ("idealloc/S_1.csv", int(1498635932 * 1.01)),
])
def test_known_bounds(tmp_path, name, most):
    path = instance(name)
    out = tmp_path / "out.csv"
    done = run("offsets", path, "-o", out, "--capacity", most,
               "--time-limit", 50, "-q")
    assert done.returncode == 0, done.stdout
    code, verdict = judge(path, out, "--capacity", str(most))
    assert code == 0 and verdict["valid"]
