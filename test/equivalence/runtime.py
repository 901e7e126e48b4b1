"""Runs models in ONNX Runtime and compares what comes out, bit by bit.

Tensors of types that NumPy lacks (bfloat16, float8) are fed and read as raw
bytes. Those with several elements in a byte cannot be fed at all: `bake` makes
initializers of them.
"""

import ctypes
import dataclasses

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, numpy_helper

# Several elements in a byte.
PACKED_TYPES = {
    getattr(TensorProto, name)
    for name in ("INT4", "UINT4", "FLOAT4E2M1", "INT2", "UINT2")
    if hasattr(TensorProto, name)
}
NONE = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
ALL = ort.GraphOptimizationLevel.ORT_ENABLE_ALL


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A dense tensor as the runtime gave it."""

    dtype: str  # as ONNX Runtime names it: "float", "bfloat16"
    shape: tuple[int, ...]
    data: bytes

    def __repr__(self) -> str:
        return f"{self.dtype}{list(self.shape)} {self.data[:16].hex()}"


class CannotRun(Exception):
    """ONNX Runtime does not load or run the model."""


def feed_value(proto_or_array, element_type: int):
    """A value of a test case as `run` takes it."""
    value = proto_or_array
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    if not isinstance(value, np.ndarray) or value.dtype == object:
        return value
    if value.dtype.kind in "US":
        return value.astype(object)
    if element_type == TensorProto.UNDEFINED:
        return value
    if element_type == TensorProto.BOOL or value.dtype.isbuiltin == 1:
        return ort.OrtValue.ortvalue_from_numpy(np.asarray(value, order="C"))
    raw = np.uint16 if value.dtype.itemsize == 2 else np.uint8
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(
        np.asarray(value, order="C").view(raw), element_type)


def bake(model: onnx.ModelProto, inputs: dict) -> onnx.ModelProto:
    """`model` with these inputs as initializers."""
    if not inputs:
        return model
    baked = onnx.ModelProto()
    baked.CopyFrom(model)
    kept = [i for i in baked.graph.input if i.name not in inputs]
    del baked.graph.input[:]
    baked.graph.input.extend(kept)
    for name, tensor in inputs.items():
        initializer = baked.graph.initializer.add()
        initializer.CopyFrom(tensor)
        initializer.name = name
    return baked


def session(model, level, threads: int = 1) -> ort.InferenceSession:
    """A session for a ModelProto or a path; `threads` 0: the default."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    options.intra_op_num_threads = threads
    # Kernels without a seed of their own draw from this one.
    ort.set_seed(1)
    source = model
    if isinstance(model, onnx.ModelProto):
        source = model.SerializeToString()
    try:
        return ort.InferenceSession(source, options,
                                    providers=["CPUExecutionProvider"])
    except Exception as error:  # The binding has no common base class.
        raise CannotRun(f"load: {error}") from error


def run(model, feeds: dict, level, threads: int = 1) -> dict:
    """Outputs by name: Tensor, or lists and arrays for other kinds."""
    return run_session(session(model, level, threads), feeds)


def run_session(loaded: ort.InferenceSession, feeds: dict) -> dict:
    names = [output.name for output in loaded.get_outputs()]
    kinds = [output.type for output in loaded.get_outputs()]
    raw = (all(isinstance(v, ort.OrtValue) for v in feeds.values())
           and all(k.startswith("tensor(") and k != "tensor(string)"
                   for k in kinds))
    try:
        if raw:
            return dict(zip(names, map(
                raw_tensor, loaded.run_with_ort_values(None, feeds))))
        plain = {name: value.numpy() if isinstance(value, ort.OrtValue)
                 else value for name, value in feeds.items()}
        return dict(zip(names, map(_plain, loaded.run(None, plain))))
    except Exception as error:
        raise CannotRun(f"run: {error}") from error


def raw_tensor(value: ort.OrtValue) -> Tensor:
    """What a value that holds a dense tensor holds."""
    size = value.tensor_size_in_bytes()
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    return Tensor(value.data_type()[len("tensor("):-1], tuple(value.shape()),
                  data)


def _plain(value):
    if isinstance(value, np.ndarray) and value.dtype != object:
        element = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        name = TensorProto.DataType.Name(element).lower()
        return Tensor(name, value.shape, value.tobytes())
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value


def difference(before, after, shapes_only: bool = False) -> str:
    """Says how two values differ; empty if they do not."""
    if type(before) is not type(after):
        return f"{type(before).__name__} became {type(after).__name__}"
    if isinstance(before, Tensor):
        if (before.dtype, before.shape) != (after.dtype, after.shape):
            return f"{before} became {after}"
        if shapes_only or before.data == after.data:
            return ""
        a = np.frombuffer(before.data, np.uint8)
        b = np.frombuffer(after.data, np.uint8)
        where = np.flatnonzero(a != b)
        return (f"{before.dtype}{list(before.shape)}: {where.size} of "
                f"{a.size} bytes differ, the first at {where[0]}")
    if isinstance(before, list):
        if len(before) != len(after):
            return f"a list of {len(before)} became one of {len(after)}"
        found = (difference(a, b, shapes_only)
                 for a, b in zip(before, after))
        return next(filter(None, found), "")
    if isinstance(before, np.ndarray):
        same = before.shape == after.shape and (
            shapes_only or (before == after).all())
        return "" if same else f"strings {before} became {after}"
    if isinstance(before, dict):
        return "" if before == after else f"{before} became {after}"
    return "" if before == after else f"{before!r} became {after!r}"


def differences(before: dict, after: dict, shapes_only=()) -> list[str]:
    """One line for each output that differs."""
    if list(before) != list(after):
        return [f"outputs {list(before)} became {list(after)}"]
    lines = []
    for name, value in before.items():
        text = difference(value, after[name], name in shapes_only)
        if text:
            lines.append(f'output "{name}": {text}')
    return lines
