"""Dimension flow, checked by doing what it says.

Every way that the tool lists for a node is carried out: its operands are split,
ONNX Runtime runs the node on each part, and the joined results must be those of
the whole. The numbers at the end of the run say how many ways were checked.
"""

import collections
import concurrent.futures
import random

import numpy as np
import onnx
import pytest

import flow_cases
import flow_parts
import runtime
from programs import Programs
from shapes import expose_all
from test_operator_cases import LETTERS, cases, feeds

TITLE = "dimension flow"
# Lists such as Reshape's shape; anything larger is data.
MAX_LIST = 16


class FlowChecker:
    """Checks the nodes of one model after another."""

    def __init__(self, programs: Programs, folder, counts):
        self._programs = programs
        self._folder = folder
        self._counts = counts

    def check(self, name: str, model: onnx.ModelProto, data: dict) -> list[str]:
        """`data`: what the inputs are, as runtime.run takes it."""
        if any(isinstance(v, onnx.TensorProto) for v in data.values()):
            self._counts.add("models with inputs that cannot be fed")
            return []
        model = numbered(model)
        try:
            values = runtime.run(expose_all(model), data, runtime.NONE)
        except runtime.CannotRun:
            self._counts.add("models that the runtime cannot run")
            return []
        known = {tensor.name: onnx.numpy_helper.to_array(tensor)
                 for tensor in model.graph.initializer}
        for key, value in (data | values).items():
            if hasattr(value, "numpy"):
                value = runtime.raw_tensor(value)
            if isinstance(value, (runtime.Tensor, np.ndarray)):
                array = flow_parts.to_array(value)
                if array is not None:
                    known[key] = array
        self._counts.add("models")
        ways = collections.defaultdict(dict)  # of each node, in order
        for variant in (model, with_lists(model, known)):
            for node, lines in self._flow(name, variant).items():
                ways[node].update(dict.fromkeys(lines))
        failures = []
        for node in model.graph.node:
            failures += [f"{name}: {node.op_type}: {line}" for line in
                         self._node(node, model.opset_import, known,
                                    ways[node.name])]
        return failures

    def _flow(self, name: str, model) -> dict[str, list[str]]:
        source = self._folder / f"{name}.onnx"
        source.write_bytes(model.SerializeToString())
        text = self._programs.print_flow(source)
        source.unlink()
        return flow_parts.parse_flow(text)

    def _node(self, node, opsets, known, lines) -> list[str]:
        if not lines:
            self._counts.add("opaque nodes")
            return []
        if not all(name in known for name in node.input if name):
            self._counts.add("nodes whose inputs are no dense tensors")
            return []
        try:
            runner = flow_parts.NodeRunner(
                node, opsets, {name: known[name] for name in node.input if name})
        except runtime.CannotRun:
            self._counts.add("nodes that the runtime cannot run alone")
            return []
        failures = []
        for line in lines:
            try:
                way = flow_parts.parse_way(line)
            except flow_parts.Symbolic:
                self._counts.add("ways with named dims")
                continue
            self._counts.add("ways checked")
            self._counts.add(f"ways checked: {kind(way)}")
            tried = set()
            for parts in (2, 3, way.extent):
                cuts = tuple(flow_parts.borders(way, parts))
                if cuts in tried:
                    continue
                tried.add(cuts)
                problem = runner.check(way, parts)
                self._counts.add("splits run")
                if problem:
                    failures.append(f"{parts} parts: {line}: {problem}")
                    break
        return failures


def kind(way: flow_parts.Way) -> str:
    if way.combine != "none":
        return f"combined by {way.combine}"
    if way.windowed:
        return "windowed"
    if way.edits:
        return "with shape edits"
    if way.attributes:
        return "with attribute edits"
    return "parallel"


def numbered(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model` with its nodes named n0, n1, ..."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for i, node in enumerate(copy.graph.node):
        node.name = f"n{i}"
    return copy


def with_lists(model: onnx.ModelProto, known: dict) -> onnx.ModelProto:
    """`model` with short lists among its inputs as initializers, so that the
    tool knows what they contain."""
    lists = {}
    first = {node.input[0] for node in model.graph.node if node.input}
    for info in model.graph.input:
        value = known.get(info.name)
        if (value is not None and value.ndim <= 1 and value.size <= MAX_LIST
                and value.dtype.kind in "bif" and info.name not in first):
            lists[info.name] = onnx.numpy_helper.from_array(value)
    return runtime.bake(model, lists)


@pytest.fixture(name="checker")
def fixture_checker(bin_dir, tmp_path, tallies):
    return FlowChecker(Programs(bin_dir), tmp_path, tallies[TITLE])


def run_all(checks) -> None:
    """Calls each (function, arguments...); the failures must be none."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failures = [line for lines in pool.map(
            lambda check: check[0](*check[1:]), checks) for line in lines]
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("letter", LETTERS)
def test_operator_cases(letter, checker):
    run_all((checker.check, case.name, case.model, feeds(case, inputs))
            for case in cases()[letter] for inputs, _ in case.data_sets[:1])


@pytest.mark.parametrize("family", flow_cases.FAMILIES)
def test_random_nodes(family, checker):
    """Larger operands, and attributes that the operator cases do not have."""
    rng = random.Random(family)
    run_all((checker.check, f"{family}{i}", *flow_cases.make(family, rng))
            for i in range(flow_cases.FAMILIES[family].count))


def conv_runner(**attributes) -> flow_parts.NodeRunner:
    values = np.random.default_rng(1).standard_normal
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    return flow_parts.NodeRunner(
        node, [onnx.helper.make_opsetid("", 21)],
        {"x": values((1, 4, 12), np.float32),
         "w": values((4, 4 // attributes.get("group", 1), 3), np.float32)})


@pytest.mark.parametrize("right, wrong", [
    # Rows [lo, hi) read [lo - 1, hi + 1).
    ("results=2 extent=12 operands=2:1/1:1:1,whole windowed",
     ["results=2 extent=12 operands=2:1/1:0:1,whole windowed",
      "results=2 extent=12 operands=2:1/1:1:0,whole windowed",
      "results=2 extent=12 operands=2:1/1,whole"]),
    ("results=1 extent=4 operands=whole,0:1/1",
     ["results=1 extent=4 operands=1:1/1,0:1/1",
      "results=1 extent=4 operands=whole,1:1/1",
      "results=- extent=4 operands=1:1/1,1:1/1 combine=max"]),
    ("results=- extent=4 operands=1:1/1,1:1/1 combine=sum",
     ["results=- extent=4 operands=1:1/1,1:1/1 combine=mean"]),
])
def test_that_wrong_ways_fail(right, wrong):
    runner = conv_runner(pads=[1, 1])
    assert runner.check(flow_parts.parse_way(right), 3) == ""
    for line in wrong:
        assert runner.check(flow_parts.parse_way(line), 3) != "", line


def test_that_a_wrong_edit_fails():
    runner = conv_runner(pads=[1, 1], group=4)
    line = "results=1 extent=4 operands=1:1/1,0:1/1"
    edit = " attribute=group:1/1"
    assert runner.check(flow_parts.parse_way(line + edit), 2) == ""
    assert runner.check(flow_parts.parse_way(line), 2) != ""


def test_that_ways_were_checked(tallies):
    """An empty list of ways must not pass for a right one."""
    counts = tallies[TITLE]
    if counts["models"] < 2500:
        pytest.skip("not all operator cases were selected")
    assert counts["ways checked"] >= 15000
    for what in ("parallel", "windowed", "with shape edits", "combined by sum",
                 "with attribute edits"):
        assert counts[f"ways checked: {what}"] >= 100, what
