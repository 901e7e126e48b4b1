"""The operator cases of the onnx package, through the real programs.

One test per first letter of the operator: a test per case would cost more than
the cases. The numbers at the end of the run say how many were compared.
"""

import collections
import concurrent.futures
import functools
import warnings

import onnx.backend.test.case.node
import pytest

import runtime
from checks import Checker
from programs import Programs

TITLE = "operator cases of the onnx package"
# Of the operators of today; a case with another one fails the last test.
LETTERS = "abcdefghilmnopqrstuwx"


@functools.cache
def cases() -> dict[str, list]:
    """By the first letter after "test_"."""
    with warnings.catch_warnings():
        # Some cases overflow or divide by zero on purpose.
        warnings.simplefilter("ignore")
        found = onnx.backend.test.case.node.collect_testcases(None)
    by_letter = collections.defaultdict(list)
    for case in found:
        by_letter[case.name.removeprefix("test_")[0]].append(case)
    return by_letter


def feeds(case, inputs) -> dict:
    """A data set of `case` as Checker.check takes it."""
    data = {}
    for info, value in zip(case.model.graph.input, inputs):
        element = info.type.tensor_type.elem_type
        if element in runtime.PACKED_TYPES:
            data[info.name] = (
                value if isinstance(value, onnx.TensorProto)
                else onnx.numpy_helper.from_array(value))
        else:
            data[info.name] = runtime.feed_value(value, element)
    return data


@pytest.mark.parametrize("letter", LETTERS)
def test_operator_cases(letter, bin_dir, tmp_path, tallies):
    checker = Checker(Programs(bin_dir), tmp_path, tallies[TITLE],
                      tallies[TITLE + ": tensors"])

    def check(case) -> list[str]:
        return checker.check(
            case.name, case.model,
            [feeds(case, inputs) for inputs, _ in case.data_sets])

    # The programs and the runtime both run outside the interpreter's lock.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failures = [line for lines in pool.map(check, cases()[letter])
                    for line in lines]
    assert not failures, "\n".join(failures)


def test_that_the_cases_were_compared(tallies):
    """A release of onnx or of the runtime must not empty these tests."""
    counts = tallies[TITLE]
    assert set(cases()) == set(LETTERS)
    if counts["models"] < sum(map(len, cases().values())):
        pytest.skip("not all operator cases were selected")
    assert counts["models"] >= 1800
    for title in ("not optimized", "default options"):
        ran = counts[f"runs compared ({title})"]
        assert ran >= 0.75 * counts["models"]
    shapes = tallies[TITLE + ": tensors"]
    assert shapes["agree in type, shape and bytes"] >= 1500
