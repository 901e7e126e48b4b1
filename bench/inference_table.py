"""What rewriting saves in ONNX Runtime, measured: every shared model and the
light networks of the onnx package, before and after the default pipeline.

Session options as they come, 2 threads, a process for each measurement
(python/onnx_memopt/_verify.py). Beside it the original with the session options
that leave it the lowest steady peak, so that one sees what rewriting adds to
them. The raw figures of a model are kept in build/bench/inference/NAME.json and
used again, so that the table can be made in pieces; --fresh measures anew.
"""

import hashlib
import json
import math
import pathlib
import shutil
import subprocess
import sys

import machine
import models
import ort_memory
import readme
import tables

sys.path.insert(0, str(models.ROOT / "python"))
from onnx_memopt import _verify  # noqa: E402

THREADS = 2
# Outputs of one model may differ by the order of sums; more is an error.
TOLERANCE = 1e-4
NO_REUSE = {"enable_mem_reuse": False}
BY_PRIORITY = {"execution_order": "PRIORITY_BASED"}
# What is tried on the original, without rewriting.
SESSIONS = {
    "pattern off": {"enable_mem_pattern": False},
    "arena, pattern off": ort_memory.BARE,
    "arena, pattern, reuse off": {**ort_memory.BARE, **NO_REUSE},
    "arena, pattern off, by priority": {**ort_memory.BARE, **BY_PRIORITY},
    "arena, pattern, reuse off, by priority":
        {**ort_memory.BARE, **NO_REUSE, **BY_PRIORITY},
}


def fingerprint(program):
    return hashlib.sha256(program.read_bytes()).hexdigest()[:16]


