"""The process that runs one model once it is alone: the child of verify.py.

    python _measure.py SPEC.json RESULT.json

Reads what to run from SPEC.json and writes what it found, or {"error": ...},
to RESULT.json. It is a process of its own because memory that an earlier one
left behind, in free lists or fragments, would hide or add to a peak.

A peak is the kernel's high-water mark of resident memory (VmHWM), which is set
back to the present size before each run, less what was resident before the
first run: model, runtime and inputs are not part of it, outputs are.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import os
import sys
import time
import zlib
from typing import Any, Dict, List, Optional, Union

# By the name that ONNX Runtime gives a type: numpy's.
DTYPES = {
    "tensor(float)": "float32", "tensor(double)": "float64",
    "tensor(float16)": "float16", "tensor(bool)": "bool",
    "tensor(string)": "object", "tensor(int8)": "int8",
    "tensor(int16)": "int16", "tensor(int32)": "int32",
    "tensor(int64)": "int64", "tensor(uint8)": "uint8",
    "tensor(uint16)": "uint16", "tensor(uint32)": "uint32",
    "tensor(uint64)": "uint64",
}

LEVELS = {"all": "ORT_ENABLE_ALL", "extended": "ORT_ENABLE_EXTENDED",
          "basic": "ORT_ENABLE_BASIC", "none": "ORT_DISABLE_ALL"}

WORDS = ("", "a", "memory", "of a model", "\u00fc")


class Refused(Exception):
    """What is wrong with the model or the request, with a kind."""

    def __init__(self, reason: str, kind: str = "error") -> None:
        super().__init__(reason)
        self.kind = kind


def resident_bytes(key: str) -> Optional[int]:
    """VmRSS or VmHWM of this process; None where the system has no /proc."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def reset_peak() -> bool:
    """Sets VmHWM to VmRSS; false where the system cannot."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True


def shape_text(shape: List[Any]) -> str:
    """With names where sizes are not fixed: [batch, 3, ?]."""
    return "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"


def check_types(session: Any) -> None:
    for what, values in (("input", session.get_inputs()),
                         ("output", session.get_outputs())):
        for value in values:
            if value.type not in DTYPES:
                raise Refused(f"{what} \"{value.name}\" is a {value.type}: "
                              "expected tensors of numbers, bools or strings")


def choose_inputs(session: Any, dims: Dict[str, int]) -> List[Dict[str, Any]]:
    """Name, type and shape of each input; "assumed" are the axes that nothing
    gave a size."""
    named = {d for i in session.get_inputs() for d in i.shape
             if isinstance(d, str)}
    for name in dims:
        if name not in named:
            has = ", ".join(sorted(named)) or "none"
            raise Refused(f"no input has a dimension \"{name}\"; "
                          f"named ones: {has}", "usage")
    chosen = []
    for value in session.get_inputs():
        shape, assumed = [], []
        for axis, dim in enumerate(value.shape):
            if not isinstance(dim, int):
                if dim not in dims:
                    assumed.append(axis)
                dim = dims.get(dim, 1)
            shape.append(dim)
        chosen.append({"name": value.name, "type": value.type, "shape": shape,
                       "assumed": assumed, "declared": value.shape})
    return chosen


def check_inputs(session: Any, inputs: List[Dict[str, Any]]) -> None:
    """That this model takes the inputs that were chosen for the other."""
    known = {i["name"]: i for i in inputs}
    for value in session.get_inputs():
        given = known.get(value.name)
        if given is None:
            raise Refused(f"input \"{value.name}\" is in the model after only",
                          "different")
        fits = len(value.shape) == len(given["shape"]) and all(
            not isinstance(dim, int) or dim == size
            for dim, size in zip(value.shape, given["shape"]))
        if value.type != given["type"] or not fits:
            raise Refused(
                f"input \"{value.name}\" was {given['type']} of shape "
                f"{shape_text(given['shape'])} and is {value.type} of shape "
                f"{shape_text(value.shape)}",
                "different")


def random_feed(spec: Dict[str, Any], seed: int, max_int: int) -> Any:
    """Equal for equal name, type, shape and seed, whatever else there is."""
    import numpy as np
    rng = np.random.default_rng([seed, zlib.crc32(spec["name"].encode())])
    dtype, shape = DTYPES[spec["type"]], spec["shape"]
    count = math.prod(shape)
    # A mask of zeros hides everything: the outputs would tell nothing.
    is_mask = "mask" in spec["name"].lower()
    if dtype == "object":
        words = np.array(WORDS, dtype=object)
        values = words[rng.integers(0, len(WORDS), count)]
    elif dtype == "bool":
        values = (np.ones(count, bool) if is_mask else
                  rng.integers(0, 2, count).astype(bool))
    elif dtype.startswith(("int", "uint")):
        values = (np.ones(count, dtype) if is_mask else
                  rng.integers(0, max_int, count).astype(dtype))
    elif dtype == "float16":
        values = rng.standard_normal(count, np.float32).astype(dtype)
    else:
        values = rng.standard_normal(count, np.dtype(dtype))
    return values.reshape(shape)


def save_outputs(outputs: List[Any], folder: str) -> List[Dict[str, Any]]:
    """Writes each as output number.npy; strings as .json."""
    import numpy as np
    saved = []
    for index, value in enumerate(outputs):
        array = np.asarray(value)
        path = os.path.join(folder, str(index))
        if array.dtype == object:
            path += ".json"
            with open(path, "w", encoding="utf-8") as file:
                json.dump(array.reshape(-1).tolist(), file)
        else:
            path += ".npy"
            np.save(path, np.ascontiguousarray(array).reshape(array.shape))
        saved.append({"shape": list(array.shape), "file": path})
    return saved


def read_text_form(path: str) -> Union[str, bytes]:
    """What to load: the text form is ONNX's, and the runtime does not read it.
    """
    if not path.endswith(".onnxtxt"):
        return path
    parser = importlib.import_module("onnx.parser")
    with open(path, encoding="utf-8") as file:
        model: bytes = parser.parse_model(file.read()).SerializeToString()
    return model


def make_session(ort: Any, spec: Dict[str, Any],
                 model: Union[str, bytes]) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = spec["threads"]
    options.graph_optimization_level = getattr(
        ort.GraphOptimizationLevel, LEVELS[spec["level"]])
    if spec["options"] == "bare":
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
    if isinstance(model, bytes):
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path",
            os.path.dirname(os.path.abspath(spec["model"])))
    return ort.InferenceSession(model, options,
                                providers=["CPUExecutionProvider"])


def measure(spec: Dict[str, Any]) -> Dict[str, Any]:
    try:
        ort = importlib.import_module("onnxruntime")
    except ImportError as error:
        raise Refused("cannot be run without the Python package onnxruntime "
                      f"({error})") from error
    ort.set_seed(spec["seed"])
    model = read_text_form(spec["model"])
    gc.collect()
    before_loading = resident_bytes("VmRSS")
    start = time.perf_counter()
    session = make_session(ort, spec, model)
    load_seconds = time.perf_counter() - start
    gc.collect()
    loaded = resident_bytes("VmRSS")

    check_types(session)
    inputs = spec["inputs"]
    if inputs is None:
        inputs = choose_inputs(session, spec["dims"])
    else:
        check_inputs(session, inputs)
    mine = {i.name for i in session.get_inputs()}
    feeds = {i["name"]: random_feed(i, spec["seed"], spec["max_int"])
             for i in inputs if i["name"] in mine}

    base = resident_bytes("VmRSS")
    runs: List[Dict[str, Any]] = []
    outputs: List[Any] = []
    for _ in range(spec["runs"]):
        outputs = []  # The last run's are not part of this one's peak.
        can_measure = reset_peak()
        start = time.perf_counter()
        try:
            outputs = session.run(None, feeds)
        except Exception as error:
            # Only integers may be out of range, of some table.
            integers = any("int" in i["type"] for i in inputs)
            raise Refused(f"does not run: {one_line(error)}",
                          "run" if integers else "error") from error
        seconds = time.perf_counter() - start
        peak = resident_bytes("VmHWM") if can_measure else None
        runs.append({"seconds": seconds,
                     "peak_bytes": None if peak is None or base is None
                     else max(0, peak - base)})
    result = {
        "runtime_version": ort.__version__, "inputs": inputs, "runs": runs,
        "load_seconds": load_seconds,
        "session_bytes": None if loaded is None or before_loading is None
        else max(0, loaded - before_loading),
    }
    if spec["outputs_folder"] is not None:
        saved = save_outputs(outputs, spec["outputs_folder"])
        for value, output in zip(session.get_outputs(), saved):
            output.update(name=value.name, type=value.type)
        result["outputs"] = saved
    return result


def one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 400 else text[:400] + "..."


def main() -> int:
    spec_path, result_path = sys.argv[1:3]
    with open(spec_path, encoding="utf-8") as file:
        spec = json.load(file)
    result: Dict[str, Any]
    try:
        result = measure(spec)
    except Refused as error:
        result = {"error": one_line(error), "kind": error.kind}
    except MemoryError:
        result = {"error": "ran out of memory", "kind": "error"}
    except Exception as error:  # pylint: disable=broad-except
        # The runtime's exceptions have no common class.
        result = {"error": one_line(error), "kind": "error"}
    with open(result_path, "w", encoding="utf-8") as file:
        json.dump(result, file)
    return 0


if __name__ == "__main__":
    # Beside this file there are modules that are not meant for everyone.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".")
                   != os.path.dirname(os.path.abspath(__file__))]
    sys.exit(main())
