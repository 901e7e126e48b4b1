"""onnx-memopt as a pass of onnx_ir, for pipelines.

    import onnx_ir
    from onnx_memopt.passes import MemOptPass
    pipeline = onnx_ir.passes.Sequential(MemOptPass(dims={"batch": 8}))
    model = pipeline(model).model

After torch.onnx.export, in one line:

    MemOptPass(dims={"batch": 8})(program.model)
"""

from __future__ import annotations

import logging

import onnx  # noqa: F401: what onnx_ir makes protos of
import onnx_ir

from onnx_memopt._api import Dims, PathLike, Progress, Shapes, optimize
from onnx_memopt._core import Report

logger = logging.getLogger(__name__)


class MemOptPass(onnx_ir.passes.InPlacePass):
    """Rewrites a model in place so that a run needs less memory.

    The options are those of `onnx_memopt.optimize`. After each call, `report`
    says what was done. External tensors are neither read nor moved.
    """

    def __init__(self, *, dims: Dims | None = None,
                 input_shapes: Shapes | None = None, passes: str = "",
                 max_slowdown: float | None = None,
                 budget: int | str | None = None, annotate: bool = False,
                 external_dir: PathLike | None = None,
                 progress: Progress | None = None) -> None:
        super().__init__()
        self._dims = dims
        self._input_shapes = input_shapes
        self._passes = passes
        self._max_slowdown = max_slowdown
        self._budget = budget
        self._annotate = annotate
        self._external_dir = external_dir
        self._progress = progress
        #: Of the last call.
        self.report: Report | None = None

    def call(self, model: onnx_ir.Model) -> onnx_ir.passes.PassResult:
        new, self.report = optimize(
            model, dims=self._dims, input_shapes=self._input_shapes,
            passes=self._passes, max_slowdown=self._max_slowdown,
            budget=self._budget, annotate=self._annotate,
            external_dir=self._external_dir, progress=self._progress)
        modified = self._annotate or any(run.changed
                                         for run in self.report.passes)
        if modified:
            model.graph = new.graph
            # A model whose functions were unfolded has fewer of them.
            model.functions.clear()
            model.functions.update(new.functions)
            model.metadata_props.clear()
            model.metadata_props.update(new.metadata_props)
        logger.info("%r", self.report)
        return onnx_ir.passes.PassResult(model, modified)
