"""Arena plans for other people's instances: height, proved bound and seconds.

Each plan is checked by the independent judge. The instances and the judge are
in ../shared (ONNX_MEMOPT_SHARED); where they are absent this says so and ends.
With --without, what each rule of the search buys: seconds and states for
MiniMalloc's instances at their capacity with one rule switched off at a time.
"""

import argparse
import pathlib
import random
import sys

import plan_table
from plan_table import SHARED

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


def solve(path, folder, *options):
    """The program's result line, with the judge's word on the plan."""
    out = pathlib.Path(folder) / "plan.csv"
    out.unlink(missing_ok=True)
    result = plan_table.run("offsets", path, "-o", out, *options)
    verdict = plan_table.judge("judge_offsets.py", path, out)
    result["judged"] = "valid" if verdict["valid"] else verdict["error"]
    if verdict["height"] != result["height"]:
        result["judged"] = f"wrong: the height is {verdict['height']}"
    return result


def row(name, aim, reference, result, met):
    return {"instance": name, "aim": aim, "reference": reference,
            "ours": result["height"], "bound": result["lower_bound"],
            "met": met and result["judged"] == "valid", **result}


def random_buffers(path, count):
    """Buffers of random sizes with lives of up to a hundredth of the time."""
    generator = random.Random(7)
    with path.open("w") as file:
        file.write("id,lower,upper,size\n")
        for i in range(count):
            lower = generator.randrange(count)
            upper = lower + generator.randint(1, count // 100)
            file.write(f"{i},{lower},{upper},{generator.randint(1, 1000)}\n")


def instances():
    data = SHARED / "data" / "offsets"
    return (sorted((data / "minimalloc").glob("[A-Z].*.csv")),
            sorted((data / "idealloc").glob("*.csv")))


def at_capacity(options, folder):
    """MiniMalloc's instances, and their sum, which has the aim."""
    seconds = cpu = 0.0
    valid = True
    for path in instances()[0]:
        name = path.name.split(".")[0]
        result = solve(path, folder, "--capacity", CAPACITY, "--time-limit",
                       options.time_limit, "--threads", options.threads,
                       "--seed", options.seed)
        seconds += result["seconds"]
        cpu += result["cpu_seconds"]
        valid = valid and result["feasible"] is True
        yield row(f"MiniMalloc {name}", f"<= {CAPACITY}",
                  f"{MINIMALLOC_SECONDS[name]:.2f} s (MiniMalloc)", result,
                  result["feasible"] is True)
    total = {"height": "", "lower_bound": "", "gap": None, "seconds": seconds,
             "cpu_seconds": cpu, "judged": "valid"}
    yield row("MiniMalloc A to K together", "16 s",
              f"{sum(MINIMALLOC_SECONDS.values()):.1f} s (MiniMalloc)", total,
              valid and seconds <= 16)


def lowest(options, folder):
    minimalloc, idealloc = instances()
    flags = ["--threads", options.threads, "--seed", options.seed]
    for path in minimalloc:
        name = path.name.split(".")[0]
        if name not in LOWEST_KNOWN:
            continue
        known = LOWEST_KNOWN[name]
        result = solve(path, folder, "--time-limit", options.time_limit,
                       *flags)
        height = result["height"]
        yield row(f"MiniMalloc {name}", f"{'<=' if name == 'C' else '<'} "
                  f"{known}", f"{known} (MiniMalloc)", result,
                  height < known or name == "C" and height == known)
    for path in idealloc:
        result = solve(path, folder, "--time-limit", options.time_limit,
                       *flags)
        yield row(f"idealloc {path.stem}", "gap <= 1 %", "none published",
                  result, result["gap"] <= 0.01)
    path = folder / "random.csv"
    random_buffers(path, 100_000)
    # No time: the greedy plan alone.
    result = solve(path, folder, "--time-limit", 0, *flags)
    yield row("100,000 random buffers, greedy", "1 s", "", result,
              result["seconds"] <= 1)


def rows(options, folder):
    """Every aim, as rows of the table."""
    yield from at_capacity(options, folder)
    if not options.capacity_only:
        yield from lowest(options, folder)


def without_rules(options, folder):
    """How many are solved, and the work, a rule at a time."""
    minimalloc = instances()[0]
    print("| without | solved | CPU s | states |")
    print("|---|---:|---:|---:|")
    for rule in [None, *RULES]:
        solved, seconds, states = 0, 0.0, 0
        for path in minimalloc:
            switch = [] if rule is None else ["--without", rule]
            result = solve(path, folder, "--capacity", CAPACITY,
                           "--time-limit", 600,
                           "--max-states", options.max_states,
                           "--threads", options.threads, "--seed",
                           options.seed, *switch)
            solved += result["feasible"] is True
            seconds += result["cpu_seconds"]
            states += result["states"]
        print(f"| {rule or '(nothing)'} | {solved} of {len(minimalloc)} "
              f"| {seconds:.1f} | {states} |", flush=True)
    print(flush=True)


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--capacity-only", action="store_true",
                        help="only MiniMalloc's instances at their capacity")
    parser.add_argument("--without", action="store_true",
                        help="only the table of the rules")
    parser.add_argument("--max-states", type=int, default=600000,
                        help="with --without: a limit for each thread, which "
                        "unlike seconds does not depend on the load")
    parser.add_argument("--out", type=pathlib.Path,
                        default=plan_table.ROOT / "build" / "bench")
    return parser.parse_args(arguments)


def available():
    if plan_table.program() is None:
        return False
    if all(instances()):
        return True
    print(f"plan_offsets: skipped, no instances in "
          f"{SHARED / 'data' / 'offsets'}")
    return False


def main(arguments):
    return plan_table.run_alone("plan_offsets", parse(arguments), available, rows,
                                without_rules)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
