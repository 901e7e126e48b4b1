"""How well the runtime model predicts what ONNX Runtime really takes.

For every shared model and every light network of the onnx package: session
options as they come ("default"), and without arena and memory pattern
("bare"); first run and steady state. At level none the prediction is for the model, at
level all for the graph that ONNX Runtime makes of it.
"""

import json
import shutil
import statistics
import subprocess
import sys

import machine
import models
import ort_memory
import tables

OPTIONS = {"bare": ort_memory.BARE, "default": {}}
THREADS = 2


def predict(program, path, dims, settings):
    command = [str(program.with_name("onnx-memopt-opt")), str(path)]
    for name, size in dims.items():
        command += ["--dim", f"{name}={size}"]
    for name in OPTIONS:
        command += ["--predict", f"{name},threads={THREADS},{settings}"]
    result = subprocess.run(command, capture_output=True, text=True,
                            check=False, timeout=120)
    if result.returncode != 0:
        raise ort_memory.Failed(result.stderr.strip().splitlines()[-1])
    return dict(zip(OPTIONS, map(json.loads, result.stdout.splitlines())))


def predictions(program, path, level, dims, folder, inside=False):
    """What the runtime writes is in the order in which it runs it. `inside`: the
    weights are in the model's file."""
    optimized = folder / f"{path.stem}.{level}.onnx"
    try:
        ort_memory.write_optimized(path, optimized, level)
        inside = inside or path.stem.startswith("light_")
        settings = f"order=file,mapped={'none' if inside else 'original'}"
        return predict(program, optimized, dims, settings)
    finally:
        optimized.unlink(missing_ok=True)


def rows_of(program, name, path, folder, options):
    dims = models.DIMS.get(name, {})
    for level in ("none", "all"):
        predicted = predictions(program, path, level, dims, folder)
        for key, session in OPTIONS.items():
            peaks = ort_memory.measure(path, session, level, THREADS, dims,
                                       timeout=options.timeout * 5)["peaks"]
            yield {"model": name, "level": level, "options": key,
                   "complete": predicted[key]["complete"],
                   "predicted": [predicted[key]["first"],
                                 predicted[key]["steady"]],
                   "measured": [peaks[0], peaks[-1]]}


def error(row, index):
    measured = row["measured"][index]
    return (row["predicted"][index] - measured) / max(measured, 1)


def cells(row):
    def pair(index):
        return [f"{row['predicted'][index] / models.MIB:.1f}",
                f"{row['measured'][index] / models.MIB:.1f}",
                f"{100 * error(row, index):+.1f} %"]
    return [row["model"], row["level"], row["options"], *pair(0), *pair(1)]


def summary(rows):
    lines = []
    for level in ("none", "all"):
        errors = [abs(error(row, i)) for row in rows if row["level"] == level
                  for i in (0, 1)]
        if errors:
            middle = 100 * statistics.median(errors)
            lines.append(f"level {level}: median {middle:.1f} %, worst "
                         f"{100 * max(errors):.1f} %, {len(errors)} figures")
    return lines


def main(program, options):
    folder = options.out / "models" / "runtime"
    folder.mkdir(parents=True, exist_ok=True)
    rows, failures = [], []
    for name in models.networks(options):
        own = folder / name
        try:
            path = models.network(name, folder)
            rows += rows_of(program, name, path, folder, options)
        except (models.Absent, ort_memory.Failed, OSError,
                subprocess.TimeoutExpired) as problem:
            failures.append(f"{name}: {problem}")
            print(f"bench: runtime: {failures[-1]}", file=sys.stderr)
        finally:
            shutil.rmtree(own, ignore_errors=True)
    about = machine.describe(program)
    heads = ["model", "level", "options", "first, MiB: predicted", "measured",
             "error", "steady, MiB: predicted", "measured", "error"]
    text = tables.write(
        options.out, "runtime", about,
        [tables.markdown(heads, [cells(r) for r in rows]), "",
         *(line + "  " for line in summary(rows))],
        {"rows": rows, "failures": failures})
    print(text)
    return 1 if failures else 0
