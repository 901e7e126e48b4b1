"""Arena plans for other people's instances: height, proved bound and seconds.

Each plan is checked by the independent judge. The instances and the judge are
in ../shared (ONNX_MEMOPT_SHARED); where they are absent this says so and ends.
With --without, what each rule of the search buys: seconds and states for
MiniMalloc's instances at their capacity with one rule switched off at a time.
"""

import argparse
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
CAPACITY = 1048576
RULES = ["fail-first", "nogoods", "decompose", "raise", "support", "restarts",
         "low-aims", "warm-up"]

# Reference figures: seconds of a stock MiniMalloc build at the capacity in the
# file's name on two cores, and the lowest height known before for the instances
# whose optimum is above it.
MINIMALLOC_SECONDS = {"A": 12.55, "B": 9.26, "C": 1.54, "D": 7.74, "E": 10.82,
                      "F": 18.56, "G": 3.80, "H": 4.82, "I": 8.04, "J": 2.73,
                      "K": 1.11}
LOWEST_KNOWN = {"C": 1039360, "D": 1034240, "J": 1041408}


def child_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def solve(program, instance, folder, *options):
    """The program's result line, with the judge's verdict and CPU seconds."""
    out = pathlib.Path(folder) / "plan.csv"
    out.unlink(missing_ok=True)
    before = child_seconds()
    run = subprocess.run([program, "offsets", instance, "-o", out, "--quiet",
                          *map(str, options)],
                         capture_output=True, text=True, check=False)
    cpu = child_seconds() - before
    if run.returncode not in (0, 3):
        raise RuntimeError(f"{instance.name}: {run.stderr.strip()}")
    result = json.loads(run.stdout)
    judge = subprocess.run(
        [sys.executable, SHARED / "tools" / "judge_offsets.py", instance, out],
        capture_output=True, text=True, check=False)
    verdict = json.loads(judge.stdout)
    result["judged"] = "valid" if verdict["valid"] else verdict["error"]
    if verdict["height"] != result["height"]:
        result["judged"] = f"the height is {verdict['height']}"
    result["cpu_seconds"] = cpu
    return result


def row(name, aim, reference, result):
    return {"instance": name, "aim": aim, "reference": reference, **result}


def print_table(rows):
    print("| instance | aim | reference | height | bound | gap | seconds "
          "| CPU s | judged |")
    print("|---|---|---|---:|---:|---:|---:|---:|---|")
    for r in rows:
        print(f"| {r['instance']} | {r['aim']} | {r['reference']} "
              f"| {r['height']} | {r['lower_bound']} | {100 * r['gap']:.2f} % "
              f"| {r['seconds']:.2f} | {r['cpu_seconds']:.2f} "
              f"| {r['judged']} |")
    print(flush=True)


def at_capacity(program, instances, folder, options):
    rows = []
    for path in instances:
        name = path.name.split(".")[0]
        result = solve(program, path, folder, "--capacity", CAPACITY,
                       "--time-limit", options.time_limit,
                       "--threads", options.threads, "--seed", options.seed)
        rows.append(row(name, f"<= {CAPACITY}",
                        f"{MINIMALLOC_SECONDS[name]:.2f} s (MiniMalloc)",
                        result))
    return rows


def lowest(program, instances, folder, options):
    rows = []
    for path in instances:
        name = path.name.split(".")[0]
        if name in LOWEST_KNOWN:
            reference = f"{LOWEST_KNOWN[name]} (MiniMalloc)"
        else:
            reference = "no optimum published"
        rows.append(row(name, "lowest", reference,
                        solve(program, path, folder, "--time-limit",
                              options.time_limit, "--threads",
                              options.threads, "--seed", options.seed)))
    return rows


def without_rules(program, instances, folder, options):
    """How many are solved, and the work, a rule at a time."""
    print("| without | solved | CPU s | states |")
    print("|---|---:|---:|---:|")
    for rule in [None, *RULES]:
        solved, seconds, states = 0, 0.0, 0
        for path in instances:
            switch = [] if rule is None else ["--without", rule]
            result = solve(program, path, folder, "--capacity", CAPACITY,
                           "--time-limit", 600,
                           "--max-states", options.max_states,
                           "--threads", options.threads, "--seed",
                           options.seed, *switch)
            solved += result["feasible"] is True
            seconds += result["cpu_seconds"]
            states += result["states"]
        print(f"| {rule or '(nothing)'} | {solved} of {len(instances)} "
              f"| {seconds:.1f} | {states} |", flush=True)
    print(flush=True)


def main(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", action="store_true",
                        help="only the table of the rules")
    parser.add_argument("--max-states", type=int, default=600000,
                        help="with --without: a limit for each thread, which "
                        "unlike seconds does not depend on the load")
    parser.add_argument("--out", type=pathlib.Path,
                        default=ROOT / "build" / "bench")
    options = parser.parse_args(arguments)
    folder = os.environ.get("ONNX_MEMOPT_BIN_DIR",
                            ROOT / "build" / "release" / "bin")
    program = pathlib.Path(folder) / "onnx-memopt-plan"
    if not program.exists():
        print(f"plan_offsets: {program}: no such program", file=sys.stderr)
        return 1
    data = SHARED / "data" / "offsets"
    minimalloc = sorted((data / "minimalloc").glob("[A-Z].*.csv"))
    idealloc = sorted((data / "idealloc").glob("*.csv"))
    if not minimalloc or not idealloc:
        print(f"plan_offsets: skipped, no instances in {data}")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        if options.without:
            without_rules(program, minimalloc, scratch, options)
            return 0
        first = at_capacity(program, minimalloc, scratch, options)
        print_table(first)
        print(f"Together: {sum(r['seconds'] for r in first):.1f} s, "
              f"{sum(r['cpu_seconds'] for r in first):.1f} s of CPU "
              f"(MiniMalloc: {sum(MINIMALLOC_SECONDS.values()):.1f} s)\n")
        open_ones = [p for p in minimalloc if p.name[0] in LOWEST_KNOWN]
        second = lowest(program, open_ones + idealloc, scratch, options)
        print_table(second)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "plan_offsets.json").write_text(
        json.dumps(first + second, indent=1) + "\n")
    return 0 if all(r["judged"] == "valid" for r in first + second) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
