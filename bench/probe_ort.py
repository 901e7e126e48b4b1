#!/usr/bin/env python3
"""Checks what the runtime model assumes of ONNX Runtime against the one that
is installed: one small model for each fact, predicted and measured.

usage: probe_ort.py [--only TEXT] [--program onnx-memopt-opt] [--tolerance MIB]

Prints a table. A fact that does not hold is an error of several MiB; the
tolerance is for what a process takes anyway. Exit 1 if one does not hold, and
2 if nothing could be checked. The facts are in lib/analysis/ort_facts.h, in
lib/analysis/ort_scratch.cc and in the columns "view" and "in place" of
docs/ops.md; docs/runtime_model.md describes them.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import ort_memory

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1024 ** 2
ROWS, COLUMNS = 4096, 1024  # 16 MiB of floats
FLAT = [ROWS, COLUMNS]
SESSIONS = {"bare": ort_memory.BARE, "default": {},
            "pattern=off": {"enable_mem_pattern": False},
            "arena=off": {"enable_cpu_mem_arena": False},
            "arena=off,reuse=off,order=priority": {
                "enable_cpu_mem_arena": False, "enable_mem_reuse": False,
                "execution_order": "PRIORITY_BASED"},
            "bare,reuse=off": {**ort_memory.BARE, "enable_mem_reuse": False}}
FACTS = []


@dataclasses.dataclass
class Fact:
    name: str
    model: onnx.ModelProto
    options: str = "bare"
    threads: int = 1


def fact(name, nodes, inputs, outputs, constants=(), options=("bare",),
         opset=18, threads=1):
    """Inputs and outputs are (name, shape) or (name, shape, type)."""
    def info(value):
        name, shape, *kind = value
        return helper.make_tensor_value_info(
            name, kind[0] if kind else TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "probe", list(map(info, inputs)),
                              list(map(info, outputs)), list(constants))
    model = helper.make_model(
        graph, ir_version=10,
        opset_imports=[helper.make_opsetid("", opset),
                       helper.make_opsetid("com.microsoft", 1)])
    for text in options:
        FACTS.append(Fact(name, model, text, threads))


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, **attributes)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def weight(name, *shape):
    return numpy_helper.from_array(np.full(shape, 0.01, np.float32), name)


def on_a_temporary(op, domain="", opset=18, operands=(), constants=(),
                   **attributes):
    """16 MiB, then `op` on it: 16 MiB more unless it is done in place."""
    name = f"{domain}:{op}" if domain else op
    fact(f"{name} on a tensor that dies",
         [node("Sin", ["x"], ["a"]),
          node(op, ["a", *operands], ["b"], domain=domain, **attributes),
          node("ReduceMax", ["b"], ["y"], keepdims=0)],
         [("x", FLAT)], [("y", [])], constants, opset=opset)


def elementwise():
    for op in ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "Elu", "Selu", "Celu",
               "HardSigmoid", "Softplus", "Softsign", "ThresholdedRelu",
               "Shrink", "Identity", "Clip", "LogSoftmax", "Softmax", "Trilu",
               "Sqrt", "Exp", "Erf", "Sin", "Neg", "Abs", "Floor",
               "Reciprocal", "Transpose"):
        on_a_temporary(op)
    on_a_temporary("Gelu", opset=20)
    on_a_temporary("QuickGelu", domain="com.microsoft")
    on_a_temporary("Reshape", operands=["s"],
                   constants=[ints("s", COLUMNS, ROWS)])
    on_a_temporary("Unsqueeze", operands=["s"], constants=[ints("s", 0)])
    on_a_temporary("Flatten", axis=0)
    for op in ("Add", "Mul", "Pow"):
        on_a_temporary(op, operands=["a"])
    fact("Sum of three", [node("Sum", ["x", "x", "x"], ["y"])],
         [("x", FLAT)], [("y", FLAT)])
    fact("Where", [node("Greater", ["x", "w"], ["c"]),
                   node("Where", ["c", "x", "w"], ["y"])],
         [("x", FLAT), ("w", [1, COLUMNS])], [("y", FLAT)])


def session():
    chain = [node("Sin", ["x"], ["a"]), node("Sin", ["a"], ["b"]),
             node("Sin", ["b"], ["c"]), node("Sin", ["c"], ["y"])]
    fact("a chain", chain, [("x", FLAT)], [("y", FLAT)],
         options=SESSIONS)
    small, large = [ROWS // 4 * 3, COLUMNS], [ROWS, COLUMNS]
    fact("a dead buffer is held for the next of its shape",
         [node("Sin", ["x"], ["a"]),
          node("ReduceMax", ["a"], ["m"], keepdims=0),
          node("Add", ["w", "m"], ["b"]),
          node("ReduceMax", ["b"], ["n"], keepdims=0),
          node("Add", ["x", "n"], ["d"]),
          node("ReduceMax", ["d"], ["y"], keepdims=0)],
         [("x", small), ("w", large)], [("y", [])], options=SESSIONS)
    fact("the end of the pattern's block is a gap",
         [node("Concat", ["x", "x"], ["a"], axis=0), node("Sin", ["x"], ["b"]),
          node("Cos", ["b"], ["c"]),
          node("ReduceMax", ["a"], ["s"], keepdims=1),
          node("ReduceMax", ["c"], ["t"], keepdims=1),
          node("Sum", ["b", "s", "t"], ["d"]),
          node("Concat", ["d", "b"], ["e"], axis=0),
          node("ReduceMax", ["e"], ["y"], keepdims=1)],
         [("x", FLAT)], [("y", [1, 1]), ("s", [1, 1]), ("t", [1, 1])],
         options=["arena=off,reuse=off,order=priority"])
    # Two leaves: the second one's cone first, by DEFAULT.
    fact("order of two leaves",
         [node("Sin", ["x"], ["a"]), node("Concat", ["a", "a"], ["b"], axis=0),
          node("ReduceMax", ["b"], ["y"], keepdims=0),
          node("Cos", ["x"], ["z"])],
         [("x", FLAT)], [("y", []), ("z", FLAT)])
    fact("regions of the arena",
         [node("Concat", ["x", "x", "x"], ["a"], axis=0),
          node("Sin", ["a"], ["b"]), node("ReduceMax", ["b"], ["m"],
                                          keepdims=0),
          node("Add", ["x", "m"], ["y"])],
         [("x", FLAT)], [("y", FLAT)], options=["default", "pattern=off"])


def kernels():
    image = [2, 64, 128, 128]
    fact("Conv in pieces, several images",
         [node("Conv", ["x", "w"], ["y"])],
         [("x", image)], [("y", [2, 64, 126, 126])],
         [weight("w", 64, 64, 3, 3)], threads=2)
    fact("Conv with more filters than pixels",
         [node("Conv", ["x", "w"], ["y"])],
         [("x", [1, 1024, 20, 20])], [("y", [1, 512, 18, 18])],
         [weight("w", 512, 1024, 3, 3)])
    fact("Conv with 1x1 filters", [node("Conv", ["x", "w"], ["y"])],
         [("x", image)], [("y", image)], [weight("w", 64, 64, 1, 1)])
    fact("ConvTranspose", [node("ConvTranspose", ["x", "w"], ["y"],
                                strides=[2, 2])],
         [("x", image)], [("y", [2, 32, 257, 257])],
         [weight("w", 64, 32, 3, 3)])
    fact("MaxPool", [node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])],
         [("x", image)], [("y", [2, 64, 127, 127])])
    fact("ScatterElements: positions", [
        node("ScatterElements", ["x", "i", "x"], ["y"], reduction="add")],
         [("x", FLAT), ("i", FLAT, TensorProto.INT64)], [("y", FLAT)])
    fact("ScatterND: positions", [
        node("ScatterND", ["x", "i", "u"], ["y"], reduction="add")],
         [("x", FLAT), ("i", [ROWS * COLUMNS, 2], TensorProto.INT64),
          ("u", [ROWS * COLUMNS])], [("y", FLAT)])
    fact("LRN", [node("LRN", ["x"], ["y"], size=5)], [("x", image)],
         [("y", image)], opset=13)
    fact("BatchNormalization",
         [node("BatchNormalization", ["x", "w", "w", "w", "w"], ["y"])],
         [("x", image)], [("y", image)], [weight("w", 64)])
    fact("Resize, linear", [node("Resize", ["x", "", "s"], ["y"],
                                 mode="linear")],
         [("x", image)], [("y", [2, 64, 256, 256])],
         [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "s")])
    fact("Softmax along another axis", [node("Softmax", ["x"], ["y"], axis=1)],
         [("x", image)], [("y", image)])
    fact("ReduceMean along an inner axis",
         [node("ReduceMean", ["x", "a"], ["y"])],
         [("x", image)], [("y", [2, 1, 128, 128])], [ints("a", 1)])
    fact("LayerNormalization", [node("LayerNormalization", ["x", "w"], ["y"])],
         [("x", FLAT)], [("y", FLAT)], [weight("w", COLUMNS)])
    fact("MatMul of two activations", [node("MatMul", ["x", "w"], ["y"])],
         [("x", FLAT), ("w", [COLUMNS, 2048])], [("y", [ROWS, 2048])])
    fact("Gemm, transposed", [node("Gemm", ["x", "w"], ["y"], transB=1)],
         [("x", FLAT), ("w", [2048, COLUMNS])], [("y", [ROWS, 2048])])
    fact("BiasGelu", [node("BiasGelu", ["x", "b"], ["y"],
                           domain="com.microsoft")],
         [("x", FLAT)], [("y", FLAT)], [weight("b", COLUMNS)])
    fact("FastGelu without a bias", [node("FastGelu", ["x"], ["y"],
                                          domain="com.microsoft")],
         [("x", FLAT)], [("y", FLAT)])
    fact("Einsum", [node("Einsum", ["x", "w"], ["y"],
                         equation="bij,bkj->bik")],
         [("x", [8, 512, 1024]), ("w", [8, 512, 1024])],
         [("y", [8, 512, 512])])
    fact("LSTM", [node("LSTM", ["x", "w", "r"], ["y"], hidden_size=256)],
         [("x", [512, 8, 256])], [("y", [512, 1, 8, 256])],
         [weight("w", 1, 1024, 256), weight("r", 1, 1024, 256)])
    # 128 MiB are asked for in either case, and hardly any written to.
    fact("LSTM that is told its lengths",
         [node("LSTM", ["x", "w", "r", "", "lengths"], ["", "y"],
               hidden_size=64)],
         [("x", [131072, 1, 1])], [("y", [1, 1, 64])],
         [weight("w", 1, 256, 1), weight("r", 1, 256, 64),
          numpy_helper.from_array(np.array([1], np.int32), "lengths")],
         options=("bare", "default"))
    tokens = [2, 512, 512]
    qkv = [("q", tokens), ("k", tokens), ("v", tokens)]
    fact("Attention", [node("Attention", ["q", "k", "v"], ["y"],
                            q_num_heads=8, kv_num_heads=8)],
         qkv, [("y", tokens)], opset=23)
    fact("com.microsoft:MultiHeadAttention",
         [node("MultiHeadAttention", ["q", "k", "v"], ["y"], num_heads=8,
               domain="com.microsoft")], qkv, [("y", tokens)])
    fact("com.microsoft:Attention",
         [node("Attention", ["q", "w", "b"], ["y"], num_heads=8,
               domain="com.microsoft")],
         qkv[:1], [("y", tokens)], [weight("w", 512, 1536), weight("b", 1536)])


def structures():
    part, whole = [512, 1024], [8, 512, 1024]

    def info(name, shape, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, shape)
    steps = [node("Sin", ["p"], ["s"]), node("Cos", ["s"], ["c"]),
             node("Add", ["s", "c"], ["q"])]
    body = helper.make_graph(steps, "body", [info("p", part)],
                             [info("q", part)])
    for axis in (0, 1):
        shape = whole if axis == 0 else [512, 8, 1024]
        fact(f"Scan along axis {axis}",
             [node("Scan", ["x"], ["y"], num_scan_inputs=1, body=body,
                   scan_input_axes=[axis], scan_output_axes=[axis])],
             [("x", shape)], [("y", shape)], options=["bare", "default"])
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("Add", ["state", "w"], ["t"]),
         node("Sin", ["t"], ["q"])], "body",
        [info("i", [], TensorProto.INT64), info("go", [], TensorProto.BOOL),
         info("state", part)],
        [info("on", [], TensorProto.BOOL), info("t", part), info("q", part)])
    trips = numpy_helper.from_array(np.array(8, np.int64), "n")
    fact("Loop keeps all parts, and then copies them",
         [node("Loop", ["n", "", "w"], ["z", "y"], body=body)],
         [("w", part)], [("z", part), ("y", whole)], [trips],
         options=["bare", "default"])


def predict(program, path, item):
    result = subprocess.run(
        [str(program), str(path), "--print=runtime", "--predict",
         f"{item.options},threads={item.threads}"],
        capture_output=True, text=True, check=False, timeout=60)
    if result.returncode != 0:
        raise ort_memory.Failed(result.stderr.strip().splitlines()[-1])
    lines = result.stdout.splitlines()
    version = re.match(r"ONNX Runtime (\S+),", lines[0]).group(1)
    return version, json.loads(lines[-1])


def check(item, program, path, tolerance_bytes):
    """The versions, and the table's row; it ends with "no" if it failed."""
    onnx.save(item.model, str(path))
    version, predicted = predict(program, path, item)
    measured = ort_memory.measure(path, SESSIONS[item.options], "none",
                                  item.threads)
    peaks = [measured["peaks"][0], measured["peaks"][-1]]
    expected = [predicted["first"], predicted["steady"]]
    holds = all(abs(e - p) <= max(tolerance_bytes, 0.02 * p)
                for e, p in zip(expected, peaks))
    cells = [f"{b / MIB:.1f}" for pair in zip(expected, peaks) for b in pair]
    return (version, measured["version"]), [
        item.name, item.options, *cells, "yes" if holds else "no"]


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="",
                        help="facts whose name has this in it")
    folder = os.environ.get("ONNX_MEMOPT_BIN_DIR",
                            ROOT / "build" / "release" / "bin")
    parser.add_argument("--program", type=pathlib.Path,
                        default=pathlib.Path(folder) / "onnx-memopt-opt")
    parser.add_argument("--tolerance", type=float, default=1.5,
                        metavar="MIB")
    options = parser.parse_args(arguments)
    FACTS.clear()
    for group in (elementwise, session, kernels, structures):
        group()
    facts = [f for f in FACTS if options.only.lower() in f.name.lower()]
    failed, versions = 0, None
    print("| fact | options | first, MiB: predicted | measured | steady: "
          "predicted | measured | holds |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary) / "probe.onnx"
        for item in facts:
            try:
                versions, row = check(item, options.program, path,
                                      options.tolerance * MIB)
            except (ort_memory.Failed, OSError) as problem:
                row = [item.name, item.options, "", "", "", "",
                       f"no: {problem}"]
            failed += row[-1] != "yes"
            print("| " + " | ".join(row) + " |", flush=True)
    if versions is None:
        print("nothing was checked", file=sys.stderr)
        return 2
    print(f"\n{len(facts) - failed} of {len(facts)} facts hold for ONNX "
          f"Runtime {versions[1]}; they are those of {versions[0]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
