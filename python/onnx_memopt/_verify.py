"""Runs two models in ONNX Runtime and compares what they give and take.

    import onnx_memopt
    result = onnx_memopt.verify("model.onnx", "model.memopt.onnx", dims={"batch": 8})
    assert result.equal, result.max_relative_error
    print(result.after.default.steady_peak_bytes)

Each measurement is a process of its own (_measure.py): a model with default
session options, and "bare", with neither arena nor memory pattern. Both models
get the same random inputs. docs/verify.md says what the figures mean.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from onnx_memopt import _compare
from onnx_memopt._errors import Error

PathLike = Union[str, "os.PathLike[str]"]

LEVELS = ("all", "extended", "basic", "none")

# Random integers are below the first of these with which BEFORE runs: mostly
# they are indices into a table, and some tables have two rows.
_MAX_INTS = (100, 2, 1)

# Tensors from 64 KiB on go back to the system when they are freed, as large
# ones do by default; else the peak would depend on what was freed before.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "65536",
           "MALLOC_TRIM_THRESHOLD_": "65536"}


_SCRIPT = Path(__file__).with_name("_measure.py")


class VerifyError(Error):
    """A model that cannot be run, or a file that cannot be read."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason


class UsageError(VerifyError):
    """A request that does not fit the model."""


@dataclass(frozen=True)
class Run:
    """One run of a session."""

    #: Wall time.
    seconds: float
    #: Most resident memory in it above what there was before the first run;
    #: None where the system cannot tell.
    peak_bytes: Optional[int]


@dataclass(frozen=True)
class Measurement:
    """A session of one model, in a process of its own."""

    #: What the session added to resident memory; None where unknown.
    session_bytes: Optional[int]
    #: Wall time to make the session.
    load_seconds: float
    runs: List[Run]

    @property
    def first_peak_bytes(self) -> Optional[int]:
        """Of run 1."""
        return self.runs[0].peak_bytes

    @property
    def steady_peak_bytes(self) -> Optional[int]:
        """Of the last run; None if there is only one."""
        return self.runs[-1].peak_bytes if len(self.runs) > 1 else None

    @property
    def best_seconds(self) -> float:
        """Of the fastest run."""
        return min(run.seconds for run in self.runs)

    @property
    def median_seconds(self) -> float:
        """Over all runs, the first included."""
        return statistics.median(run.seconds for run in self.runs)

    def to_dict(self) -> Dict[str, Any]:
        return {**dataclasses.asdict(self),
                "first_peak_bytes": self.first_peak_bytes,
                "steady_peak_bytes": self.steady_peak_bytes,
                "best_seconds": self.best_seconds,
                "median_seconds": self.median_seconds}


@dataclass(frozen=True)
class PredictedPeaks:
    """Peaks above the loaded session, in bytes; None: not predicted."""

    first_peak_bytes: Optional[int] = None
    steady_peak_bytes: Optional[int] = None


@dataclass(frozen=True)
class Prediction:
    """What the report beside a model predicts for the runtime."""

    #: The report's file.
    path: str
    bare: PredictedPeaks
    default: PredictedPeaks


@dataclass(frozen=True)
class ModelResult:
    """What one of the models took."""

    path: str
    #: Neither arena nor memory pattern.
    bare: Measurement
    #: Session options as they are by default.
    default: Measurement
    prediction: Optional[Prediction] = None

    def to_dict(self) -> Dict[str, Any]:
        return {"path": self.path, "bare": self.bare.to_dict(),
                "default": self.default.to_dict(),
                "prediction": None if self.prediction is None
                else dataclasses.asdict(self.prediction)}


@dataclass(frozen=True)
class Input:
    """A random input."""

    name: str
    #: As ONNX Runtime calls it: "tensor(float)".
    type: str
    shape: List[int]
    #: Axes whose size nothing gave: they are 1.
    assumed_axes: List[int]


@dataclass(frozen=True)
class Output:
    """An output that both models have with the same type and shape."""

    name: str
    type: str
    shape: List[int]
    #: Every bit is equal, those of NaNs too.
    bit_equal: bool
    #: Largest difference over the largest magnitude in BEFORE's output; inf
    #: where the one is NaN or infinite and the other is not the same.
    max_relative_error: float

    def to_dict(self) -> Dict[str, Any]:
        return {**dataclasses.asdict(self),
                "max_relative_error": _finite(self.max_relative_error)}


