"""What the planners' benchmarks share: running, judging, and the table."""

import json
import os
import pathlib
import resource
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = pathlib.Path(os.environ.get("ONNX_MEMOPT_SHARED",
                                     ROOT.parent / "shared"))


def program():
    """onnx-memopt-plan, or None with a line that says so."""
    folder = os.environ.get("ONNX_MEMOPT_BIN_DIR",
                            ROOT / "build" / "release" / "bin")
    path = pathlib.Path(folder) / "onnx-memopt-plan"
    if path.exists():
        return path
    print(f"plan: {path}: no such program", file=sys.stderr)
    return None


def child_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(command, *arguments):
    """The program's result line, with CPU seconds."""
    before = child_seconds()
    done = subprocess.run([program(), command, *map(str, arguments),
                           "--quiet"],
                          capture_output=True, text=True, check=False)
    cpu = child_seconds() - before
    if done.returncode not in (0, 3):
        raise RuntimeError(f"{command} {arguments[0]}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    result["cpu_seconds"] = cpu
    return result


def judge(tool, *arguments):
    """The verdict of an independent judge."""
    done = subprocess.run(
        [sys.executable, SHARED / "tools" / tool, *map(str, arguments)],
        capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


def print_header():
    print("| instance | aim | reference | ours | bound | gap | seconds "
          "| CPU s | judged | aim met |")
    print("|---|---|---|---:|---:|---:|---:|---:|---|---|", flush=True)


def print_row(r):
    gap = "" if r["gap"] is None else f"{100 * r['gap']:.2f} %"
    print(f"| {r['instance']} | {r['aim']} | {r['reference']} | {r['ours']} "
          f"| {r['bound']} | {gap} | {r['seconds']:.2f} "
          f"| {r['cpu_seconds']:.2f} | {r['judged']} "
          f"| {'yes' if r['met'] else 'NO'} |", flush=True)


def summary(rows):
    met = sum(r["met"] for r in rows)
    print(f"\n{met} of {len(rows)} aims met, on {os.cpu_count()} cores with a "
          f"load of {os.getloadavg()[0]:.1f} at the end.\n", flush=True)


def write(rows, folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
