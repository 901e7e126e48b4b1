"""The kinds of model that functions take, and how they come back.

Nothing here imports onnx, onnx_ir or torch: a model of one of their kinds can
only be given by who has imported them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

from onnx_memopt._errors import ModelError, OptionError


class Source:
    """A model as the library takes it: a path, or bytes and a folder."""

    def __init__(self, *, path: str = "", data: bytes | None = None,
                 folder: str = "",
                 back: Callable[[bytes], Any] | None = None) -> None:
        self.path = path
        #: Serialized, if it is in memory.
        self.data = data
        #: What its external data is relative to; empty: not known.
        self.folder = folder
        self._back = back

    def back(self, data: bytes) -> Any:
        """A model of the same kind from a serialized one."""
        assert self._back is not None
        return self._back(data)

    @contextmanager
    def as_file(self) -> Iterator[str]:
        """The path of a file with it, which is deleted again if need be."""
        if self.data is None:
            yield self.path
            return
        import tempfile
        with tempfile.TemporaryDirectory(prefix="onnx-memopt-") as folder:
            path = os.path.join(folder, "model.onnx")
            with open(path, "wb") as file:
                file.write(self.data)
            yield path


def source_of(model: Any, external_dir: Any = None) -> Source:
    """How the library takes `model`; a TypeError if it is none."""
    source = _source_of(model)
    if external_dir is not None:
        source.folder = os.fspath(external_dir)
    return source


def _source_of(model: Any) -> Source:
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if not isinstance(path, str):
            raise TypeError("a path is a str, not bytes: bytes are a "
                            "serialized model")
        if path == "-":
            raise OptionError("\"-\" is for the command line; give the bytes")
        return Source(path=path)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Source(data=bytes(model), back=lambda data: data)
    if _is_proto(model):
        return _from_proto(model)
    if is_ir_model(model):
        return _from_ir(model, lambda new: new)
    if _is_program(model):
        return _from_ir(model.model, lambda new: type(model)(
            new, model.exported_program))
    raise TypeError(
        "expected a path, bytes, onnx.ModelProto, onnx_ir.Model or "
        f"torch.onnx.ONNXProgram, not {type(model).__name__}")


def is_ir_model(model: Any) -> bool:
    """Whether it is an onnx_ir.Model."""
    onnx_ir = sys.modules.get("onnx_ir")
    return onnx_ir is not None and isinstance(model, onnx_ir.Model)


def _is_proto(model: Any) -> bool:
    descriptor = getattr(model, "DESCRIPTOR", None)
    return getattr(descriptor, "full_name", "") == "onnx.ModelProto"


def _is_program(model: Any) -> bool:
    return (hasattr(model, "exported_program")
            and is_ir_model(getattr(model, "model", None)))


def _from_proto(proto: Any) -> Source:
    return Source(data=_serialize(proto), back=type(proto).FromString)


def _serialize(proto: Any) -> bytes:
    try:
        data: bytes = proto.SerializeToString()
    except Exception as error:  # protobuf's own, and ValueError in some
        raise ModelError(
            f"the model does not serialize ({error}); one of 2 GiB or more "
            "has to be in a file with external data") from error
    return data


def _from_ir(model: Any, wrap: Callable[[Any], Any]) -> Source:
    """External tensors stay where they are: they are not read."""
    onnx_ir = sys.modules["onnx_ir"]
    folder = _folder_of(model, onnx_ir)

    def back(data: bytes) -> Any:
        onnx = sys.modules["onnx"]
        new = onnx_ir.from_proto(onnx.ModelProto.FromString(data))
        if folder:
            onnx_ir.external_data.set_base_dir(new.graph, folder)
        return wrap(new)

    return Source(data=_serialize(onnx_ir.to_proto(model)), folder=folder,
                  back=back)


def _folder_of(model: Any, onnx_ir: Any) -> str:
    """What the external tensors of an onnx_ir.Model are relative to."""
    folders = set()
    for graph in (model.graph, *model.graph.subgraphs()):
        for value in graph.initializers.values():
            if isinstance(value.const_value, onnx_ir.ExternalTensor):
                folders.add(os.fspath(value.const_value.base_dir) or ".")
    if len(folders) > 1:
        raise ModelError("the model has external data in several folders ("
                         + ", ".join(sorted(folders)) + "); save it first")
    return str(folders.pop()) if folders else ""
