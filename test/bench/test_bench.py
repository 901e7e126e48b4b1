"""bench/run.py --quick: one small model, without peers, and a few plans."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ONNX_MEMOPT_BIN_DIR")
                   or ROOT / "build" / "release" / "bin")


def bench(*arguments):
    return subprocess.run(
        [sys.executable, str(ROOT / "bench" / "run.py"), *arguments],
        capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def program():
    if not (BIN / "onnx-memopt").exists():
        pytest.skip(f"{BIN / 'onnx-memopt'} is not built")


def test_cli_measures_each_program_once(program, tmp_path):
    result = bench("cli", "--quick", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert result.stdout == (tmp_path / "cli.md").read_text()
    assert "| transformer_160 | onnx-memopt --analyze | " in result.stdout
    raw = json.loads((tmp_path / "cli.json").read_text())
    assert [run["program"] for run in raw["runs"]] == [
        "onnx-memopt --analyze", "onnx-memopt"]
    for run in raw["runs"]:
        assert run["failure"] == ""
        assert len(run["seconds"]) == len(run["peak_bytes"]) == 1
        # A process takes some time and more than a page.
        assert 0 < run["seconds"][0] < 60
        assert run["peak_bytes"][0] > 4096
    assert raw["machine"]["onnx-memopt"]
    assert not list(tmp_path.glob("models/*/*.out.*"))


def test_plan_quick(program, tmp_path):
    result = bench("plan", "--quick", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    if "skipped" in result.stdout:
        pytest.skip("no instances of others here")
    rows = json.loads((tmp_path / "plan.json").read_text())
    names = [row["instance"] for row in rows]
    assert "MiniMalloc A" in names and "MiniMalloc A to K together" in names
    assert any(name.startswith("vgg19") for name in names)
    # Whether aims are met depends on the machine; right they must be.
    assert all(row["judged"] in ("valid", "proved", "no plan") for row in rows)
    for row in rows:
        assert row["instance"] in result.stdout



def test_inference_keeps_what_it_measured(program, tmp_path):
    pytest.importorskip("onnxruntime")
    if not run_models("light_squeezenet"):
        pytest.skip("the onnx package carries no networks")
    result = bench("inference", "--quick", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert result.stdout == (tmp_path / "inference.md").read_text()
    assert "| light_squeezenet | " in result.stdout
    assert "Geometric means over 1 models" in result.stdout
    kept = tmp_path / "inference" / "light_squeezenet.json"
    row = json.loads(kept.read_text())
    assert row["equal"] and row["error"] <= 1e-4
    for when in ("before", "after"):
        # The largest tensor, 1 x 64 x 111 x 111, takes 3 MiB.
        assert 3 << 20 <= row[when]["first"] <= row[when]["steady"] + (1 << 20)
        assert row[when]["seconds"] > 0
        assert row["predicted"][when]["steady_peak_bytes"] > 3 << 20
    assert list(row["sessions"]) == ["arena, pattern off"]
    assert list((tmp_path / "models" / "inference").iterdir()) == []
    # The second time it only writes the table.
    row["before"]["seconds"] = 1234.5
    kept.write_text(json.dumps(row))
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- bench:inference -->\nold\n"
                    "<!-- /bench:inference -->\nz\n")
    assert "| 1234.500 |" in bench("inference", "--quick", "--out",
                                   str(tmp_path), "--readme", str(page)).stdout
    lines = page.read_text().splitlines()
    assert "old" not in lines and (lines[0], lines[-1]) == ("a", "z")
    assert sum(line.startswith("| light_squeezenet | ") for line in lines) == 1


def run_models(name):
    script = ("import sys; sys.path.insert(0, sys.argv[1])\n"
              "import models\nprint(sys.argv[2] in models.light_networks())")
    return "True" in subprocess.run(
        [sys.executable, "-c", script, str(ROOT / "bench"), name],
        capture_output=True, text=True, check=True).stdout


def test_the_generated_model_has_the_nodes_that_were_asked_for(
        program, tmp_path):
    model = tmp_path / "t.onnx"
    subprocess.run([sys.executable, str(ROOT / "bench" / "generate.py"),
                    str(model), "--nodes", "333"], check=True,
                   capture_output=True)
    report = subprocess.run(
        [str(BIN / "onnx-memopt"), str(model), "--analyze", "--json", "-"],
        check=True, capture_output=True, text=True)
    report = json.loads(report.stdout)
    assert report["model"]["nodes"] == 333
    assert report["complete"]
    # All weights are in the data file; it stores none of them.
    data = (tmp_path / "t.onnx.data").stat()
    assert data.st_blocks == 0
    assert data.st_size >= report["weights"]["bytes"] - 16


def test_an_unknown_benchmark_is_refused():
    result = bench("nothing")
    assert result.returncode == 2
    assert "there are cli, reorder, micro" in result.stderr


def test_a_program_that_fails_gets_a_cell_that_says_so(tmp_path):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import measure\n"
        "print(measure.run(['sh', '-c', 'echo bad luck >&2; exit 3'], 9)"
        ".failure)\n"
        "print(measure.run(['sleep', '60'], 0.2).failure)\n"
        "print(measure.run(['/no/such'], 9).failure)\n")
    result = subprocess.run([sys.executable, "-c", script,
                             str(ROOT / "bench")], capture_output=True,
                            text=True, timeout=60, check=True)
    assert result.stdout.splitlines() == [
        "exit 3: bad luck", "over 0.2 s",
        "cannot be run: No such file or directory"]
