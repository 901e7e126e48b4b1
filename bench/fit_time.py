"""Finds the constants of the time model (lib/analysis/time_facts.h) on the
machine it runs on, from ONNX Runtime's profile of real models.

    python bench/fit_time.py [--model NAME...] [--check]

Kernels: each model is profiled as it is and rewritten, and each node's shortest
execution is laid beside what `onnx-memopt-opt --print=time` counts for that
node in the graph that the runtime has made. The constants of a kind are those,
none below zero, with the smallest relative errors. Loops: a Scan of little
work, with few trips and with many. Prints the rows to be put into the table,
and how far the model that the program has now is off: seconds of whole models,
and the ratio of rewritten to original, which is what passes decide with. A
measured whole is the sum of its nodes' shortest executions, so that what else
the machine does falls out. The
rows fitted are used only when the program is built again; --check shows errors
alone.
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import models
import ort_memory

THREADS = 2
# As in lib/analysis/time_facts.h.
NEAR_BYTES = 2 << 20
LINE = re.compile(r"(.*): ([a-z-]+), (\d+) flops, (\d+) bytes of weights"
                  r"( unpacked)?, (\d+) of data, ([\d.]+) us$")
TOTAL = re.compile(r"total ([\d.]+) us$")
# Real models call no product of a few microseconds, so a larger fixed cost would
# be one that is made up.
MAX_FIXED_US = 10
# What the time of a kind depends on beside a fixed cost and bytes of data.
ARITHMETIC = {"moderate": ("flop_ps",), "lrn": ("flop_ps",),
              "batched-product": ("flop_ps",),
              **{kind: ("flop_ps", "weight_ps") for kind in
                 ("product", "conv", "pointwise-conv", "depthwise-conv")}}
COLUMNS = ("fixed_us", "flop_ps", "weight_ps", "near_ps", "far_ps")
DEFAULT = ("mobilenetv3", "resnet50", "resnet50_dyn", "vit_b16", "bert",
           "bert_dyn", "llama4l")


def time_lines(program, path, dims):
    """Work of each node by name, and the total in seconds."""
    command = [str(program.with_name("onnx-memopt-opt")), str(path),
               "--print=time", *(part for name, size in dims.items()
                                 for part in ("--dim", f"{name}={size}"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          timeout=120)
    if done.returncode != 0:
        raise ort_memory.Failed(done.stderr.strip())
    work, total = {}, 0.0
    for line in done.stdout.splitlines():
        if match := LINE.match(line):
            name, kind, flops, weights, unpacked, data, _ = match.groups()
            work[name] = (kind, int(flops), int(weights), bool(unpacked),
                          int(data))
        elif match := TOTAL.match(line):
            total = float(match.group(1)) * 1e-6
    return work, total


def row_of(work):
    """In the columns of the table."""
    _, flops, weights, _, data = work
    near = min(data, NEAR_BYTES)
    return [1e-6, flops * 1e-12, weights * 1e-12, near * 1e-12,
            (data - near) * 1e-12]


def masked(kind, row):
    own = ("fixed_us", *ARITHMETIC.get(kind, ()),
           *(() if kind == "view" else ("near_ps", "far_ps")))
    return [value if column in own else 0
            for column, value in zip(COLUMNS, row)]


def nonnegative(rows, seconds):
    """Least relative squares with no coefficient below zero, and the first, the
    fixed cost, bounded."""
    import numpy as np
    a = np.array(rows) / np.array(seconds)[:, None]
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0] = 1
    a = a / scale
    gram, target = a.T @ a, a.T @ np.ones(len(rows))
    x = np.zeros(a.shape[1])
    for _ in range(20000):  # one coordinate after another
        last = x.copy()
        for i in range(len(x)):
            if gram[i, i] > 0:
                best = x[i] + (target[i] - gram[i] @ x) / gram[i, i]
                bound = MAX_FIXED_US * scale[0] if i == 0 else math.inf
                x[i] = min(max(0.0, best), bound)
        if np.allclose(x, last, rtol=1e-9, atol=0):
            break
    return x / scale


def scan_model(trips, path):
    """Sums of rows of 16 numbers: all of the time is what a trip takes."""
    from onnx import TensorProto, helper
    def info(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    body = helper.make_graph([helper.make_node("Sin", ["s"], ["t"])], "body",
                             [info("s", [16])], [info("t", [16])])
    graph = helper.make_graph(
        [helper.make_node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1)],
        "g", [info("x", [trips, 16])], [info("y", [trips, 16])])
    path.write_bytes(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)],
        ir_version=10).SerializeToString())


def loop_costs(folder):
    """Seconds of a trip, of a node with bodies, and of what the profile adds to
    each node."""
    seconds = {}
    for trips in (1, 2001):
        path = folder / f"scan{trips}.onnx"
        scan_model(trips, path)
        seconds[trips] = min(ort_memory.run_job(
            {"models": [str(path)], "options": {}, "level": "all",
             "threads": THREADS, "dims": {}, "runs": 20}, 60)["seconds"])
    trip = (seconds[2001] - seconds[1]) / 2000
    profiled = min(shortest for shortest, count in
                   ort_memory.kernel_seconds(path).values() if count > 1)
    return trip, seconds[1] - trip, max(profiled - trip, 0)


def sample(program, path, dims, folder):
    """Whole seconds, measured and of the program; samples of kernels."""
    total = time_lines(program, path, dims)[1]
    optimized = folder / f"{path.stem}.optimized.onnx"
    ort_memory.write_optimized(path, optimized)
    work = time_lines(program, optimized, dims)[0]
    optimized.unlink()
    kernels = ort_memory.kernel_seconds(path, threads=THREADS, dims=dims,
                                        timeout=900)
    # Nodes with bodies are left out: what is in them counts.
    kernels = {name: times for name, times in kernels.items()
               if work.get(name, ("",))[0] != "bodies"}
    seconds = sum(shortest * count for shortest, count in kernels.values())
    samples = [(work[name], shortest)
               for name, (shortest, _) in kernels.items()
               if name in work and shortest > 0]
    return seconds, total, samples


def fit(samples, floor):
    """Lines for the table, by kind, with the median relative error. `floor`
    seconds of each sample are the profile's own."""
    lines = []
    for kind in sorted({work[0] for work, _ in samples}):
        own = [(masked(kind, row_of(work)), max(time - floor, 1e-7))
               for work, time in samples if work[0] == kind and not work[3]]
        if kind in ("none", "bodies") or len(own) < 5:
            continue
        rows, times = zip(*own)
        x = nonnegative(rows, times)
        errors = [abs(sum(r * c for r, c in zip(row, x)) / time - 1)
                  for row, time in own]
        values = ", ".join(f"{name} {value:.3g}"
                           for name, value in zip(COLUMNS, x))
        lines.append(f"{kind}: {values}  ({len(own)} nodes, median error "
                     f"{100 * statistics.median(errors):.0f} %)")
    return lines


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append")
    parser.add_argument("--check", action="store_true",
                        help="errors of the program's own constants alone")
    parser.add_argument("--keep", type=pathlib.Path,
                        help="write samples there, or read them if it exists")
    options = parser.parse_args()
    program = pathlib.Path(
        os.environ.get("ONNX_MEMOPT_BIN_DIR")
        or models.ROOT / "build" / "release" / "bin") / "onnx-memopt"
    samples, whole, ratios = [], [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        trip, bodies, floor = loop_costs(folder)
        print(f"a trip {trip * 1e6:.3g} us, a node with bodies "
              f"{bodies * 1e6:.3g} us, profiling a node {floor * 1e6:.3g} us")
        if options.keep and options.keep.exists():
            samples = json.loads(options.keep.read_text())
            print("\n".join(fit(samples, floor)))
            return 0
        for name in options.model or DEFAULT:
            path = models.network(name, folder)
            dims = models.DIMS.get(name, {})
            after = path.with_name(f"{name}.after.onnx")
            subprocess.run([str(program), str(path), "-o", str(after), "-q",
                            *(part for key, size in dims.items()
                              for part in ("--dim", f"{key}={size}"))],
                           check=True, timeout=600)
            pair = []
            for file in (path, after):
                seconds, total, found = sample(program, file, dims, folder)
                samples += found
                whole.append(total / seconds - 1)
                pair.append((seconds, total))
                print(f"{file.name}: {seconds:.4f} s, model {total:.4f} s, "
                      f"{100 * whole[-1]:+.0f} %", flush=True)
            measured, modelled = (b / a for a, b in zip(*pair))
            ratios.append(modelled / measured - 1)
            print(f"{name}: after / before {measured:.3f}, model "
                  f"{modelled:.3f}, {100 * ratios[-1]:+.0f} %", flush=True)
            for file in path.parent.iterdir():
                file.unlink()
        if not options.check:
            print("\n".join(fit(samples, floor)))
            if options.keep:
                options.keep.write_text(json.dumps(samples))
    for what, errors in (("seconds", whole), ("after / before", ratios)):
        sizes = [abs(error) for error in errors]
        print(f"{what}: median error {100 * statistics.median(sizes):.0f} %, "
              f"worst {100 * max(sizes):.0f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
