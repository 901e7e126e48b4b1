"""Whole-process wall time and peak memory, next to other programs.

All programs run on one model in turn, A B C A B C ..., so that what else the
machine does falls on all of them alike.
"""

import shutil
import statistics
import sys

import machine
import measure
import models
import peers
import readme
import tables

# A program that takes longer is not run again.
SLOW_SECONDS = 30
MIB = models.MIB


class Program:
    """One row: a command for a model, and what its runs took."""

    def __init__(self, name, command, aim=(None, None), failure="",
                 memory_bytes=None):
        self.name = name
        self.command = command
        self.aim = aim
        self.failure = failure
        self.memory_bytes = memory_bytes
        self.samples = []

    def wants_another(self):
        return not self.failure and not any(
            sample.seconds > SLOW_SECONDS for sample in self.samples)

    def run(self, out, timeout_s):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        sample = measure.run(self.command, timeout_s, self.memory_bytes)
        shutil.rmtree(out)
        self.failure = sample.failure
        if not self.failure:
            self.samples.append(sample)

    def seconds(self):
        return [sample.seconds for sample in self.samples]

    def peak_bytes(self):
        return max(sample.peak_bytes for sample in self.samples)

    def verdict(self):
        seconds, size_bytes = self.aim
        parts = []
        met = bool(self.samples) and not self.failure
        if seconds is not None:
            parts.append(f"{seconds:g} s")
            met = met and statistics.median(self.seconds()) <= seconds
        if size_bytes is not None:
            parts.append(f"{size_bytes / MIB:.0f} MiB")
            met = met and self.peak_bytes() <= size_bytes
        if not parts:
            return ""
        return f"{', '.join(parts)}: {'met' if met else 'NOT MET'}"

    def row(self, model):
        if self.failure or not self.samples:
            return [model, self.name, self.failure or "not run", "", "", "",
                    "", self.verdict()]
        seconds = self.seconds()
        return [model, self.name, f"{statistics.median(seconds):.2f}",
                f"{min(seconds):.2f}", f"{max(seconds):.2f}",
                f"{self.peak_bytes() / MIB:.0f}", str(len(seconds)),
                self.verdict()]

    def to_json(self, model):
        return {"model": model, "program": self.name, "failure": self.failure,
                "seconds": self.seconds(),
                "peak_bytes": [s.peak_bytes for s in self.samples]}


def own_programs(program, model, files, out):
    beside = files[0].with_name(f"{files[0].stem}.out.onnx")
    base = [str(program), str(files[0]), "-q"]
    json_to = ["--json", str(out / "report.json")]
    rows = [
        Program("onnx-memopt --analyze", [*base, "--analyze"],
                model.aims.get("analyze", (None, None))),
        Program("onnx-memopt", [*base, "-o", str(beside), *json_to],
                model.aims.get("rewrite", (None, None))),
    ]
    if len(files) > 1 and files[1].stat().st_blocks > 0:
        rows.append(Program("onnx-memopt, weights copied",
                            [*base, "-o", str(out / files[0].name),
                             "--external-data", "copy", *json_to]))
    return rows


def peer_programs(files, out, memory_gib):
    # A peer that reads all weights must not take the machine down.
    memory_bytes = (memory_gib * 1024 ** 3 if memory_gib else
                    measure.available_bytes() * 3 // 4)
    rows = []
    for peer in peers.peers():
        absent = peer.package and peers.version_of(peer.package) is None
        rows.append(Program(peer.name, peer.command(files, str(out)),
                            failure="not installed" if absent else "",
                            memory_bytes=memory_bytes))
    return rows


def measure_model(model, program, options):
    """The rows of one model; raises models.Absent."""
    folder = options.out / "models"
    free = shutil.disk_usage(options.out).free
    if free < model.disk_bytes:
        raise models.Absent("the disk has too little room")
    files = model.make(folder)
    out = options.out / "out"
    rows = own_programs(program, model, files, out)
    if options.peers:
        rows += peer_programs(files, out, options.peer_memory)
    for round_number in range(options.rounds):
        for row in rows:
            if row.wants_another():
                print(f"bench: {model.name}: {row.name}, round "
                      f"{round_number + 1}", file=sys.stderr)
                row.run(out, options.timeout)
    files[0].with_name(f"{files[0].stem}.out.onnx").unlink(missing_ok=True)
    return rows


def growth(measured):
    """Lines on how time grows from 10,000 to 100,000 nodes."""
    lines = []
    small = measured.get("transformer_10000", [])
    large = measured.get("transformer_100000", [])
    for a, b in zip(small[:2], large[:2]):
        if not a.samples or not b.samples:
            continue
        ratio = (statistics.median(b.seconds()) /
                 statistics.median(a.seconds()))
        lines.append(f"{b.name}: {ratio:.1f} times as long for 100,000 nodes "
                     f"as for 10,000 (aim: at most 12: "
                     f"{'met' if ratio <= 12 else 'NOT MET'})")
    return lines


def selected_models(options):
    if options.quick:
        return models.quick_models()
    return [model for model in models.models()
            if not options.model or
            any(part in model.name for part in options.model)]


def short(about, runs):
    """For a page: what a user asks first."""
    rows = []
    for run in runs:
        failed = run["failure"] or not run["seconds"]
        rows.append([run["model"], run["program"]] + (
            [f"fails ({run['failure'].split(':')[0]})", ""] if failed else
            [f"{statistics.median(run['seconds']):.2f}",
             f"{max(run['peak_bytes']) / MIB:.0f}"]))
    return "\n".join([
        tables.markdown(["model", "program", "seconds", "memory, MiB"], rows),
        "",
        f"On {about['cpu']}, with onnx {about['onnx']}, onnxsim "
        f"{about['onnxsim']}, onnx-tool {about['onnx-tool']}."])


def write_results(about, measured, rows, options):
    """Writes both files; returns the text of the first."""
    header = ["model", "program", "median s", "min", "max", "peak RSS, MiB",
              "runs", "aim"]
    raw = {"runs": [row.to_json(name) for name, programs in measured.items()
                    for row in programs]}
    text = tables.write(options.out, "cli", about,
                        [tables.markdown(header, rows), "", *growth(measured)],
                        raw)
    if options.readme:
        readme.put(options.readme, "cli", short(about, raw["runs"]))
    return text


def main(program, options):
    about = machine.describe(program)
    measured = {}
    rows = []
    text = ""
    for model in selected_models(options):
        try:
            measured[model.name] = measure_model(model, program, options)
            rows += [row.row(model.name) for row in measured[model.name]]
        except models.Absent as absent:
            rows.append([model.name, "-", f"skipped: {absent}"] + [""] * 5)
        # A long run that is stopped leaves what it has.
        text = write_results(about, measured, rows, options)
    print(text)
    own_failures = [row for programs in measured.values() for row in programs
                    if row.name.startswith("onnx-memopt") and row.failure]
    return 1 if own_failures else 0
