"""What ONNX Runtime holds after loading one weight in several forms: the table
in docs/passes.md, share-initializers.

    python bench/weight_forms.py

Each model gathers rows of an embedding and multiplies them with a matrix of the
same size, in a process of its own.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS, COLUMNS = 4000, 1024


def resident_mib() -> float:
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


def load(path: str) -> None:
    import onnxruntime
    before = resident_mib()
    session = onnxruntime.InferenceSession(
        path, providers=["CPUExecutionProvider"])
    print(f"{resident_mib() - before:.1f}")
    del session


def models():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    node = helper.make_node
    gather = node("Gather", ["table", "ids"], ["x"])
    product = node("MatMul", ["x", "w"], ["y"])
    yield "two weights", [gather, product], {"table": table,
                                             "w": table.T.copy()}
    yield "one, a Gemm with transB", [
        gather, node("Gemm", ["x", "table"], ["y"], transB=1)], {
            "table": table}
    yield "one and a Transpose", [
        node("Transpose", ["table"], ["w"], perm=[1, 0]), gather, product], {
            "table": table}
    fill = numpy_helper.from_array(np.array([0.5], np.float32))
    yield "one weight as ConstantOfShape", [
        node("ConstantOfShape", ["shape"], ["w"], value=fill), gather,
        product], {"table": table,
                   "shape": np.array([COLUMNS, ROWS], np.int64)}
    yield "one in float16 and a Cast", [
        node("Cast", ["half"], ["w"], to=TensorProto.FLOAT), gather,
        product], {"table": table, "half": table.T.astype(np.float16)}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, nodes, weights in models():
            graph = helper.make_graph(
                nodes, "forms",
                [helper.make_tensor_value_info("ids", TensorProto.INT64, [8])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT,
                                               [8, ROWS])],
                [numpy_helper.from_array(value, key)
                 for key, value in weights.items()])
            path = pathlib.Path(folder) / "model.onnx"
            onnx.save(helper.make_model(
                graph, opset_imports=[helper.make_opsetid("", 18)],
                ir_version=10), path)
            done = subprocess.run([sys.executable, __file__, path], check=True,
                                  capture_output=True, text=True)
            size = os.path.getsize(path) / 2**20
            print(f"| {name:30} | {size:5.1f} | {done.stdout.strip():>5} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        load(sys.argv[1])
    else:
        main()
