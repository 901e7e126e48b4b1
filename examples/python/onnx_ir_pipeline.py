"""onnx-memopt as one of several passes of onnx_ir.

    python examples/python/onnx_ir_pipeline.py MODEL.onnx OUT.onnx
"""

from __future__ import annotations

import sys

import onnx_ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnx_memopt.passes import MemOptPass


def main(path: str, out: str) -> None:
    memopt = MemOptPass()
    pipeline = onnx_ir.passes.Sequential(RemoveUnusedNodesPass(), memopt)
    model = pipeline(onnx_ir.load(path)).model
    print(memopt.report)
    onnx_ir.save(model, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