def rewrite(program, path, dims, timeout_s):
    """The rewritten model, and the report beside it."""
    target = path.with_name(f"{path.stem}.after.onnx")
    command = [str(program), str(path), "-o", str(target), "-q",
               *(part for name, size in dims.items()
                 for part in ("--dim", f"{name}={size}"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          timeout=timeout_s)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise ort_memory.Failed(lines[-1] if lines else
                                f"exit {done.returncode}")
    report = json.loads(target.with_suffix(".json").read_text("utf-8"))
    return target, report


def peaks_of(measurement):
    return {"first": measurement.first_peak_bytes,
            "steady": measurement.steady_peak_bytes,
            "seconds": measurement.best_seconds}


def sessions_on(path, dims, runs, timeout_s, quick):
    tried = {}
    for name in ["arena, pattern off"] if quick else SESSIONS:
        result = ort_memory.measure(path, SESSIONS[name], "all", THREADS, dims,
                                    runs=runs, timeout=timeout_s)
        tried[name] = {"first": result["peaks"][0],
                       "steady": result["peaks"][-1],
                       "seconds": min(result["seconds"])}
    return tried


def measure(program, name, path, options):
    """The raw figures of one model."""
    dims = models.DIMS.get(name, {})
    runs = max(options.rounds, 2)
    timeout_s = options.timeout * 5
    after, report = rewrite(program, path, dims, timeout_s)
    result = _verify.verify(path, after, dims=dims, tolerance=TOLERANCE,
                            threads=THREADS, runs=runs,
                            timeout_seconds=timeout_s)
    if result.after is None or result.differences:
        raise ort_memory.Failed("; ".join(result.differences))
    return {
        "model": name, "dims": dims, "program": fingerprint(program),
        "runs": runs, "runtime": result.runtime_version,
        "passes": [{key: run[key] for key in ("name", "changed", "remarks")}
                   for run in report["passes"]],
        "before": peaks_of(result.before.default),
        "after": peaks_of(result.after.default),
        "before_bare": peaks_of(result.before.bare),
        "after_bare": peaks_of(result.after.bare),
        "predicted": {when: report[when]["runtime"]["default"]
                      for when in ("before", "after")},
        "error": result.max_relative_error, "equal": result.equal,
        "sessions": sessions_on(path, dims, runs, timeout_s, options.quick),
    }


def kept(name, options):
    """Where the raw figures of a model are."""
    return options.out / "inference" / f"{name}.json"


def figures(program, name, options):
    """Those that are kept, or new ones."""
    raw = kept(name, options)
    if raw.exists() and not options.fresh:
        return json.loads(raw.read_text("utf-8"))
    folder = options.out / "models" / "inference" / name
    try:
        path = models.network(name, folder.parent)
        if path.parent != folder:  # what is rewritten stands beside it
            folder.mkdir(parents=True, exist_ok=True)
            path = pathlib.Path(shutil.copy(path, folder))
        row = measure(program, name, path, options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raw.parent.mkdir(parents=True, exist_ok=True)
    raw.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
    return row


def lower(row):
    """How many times lower the steady peak is."""
    return row["before"]["steady"] / max(row["after"]["steady"], 1)


def slower(row):
    return row["after"]["seconds"] / row["before"]["seconds"]


def best_session(row):
    """Name and figures of the options with the lowest steady peak."""
    return min(row["sessions"].items(), key=lambda item: item[1]["steady"])


def mib(size_bytes):
    return f"{size_bytes / models.MIB:.1f}"


def cells(row):
    session, best = best_session(row)
    before, after = row["before"], row["after"]
    was, then = (row["predicted"][when] for when in ("before", "after"))
    dims = ", ".join(f"{k} {v}" for k, v in row["dims"].items())
    return [row["model"] + (f" ({dims})" if dims else ""),
            mib(before["steady"]), mib(after["steady"]), f"{lower(row):.1f}",
            mib(before["first"]), mib(after["first"]),
            f"{before['seconds']:.3f}", f"{slower(row):.2f}",
            f"{row['error']:.0e}" if row["error"] else "0",
            f"{mib(was['steady_peak_bytes'])}, {mib(then['steady_peak_bytes'])}",
            f"{mib(was['first_peak_bytes'])}, {mib(then['first_peak_bytes'])}",
            mib(best["steady"]), f"{best['seconds'] / before['seconds']:.2f}",
            session, f"{best['steady'] / max(after['steady'], 1):.1f}"]


def short(rows):
    """For README.md: what a user asks first, and no times, which depend on
    what else the machine does."""
    cells = []
    for row in rows:
        dims = ", ".join(f"{k} {v}" for k, v in row["dims"].items())
        cells.append([
            row["model"] + (f", {dims}" if dims else ""),
            mib(row["before"]["steady"]), mib(row["after"]["steady"]),
            f"{lower(row):.1f}"])
    return tables.markdown(
        ["model", "before, MiB", "after, MiB", "times lower"], cells)


HEADER = ["model", "steady, MiB", "after", "times lower", "first, MiB",
          "after", "seconds", "time after", "error",
          "predicted steady: before, after", "predicted first",
          "best options, steady", "time", "which", "times lower than these"]


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(rows):
    if not rows:
        return []
    best = [best_session(row)[1] for row in rows]
    gain = [b["steady"] / max(row["after"]["steady"], 1)
            for row, b in zip(rows, best)]
    first = [row["before"]["first"] / max(row["after"]["first"], 1)
             for row in rows]
    steady = [lower(row) for row in rows]
    time = [slower(row) for row in rows]
    return [
        f"Geometric means over {len(rows)} models: steady peak "
        f"{mean(steady):.2f} times lower, first peak "
        f"{mean(first):.2f} times, time x{mean(time):.2f}.",
        f"At worst: steady peak {min(steady):.2f} times lower, "
        f"time x{max(time):.2f}, error "
        f"{max(row['error'] for row in rows):.0e}.",
        f"Than with the best session options on the original: steady peak "
        f"{mean(gain):.2f} times lower."]


def write(about, rows, failures, options):
    builds = {row["program"] for row in rows}
    lines = [tables.markdown(HEADER, [cells(row) for row in rows]), ""]
    lines += [line + "  " for line in summary(rows)]
    if len(builds) > 1:
        lines.append(f"Measured with {len(builds)} builds of the program.")
    lines += [f"Failed: {failure}" for failure in failures]
    return tables.write(options.out, "inference", about, lines,
                        {"rows": rows, "failures": failures})


def main(program, options):
    about = machine.describe(program)
    rows, failures = [], []
    text = ""
    names = models.networks(options)
    if not options.quick and not options.model:
        names += [name for name in models.LARGE if kept(name, options).exists()]
    for name in names:
        print(f"bench: inference: {name}", file=sys.stderr)
        try:
            rows.append(figures(program, name, options))
        except (models.Absent, ort_memory.Failed, _verify.VerifyError, OSError,
                subprocess.TimeoutExpired) as problem:
            failures.append(f"{name}: {problem}")
            print(f"bench: inference: {failures[-1]}", file=sys.stderr)
        # A long run that is stopped leaves what it has.
        text = write(about, rows, failures, options)
    print(text)
    if options.readme and rows:
        readme.put(options.readme, "inference", "\n".join(
            [short(rows), "", f"ONNX Runtime {rows[0]['runtime']} with {THREADS} "
             f"threads on {about['cpu']}."]))
    return 1 if failures or not all(row["equal"] for row in rows) else 0
