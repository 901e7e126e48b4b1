"""What one model really takes in ONNX Runtime: resident memory, node order.

A measurement is a process of its own. The peak is VmHWM, reset before each run
through /proc/self/clear_refs, less what is resident before the first run. The
C library is told to give freed memory back at once.

  measure(path, {"enable_mem_pattern": False}, threads=2, dims={"batch": 8})
  -> {"peaks": [first, second, third], "seconds": [...], "orders": [...],
      "version": "1.32.0"}

As a program: reads a job as JSON from stdin, and prints such a result.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BARE = {"enable_cpu_mem_arena": False, "enable_mem_pattern": False}
LEVELS = {"none": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC",
          "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}
KIB = 1024


class Failed(Exception):
    """ONNX Runtime did not load or run the model; says why."""


def measure(path, options=None, level="none", threads=1, dims=None, runs=3,
            optimized=None, feeds=None, timeout=600):
    """Runs the model in a process of its own; see above. `feeds` is a file of
    numpy.savez with the inputs, which are random without."""
    return run_job({"models": [str(path)], "options": options or {},
                    "level": level, "threads": threads, "dims": dims or {},
                    "runs": runs, "optimized": optimized and str(optimized),
                    "feeds": feeds and str(feeds)}, timeout)


def orders(paths, options=None, timeout=600):
    """The order of execution of each model, by node names; level none."""
    return run_job({"models": [str(p) for p in paths], "profile": True,
                    "options": options or {}, "level": "none", "threads": 1,
                    "dims": {}, "runs": 1}, timeout)["orders"]


def kernel_seconds(path, level="all", threads=2, dims=None, runs=6,
                   timeout=600):
    """Of each node, by name: its shortest execution, and how often it is
    executed in a run."""
    job = {"models": [str(path)], "profile": True, "options": {},
           "level": level, "threads": threads, "dims": dims or {},
           "runs": runs}
    kernels = run_job(job, timeout)["kernels"][0]
    return {name: (min(times), len(times) / runs)
            for name, times in kernels.items()}


def write_optimized(path, target, level="all", timeout=600):
    """Writes the graph that ONNX Runtime runs; the weights are not kept.

    What its optimizer made is marked as being in memory, as the program
    expects it (lib/analysis/ort_mapped_weights.cc).
    """
    run_job({"models": [str(path)], "options": {}, "level": level,
             "threads": 1, "dims": {}, "runs": 0, "optimized": str(target)},
            timeout)
    data = pathlib.Path(f"{target}.data")
    data.unlink(missing_ok=True)
    mark_optimizers_weights(path, target)


def mark_optimizers_weights(source, target):
    import onnx  # not in those who only measure
    external = onnx.TensorProto.EXTERNAL
    before = onnx.load(str(source), load_external_data=False)
    original = {tensor.name for tensor in before.graph.initializer
                if tensor.data_location == external}
    model = onnx.load(str(target), load_external_data=False)
    for tensor in model.graph.initializer:
        if tensor.data_location != external or tensor.name in original:
            continue
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "_ORT_MEM_ADDR_"
    onnx.save(model, str(target))


def run_job(job, timeout):
    environment = dict(os.environ, MALLOC_MMAP_THRESHOLD_="65536",
                       MALLOC_TRIM_THRESHOLD_="65536")
    result = subprocess.run([sys.executable, __file__], input=json.dumps(job),
                            capture_output=True, text=True, check=False,
                            env=environment, timeout=timeout)
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines()
        raise Failed(lines[-1] if lines else f"exit {result.returncode}")
    return json.loads(result.stdout)


def quiet_session(path):
    """In this process, for what a model computes. Raises what ONNX Runtime
    raises."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"])


# --- In the process that measures ---


def status_bytes(key):
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(key):
                return int(line.split()[1]) * KIB
    raise KeyError(key)


def reset_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def session_options(ort, job, folder):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = job["threads"]
    options.graph_optimization_level = getattr(
        ort.GraphOptimizationLevel, LEVELS[job["level"]])
    for key, value in job["options"].items():
        if key == "execution_order":
            value = getattr(ort.ExecutionOrder, value)
        setattr(options, key, value)
    if job.get("profile"):
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / "profile")
    if job.get("optimized"):
        options.optimized_model_filepath = job["optimized"]
        prefix = "session.optimized_model_external_initializers_"
        name = pathlib.Path(job["optimized"]).name
        options.add_session_config_entry(prefix + "file_name", name + ".data")
        options.add_session_config_entry(prefix + "min_size_in_bytes", "1024")
    return options


def random_feed(np, rng, value, dims):
    shape = [d if isinstance(d, int) else int(dims.get(d, 1))
             for d in value.shape]
    kind = value.type[len("tensor("):-1]
    if kind.startswith(("int", "uint")):
        return rng.integers(0, 100, shape).astype(kind)
    if kind == "bool":
        return np.ones(shape, bool)
    return rng.standard_normal(shape).astype(
        {"float": "float32", "double": "float64", "float16": "float16"}[kind])


def fitting(session, feeds):
    """The inputs that a session takes, in 16 bits where it has them so."""
    return {value.name: feeds[value.name].astype("float16")
            if value.type == "tensor(float16)" else feeds[value.name]
            for value in session.get_inputs()}


def feeds_of(np, session, job):
    if job.get("feeds"):
        with np.load(job["feeds"]) as file:
            return fitting(session, dict(file))
    rng = np.random.default_rng(0)
    return {value.name: random_feed(np, rng, value, job["dims"])
            for value in session.get_inputs()}


def executed(profile):
    suffix = "_kernel_time"
    events = [e for e in json.loads(pathlib.Path(profile).read_text())
              if e.get("cat") == "Node" and e["name"].endswith(suffix)]
    events.sort(key=lambda event: event["ts"])
    return [(event["name"][:-len(suffix)], event["dur"] * 1e-6)
            for event in events]


def child(job, folder):
    import numpy as np
    import onnxruntime as ort
    result = {"peaks": [], "seconds": [], "orders": [], "kernels": [],
              "version": ort.__version__}
    for path in job["models"]:
        session = ort.InferenceSession(
            path, session_options(ort, job, folder),
            providers=["CPUExecutionProvider"])
        feeds = {} if job["runs"] == 0 else feeds_of(np, session, job)
        base = status_bytes("VmRSS")
        for _ in range(job["runs"]):
            reset_peak()
            start = time.perf_counter()
            outputs = session.run(None, feeds)
            result["seconds"].append(time.perf_counter() - start)
            result["peaks"].append(status_bytes("VmHWM") - base)
            del outputs
        if job.get("profile"):
            nodes = executed(session.end_profiling())
            result["orders"].append([name for name, _ in nodes])
            kernels = {}
            for name, seconds in nodes:
                kernels.setdefault(name, []).append(seconds)
            result["kernels"].append(kernels)
    print(json.dumps(result))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        child(json.load(sys.stdin), pathlib.Path(temporary))
