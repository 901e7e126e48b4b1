"""What the planners' benchmarks share: running, judging, and the table."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

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


HEADER = ("| instance | aim | reference | ours | bound | gap | seconds "
          "| CPU s | judged | aim met |\n"
          "|---|---|---|---:|---:|---:|---:|---:|---|---|")


def line(r):
    gap = "" if r["gap"] is None else f"{100 * r['gap']:.2f} %"
    return (f"| {r['instance']} | {r['aim']} | {r['reference']} | {r['ours']} "
            f"| {r['bound']} | {gap} | {r['seconds']:.2f} "
            f"| {r['cpu_seconds']:.2f} | {r['judged']} "
            f"| {'yes' if r['met'] else 'NO'} |")


def show(rows, folder, name):
    """Prints the rows as they come, and writes them; the rows."""
    done = []
    print(HEADER, flush=True)
    for row in rows:
        print(line(row), flush=True)
        done.append(row)
    met = sum(r["met"] for r in done)
    summary = (f"{met} of {len(done)} aims met, on {os.cpu_count()} cores with "
               f"a load of {os.getloadavg()[0]:.1f} at the end.")
    print(f"\n{summary}\n", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(done, indent=1) + "\n")
    (folder / f"{name}.md").write_text(
        "\n".join([HEADER, *map(line, done), "", summary, ""]))
    return done


def is_right(row):
    """Whether the judge agrees with what the program says."""
    return row["judged"] in ("valid", "proved", "no plan")


def run_alone(name, options, available, rows, without):
    """One planner's benchmark, for its main: the exit code.

    `rows(options, folder)` are those of the table; with --without,
    `without(options, folder)` prints another one instead.
    """
    if program() is None:
        return 1
    if not available():
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        if options.without:
            without(options, folder)
            return 0
        done = show(rows(options, folder), options.out, name)
    return 0 if all(is_right(row) for row in done) else 1
