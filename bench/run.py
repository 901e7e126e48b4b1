"""The benchmarks, as `./dev bench [NAME...] [OPTION...]` runs them.

  cli      the program on whole models, next to other programs
  reorder  what the pass reorder gains on the shared models
  micro    single functions on generated graphs (Google Benchmark)
  plan     both planners on published and generated instances, by independent
           judges
  runtime  memory in ONNX Runtime, predicted and measured
  inference
           memory and time in ONNX Runtime, before and after rewriting
  training
           memory and time of training steps, with and without checkpoints
  half_precision
           half-precision beside other converters, on networks that packages ship
  low_rank size against error of factorize, on a network for sentences

Each prints a table in Markdown and writes it, with the raw figures in JSON, to
build/bench/. Without a name, all of them run.
"""

import argparse
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

import cli
import half_precision
import inference_table
import low_rank
import plan_offsets
import plan_recompute
import plan_table
import reorder
import runtime_table
import training_table

ROOT = pathlib.Path(__file__).resolve().parent.parent


def micro(program, options):
    """Runs the Google Benchmark program that is beside `program`."""
    path = program.with_name("onnx-memopt-bench")
    if not path.exists():
        print(f"bench: micro: {path.name} is not built", file=sys.stderr)
        return 1
    arguments = [f"--benchmark_out={options.out / 'micro.json'}",
                 "--benchmark_out_format=json"]
    if options.quick:
        arguments += ["--benchmark_filter=/1000$",
                      "--benchmark_min_time=0.01"]
    return subprocess.run([str(path), *arguments], check=False).returncode


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true",
                        help="a smoke test: little, once, without peers")
    parser.add_argument("--model", action="append",
                        help="cli, runtime, inference, training, half_precision: "
                        "models whose name has this in it")
    parser.add_argument("--fresh", action="store_true",
                        help="inference: measure again what was measured")
    parser.add_argument("--readme", type=pathlib.Path, metavar="FILE",
                        help="cli, inference, half_precision: put a table into a "
                        "page that has a place for it: README.md, "
                        "docs/measured.md, docs/passes.md")
    parser.add_argument("--no-peers", dest="peers", action="store_false",
                        help="cli, half_precision: this project's program "
                        "alone")
    parser.add_argument("--peer-memory", type=int, metavar="GIB",
                        help="cli: address space for a peer [3/4 of what is "
                        "available]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=180,
                        help="seconds for one run")
    parser.add_argument("--out", type=pathlib.Path,
                        default=ROOT / "build" / "bench")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds = 1
        options.peers = False
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    unknown = [name for name in options.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are "
                     f"{', '.join(BENCHMARKS)}")
    return options


def plan(program, options):
    """One table of both planners; `--quick` shows a few rows of it."""
    del program  # the planners' program is found beside it
    quick = {plan_offsets: ["--time-limit", "1", "--capacity-only"],
             plan_recompute: ["--time-limit", "1", "--only", "vgg19"]}
    planners = [planner for planner in quick if planner.available()]
    if not planners:
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        rows = itertools.chain.from_iterable(
            planner.rows(planner.parse(quick[planner] if options.quick else []),
                         pathlib.Path(scratch)) for planner in planners)
        done = plan_table.show(rows, options.out, "plan")
    return 0 if all(plan_table.is_right(row) for row in done) else 1


BENCHMARKS = {"cli": cli.main, "reorder": reorder.main, "micro": micro,
              "plan": plan, "runtime": runtime_table.main,
              "inference": inference_table.main,
              "training": training_table.main,
              "half_precision": half_precision.main,
              "low_rank": low_rank.main}


def main(arguments):
    options = parse(arguments)
    folder = os.environ.get("ONNX_MEMOPT_BIN_DIR")
    folder = pathlib.Path(folder or ROOT / "build" / "release" / "bin")
    program = (folder / "onnx-memopt").resolve()
    if not program.exists():
        print(f"bench: {program}: no such program; run ./dev build",
              file=sys.stderr)
        return 1
    options.out = options.out.resolve()
    (options.out / "models").mkdir(parents=True, exist_ok=True)
    worst = 0
    for name in options.names or BENCHMARKS:
        worst = max(worst, BENCHMARKS[name](program, options))
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
