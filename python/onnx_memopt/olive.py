"""onnx-memopt as a pass of Olive.

    {"passes": {"memopt": {"type": "OnnxMemOpt", "dims": {"batch": 8}}}}

with `"OnnxMemOpt": {"module_path": "onnx_memopt.olive.OnnxMemOpt"}` among the
passes of a package configuration (`olive run --package-config FILE`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Union

from olive.model import ONNXModelHandler
from olive.model.utils import resolve_onnx_path
from olive.passes import Pass
from olive.passes.pass_config import PassConfigParam

from onnx_memopt._api import optimize


class OnnxMemOpt(Pass):
    """Rewrites an ONNX model so that a run needs less memory."""

    @classmethod
    def _default_config(cls, accelerator_spec: Any) -> dict[str, Any]:
        del accelerator_spec  # the rewrite is the same for all of them
        return {
            "dims": PassConfigParam(
                type_=dict, default_value=None,
                description="Sizes of named dimensions to plan for."),
            "passes": PassConfigParam(
                type_=str, default_value="",
                description="A pipeline of onnx-memopt; empty: the default."),
            "max_slowdown": PassConfigParam(
                type_=float, default_value=None,
                description="By how much a run may take longer: 0.1 is 10 %."),
            "budget": PassConfigParam(
                type_=Union[int, str], default_value=None,
                description="Memory to keep to, in bytes or like \"2GiB\"."),
            "external_data": PassConfigParam(
                type_=str, default_value="auto",
                description="auto, reference, copy or all."),
        }

    def _run_for_config(self, model: Any, config: Any,
                        output_model_path: str) -> Any:
        source = Path(model.model_path)
        target = Path(resolve_onnx_path(output_model_path, source.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        _, report = optimize(
            source, output=target, dims=config.dims, passes=config.passes,
            max_slowdown=config.max_slowdown, budget=config.budget,
            external_data=config.external_data)
        if len(report.outputs) > 1:  # with a file of weights beside it
            return ONNXModelHandler(model_path=str(target.parent),
                                    onnx_file_name=target.name)
        return ONNXModelHandler(model_path=str(target))
