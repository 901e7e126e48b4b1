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
    ("id,lower,upper,size,over,over\n", 1, "twice"),
    ("id,lower,upper,size,over\na,0,4,5,\nb,3,6,5,c\n", 3, "no such buffer"),
    ("id,lower,upper,size,over\na,0,4,5,\nb,2,6,5,a\n", 3, "last step"),
    ("id,lower,upper,size,over\na,0,4,5,\nb,4,6,5,a\n", 3, "last step"),
    ("id,lower,upper,size,over\na,3,4,5,\nb,3,6,5,a\n", 3, "last step"),
    ("id,lower,upper,size,over\na,0,4,5,\nb,3,3,5,a\n", 3, "last step"),
    ("id,lower,upper,size,over\na,0,4,5,a\n", 2, "last step"),
    ("id,lower,upper,size,over\na,0,4,5,\nb,3,6,7,a\n", 3, "7 bytes, more"),
    ("id,lower,upper,size,over,pool\na,0,4,5,,x\nb,3,6,5,a,y\n", 3,
     'in pool "y"'),
])
def test_a_malformed_file_is_one_line(tmp_path, text, line, says):
    done, out = place(tmp_path, text)
    assert done.returncode == 1
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert f"in.csv:{line}: " in done.stderr and says in done.stderr
    assert not out.exists()


def rows_of(out):
    lines = out.read_text().splitlines()
    names = lines[0].split(",")
    return {row["id"]: row for row in
            (dict(zip(names, line.split(","))) for line in lines[1:])}


def test_pools_are_arenas_of_their_own(tmp_path):
    text = ("id,lower,upper,size,pool\n"
            "a,0,4,5,fast\nb,1,3,7,slow\nc,2,6,2,fast\nd,8,8,9,other\n")
    done, out = place(tmp_path, text, "-q")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["pools"] == {"fast": 7, "slow": 7, "other": 0}
    assert result["height"] == result["lower_bound"] == 14
    rows = rows_of(out)
    assert {i: row["pool"] for i, row in rows.items()} == {
        "a": "fast", "b": "slow", "c": "fast", "d": "other"}
    assert rows["b"]["offset"] == "0"
    assert {rows["a"]["offset"], rows["c"]["offset"]} in ({"0", "5"},
                                                          {"0", "2"})
    done, _ = place(tmp_path, text, "-q", "--capacity", 20)
    assert done.returncode == 2 and "3 pools" in done.stderr


def test_a_chain_in_place_takes_one_place(tmp_path):
    plain = "id,lower,upper,size\na,0,3,8\nb,2,5,8\nc,4,7,6\n"
    done, _ = place(tmp_path, plain, "-q")
    assert json.loads(done.stdout)["height"] == 16
    over = ("id,over,lower,upper,size\n"
            "a,,0,3,8\nb,a,2,5,8\nc,b,4,7,6\n")
    done, out = place(tmp_path, over, "-q")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["height"] == result["lower_bound"] == 8
    assert "pools" not in result
    assert {row["offset"] for row in rows_of(out).values()} == {"0"}
    done, _ = place(tmp_path, over, "-q", "--capacity", 8)
    assert done.returncode == 0 and json.loads(done.stdout)["feasible"]
    done, _ = place(tmp_path, over, "-q", "--capacity", 7)
    assert done.returncode == 3
    assert json.loads(done.stdout)["feasible"] is False


def test_pools_and_pairs_together(tmp_path):
    text = ("id,lower,upper,size,pool,over\n"
            "a,0,3,8,x,\nb,2,5,8,x,a\nc,0,3,8,y,\nd,2,5,8,y,\n")
    done, _ = place(tmp_path, text, "-q")
    assert json.loads(done.stdout)["pools"] == {"x": 8, "y": 16}


def test_pools_beyond_63_bits_together(tmp_path):
    text = (f"id,lower,upper,size,pool\na,0,1,{2**62},x\n"
            f"b,0,1,{2**62},y\n")
    done, out = place(tmp_path, text, "-q")
    assert done.returncode == 1 and "2^63" in done.stderr
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
