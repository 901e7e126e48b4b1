"""What the pass reorder gains on the shared models: peaks before and after."""

import json
import sys

import machine
import measure
import models
import tables

def mib(size_bytes):
    return f"{size_bytes / models.MIB:.2f}"


def run_one(program, path, options):
    dims = [part for name, size in models.DIMS.get(path.stem, {}).items()
            for part in ("--dim", f"{name}={size}")]
    model = models.skeleton(path.stem, options.out / "models")
    out = model.with_name(f"{path.stem}.out.onnx")
    sample = measure.run([str(program), str(model), "-o", str(out), "--passes",
                          "reorder", "--json", "-", *dims], options.timeout)
    out.unlink(missing_ok=True)
    if sample.failure:
        return [path.stem, sample.failure] + [""] * 7, None
    report = json.loads(sample.stdout)
    before, after = report["before"], report["after"]
    run = report["passes"][0]
    gain = 1 - after["live_peak_bytes"] / max(before["live_peak_bytes"], 1)
    return [path.stem, str(report["model"]["nodes"]),
            mib(before["live_peak_bytes"]), mib(after["live_peak_bytes"]),
            f"{100 * gain:.1f} %", mib(before["packed_peak_bytes"]),
            mib(after["packed_peak_bytes"]), f"{run['seconds']:.2f}",
            "; ".join(run["remarks"])], {
                "model": path.stem, "before": before, "after": after,
                "seconds": run["seconds"], "remarks": run["remarks"]}


def main(program, options):
    folder = models.SHARED / "models"
    paths = sorted(folder.glob("*.onnx"))
    if options.quick:
        paths = paths[:1]
    if not paths:
        print(f"bench: reorder: no models in {folder}", file=sys.stderr)
        return 0
    results = [run_one(program, path, options) for path in paths]
    about = machine.describe(program)
    text = tables.write(
        options.out, "reorder", about, [tables.markdown(
            ["model", "nodes", "live before, MiB", "after", "gain",
             "packed before, MiB", "after", "s", "remarks"],
            [row for row, _ in results])],
        {"models": [raw for _, raw in results if raw]})
    print(text)
    return 0 if all(raw for _, raw in results) else 1
