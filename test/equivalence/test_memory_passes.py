"""break-reuse and rematerialize give the same bits, or, where the runtime's
optimizer fuses other nodes for it, the same to 1e-5 of the largest.

Forced, whether they pay or not: on the operator cases of several nodes, and on
a few shared models.
"""

import concurrent.futures

import onnx
import pytest

import runtime
import test_operator_cases
import test_shared_models
import test_split
from checks import run_case
from programs import ProgramError, Programs

TITLE = "values in other shapes, and made again"
PASSES = "break-reuse{force=4},rematerialize{force=4}"
LEVELS = {"none": runtime.NONE, "all": runtime.ALL}
# Inside a subgraph, onnx's inference of some functions fails.
FAIL_IN_SUBGRAPHS = {"Attention", "MeanVarianceNormalization"}


def check_case(case, programs, folder, counts) -> list[str]:
    source = folder / f"{case.name}.onnx"
    output = folder / f"{case.name}.out.onnx"
    source.write_bytes(case.model.SerializeToString())
    try:
        report = programs.optimize(source, output, f"--passes={PASSES}")
    except ProgramError as problem:
        return [f"{case.name}: {problem}"]
    changed = [run["name"] for run in report["passes"] if run["changed"]]
    if not changed:
        return []
    for name in changed:
        counts.add(f"models that {name} changed")
    rewritten = onnx.load(output)
    full = not any(n.op_type in FAIL_IN_SUBGRAPHS
                   for n in case.model.graph.node)
    failures = []
    try:
        onnx.checker.check_model(rewritten, full_check=full)
    except Exception as error:  # The checker and inference raise many types.
        failures.append(f"no longer valid: {error}")
    for title, level in LEVELS.items():
        data = test_operator_cases.feeds(case, case.data_sets[0][0])
        try:
            before = run_case(case.model, data, level, 1)
        except runtime.CannotRun:
            counts.add(f"cannot run (level {title})")
            continue
        after = run_case(rewritten, data, level, 1)
        counts.add(f"runs compared (level {title})")
        # Of 16-bit nodes the runtime rounds between those of one graph only
        # where it must: it computes them in 32 bits.
        if level == runtime.NONE and "fp16" not in case.name:
            failures += runtime.differences(before, after, set())
        else:
            # The runtime fuses other nodes then, and rounds in another order.
            failures += filter(None, [test_split.error_of(before, after)])
    return [f"{case.name}: {line}" for line in failures]


def test_forced_operator_cases(bin_dir, tmp_path, tallies):
    programs = Programs(bin_dir)
    cases = [case for found in test_operator_cases.cases().values()
             for case in found
             if len(case.model.graph.node) >= 4
             and not any(n.op_type in ("RandomUniformLike", "Bernoulli")
                         for n in case.model.graph.node)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failures = [line for lines in pool.map(
            lambda case: check_case(case, programs, tmp_path, tallies[TITLE]),
            cases) for line in lines]
    assert not failures, "\n".join(failures)
    counts = tallies[TITLE]
    assert counts["models that break-reuse changed"] >= 50
    assert counts["models that rematerialize changed"] >= 50
    assert counts["runs compared (level all)"] >= 100


# Reordering for the runtime, with the two passes where they pay.
CHOSEN = {"vit_b16": {}, "mobilenetv3": {}}


@pytest.mark.parametrize("name", CHOSEN)
def test_chosen_values(name, bin_dir, materialize, tallies):
    source = materialize(name)
    output = source.with_name("out.onnx")
    report = Programs(bin_dir).optimize(
        source, output, "--passes=reorder,break-reuse,rematerialize",
        *test_shared_models.dim_options(CHOSEN[name]))
    for kind in ("bare", "default"):
        for run in ("first_peak_bytes", "steady_peak_bytes"):
            before, after = (report[k]["runtime"][kind][run]
                             for k in ("before", "after"))
            assert after <= before + 64 * 1024
    onnx.checker.check_model(str(output), full_check=True)
    model = onnx.load(source, load_external_data=False)
    feeds = test_shared_models.make_feeds(model, CHOSEN[name])
    before = runtime.run(str(source), feeds, runtime.NONE)
    after = runtime.run(str(output), feeds, runtime.NONE)
    assert not runtime.differences(before, after, set())
    tallies[TITLE].add("runs of shared models compared")
