"""Rewrites a model file and runs it with the session options that suit it.

    python examples/python/optimize_file.py MODEL.onnx [NAME=SIZE...]
"""

from __future__ import annotations

import sys

import onnx_memopt


def main(path: str, *sizes: str) -> None:
    dims = {name: int(size) for name, _, size in
            (text.rpartition("=") for text in sizes)}
    new, report = onnx_memopt.optimize(path, dims=dims)
    print(report)
    print("wrote", new)
    best = report.recommended_session
    try:
        import onnxruntime
    except ImportError:
        print("session options:", onnx_memopt.session_options(report))
        return
    session = onnxruntime.InferenceSession(
        new, onnx_memopt.session_options(report),
        disabled_optimizers=best.disabled_optimizers if best else [])
    print("inputs:", [value.name for value in session.get_inputs()])


if __name__ == "__main__":
    main(*sys.argv[1:])
