"""Gradients of the operator cases of the onnx package.

Each case becomes a model whose floating-point inputs are weights and whose
output is one number: the sum of its results, weighted at random. The program
makes its gradient, which ONNX Runtime computes in float32; the slope along
random directions comes from onnx's own evaluator in float64, by central
differences.

A sample of the cases runs by default, all of them with ONNX_MEMOPT_SLOW=1.
"""

import concurrent.futures
import functools
import os
import re
import warnings
import zlib

import numpy as np
import onnx
import onnx.backend.test.case.node
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import train_step
from memopt_program import ROOT

SLOW = os.environ.get("ONNX_MEMOPT_SLOW") == "1"
FLOATS = {TensorProto.FLOAT, TensorProto.DOUBLE}
# Operands that say how, not what: the rules do not differentiate by them.
FIXED = {"Resize": (1, 2, 3), "Dropout": (1,), "Pad": (2,),
         "Clip": (1, 2), "BatchNormalization": (3, 4), "OneHot": (2,)}
# Where the op jumps or bends at what the case feeds, the case tests overflow,
# or onnx's evaluator differs from the runtime: it takes the L1 norm without
# the sign, and aligns corners to a size that is not whole.
NOT_SMOOTH = re.compile(
    r"_inf|nan|overflow|saturat|cast_|castlike|isinf|equal_|bernoulli|"
    r"training_dropout|dropout_.*ratio|quantize|_no_nan_pooling|"
    r"l1normalization|downsample_scales_(linear|cubic)_align_corners")
# onnx's evaluator computes some ops in float32 whatever it is fed, where only
# the longer step is long enough.
STEPS = (1e-5, 2e-3)
# A case states the version of its op, the latest one: it is the same in this
# opset, for which training has all it needs.
MIN_OPSET = 18


@functools.cache
def rules() -> set[str]:
    """The ops that docs/gradients.md lists."""
    text = (ROOT / "docs" / "gradients.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| (\w+) \|", text, re.MULTILINE)) - {"op"}


@functools.cache
def cases() -> list:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = onnx.backend.test.case.node.collect_testcases(None)
    chosen = []
    for case in found:
        graph = case.model.graph
        ops = {n.op_type for n in graph.node}
        if not ops & rules() or not graph.input:
            continue
        if case.name.endswith("_expanded") and any(
                o.version < MIN_OPSET for o in case.model.opset_import
                if o.domain in ("", "ai.onnx")):
            continue  # ops of the body may have changed since
        if NOT_SMOOTH.search(case.name) or case.model.functions:
            continue
        if not any(i.type.tensor_type.elem_type in FLOATS
                   for i in graph.input):
            continue
        chosen.append(case)
    return chosen


def fixed_inputs(graph) -> set[str]:
    return {node.input[i] for node in graph.node
            for i in FIXED.get(node.op_type, ()) if i < len(node.input)}


def away_from_corners(value, rng):
    """Integers and ties are where max, abs and floor have no slope."""
    return value + 0.02 * (np.abs(value) + 0.1) * rng.uniform(-1, 1, value.shape)


def as_loss(case, inputs, rng):
    """The model with one number as output, and its weights."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx"):
            opset.version = max(opset.version, MIN_OPSET)
    graph = model.graph
    fixed = fixed_inputs(graph)
    weights = {}
    for info, value in zip(case.model.graph.input, inputs):
        if not isinstance(value, np.ndarray):
            return None
        if info.type.tensor_type.elem_type in FLOATS and info.name not in fixed:
            value = np.asarray(away_from_corners(value, rng), np.float32)
            weights[info.name] = value
        elif value.dtype == np.float64:
            value = value.astype(np.float32)
        graph.initializer.append(
            numpy_helper.from_array(np.asarray(value), info.name))
    outputs = [o for o in graph.output
               if o.type.tensor_type.elem_type in FLOATS]
    if not outputs or not weights:
        return None
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "dtype" and attribute.i == TensorProto.DOUBLE:
                attribute.i = TensorProto.FLOAT
    names = [o.name for o in outputs]
    used = {o for n in graph.node for o in n.output}
    values = evaluate(model, weights, names)
    if any(not isinstance(v, np.ndarray) or not np.isfinite(v).all()
           for v in values):
        return None
    del graph.input[:], graph.output[:]
    parts = []
    for i, (name, value) in enumerate(zip(names, values)):
        assert name in used
        factor = rng.uniform(0.5, 1.5, value.shape) * rng.choice((-1, 1))
        graph.initializer.append(numpy_helper.from_array(
            np.asarray(factor, np.float32), f"factor_{i}"))
        graph.node.append(helper.make_node(
            "Mul", [name, f"factor_{i}"], [f"weighted_{i}"]))
        graph.node.append(helper.make_node(
            "ReduceSum", [f"weighted_{i}"], [f"sum_{i}"], keepdims=0))
        parts.append(f"sum_{i}")
    graph.node.append(helper.make_node("Sum", parts, ["total"]))
    graph.output.append(
        helper.make_tensor_value_info("total", TensorProto.FLOAT, []))
    return model, weights


def evaluate(model, weights, names):
    """The values of `names` in float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for tensor in wide.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            value = weights.get(tensor.name)
            if value is None:
                value = numpy_helper.to_array(tensor)
            tensor.CopyFrom(numpy_helper.from_array(
                np.asarray(value, np.float64), tensor.name))
    del wide.graph.input[:]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(wide).run(names, {})


