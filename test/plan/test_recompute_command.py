"""onnx-memopt-plan recompute, as a user runs it."""

import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get(
    "ONNX_MEMOPT_BIN_DIR", ROOT / "build" / "release" / "bin"))
PROGRAM = PROGRAM / "onnx-memopt-plan"
SHARED = pathlib.Path(os.environ.get("ONNX_MEMOPT_SHARED",
                                     ROOT.parent / "shared"))
DATA = SHARED / "data" / "remat"

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def chain(layers, draw=lambda: 1):
    """f0 -> f1 -> ..., a loss, and gradients that read the layers' inputs."""
    n = 2 * layers + 1
    edges = [[v, v + 1] for v in range(n - 1)]
    edges += [[i - 1, n - 1 - i] for i in range(1, layers)]
    return {"n": n, "memory": [draw() for _ in range(n)],
            "cost": [draw() for _ in range(n)], "edges": edges}


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True,
                          text=True, timeout=120, check=False)


def plan(tmp_path, problem, budget, *options):
    text = problem if isinstance(problem, str) else json.dumps(problem)
    (tmp_path / "in.json").write_text(text)
    out = tmp_path / "plan.json"
    done = run("recompute", tmp_path / "in.json", "--budget", budget, "-o",
               out, *options)
    return done, out


