"""One line after torch.onnx.export.

    python examples/python/torch_export.py OUT.onnx
"""

from __future__ import annotations

import sys

import torch

import onnx_memopt


def main(out: str) -> None:
    network = torch.nn.Sequential(
        torch.nn.Linear(64, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 8))
    program = torch.onnx.export(network.eval(), (torch.randn(32, 64),),
                                dynamo=True)
    program, report = onnx_memopt.optimize(program)
    print(report)
    program.save(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
