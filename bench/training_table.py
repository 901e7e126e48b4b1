"""Training steps in ONNX Runtime, with and without checkpoints, predicted and
measured.

For each network: the step as it is, with the usual rules (sqrt, per-layer), and
with the planner's checkpoints for five budgets between the least that it finds and
what the step takes as it is. Session options as they come, a process for each
measurement, the steady state (second and third step). The same without arena and
memory pattern, planned and run so. Then the largest batch that fits into the memory of
the step as it is: with checkpoints as planned within it, and measured; without, as
predicted.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import machine
import models
import ort_memory
import tables

THREADS = 2
# Of the way from the least peak to that of the step as it is.
SHARES = (0.05, 0.15, 0.3, 0.5, 0.75)
MIB = models.MIB
SESSIONS = {"default": {}, "bare": ort_memory.BARE}


class Network:
    """A shared model, the sizes it is trained at, and how it is named."""

    def __init__(self, name, model, *flags, input_shape=None, batch=None,
                 heavy=False):
        self.name = name
        self.model = model
        self.flags = list(flags)
        self.input_shape = input_shape  # replaces that of the first input
        self.batch = batch              # the named dimension, for the batches
        self.size = next((int(flag.split("=")[1]) for flag in flags
                          if batch and flag.startswith(f"{batch}=")), None)
        self.heavy = heavy

    def source(self, folder):
        path = self.model if self.model.is_absolute() else models.SHARED / self.model
        if not path.exists():
            raise models.Absent(f"{path.name} is not in the shared models")
        if self.input_shape is None:
            return path
        import onnx
        model = onnx.load(path, load_external_data=False)
        dims = model.graph.input[0].type.tensor_type.shape
        for dim, size in zip(dims.dim, self.input_shape):
            if isinstance(size, int):
                dim.dim_value = size
            else:
                dim.dim_param = size
        for value in model.graph.output:
            value.type.tensor_type.shape.ClearField("dim")
        del model.graph.value_info[:]
        model = onnx.shape_inference.infer_shapes(model)
        target = folder / f"{self.name.replace(' ', '_')}.onnx"
        onnx.save(model, target)
        return target


MODELS = pathlib.Path("models")
TRAINING = pathlib.Path("training")
NETWORKS = [
    Network("resnet50 8x224", MODELS / "resnet50_dyn.onnx", "--dim", "batch=8",
            batch="batch"),
    Network("resnet50 32x112", MODELS / "resnet50_dyn.onnx", "--dim", "batch=32",
            input_shape=("batch", 3, 112, 112), batch="batch"),
    Network("gpt2 1x512", MODELS / "gpt2_dyn.onnx", "--dim", "batch=1",
            "--dim", "seq=512"),
    Network("gpt2 small 4x256", MODELS / "gpt2_dyn.onnx", "--dim", "batch=4",
            "--dim", "seq=256", batch="batch"),
    Network("llama 4 layers 1x1024", MODELS / "llama4l.onnx", heavy=True),
    Network("unet 8x128", TRAINING / "unet_gn.onnx", "--loss", "mse",
            "--dim", "batch=8", input_shape=("batch", 3, 128, 128),
            batch="batch"),
]


def train(program, source, folder, *flags):
    """(report, step) or raises Failed."""
    step, report = folder / "step.onnx", folder / "step.json"
    done = subprocess.run(
        [str(program), "train", str(source), "-o", str(step), "-q", "--json",
         str(report), *flags], capture_output=True, text=True, check=False,
        timeout=900)
    if done.returncode != 0:
        raise ort_memory.Failed(done.stderr.strip().splitlines()[-1])
    return json.loads(report.read_text("utf-8")), step


def row_of(name, session, mode, budget, report, step, timeout):
    measured = ort_memory.measure(step, SESSIONS[session], "all", THREADS,
                                  runs=3, timeout=timeout)
    predicted = report["predicted"]
    return {"network": name, "session": session, "mode": mode,
            "budget": budget,
            "returned": report["parameters"]["bytes"] + report["state_bytes"],
            "predicted": max(predicted.values()),
            "measured": max(measured["peaks"]),
            "added": report["added_time"],
            "seconds": min(measured["seconds"][1:]),
            "saved": report["saved_for_backward_bytes"]}


def rows_of(program, network, session, folder, options):
    source = network.source(folder)
    of_network = [*network.flags, "--session", session]
    plans = [("none", []), ("sqrt", ["--checkpoint", "sqrt"]),
             ("per-layer", ["--checkpoint", "per-layer"])]
    for mode, flags in plans:
        try:
            report, step = train(program, source, folder, *of_network, *flags)
        except ort_memory.Failed as problem:
            if mode == "per-layer":
                continue  # no module of it is numbered
            raise problem
        yield row_of(network.name, session, mode, None, report, step,
                     options.timeout * 5)
    report, _ = train(program, source, folder, *of_network, "--checkpoint",
                      "optimal")
    peaks = [point["peak_bytes"] for point in report["curve"]]
    for share in SHARES[:1] if options.quick else SHARES:
        budget = int(peaks[-1] + share * (peaks[0] - peaks[-1]))
        report, step = train(program, source, folder, *of_network,
                             "--budget", str(budget))
        yield row_of(network.name, session, "optimal", budget, report, step,
                     options.timeout * 5)


def with_batch(network, session, batch):
    flags = [*network.flags, "--session", session]
    flags[flags.index(f"{network.batch}={network.size}")] = (
        f"{network.batch}={batch}")
    return flags


def largest_batch(fits):
    """The largest batch that fits, by doubling and halving; 0: none."""
    high = 1
    while fits(high):
        high *= 2
    low = high // 2
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low


def batch_row(program, network, session, folder, options):
    source = network.source(folder)
    report, _ = train(program, source, folder,
                      *with_batch(network, session, network.size))
    budget = max(report["predicted"].values())

    def fits_as_it_is(batch):
        alone, _ = train(program, source, folder,
                         *with_batch(network, session, batch))
        return max(alone["predicted"].values()) <= budget

    def fits(batch):
        try:
            train(program, source, folder, *with_batch(network, session, batch),
                  "--budget", str(budget))
        except ort_memory.Failed:
            return False
        return True

    alone, planned = largest_batch(fits_as_it_is), largest_batch(fits)
    report, step = train(program, source, folder,
                         *with_batch(network, session, planned), "--budget",
                         str(budget))
    peaks = ort_memory.measure(step, SESSIONS[session], "all", THREADS, runs=2,
                               timeout=options.timeout * 5)["peaks"]
    return {"network": network.name, "session": session, "budget": budget, "alone": alone,
            "planned": planned, "measured": max(peaks),
            "added": report["added_time"]}


def cut(row, rows):
    """How many times less than without checkpoints, in the same session, a step
    takes beside the weights and states that it returns."""
    alone = next(r for r in rows if r["mode"] == "none" and
                 (r["network"], r["session"]) == (row["network"], row["session"]))
    return ((alone["measured"] - alone["returned"])
            / (row["measured"] - row["returned"]))


def batch_cells(row):
    return [row["network"], row["session"], f"{row['budget'] / MIB:.0f}", str(row["alone"]),
            str(row["planned"]), f"{row['measured'] / MIB:.0f}",
            f"{100 * row['added']:.1f} %"]


def cells(row, rows):
    budget = "" if row["budget"] is None else f"{row['budget'] / MIB:.0f}"
    off = row["measured"] / row["predicted"] - 1
    return [row["network"], row["session"], row["mode"], budget,
            f"{row['predicted'] / MIB:.0f}", f"{row['measured'] / MIB:.0f}",
            f"{100 * off:+.1f} %", f"{cut(row, rows):.1f}",
            f"{100 * row['added']:.1f} %", f"{row['seconds']:.2f}"]


def selected(options):
    for network in NETWORKS:
        if options.model and not any(m in network.name for m in options.model):
            continue
        if network.heavy and not options.model:
            continue
        if options.quick and network.name != "unet 8x128":
            continue
        yield network


def main(program, options):
    folder = options.out / "training"
    folder.mkdir(parents=True, exist_ok=True)
    rows, batches, failures = [], [], []
    for network in selected(options):
        own = folder / network.name.replace(" ", "_")
        own.mkdir(exist_ok=True)
        try:
            for row in (row for session in SESSIONS for row in
                        rows_of(program, network, session, own, options)):
                rows.append(row)
                print("  ".join(cells(row, rows)), file=sys.stderr, flush=True)
            for session in SESSIONS if not options.quick else ():
                if not network.batch:
                    continue
                batches.append(
                    batch_row(program, network, session, own, options))
                print("  ".join(batch_cells(batches[-1])), file=sys.stderr,
                      flush=True)
        except (models.Absent, ort_memory.Failed, OSError,
                subprocess.TimeoutExpired) as problem:
            failures.append(f"{network.name}: {problem}")
            print(f"bench: training: {failures[-1]}", file=sys.stderr)
        finally:
            shutil.rmtree(own, ignore_errors=True)
    about = machine.describe(program)
    heads = ["network", "session", "checkpoints", "budget, MiB", "predicted", "measured",
             "off by", "activations, times less", "added time, modelled", "s a step"]
    batch_heads = ["network", "session", "budget, MiB", "largest batch without checkpoints",
                   "with", "measured, MiB", "added time, modelled"]
    text = tables.write(
        options.out, "training", about,
        [tables.markdown(heads, [cells(r, rows) for r in rows]), "",
         tables.markdown(batch_heads, [batch_cells(r) for r in batches])],
        {"rows": rows, "batches": batches, "failures": failures})
    print(text)
    return 1 if failures else 0