def check(case, folder) -> tuple[str, str]:
    """("ok" or "failed" or why it was not compared, details)."""
    rng = np.random.default_rng(zlib.crc32(case.name.encode()))
    try:
        made = as_loss(case, case.data_sets[0][0], rng)
    except Exception as e:  # pylint: disable=broad-except
        return "evaluator", f"{type(e).__name__}: {e}"
    if made is None:
        return "no float", ""
    model, weights = made
    path = folder / f"{case.name}.onnx"
    onnx.save(model, path)
    place = folder / case.name
    place.mkdir()
    freeze = [f for name in {t.name for t in model.graph.initializer}
              if name.startswith("factor_") for f in ("--freeze", name)]
    for name in sorted(fixed_inputs(case.model.graph)):
        info = [i for i in case.model.graph.input if i.name == name]
        if info and info[0].type.tensor_type.elem_type in FLOATS:
            freeze += ["--freeze", name]
    try:
        step = train_step.make_step(
            path, place, "--optimizer", "none", "--loss", "output", *freeze,
            *[f for name in weights for f in ("--train", name)])
    except train_step.TrainError as e:
        return "refused", str(e)
    try:
        loop = train_step.Loop(step, weights, {})
        outputs = loop.run()
    except Exception as e:  # pylint: disable=broad-except
        try:
            train_step.session(path).run(None, {})
        except Exception:  # pylint: disable=broad-except
            return "no kernel", ""
        return "runtime", f"{type(e).__name__}: {e}"
    slopes = [(name, outputs[f"{name}.grad"].astype(np.float64))
              for name in weights]
    scale = 1 + sum(np.abs(g).sum() for _, g in slopes)
    for name, gradient in slopes:
        direction = rng.uniform(-1, 1, gradient.shape)
        along = float((gradient * direction).sum())
        found = []
        for length in STEPS:
            try:
                low, high = (
                    float(evaluate(model, {**weights, name: weights[name] +
                                           sign * length * direction},
                                   ["total"])[0])
                    for sign in (-1, 1))
            except Exception as e:  # pylint: disable=broad-except
                return "evaluator", f"{type(e).__name__}: {e}"
            found.append((high - low) / (2 * length))
            if abs(found[-1] - along) <= 2e-4 * (scale + abs(found[-1])):
                break
        else:
            return "failed", f"{name}: {along:.6g}, differences {found}"
    return "ok", ""


def summary(results):
    lines = []
    for name, (outcome, details) in sorted(results.items()):
        if outcome != "ok":
            lines.append(f"{name}: {outcome}: {details}")
    return "\n".join(lines)


def test_gradients_agree_with_finite_differences(tmp_path):
    chosen = cases()
    if not SLOW:
        # The first case of each op, not of its function body.
        seen, sample = set(), []
        for case in chosen:
            op = case.model.graph.node[0].op_type
            if len(case.model.graph.node) == 1 and op not in seen:
                seen.add(op)
                sample.append(case)
        chosen = sample
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = dict(zip([c.name for c in chosen],
                           pool.map(lambda c: check(c, tmp_path), chosen)))
    failed = {n: r for n, r in results.items() if r[0] in ("failed", "runtime")}
    assert not failed, summary(failed)
    counts = {k: sum(r[0] == k for r in results.values())
              for k in {r[0] for r in results.values()}}
    print(counts)
    print(summary(results))
    # The others have ops without a rule, or cannot be evaluated in float64.
    wanted = (0.65 if SLOW else 0.9) * len(results)
    assert counts["ok"] >= wanted, f"{counts}\n{summary(results)}"
