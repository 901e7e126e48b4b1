"""onnx-memopt: makes ONNX models fit into memory.

Importing the package loads neither onnx nor onnxruntime.

    from onnx_memopt.verify import verify
    result = verify("model.onnx", "model.memopt.onnx", dims={"batch": 8})
"""

__version__ = "0.1.0"