@dataclass(frozen=True)
class VerifyResult:
    """Both models next to each other."""

    before: ModelResult
    #: None if AFTER does not take the inputs of BEFORE: it was not run then.
    after: Optional[ModelResult]
    inputs: List[Input]
    #: Size of each named dimension of the inputs.
    dims: Dict[str, int]
    #: Those that were not given: they are 1.
    assumed_dims: List[str]
    #: The outputs that could be compared.
    outputs: List[Output]
    #: What differs in names, types and shapes of inputs and outputs.
    differences: List[str]
    #: Largest error that counts as equal.
    tolerance: float
    runtime_version: str
    level: str
    threads: int
    seed: int
    #: What one should know about the figures.
    notes: List[str] = field(default_factory=list)

    @property
    def max_relative_error(self) -> float:
        """The largest of all outputs; 0 if there are none to compare."""
        return max((o.max_relative_error for o in self.outputs), default=0.0)

    @property
    def bit_equal(self) -> bool:
        """The same outputs, every bit of them."""
        return not self.differences and all(o.bit_equal for o in self.outputs)

    @property
    def equal(self) -> bool:
        """The same outputs within the tolerance."""
        return (not self.differences and
                self.max_relative_error <= self.tolerance)

    def to_dict(self) -> Dict[str, Any]:
        """What --json writes; docs/verify.md describes it."""
        return {
            "schema_version": 1,
            "equal": self.equal,
            "bit_equal": self.bit_equal,
            "max_relative_error": _finite(self.max_relative_error),
            "tolerance": self.tolerance,
            "differences": self.differences,
            "outputs": [output.to_dict() for output in self.outputs],
            "inputs": [dataclasses.asdict(i) for i in self.inputs],
            "dims": {name: {"value": size,
                            "assumed": name in self.assumed_dims}
                     for name, size in self.dims.items()},
            "runtime_version": self.runtime_version,
            "level": self.level, "threads": self.threads, "seed": self.seed,
            "before": self.before.to_dict(),
            "after": None if self.after is None else self.after.to_dict(),
            "notes": self.notes,
        }


def verify(before: PathLike, after: PathLike, *,
           dims: Optional[Mapping[str, int]] = None, tolerance: float = 1e-5,
           threads: int = 1, runs: int = 3, level: str = "all", seed: int = 0,
           timeout_seconds: float = 600.0) -> VerifyResult:
    """Runs `before` and `after` on the same random inputs.

    dims: sizes of named dimensions of the inputs; others are 1.
    tolerance: largest error, relative to the largest magnitude of an output.
    threads: intra-op threads.
    runs: in each session; the last is the steady state.
    level: of ONNX Runtime's graph optimizations: all, extended, basic, none.
    timeout_seconds: for each of the four processes.

    Raises VerifyError where a model cannot be run, and UsageError where a
    request does not fit it. Models that differ are no error.
    """
    if (level not in LEVELS or threads < 1 or runs < 1 or
            not timeout_seconds > 0):
        raise ValueError("expected a level of " + ", ".join(LEVELS) +
                         ", and threads, runs and a timeout above 0")
    paths = [os.fspath(before), os.fspath(after)]
    for path in paths:
        if not os.path.isfile(path):
            raise VerifyError(path, "no such file")
    common: Dict[str, Any] = {
        "dims": dict(dims or {}), "threads": threads, "runs": runs,
        "level": level, "seed": seed, "inputs": None, "max_int": _MAX_INTS[0],
        "outputs_folder": None}
    with tempfile.TemporaryDirectory(prefix="onnx-memopt-verify-") as work:
        return _verify(paths[0], paths[1], common, tolerance, timeout_seconds,
                       Path(work))


def _verify(before: str, after: str, common: Dict[str, Any], tolerance: float,
            timeout: float, work: Path) -> VerifyResult:
    notes: List[str] = []
    first = _run_first(before, common, timeout, work / "before", notes)
    common["inputs"] = first["inputs"]
    inputs = [Input(i["name"], i["type"], i["shape"], i["assumed"])
              for i in first["inputs"]]
    sizes = {dim: size for i in first["inputs"]
             for dim, size in zip(i["declared"], i["shape"])
             if isinstance(dim, str)}
    bare = _run(before, "bare", common, timeout, work)
    before_result = ModelResult(before, _measurement(bare),
                                _measurement(first))

    after_result: Optional[ModelResult] = None
    outputs: List[Output] = []
    try:
        second = _run(after, "default", common, timeout, work, work / "after")
    except _Different as error:
        differences = [str(error)]
    else:
        bare = _run(after, "bare", common, timeout, work)
        prediction = read_prediction(after, sizes, notes)
        after_result = ModelResult(after, _measurement(bare),
                                   _measurement(second), prediction)
        outputs, differences = _compare_outputs(first["outputs"],
                                                second["outputs"])
    if before_result.default.first_peak_bytes is None:
        notes.append("this system has no /proc/self/clear_refs that works: "
                     "memory cannot be measured")
    return VerifyResult(
        before=before_result, after=after_result, inputs=inputs, dims=sizes,
        assumed_dims=[d for d in sizes if d not in common["dims"]],
        outputs=outputs, differences=differences, tolerance=tolerance,
        runtime_version=first["runtime_version"], level=common["level"],
        threads=common["threads"], seed=common["seed"], notes=notes)


# --- The processes ---


class _Different(Exception):
    """AFTER does not take the inputs of BEFORE."""


class _DoesNotRun(VerifyError):
    """A run that failed, of a model with integers as inputs."""


