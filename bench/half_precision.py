"""half-precision beside other converters, on real networks that packages ship.

Each tool, in a process of its own, converts each network to float16 with inputs
and outputs in float32. Shown are the size of the file; the largest error of an
output relative to its largest number, and the root of the mean square in the same
way, on real inputs and on noise (sample_inputs.py); the memory of a run in ONNX
Runtime from the second one on, measured and predicted for the graph that the runtime
makes of it; time and memory of the tool. Tools and networks that are not installed
are left out, with a line.

    half_precision.py convert TOOL IN OUT     what runs in those processes
    half_precision.py compare BEFORE AFTER FEEDS...
"""

import importlib.util
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import machine
import measure
import models
import ort_memory
import readme
import runtime_table
import tables

MIB = models.MIB
HERE = pathlib.Path(__file__).resolve().parent
MOVED_ELEMENTS = 8


def with_moved_weights(source, output):
    """No conversion: what a network makes of a change of one in a million. Its
    errors are no smaller in 16 bits."""
    import numpy as np
    import onnx
    from onnx import numpy_helper
    rng = np.random.default_rng(0)
    model = onnx.load(source)
    constants = (attribute.t for node in model.graph.node
                 if node.op_type == "Constant" for attribute in node.attribute)
    for tensor in (*model.graph.initializer, *constants):
        # Not the scales of a Resize.
        if (tensor.data_type == onnx.TensorProto.FLOAT
                and math.prod(tensor.dims) > MOVED_ELEMENTS):
            values = numpy_helper.to_array(tensor)
            noise = 1 + 1e-6 * rng.uniform(-1, 1, values.shape)
            tensor.CopyFrom(numpy_helper.from_array(
                (values * noise).astype(np.float32), tensor.name))
    onnx.save(model, output)


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
    """Also fuses operators of transformers to ONNX Runtime's own."""
    from onnxruntime.transformers import optimizer
    model = optimizer.optimize_model(source, model_type="bert", opt_level=0)
    model.convert_float_to_float16(keep_io_types=True)
    model.save_model_to_file(output)


def with_slim(source, output):
    import onnxslim
    onnxslim.slim(source, output, dtype="fp16")


# By name: the package that it needs, and the conversion.
PEERS = {
    "as it is, weights moved by 1e-6": ("onnx", with_moved_weights),
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


class Inputs:
    """Of one network, in files: what it takes for real, and noise."""

    def __init__(self, source, folder):
        self.real, self.noise = folder / "real.npz", folder / "noise.npz"
        self.real.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, HERE / "sample_inputs.py", source, self.real,
             self.noise], stdout=subprocess.PIPE, text=True, check=True)
        self.shapes, self.dims = json.loads(done.stdout)
        # The arguments that tell the program.
        self.arguments = [f"--input-shape={name}:" + "x".join(map(str, shape))
                          for name, shape in self.shapes.items() if shape]
        self.names = ["noise", "real"] if self.real.exists() else ["noise"]

    def file(self, name):
        return {"real": self.real, "noise": self.noise}[name]


def errors(before, after, inputs, timeout):
    """By input: the largest difference of any output relative to its largest
    number, and the root of the mean square, in the same way."""
    done = subprocess.run(
        [sys.executable, __file__, "compare", before, after,
         *(inputs.file(name) for name in inputs.names)],
        capture_output=True, text=True, check=False, timeout=timeout)
    if done.returncode != 0:
        # "[ONNXRuntimeError] : 10 : INVALID_GRAPH : This is ..."
        parts = measure.last_line(done.stderr).split(" : ")
        return {"failure": f"does not load: {parts[min(2, len(parts) - 1)]}"}
    return {"errors": dict(zip(inputs.names, json.loads(done.stdout)))}


