"""onnx-memopt: makes ONNX models fit into memory.

    import onnx_memopt
    report = onnx_memopt.analyze("model.onnx", dims={"batch": 8})
    model, report = onnx_memopt.optimize(model, dims={"batch": 8})
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), onnx_memopt.session_options(report))

A model is a path, bytes, an onnx.ModelProto, an onnx_ir.Model or torch's
ONNXProgram, and comes back as the same. Importing the package loads neither
onnx, onnxruntime nor torch.
"""

from __future__ import annotations

# Importing typing would take most of this package's time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from onnx_memopt._api import (EstimateReport, analyze, estimate, optimize,
                                  session_options, train_step, verify)
    from onnx_memopt._core import Report, TrainReport
    from onnx_memopt._errors import (BudgetError, Error, ModelError,
                                     OptionError)
    from onnx_memopt._malloc import give_back_freed_memory
    from onnx_memopt._verify import UsageError, VerifyError, VerifyResult

__version__ = "0.1.0"

__all__ = [
    "BudgetError", "Error", "EstimateReport", "ModelError", "OptionError",
    "Report", "TrainReport", "UsageError", "VerifyError", "VerifyResult",
    "__version__", "analyze", "estimate", "give_back_freed_memory", "optimize",
    "session_options", "train_step", "verify",
]

# Loaded when first asked for: the program onnx-memopt-verify needs no library.
_MODULES = {
    "_api": ("EstimateReport", "analyze", "estimate", "optimize",
             "session_options", "train_step", "verify"),
    "_core": ("Report", "TrainReport"),
    "_errors": ("BudgetError", "Error", "ModelError", "OptionError"),
    "_malloc": ("give_back_freed_memory",),
    "_verify": ("UsageError", "VerifyError", "VerifyResult"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            from importlib import import_module
            found = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