def _run_first(model: str, common: Dict[str, Any], timeout: float,
               outputs_folder: Path, notes: List[str]) -> Dict[str, Any]:
    """BEFORE with its outputs; finds how large integers may be."""
    error: Optional[VerifyError] = None
    for max_int in _MAX_INTS:
        common["max_int"] = max_int
        try:
            result = _run(model, "default", common, timeout,
                          outputs_folder.parent, outputs_folder)
        except _DoesNotRun as failure:
            # The first says most: of what is asked for, not of a fallback.
            error = error or failure
            continue
        if max_int != _MAX_INTS[0]:
            notes.append(f"integers are below {max_int}: with those below "
                         f"{_MAX_INTS[0]} the model does not run")
        return result
    assert error is not None
    raise error


def _run(model: str, options: str, common: Dict[str, Any], timeout: float,
         work: Path, outputs_folder: Optional[Path] = None) -> Dict[str, Any]:
    """Runs _measure.py, and makes an exception of whatever goes wrong."""
    if outputs_folder is not None:
        outputs_folder.mkdir(exist_ok=True)
    spec = {**common, "model": model, "options": options,
            "outputs_folder": None if outputs_folder is None
            else str(outputs_folder)}
    spec_path, result_path = work / "spec.json", work / "result.json"
    spec_path.write_text(json.dumps(spec), encoding="utf-8")
    if result_path.exists():
        result_path.unlink()
    try:
        done = subprocess.run(
            [sys.executable, str(_SCRIPT), str(spec_path), str(result_path)],
            env={**os.environ, **_MALLOC}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=timeout,
            check=False)
    except subprocess.TimeoutExpired:
        raise VerifyError(model, f"took longer than {timeout:g} s with "
                          f"{options} options") from None
    if done.returncode != 0:
        raise VerifyError(model, _how_it_ended(done.returncode, done.stderr))
    result: Dict[str, Any] = json.loads(result_path.read_text("utf-8"))
    if "error" in result:
        kind = result["kind"]
        if kind == "different":
            raise _Different(result["error"])
        raise {"usage": UsageError, "run": _DoesNotRun}.get(
            kind, VerifyError)(model, result["error"])
    return result


def _how_it_ended(code: int, stderr: bytes) -> str:
    if code == -signal.SIGKILL:
        return ("the process that ran it was killed, probably because the "
                "system ran out of memory")
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    last = ": " + lines[-1][:200] if lines else ""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"the process that ran it crashed with {name}{last}"
    return f"the process that ran it ended with exit code {code}{last}"


def _measurement(result: Dict[str, Any]) -> Measurement:
    return Measurement(result["session_bytes"], result["load_seconds"],
                       [Run(r["seconds"], r["peak_bytes"])
                        for r in result["runs"]])


# --- What they gave ---


def _finite(value: float) -> Optional[float]:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None


def _compare_outputs(
        before: List[Dict[str, Any]], after: List[Dict[str, Any]],
) -> Tuple[List[Output], List[str]]:
    outputs: List[Output] = []
    differences: List[str] = []
    theirs = {output["name"]: output for output in after}
    for mine in before:
        name = mine["name"]
        other = theirs.pop(name, None)
        if other is None:
            differences.append(f'output "{name}" is in the model before only')
            continue
        for what in ("type", "shape"):
            if mine[what] != other[what]:
                differences.append(f'output "{name}" was of {what} '
                                   f"{mine[what]} and is of {other[what]}")
                break
        else:
            bit_equal, error = _compare.compare_files(mine["file"],
                                                      other["file"])
            outputs.append(Output(name, mine["type"], mine["shape"], bit_equal,
                                  error))
    differences += [f'output "{name}" is in the model after only'
                    for name in theirs]
    if not differences and [o["name"] for o in before] != [
            o["name"] for o in after]:
        differences.append("the outputs are in another order")
    return outputs, differences


def read_prediction(model: str, dims: Mapping[str, int],
                    notes: List[str]) -> Optional[Prediction]:
    """From the report beside the model, if there is one that has it.

    A report for other sizes of `dims` predicts something else: a note says so.
    """
    stem = model
    for extension in (".onnx", ".onnxtxt"):
        if model.endswith(extension):
            stem = model[:-len(extension)]
            break
    path = stem + ".json"
    try:
        report = json.loads(Path(path).read_text("utf-8"))
        runtime = report["after"]["runtime"]
        is_ours = report["tool"]["name"] == "onnx-memopt"
        sizes = {name: dim["value"] for name, dim in report["dims"].items()}
        bare, default = (_predicted(runtime[key])
                         for key in ("bare", "default"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if not is_ours:
        return None
    other = [f"{name}={size}" for name, size in sizes.items()
             if name in dims and dims[name] != size]
    if other:
        notes.append(f"the prediction in {path} is for {', '.join(other)}")
        return None
    return Prediction(path, bare, default)


def _predicted(peaks: Mapping[str, Any]) -> PredictedPeaks:
    def size(key: str) -> Optional[int]:
        value = peaks.get(key)
        return value if isinstance(value, int) else None
    return PredictedPeaks(size("first_peak_bytes"), size("steady_peak_bytes"))