def compare(before, after, *files):
    """In a process of its own: whoever measures imports nothing large."""
    import numpy as np
    sessions = [ort_memory.quiet_session(path) for path in (before, after)]
    found = []
    for path in files:
        with np.load(path) as file:
            runs = [session.run(None, ort_memory.fitting(session, dict(file)))
                    for session in sessions]
        pairs = [(a.astype(np.float64), a - b.astype(np.float64))
                 for a, b in zip(*runs)]
        found.append([
            max(float(size(difference) / max(size(value), 1e-6))
                for value, difference in pairs)
            for size in (lambda x: np.abs(x).max(),
                         lambda x: np.sqrt(np.square(x).mean()))])
    print(json.dumps(found))


def run_memory(path, inputs, timeout):
    peaks = ort_memory.measure(path, {}, "all", 2, feeds=inputs.noise,
                               timeout=timeout)["peaks"]
    return {"run_bytes": peaks[-1]}


def predicted(program, path, inputs, folder):
    """Of a run from the second one on, with ONNX Runtime's own options."""
    peaks = runtime_table.predictions(program, path, "all", inputs.dims, folder,
                                      inside=True)
    return {"predicted_bytes": peaks["default"]["steady"]}


def row_of(network, source, inputs, tool, command, output, timeout):
    """`command` writes the output."""
    output.unlink(missing_ok=True)
    row = {"network": network, "tool": tool}
    sample = measure.run(command, timeout)
    row.update(tool_seconds=sample.seconds, tool_bytes=sample.peak_bytes)
    if sample.failure:
        return {**row, "failure": sample.failure}
    row.update(bytes=output.stat().st_size,
               **errors(source, output, inputs, timeout))
    if "failure" not in row:
        row.update(run_memory(output, inputs, timeout))
    return row


def rows_of(program, network, source, folder, options):
    inputs = Inputs(source, folder)
    output = folder / "out.onnx"
    own = row_of(network, source, inputs, "onnx-memopt",
                 [str(program), str(source), "-o", str(output), "-q",
                  "--passes=half-precision", *inputs.arguments], output,
                 options.timeout)
    if output.exists():
        own.update(predicted(program, output, inputs, folder))
    before = {"network": network, "tool": "as it is",
              "bytes": source.stat().st_size,
              **run_memory(source, inputs, options.timeout),
              **predicted(program, source, inputs, folder)}
    yield before
    yield own
    for tool, (package, _) in PEERS.items() if options.peers else ():
        # It takes minutes over others, and fuses nothing there.
        if "optimizer" in tool and "minilm" not in network:
            continue
        if not is_installed(package):
            print(f"bench: half_precision: {tool} is not installed",
                  file=sys.stderr)
            continue
        yield row_of(network, source, inputs, tool,
                     [sys.executable, __file__, "convert", tool, str(source),
                      str(output)], output, options.timeout)


def cells(row):
    def mib(key):
        return f"{row[key] / MIB:.1f}" if key in row else ""

    def error(name):
        pair = row.get("errors", {}).get(name)
        return f"{pair[0]:.1e} ({pair[1]:.1e})" if pair else ""
    return [row["network"], row["tool"],
            f"{row['bytes'] / 1e6:.2f}" if "bytes" in row else "",
            row.get("failure") or error("real"), error("noise"),
            mib("run_bytes"), mib("predicted_bytes"),
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
                               options):
                rows.append(row)
                print("  ".join(cells(row)), file=sys.stderr, flush=True)
    if not rows:
        print("bench: half_precision: no package with a network is installed: "
              + ", ".join(models.SHIPPED), file=sys.stderr)
        return 0
    heads = ["network", "tool", "MB", "error on real inputs", "on noise",
             "run, MiB", "predicted", "tool, s", "tool, MiB"]
    table = tables.markdown(heads, [cells(r) for r in rows])
    text = tables.write(options.out, "half_precision",
                        machine.describe(program), [table], {"rows": rows})
    print(text)
    if options.readme:
        readme.put(options.readme, "half_precision", table)
    return 0 if all("failure" not in row for row in rows
                    if row["tool"] == "onnx-memopt") else 1


if __name__ == "__main__":
    _, what, *words = sys.argv
    if what == "compare":
        compare(*words)
    else:
        PEERS[words[0]][1](*words[1:])
