"""Subgraphs, functions, sequences, optionals, sparse weights, and odd graphs.

The checks are those of the operator cases: an equal model back, the same
outputs bit by bit, true sizes, and sorted nodes whatever their order was. Then
a few models are looked at for what the passes did to them.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import comparison
import runtime
from checks import Checker, run_case
from programs import Programs
from structure_models import MODELS

TITLE = "structures"


@pytest.fixture(name="checker")
def fixture_checker(bin_dir, tmp_path, tallies):
    return Checker(Programs(bin_dir), tmp_path, tallies[TITLE],
                   tallies[TITLE + ": tensors"])


def feeds_of(name: str) -> dict:
    return {key: runtime.feed_value(value, TensorProto.UNDEFINED)
            for key, value in MODELS[name].feeds.items()}


@pytest.mark.parametrize("name", MODELS)
def test_structure(name, checker):
    model = MODELS[name].build()
    feeds = feeds_of(name)
    if MODELS[name].runs:  # A model that does not would test little.
        run_case(model, feeds, runtime.NONE, 1)
    data_sets = [feeds]
    if "c" in feeds:
        data_sets.append({**feeds, "c": np.array(False)})
    failures = checker.check(name, model, data_sets)
    assert not failures, "\n".join(failures)


@pytest.fixture(name="rewrite")
def fixture_rewrite(bin_dir, tmp_path):
    def rewrite(name: str):
        source, output = tmp_path / "m.onnx", tmp_path / "out.onnx"
        source.write_bytes(MODELS[name].build().SerializeToString())
        report = Programs(bin_dir).rewrite(source, output)
        return onnx.load(output), report
    return rewrite


def weights(graph: onnx.GraphProto) -> list[str]:
    return [tensor.name for tensor in graph.initializer]


def test_what_is_dead_goes(rewrite):
    model, report = rewrite("dead")
    assert sorted(n.op_type for n in model.graph.node) == [
        "Dropout", "Relu", "Split"]
    assert weights(model.graph) == ["kept"]
    assert [i.name for i in model.graph.input] == ["x", "unused", "c"]
    assert report["weights"]["after_bytes"] == 4


def test_equal_weights_of_all_scopes_are_shared(rewrite):
    model, report = rewrite("equal_weights")
    # A graph output keeps its name, and other types keep their bytes.
    assert weights(model.graph) == ["w1", "w_out", "i"]
    assert report["weights"]["after_bytes"] == 96
    for node in model.graph.node:
        for graph in comparison.subgraphs(node):
            assert weights(graph) == []


def test_a_default_of_an_input_is_not_shared(rewrite):
    model, _ = rewrite("default_inputs")
    assert weights(model.graph) == ["d", "w"]


def test_zeros_of_other_types_and_shapes_stay(rewrite):
    model, _ = rewrite("zeros")
    assert weights(model.graph) == ["a", "i", "s", "neg"]


def test_branches_run_one_after_another(rewrite):
    _, report = rewrite("reordered")
    # One branch in place of two or three: a [64, 512] float in and out.
    size = 64 * 512 * 4
    assert report["before"]["live_peak_bytes"] >= 4 * size
    assert report["after"]["live_peak_bytes"] < 2.1 * size


def test_unknown_fields_survive_a_rewrite(rewrite):
    model, _ = rewrite("extras")
    assert model.SerializeToString() == MODELS[
        "extras"].build().SerializeToString()
