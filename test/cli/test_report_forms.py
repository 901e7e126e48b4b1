"""The other forms of the report: --trace, --csv, --dot, --annotate and diff."""

import csv
import json
import re

import onnx
import pytest

from memopt_program import (analyze, memopt, parse, rewrite, save)

# Stored so that a better order exists: see test/golden/branches.onnxtxt.
BRANCHES = """
g (float[4, 64] x) => (float[4] y) <int64[1] last = {-1}> {
  a = Concat<axis = 0>(x, x)
  b = Concat<axis = 0>(x, x, x)
  c = Concat<axis = 0>(x, x, x, x)
  small_a = ReduceMax<keepdims = 0>(a)
  small_b = ReduceMax<keepdims = 0>(b)
  small_c = ReduceMax<keepdims = 0>(c)
  ab = Add(small_a, small_b)
  abc = Add(ab, small_c)
  s = ReduceMax<keepdims = 0>(x, last)
  y = Add(s, abc)
}"""

NESTED = """
g (float[4] x, bool c) => (float[4] y) {
  y = If(c) <then_branch = t () => (float[4] a) { b = Exp(x) a = Neg(b) },
             else_branch = e () => (float[4] d) { d = Abs(x) }>
}"""


def test_a_trace_follows_the_report(tmp_path):
    name = save(parse(BRANCHES), tmp_path)
    report, _ = rewrite(name, "--trace", "t.json", cwd=tmp_path)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    for pid, side in ((1, "before"), (2, "after")):
        own = [e for e in events if e["pid"] == pid]
        assert own[0]["args"]["name"] == side
        counter = [e["args"]["bytes"] for e in own if e["ph"] == "C"]
        assert max(counter) == report[side]["live_peak_bytes"]
        lives = {e["name"]: (e["ts"] // 1000, e["dur"] // 1000) for e in own
                 if e.get("cat") == "tensor"}
        if side == "after":
            rows = {t["name"]: t for t in report["tensors"]}
            for tensor, (begin, length) in lives.items():
                assert begin == rows[tensor]["begin"]
                assert begin + length >= rows[tensor]["end"]
    assert "t.json" in report["outputs"]


def test_the_table_has_every_tensor(tmp_path):
    name = save(parse(BRANCHES), tmp_path)
    result = memopt(name, "--analyze", "--csv", "-", cwd=tmp_path)
    assert result.code == 0 and result.stderr == ""
    rows = list(csv.DictReader(result.stdout.splitlines()))
    report = analyze(name, cwd=tmp_path)
    assert [row["name"] for row in rows] == [
        tensor["name"] for tensor in report["tensors"]]
    for row, tensor in zip(rows, report["tensors"]):
        assert int(row["bytes"]) == tensor["bytes"]
        assert row["shape"] == tensor["shape"]


def test_the_graph_has_an_arrow_for_each_use(tmp_path):
    name = save(parse(NESTED), tmp_path)
    result = memopt(name, "--analyze", "--dot", "-", cwd=tmp_path)
    assert result.code == 0
    boxes = dict(re.findall(r'(b\d+) \[.*label="(\w+)\\n', result.stdout))
    assert sorted(boxes.values()) == ["Abs", "Exp", "If", "Neg"]
    arrows = {(boxes.get(a, "x"), boxes[b])
              for a, b in re.findall(r"(\w+) -> (b\d+)", result.stdout)}
    assert arrows == {("x", "If"), ("x", "Exp"), ("Exp", "Neg"), ("x", "Abs")}
    assert result.stdout.count("subgraph cluster_") == 2
    assert result.stdout.count("{") == result.stdout.count("}")


def annotations(node) -> dict[str, str]:
    return {entry.key.removeprefix("onnx_memopt."): entry.value
            for entry in node.metadata_props
            if entry.key.startswith("onnx_memopt.")}


def test_nodes_are_annotated(tmp_path):
    model = parse(BRANCHES)
    other = model.graph.node[0].metadata_props.add()
    other.key, other.value = "namespace", "kept"
    stale = model.graph.node[0].metadata_props.add()
    stale.key, stale.value = "onnx_memopt.step", "99"
    name = save(model, tmp_path)
    report, out = rewrite(name, "--annotate", "--passes", "reorder",
                          cwd=tmp_path)
    assert report["passes"][0]["changed"]
    rows = {t["name"]: t for t in report["tensors"]}
    decisions = set()
    for step, node in enumerate(out.graph.node):
        found = annotations(node)
        tensor = rows[node.output[0]]
        assert found["step"] == str(step)
        assert found["lifetime"] == f"[{tensor['begin']}, {tensor['end']})"
        assert found["bytes"] == str(tensor["bytes"])
        assert found["live_bytes"] == str(report["nodes"][step]["live_bytes"])
        decisions.add(re.sub(r"\d+", "N", found["decision"]))
    assert decisions == {"kept in place",
                         "moved from position N of the node list"}
    first = next(n for n in out.graph.node if n.output[0] == "a")
    assert [(e.key, e.value) for e in first.metadata_props
            if e.key == "namespace"] == [("namespace", "kept")]
    keys = [entry.key for entry in first.metadata_props]
    assert len(keys) == len(set(keys))
    onnx.checker.check_model(out)


def test_nothing_is_annotated_unless_asked_for(tmp_path):
    _, out = rewrite(save(parse(BRANCHES), tmp_path), cwd=tmp_path)
    assert not any(node.metadata_props for node in out.graph.node)


def test_what_passes_made_and_moved_inside_is_said(tmp_path):
    """The graph goes into a branch of an If."""
    model = parse("""
        chain (float[1024, 1024] x) => (float[1024] y) <int64[1] axes = {1}> {
          a = Exp (x)
          b = Sin (a)
          y = ReduceMax <keepdims = 0> (b, axes)
        }""")
    report, out = rewrite(save(model, tmp_path), "--annotate", "--passes",
                          "no-pattern", cwd=tmp_path)
    assert report["passes"][0]["changed"]
    outer, = [node for node in out.graph.node if node.op_type == "If"]
    assert annotations(outer)["decision"] == "made by a pass"
    branch, = [a.g for a in outer.attribute if a.name == "then_branch"]
    inside = {node.op_type: annotations(node) for node in branch.node}
    assert inside["Exp"]["decision"] == (
        'put into a subgraph of "no_pattern/If"')
    assert inside["Exp"]["lifetime"] == "[1, 3)"


def test_symbolic_bytes_are_formulas(tmp_path):
    _, out = rewrite(save(parse(
        "g (float[n, 4] x) => (float[n, 4] y) { y = Exp(x) }"), tmp_path),
        "--annotate", cwd=tmp_path)
    exp, = [node for node in out.graph.node if node.op_type == "Exp"]
    assert annotations(exp)["bytes"] == "16*n"


def test_calls_are_annotated_and_functions_are_not(tmp_path):
    model = parse("""
        <ir_version: 10, opset_import: ["" : 18, "local" : 1]>
        g (float[4] x) => (float[4] y) { h = local.f(x) y = Neg(h) }
        <domain: "local", opset_import: ["" : 18]>
        f (a) => (b) { t = Exp(a) b = Sin(t) }""")
    _, out = rewrite(save(model, tmp_path), "--annotate", "--passes",
                     "drop-dead", cwd=tmp_path)
    call, last = out.graph.node
    assert annotations(call)["step"] == "0"
    assert annotations(last)["step"] == "2"
    assert not any(node.metadata_props for node in out.functions[0].node)


@pytest.mark.parametrize("arguments, word", [
    (["--analyze", "--annotate"], "none to annotate"),
    (["--analyze", "--csv", "-", "--dot", "-"],
     "the table and the graph cannot both go to stdout"),
    (["-o", "-", "--trace", "-"], "the model and the trace cannot both"),
])
def test_wrong_usage(arguments, word, tmp_path):
    result = memopt(save(parse(BRANCHES), tmp_path), *arguments, cwd=tmp_path)
    assert result.code == 2
    assert word in result.stderr


def test_a_form_that_cannot_be_written_is_an_error(tmp_path):
    name = save(parse(BRANCHES), tmp_path)
    result = memopt(name, "--analyze", "--csv", "no/such/folder/t.csv",
                    cwd=tmp_path)
    assert result.code == 1
    assert result.stderr.startswith("error: no/such/folder/t.csv: ")


def reports(tmp_path) -> tuple[str, str]:
    """Of two versions of a model: the second holds one tensor for longer."""
    name = save(parse(BRANCHES), tmp_path)
    analyze_to(name, "a.json", tmp_path)
    later = BRANCHES.replace("y = Add(s, abc)", "more = ReduceMax<keepdims = 0>"
                             "(c, last)\n  sum = ReduceMax<keepdims = 0>(more)"
                             "\n  z = Add(s, abc)\n  y = Add(z, sum)")
    assert later != BRANCHES
    name = save(parse(later), tmp_path, "later.onnx")
    analyze_to(name, "b.json", tmp_path)
    return "a.json", "b.json"


def analyze_to(model, target, tmp_path):
    result = memopt(model, "--analyze", "--json", target, "-q", cwd=tmp_path)
    assert result.code == 0, result.stderr


def test_diff_says_what_changed(tmp_path):
    a, b = reports(tmp_path)
    result = memopt("diff", a, b, cwd=tmp_path)
    assert result.code == 0 and result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= 80
    before, after = (json.loads((tmp_path / f).read_text()) for f in (a, b))
    assert before["model"]["nodes"] == 10 and after["model"]["nodes"] == 13
    assert re.search(r"nodes, as read +10 +13  \+30.0 %", result.stdout)
    same = memopt("diff", a, a, "--max-growth", "0", cwd=tmp_path)
    assert same.code == 0 and "%" not in same.stdout


def test_diff_fails_where_memory_grew(tmp_path):
    a, b = reports(tmp_path)
    report = json.loads((tmp_path / b).read_text())
    report["before"]["live_peak_bytes"] = int(
        1.04 * report["before"]["live_peak_bytes"])
    (tmp_path / b).write_text(json.dumps(report))
    assert memopt("diff", a, b, "--max-growth", "50", cwd=tmp_path).code == 0
    result = memopt("diff", a, b, "--max-growth", "3.5", "--markdown",
                    cwd=tmp_path)
    assert result.code == 3
    assert re.search(r"^gate failed: activations, live at the peak grew from "
                     r".*, by \+4\.0 %$", result.stderr, re.M)
    assert result.stdout.startswith("### Memory of `later.onnx`, compared with")
    # A table has as many cells in each row.
    table = [line for line in result.stdout.splitlines()
             if line.startswith("|")]
    assert len(table) > 8 and len({line.count("|") for line in table}) <= 2


def test_diff_reads_stdin_and_pipes(tmp_path):
    a, _ = reports(tmp_path)
    text = (tmp_path / a).read_bytes()
    assert memopt("diff", "-", a, cwd=tmp_path, stdin=text).code == 0
    assert memopt("diff", "-", "-", cwd=tmp_path).code == 2


@pytest.mark.parametrize("arguments, code, word", [
    (["diff"], 2, "two reports"), (["diff", "a.json"], 2, "two reports"),
    (["diff", "a.json", "b.json", "c.json"], 2, "c.json"),
    (["diff", "a.json", "b.json", "--max-growth", "x"], 2, "percentage"),
    (["diff", "a.json", "b.json", "--max-growth", "-1"], 2, "percentage"),
    (["diff", "no.json", "a.json"], 1, "no.json: no such file"),
    (["diff", "a.json", "m.onnx"], 1, "m.onnx: this is no JSON report"),
    (["diff", ".", "a.json"], 1, "error: .: "),
])
def test_diff_of_what_is_none(arguments, code, word, tmp_path):
    reports(tmp_path)
    result = memopt(*arguments, cwd=tmp_path)
    assert result.code == code
    assert result.stderr.startswith("error: ") and word in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_diff_help(tmp_path):
    result = memopt("diff", "--help", cwd=tmp_path)
    assert result.code == 0 and result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "--max-growth" in result.stdout and "Exit codes" in result.stdout


def test_a_file_called_diff_is_a_model(tmp_path):
    (tmp_path / "diff").write_bytes(parse(BRANCHES).SerializeToString())
    result = memopt("diff", "--analyze", cwd=tmp_path)
    assert result.code == 0, result.stderr