def judge(instance, out, budget):
    """The verdict of the independent judge."""
    tool = SHARED / "tools" / "judge_recompute.py"
    if not tool.exists():
        pytest.skip(f"no judge: {tool}")
    done = subprocess.run(
        [sys.executable, tool, instance, out, "--budget", str(budget)],
        capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def test_help_goes_to_stdout():
    done = run("recompute", "--help")
    assert done.returncode == 0 and "--budget" in done.stdout
    assert done.stderr == ""


def test_a_plan_and_one_result_line(tmp_path):
    done, out = plan(tmp_path, chain(8), 6)
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    assert result["found"] is True and result["infeasible"] is False
    assert result["optimal"] is True and result["method"] == "exact"
    assert result["cost"] == result["lower_bound"]
    written = json.loads(out.read_text())
    assert written["cost"] == result["cost"]
    assert len(written["sequence"]) == result["runs"] > 17
    code, verdict = judge(tmp_path / "in.json", out, 6)
    assert code == 0 and verdict["cost"] == result["cost"]


def test_progress_goes_to_stderr(tmp_path):
    done, _ = plan(tmp_path, chain(40), 12, "--time-limit", 1)
    assert done.returncode == 0
    for word in ("cost", "bound", "gap"):
        assert word in done.stderr
    done, _ = plan(tmp_path, chain(40), 12, "--time-limit", 1, "-q")
    assert done.stderr == ""


def test_a_budget_below_the_working_set(tmp_path):
    problem = chain(30)
    done, out = plan(tmp_path, problem, 2)
    assert done.returncode == 3 and not out.exists()
    result = json.loads(done.stdout)
    assert result["infeasible"] is True and result["found"] is False
    assert result["proof"] == "working set"
    held = result["working_set"]["values"]
    assert sum(problem["memory"][v] for v in held) > 2
    done, _ = plan(tmp_path, problem, 0)
    assert done.returncode == 3
    assert json.loads(done.stdout)["infeasible"] is True


def test_infeasible_by_exact_search(tmp_path):
    # Every node fits with what it reads, but no order of all of them does.
    problem = {"n": 7, "memory": [3, 2, 3, 2, 5, 2, 2], "cost": [1] * 7,
               "edges": [[0, 1], [0, 2], [1, 3], [3, 4], [2, 5], [2, 6],
                         [3, 6]]}
    done, _ = plan(tmp_path, problem, 7)
    assert done.returncode == 3
    result = json.loads(done.stdout)
    assert result["infeasible"] is True
    assert result["proof"] == "exact search"
    assert result["working_set"]["memory"] == 7
    done, _ = plan(tmp_path, problem, 8)
    assert done.returncode == 0


@pytest.mark.parametrize("layers, budget, overhead", [
    (100, 20, 100), (400, 40, 400), (1000, 64, 1000)])
def test_a_long_chain_at_twice_its_square_root(tmp_path, layers, budget,
                                               overhead):
    done, out = plan(tmp_path, chain(layers), budget, "--time-limit", 60)
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert result["method"] == "chain" and result["optimal"] is True
    code, verdict = judge(tmp_path / "in.json", out, budget)
    # One more forward pass at most.
    assert code == 0 and verdict["cost"] <= 2 * layers + 1 + overhead


def test_twenty_thousand_nodes(tmp_path):
    generator = random.Random(4)
    problem = chain(10_000, lambda: generator.randint(1, 100))
    budget = sum(problem["memory"]) // 8
    done, out = plan(tmp_path, problem, budget, "--time-limit", 20, "-q")
    assert done.returncode == 0
    code, _ = judge(tmp_path / "in.json", out, budget)
    assert code == 0


def text(n="3", memory="[1, 2, 3]", cost="[1, 1, 1]",
         edges="[\n[0, 1],\n[1, 2]\n]"):
    return (f'{{"n": {n},\n"memory": {memory},\n"cost": {cost},\n'
            f'"edges": {edges}}}\n')


@pytest.mark.parametrize("problem, line, says", [
    ("", 1, "not valid JSON"),
    ("{\n\n", 3, "not valid JSON"),
    ("\n[1, 2]", 2, "expected an object"),
    ('{"n": 1e999}', 1, "out of range"),
    ('\n{"n":\n' + "[" * 100 + "]" * 100 + "}", 3, "nested"),
    ('{"memory": []}', 1, "/n: is missing"),
    (text(n="-1"), 1, "/n: expected 0 to"),
    (text(n="2.5"), 1, "whole number"),
    (text(n="4"), 2, "expected 4 numbers"),
    (text(memory='{"a": 1}'), 2, "/memory: expected a list"),
    (text(memory='[1,\n2,\n"3"]'), 4, "/memory/2: expected a whole number"),
    (text(memory="[1,\n-2,\n3]"), 3, "/memory/1: expected 0 to"),
    (text(memory=f"[1, {2**63}, 3]"), 2, "/memory/1: expected 0 to"),
    (text(memory=f"[1, {2**63 - 2}, 3]"), 2, "beyond 2^63"),
    (text(cost=f"[\n{2**62},\n{2**62}, 1]"), 5, "/cost/1: the sum up to"),
    (text(edges="7"), 4, "/edges: expected a list"),
    (text(edges="[[0, 1],\n[1, 3]]"), 5, "/edges/1/1: expected 0 to 2"),
    (text(edges="[[0, 1],\n[1, 2, 0]]"), 5, "[producer, consumer]"),
    (text(edges="[[0, 1],\n[1, 2],\n[2, 1]]"), 5, "/edges/1: is part of a"),
    (text(edges="[[0, 1],\n[2, 2]]"), 5, "/edges/1: is part of a cycle"),
])
def test_a_malformed_file_is_one_line(tmp_path, problem, line, says):
    done, out = plan(tmp_path, problem, 10)
    assert done.returncode == 1
    assert done.stdout == "" and done.stderr.count("\n") == 1
    assert f"in.json:{line}: " in done.stderr and says in done.stderr
    assert not out.exists()


def test_no_such_file_folder_or_option(tmp_path):
    done = run("recompute", tmp_path / "none.json", "--budget", 1, "-o",
               tmp_path / "plan.json")
    assert done.returncode == 1 and "none.json" in done.stderr
    plan(tmp_path, chain(3), 9)
    done = run("recompute", tmp_path / "in.json", "--budget", 9, "-o",
               tmp_path / "no" / "plan.json")
    assert done.returncode == 1
    assert run("recompute", tmp_path / "in.json").returncode == 2
    assert plan(tmp_path, chain(3), -1)[0].returncode == 2


@pytest.mark.parametrize("memory, cost, budget, found", [
    ([0, 0, 0], [0, 0, 0], 0, True),
    ([5, 0, 0], [1, 0, 0], 4, False),
    ([2**62, 1, 2**61], [2**62, 1, 2**61], 2**63 - 1, True),
])
def test_degenerate_problems(tmp_path, memory, cost, budget, found):
    problem = {"n": 3, "memory": memory, "cost": cost,
               "edges": [[0, 1], [1, 2], [1, 2]]}
    done, out = plan(tmp_path, problem, budget, "-q")
    assert done.returncode == (0 if found else 3)
    assert out.exists() == found
    done, out = plan(tmp_path, {"n": 0, "memory": [], "cost": [], "edges": []},
                     0, "-q")
    assert done.returncode == 0
    assert json.loads(out.read_text())["sequence"] == []


@pytest.mark.parametrize("name, budget, most", [
    ("rlg1_n100", 37056, 48866),
    ("vgg19_bs256_train", 15352410932, 9503030),
    ("fcn8_bs32_train", 12136315968, 10278354943616),
])
def test_proved_optima(tmp_path, name, budget, most):
    path = DATA / "moccasin" / f"{name}.json"
    if not path.exists():
        pytest.skip(f"no instance: {path}")
    out = tmp_path / "plan.json"
    # Generous: the machine may be busy.
    done = run("recompute", path, "--budget", budget, "-o", out,
               "--time-limit", 10, "-q")
    assert done.returncode == 0, done.stdout
    code, verdict = judge(path, out, budget)
    assert code == 0 and verdict["cost"] <= most
