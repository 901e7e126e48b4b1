"""onnx-memopt as a pass of Olive.

    python examples/python/olive_pass.py MODEL.onnx FOLDER
"""

from __future__ import annotations

import sys

from olive.hardware.accelerator import DEFAULT_CPU_ACCELERATOR
from olive.model import ONNXModelHandler
from olive.passes.olive_pass import create_pass_from_dict

from onnx_memopt.olive import OnnxMemOpt


def main(path: str, folder: str) -> None:
    memopt = create_pass_from_dict(
        OnnxMemOpt, {"max_slowdown": 0.05}, disable_search=True,
        accelerator_spec=DEFAULT_CPU_ACCELERATOR)
    model = memopt.run(ONNXModelHandler(model_path=path), folder)
    print("wrote", model.model_path)


if __name__ == "__main__":
    main(*sys.argv[1:])
