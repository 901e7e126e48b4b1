"""half-precision beside other converters, on networks that packages ship.

    python bench/half_precision.py MODEL.onnx... [--dim NAME=N]

Each tool converts each model to float16 with inputs and outputs in float32. Shown
are the size of the file, the largest error of the outputs relative to their
largest number, on random inputs, and the Casts of the main graph. Tools that are
not installed are left out with a line: onnxconverter-common, onnxslim.
"""

import argparse
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[1]
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64,
          "tensor(bool)": np.bool_, "tensor(float16)": np.float16}


def with_memopt(source: str, output: str) -> None:
    subprocess.run([ROOT / "build/release/bin/onnx-memopt", source, "-o",
                    output, "-q", "--passes=half-precision"], check=True)


def with_converter_common(source: str, output: str) -> None:
    from onnxconverter_common import float16
    onnx.save(float16.convert_float_to_float16(
        onnx.load(source), keep_io_types=True), output)


def with_slim(source: str, output: str) -> None:
    import onnxslim
    onnxslim.slim(source, output, dtype="fp16")


TOOLS = {"onnx-memopt": (None, with_memopt),
         "onnxconverter-common": ("onnxconverter_common",
                                  with_converter_common),
         "onnxslim": ("onnxslim", with_slim)}


def run(path: str, dims: dict[str, int]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds = {}
    for value in session.get_inputs():
        shape = [d if isinstance(d, int) else dims.get(d, 1)
                 for d in value.shape]
        dtype = DTYPES[value.type]
        feeds[value.name] = (
            rng.uniform(-1, 1, shape).astype(dtype)
            if np.dtype(dtype).kind == "f"
            else np.full(shape, 16000 if not shape else 1).astype(dtype))
    return session.run(None, feeds)


def error(before: list, after: list) -> float:
    return max(float(np.abs(a.astype(np.float64) - b).max()
                     / max(np.abs(a).max(), 1e-6))
               for a, b in zip(before, after))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="+")
    parser.add_argument("--dim", action="append", default=[])
    arguments = parser.parse_args()
    dims = {}
    for text in arguments.dim:
        name, size = text.split("=")
        dims[name] = int(size)
    print("| model | tool | MB | error | Casts |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for model in arguments.models:
            name = pathlib.Path(model).stem
            size = pathlib.Path(model).stat().st_size / 1e6
            print(f"| {name} | as it is | {size:.2f} | | |")
            before = run(model, dims)
            for tool, (module, convert) in TOOLS.items():
                if module and importlib.util.find_spec(module) is None:
                    print(f"{tool} is not installed", file=sys.stderr)
                    continue
                output = f"{folder}/out.onnx"
                try:
                    convert(model, output)
                    after = run(output, dims)
                except Exception as problem:  # of many kinds
                    line = " ".join(str(problem).split())[:80]
                    print(f"| {name} | {tool} | | fails: {line} | |")
                    continue
                casts = sum(node.op_type == "Cast"
                            for node in onnx.load(output).graph.node)
                size = pathlib.Path(output).stat().st_size / 1e6
                print(f"| {name} | {tool} | {size:.2f} | "
                      f"{error(before, after):.1e} | {casts} |")


if __name__ == "__main__":
    main()
