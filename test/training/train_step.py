"""Makes training steps with the program, and runs them in ONNX Runtime.

    step = make_step(model, folder, "--optimizer", "sgd")
    outputs = run(step, {"x": x, "learning_rate": 0.1, ...})
"""

import pathlib
import sys

import numpy as np
import onnx
import onnx.shape_inference
import onnxruntime as ort
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from memopt_program import memopt  # noqa: E402

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64,
         "tensor(float16)": np.float16, "tensor(int64)": np.int64}


class TrainError(Exception):
    """The program did not make a step; the text says why."""


def make_step(model: pathlib.Path, folder: pathlib.Path, *options) -> pathlib.Path:
    step = folder / "step.onnx"
    result = memopt("train", model, "-o", step, "-q", *options, cwd=folder)
    if result.code != 0:
        assert result.code in (1, 2), result.stderr
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1, result.stderr
        raise TrainError(result.stderr.strip())
    return step


ALL = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
NONE = ort.GraphOptimizationLevel.ORT_DISABLE_ALL


def session(step, *, level=ALL):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    source = step if isinstance(step, bytes) else str(step)
    return ort.InferenceSession(source, options,
                                providers=["CPUExecutionProvider"])


def initializers(model: pathlib.Path) -> dict[str, np.ndarray]:
    graph = onnx.load(model).graph
    return {t.name: numpy_helper.to_array(t) for t in graph.initializer}


class Loop:
    """Runs a step again and again, feeding outputs back."""

    def __init__(self, step, weights: dict, fixed: dict, rate: float = 0.01,
                 level=ALL):
        self.session = session(step, level=level)
        self.state = {}
        for value in self.session.get_inputs():
            dtype = TYPES[value.type]
            if value.name in fixed:
                self.state[value.name] = np.asarray(fixed[value.name], dtype)
            elif value.name in weights:
                self.state[value.name] = weights[value.name]
            elif value.name == "learning_rate":
                self.state[value.name] = np.asarray(rate, dtype)
            else:
                self.state[value.name] = np.zeros(value.shape, dtype)

    def run(self) -> dict[str, np.ndarray]:
        names = [o.name for o in self.session.get_outputs()]
        outputs = dict(zip(names, self.session.run(None, self.state)))
        for name, value in outputs.items():
            base = name.removesuffix(".next")
            if base != name and base in self.state:
                self.state[base] = value
        return outputs


def resize_input(source: pathlib.Path, target: pathlib.Path, shape):
    """The same model for inputs of another shape."""
    model = onnx.load(source)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    for dim, size in zip(dims, shape):
        dim.dim_value = size
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    onnx.save(onnx.shape_inference.infer_shapes(model), target)
