"""half-precision beside other converters, on real networks that packages ship.

Each tool, in a process of its own, converts each network to float16 with inputs
and outputs in float32. Shown are the size of the file, the largest error of the
outputs relative to their largest number, the memory of a run in ONNX Runtime from
the second one on, and time and memory of the tool. Tools and networks that are
not installed are left out, with a line.

    half_precision.py convert TOOL IN OUT     what runs in those processes
"""

import importlib.util
import pathlib
import sys
import tempfile

import machine
import measure
import models
import ort_memory
import tables

MIB = models.MIB
# Others are 1. "?" are heights and widths of lines of text.
DIMS = {"batch_size": 4, "sequence_length": 64, "?": 48,
        "p2o.DynamicDimension.1": 320, "p2o.DynamicDimension.2": 320}


def with_converter_common(source, output):
    import onnx
    from onnxconverter_common import float16
    onnx.save(float16.convert_float_to_float16(
        onnx.load(source), keep_io_types=True), output)


def with_transformers(source, output):
    from onnxruntime.transformers.onnx_model import OnnxModel
    import onnx
    model = OnnxModel(onnx.load(source))
    model.convert_float_to_float16(keep_io_types=True)
    model.save_model_to_file(output)


def with_optimizer(source, output):
    """Also fuses operators to ONNX Runtime's own."""
    from onnxruntime.transformers import optimizer
    model = optimizer.optimize_model(source, model_type="bert", opt_level=0)
    model.convert_float_to_float16(keep_io_types=True)
    model.save_model_to_file(output)


def with_slim(source, output):
    import onnxslim
    onnxslim.slim(source, output, dtype="fp16")


# By name: the package that it needs, and the conversion.
PEERS = {
    "onnxconverter-common": ("onnxconverter_common", with_converter_common),
    "onnxruntime.transformers, float16": ("onnxruntime.transformers",
                                          with_transformers),
    "onnxruntime.transformers, optimizer": ("onnxruntime.transformers",
                                            with_optimizer),
    "onnxslim": ("onnxslim", with_slim),
}


def is_installed(package):
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def feeds_of(session):
    """What a network takes for real: token ids, a mask of ones, a rate of
    16000, sound or an image from -1 to 1."""
    import numpy as np
    rng = np.random.default_rng(0)
    result = {}
    for value in session.get_inputs():
        made = ort_memory.random_feed(np, rng, value, DIMS)
        if value.name == "input" and made.shape == (1, 1):
            made = np.resize(made, (1, 576))  # of sound, for silero-vad
        if made.dtype.kind == "f":
            made = rng.uniform(-1, 1, made.shape).astype(made.dtype)
        elif "mask" in value.name:
            made = np.ones_like(made)
        elif made.ndim == 0:
            made = np.full_like(made, 16000)
        elif "type" in value.name:
            made = np.zeros_like(made)
        result[value.name] = made
    return result


def outputs_of(path):
    """Raises what ONNX Runtime raises."""
    session = ort_memory.quiet_session(path)
    return session.run(None, feeds_of(session))


def error(before, after):
    import numpy as np
    return max(float(np.abs(a.astype(np.float64) - b).max()
                     / max(np.abs(a).max(), 1e-6))
               for a, b in zip(before, after))


def run_memory(path, timeout):
    """Nothing of a network that random inputs of one element do not run."""
    try:
        peaks = ort_memory.measure(path, {}, "all", 2, DIMS,
                                   timeout=timeout)["peaks"]
    except ort_memory.Failed as problem:
        print(f"bench: half_precision: {path.name}: {problem}", file=sys.stderr)
        return {}
    return {"run_bytes": peaks[-1]}


def row_of(network, before, tool, command, output, timeout):
    """`command` writes the output."""
    output.unlink(missing_ok=True)
    row = {"network": network, "tool": tool}
    sample = measure.run(command, timeout)
    row.update(tool_seconds=sample.seconds, tool_bytes=sample.peak_bytes)
    if sample.failure:
        return {**row, "failure": sample.failure}
    row["bytes"] = output.stat().st_size
    try:
        row["error"] = error(before, outputs_of(output))
        row.update(run_memory(output, timeout))
    except Exception as problem:  # ONNX Runtime's have no common base
        row["failure"] = "does not load: " + " ".join(str(problem).split())[:60]
    return row


def rows_of(program, network, source, folder, timeout):
    before = outputs_of(source)
    yield {"network": network, "tool": "as it is",
           "bytes": source.stat().st_size, **run_memory(source, timeout)}
    output = folder / "out.onnx"
    yield row_of(network, before, "onnx-memopt",
                 [str(program), str(source), "-o", str(output), "-q",
                  "--passes=half-precision"], output, timeout)
    for tool, (package, _) in PEERS.items():
        if not is_installed(package):
            print(f"bench: half_precision: {tool} is not installed",
                  file=sys.stderr)
            continue
        yield row_of(network, before, tool,
                     [sys.executable, __file__, "convert", tool, str(source),
                      str(output)], output, timeout)


def cells(row):
    def mib(key):
        return f"{row[key] / MIB:.1f}" if key in row else ""
    return [row["network"], row["tool"],
            f"{row['bytes'] / 1e6:.2f}" if "bytes" in row else "",
            row.get("failure") or
            (f"{row['error']:.1e}" if "error" in row else ""),
            mib("run_bytes"),
            f"{row['tool_seconds']:.1f}" if "tool_seconds" in row else "",
            mib("tool_bytes")]


def main(program, options):
    networks = models.shipped_networks(options.out / "models")
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for network, source in networks.items():
            if options.model and not any(m in network for m in options.model):
                continue
            for row in rows_of(program, network, source, pathlib.Path(scratch),
                               options.timeout):
                rows.append(row)
                print("  ".join(cells(row)), file=sys.stderr, flush=True)
    if not rows:
        print("bench: half_precision: no package with a network is installed: "
              + ", ".join(models.SHIPPED), file=sys.stderr)
        return 0
    heads = ["network", "tool", "MB", "error", "run, MiB", "tool, s",
             "tool, MiB"]
    text = tables.write(options.out, "half_precision",
                        machine.describe(program),
                        [tables.markdown(heads, [cells(r) for r in rows])],
                        {"rows": rows})
    print(text)
    return 0 if all("failure" not in row for row in rows
                    if row["tool"] == "onnx-memopt") else 1


if __name__ == "__main__":
    _, _, tool_name, *paths = sys.argv
    PEERS[tool_name][1](*paths)
