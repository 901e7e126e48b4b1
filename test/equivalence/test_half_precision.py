"""half-precision on ONNX's operator cases, on structures, and on networks that
packages ship with their weights (silero-vad, rapidocr-onnxruntime): valid in
strict mode, with true types, loaded by ONNX Runtime, and close to the model in
float32.
"""

import concurrent.futures
import importlib.util
import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import runtime
import test_operator_cases
from checks import run_case
from programs import ProgramError, Programs, peak_bytes
from structure_models import MODELS

TITLE = "half precision"
# Far above rounding: a node that computes something else is further off.
TOLERANCE = 0.03
# Of float16: beyond it an output says nothing.
LARGE = 1000
# Steps, so that one number rounded to another side is as wrong as can be.
STEPS = {"Floor", "Ceil", "Round", "Cast", "ArgMax", "ArgMin", "TopK", "Sign",
         "QuantizeLinear", "DynamicQuantizeLinear", "Less", "Greater", "Mod",
         "LessOrEqual", "GreaterOrEqual", "Equal", "NonMaxSuppression",
         "HardSwish", "Hardmax", "Unique", "StringNormalizer", "Bernoulli",
         "RandomUniformLike", "RoiAlign", "ThresholdedRelu", "Shrink",
         "BitCast", "MaxPool", "Det"}


def stated_types(graph: onnx.GraphProto, types: dict[str, int]) -> None:
    for info in (*graph.value_info, *graph.input, *graph.output):
        if info.type.HasField("tensor_type"):
            types[info.name] = info.type.tensor_type.elem_type


def wrong_types(model: onnx.ModelProto) -> list[str]:
    """What value_info says and inference from the inputs does not."""
    stated: dict[str, int] = {}
    stated_types(model.graph, stated)
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.value_info[:]
    inferred: dict[str, int] = {}
    stated_types(onnx.shape_inference.infer_shapes(bare).graph, inferred)
    return [f"value_info of {name} says {stated[name]}, it is {kind}"
            for name, kind in inferred.items()
            if name in stated and kind and stated[name] != kind]


def error_of(before: runtime.Tensor, after: runtime.Tensor) -> float:
    """The largest difference, relative to the largest number."""
    a, b = (np.frombuffer(t.data, np.float32) for t in (before, after))
    if a.shape != b.shape:
        return np.inf
    usable = np.isfinite(a) & (np.abs(a) < LARGE)
    if not usable.any():
        return 0.0
    difference = np.abs(a[usable] - b[usable]).max()
    return float(difference / max(np.abs(a[usable]).max(), 1e-3))


def check_case(case, programs, folder, counts) -> list[str]:
    source = folder / f"{case.name}.onnx"
    output = folder / f"{case.name}.out.onnx"
    source.write_bytes(case.model.SerializeToString())
    try:
        report = programs.optimize(source, output, "--passes=half-precision")
    except ProgramError as problem:
        if "already" in str(problem):
            return []
        return [f"{case.name}: {problem}"]
    if not report["passes"][0]["changed"]:
        return []
    counts.add("operator cases converted")
    converted = onnx.load(output)
    failures = []
    try:
        onnx.checker.check_model(converted, full_check=True)
        failures += wrong_types(converted)
    except Exception as error:  # The checker and inference raise many types.
        try:
            onnx.checker.check_model(case.model, full_check=True)
            failures.append(f"no longer valid: {error}")
        except Exception:
            counts.add("cases that were not valid before")
    data = test_operator_cases.feeds(case, case.data_sets[0][0])
    try:
        before = run_case(case.model, data, runtime.NONE, 1)
    except runtime.CannotRun:
        return [f"{case.name}: {line}" for line in failures]
    try:
        after = run_case(converted, data, runtime.NONE, 1)
    except runtime.CannotRun as error:
        # Kernels for 16 bits that the CPU provider lacks.
        if "NOT_IMPLEMENTED" in str(error):
            counts.add("cases without a kernel")
            return [f"{case.name}: {line}" for line in failures]
        return [f"{case.name}: {line}" for line in (*failures, str(error))]
    counts.add("operator cases run")
    ops = {node.op_type for node in case.model.graph.node}
    for name, value in before.items():
        if not isinstance(value, runtime.Tensor):
            continue
        if value.dtype != after[name].dtype:
            failures.append(f"{name} is {after[name].dtype}")
        elif value.dtype == "float" and not ops & STEPS:
            counts.add("outputs compared")
            error = error_of(value, after[name])
            if not error <= TOLERANCE:
                failures.append(f"{name} is off by {error:.3g}")
    return [f"{case.name}: {line}" for line in failures]


def test_operator_cases_in_float16(bin_dir, tmp_path, tallies):
    programs = Programs(bin_dir)
    counts = tallies[TITLE]
    # Every third: the rest are variants.
    cases = [case for found in test_operator_cases.cases().values()
             for case in found][::3]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failures = [line for lines in pool.map(
            lambda case: check_case(case, programs, tmp_path, counts), cases)
            for line in lines]
    assert not failures, "\n".join(failures)
    assert counts["operator cases converted"] >= 150
    assert counts["outputs compared"] >= 60


@pytest.mark.parametrize("name", MODELS)
def test_structure_in_float16(name, bin_dir, tmp_path, tallies):
    """Subgraphs, functions, sequences: all have one type at both ends."""
    model = MODELS[name].build()
    source, output = tmp_path / "m.onnx", tmp_path / "out.onnx"
    source.write_bytes(model.SerializeToString())
    report = Programs(bin_dir).optimize(source, output,
                                        "--passes=half-precision")
    if not report["passes"][0]["changed"]:
        return
    converted = onnx.load(output)
    if MODELS[name].runs:
        # Inference takes a sparse weight for something else.
        onnx.checker.check_model(converted,
                                 full_check=name != "sparse_weight")
        feeds = {key: runtime.feed_value(value, TensorProto.UNDEFINED)
                 for key, value in MODELS[name].feeds.items()}
        before = run_case(model, feeds, runtime.NONE, 1)
        after = run_case(converted, feeds, runtime.NONE, 1)
        for key, value in before.items():
            if isinstance(value, runtime.Tensor) and value.dtype == "float":
                assert error_of(value, after[key]) <= TOLERANCE, key
                tallies[TITLE].add("outputs of structures compared")


def packaged(package: str, path: str) -> pathlib.Path:
    """A network that an installed package ships."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the package {package} is not installed")
    found = pathlib.Path(next(iter(spec.submodule_search_locations))) / path
    if not found.is_file():
        pytest.skip(f"this version of {package} has no {path}")
    return found


NETWORKS = {
    "PP-OCR detection": (
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx",
        {"x": (1, 3, 96, 128)}),
    "PP-OCR recognition": (
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx",
        {"x": (1, 3, 48, 160)}),
    "silero-vad without If": (
        "silero_vad", "data/silero_vad_op18_ifless.onnx",
        {"input": (1, 512), "state": (2, 1, 128), "sr": 16000}),
    "silero-vad": (
        "silero_vad", "data/silero_vad.onnx",
        {"input": (1, 512), "state": (2, 1, 128), "sr": 16000}),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_packaged_network(name, bin_dir, tmp_path, tallies):
    package, path, inputs = NETWORKS[name]
    source = packaged(package, path)
    output = tmp_path / "half.onnx"
    Programs(bin_dir).optimize(source, output, "--passes=half-precision")
    assert output.stat().st_size <= 0.6 * source.stat().st_size
    onnx.checker.check_model(str(output), full_check=True)
    assert not wrong_types(onnx.load(output))
    rng = np.random.default_rng(0)
    feeds = {key: runtime.feed_value(
        np.array(value, np.int64) if isinstance(value, int)
        else rng.uniform(-0.5, 0.5, value).astype(np.float32),
        TensorProto.UNDEFINED) for key, value in inputs.items()}
    for level in (runtime.NONE, runtime.ALL):
        before = runtime.run(str(source), feeds, level)
        after = runtime.run(str(output), feeds, level)
        for key, value in before.items():
            assert error_of(value, after[key]) <= 0.02, key
            tallies[TITLE].add("outputs of packaged networks compared")


def external_model(folder: pathlib.Path, layers: int, side: int,
                   weights=None) -> pathlib.Path:
    """A chain of products; weights of zeros that the disk does not store,
    where none are given."""
    (folder / "source").mkdir()
    path = folder / "source" / "chain.onnx"
    size = side * side * 4
    with open(path.with_name("chain.data"), "wb") as data:
        data.truncate(layers * size)
        for i, weight in enumerate(weights or []):
            data.seek(i * size)
            data.write(weight.tobytes())
    tensors, nodes = [], []
    for i in range(layers):
        tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT,
                             dims=[side, side],
                             data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "chain.data"), ("offset", i * size),
                           ("length", size)):
            tensor.external_data.add(key=key, value=str(value))
        tensors.append(tensor)
        nodes.append(onnx.helper.make_node(
            "MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"]))
    values = [onnx.helper.make_tensor_value_info(
        name, TensorProto.FLOAT, [1, side]) for name in ("h0", f"h{layers}")]
    graph = onnx.helper.make_graph(nodes, "chain", values[:1], values[1:],
                                   tensors)
    onnx.save(onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)],
        ir_version=10), path)
    return path


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_weights_are_rounded_to_nearest(kind, bin_dir, tmp_path):
    rng = np.random.default_rng(0)
    weights = [(rng.standard_normal((64, 64)) * 10.0 ** scale).astype(
        np.float32) for scale in (-3, 0, 2)]
    source = external_model(tmp_path, 3, 64, weights)
    output = tmp_path / "half.onnx"
    Programs(bin_dir).optimize(source, output,
                               f"--passes=half-precision{{type={kind}}}")
    assert (tmp_path / "half.onnx.data").stat().st_size == 3 * 64 * 64 * 2
    model = onnx.load(output)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(
        getattr(TensorProto, kind.upper()))
    for i, weight in enumerate(weights):
        stored = next(t for t in model.graph.initializer
                      if t.name == f"w{i}")
        expected = weight.astype(dtype)
        assert onnx.numpy_helper.to_array(stored).tobytes() == (
            expected.tobytes())


def test_weights_are_streamed(bin_dir, tmp_path):
    """16 weights of 64 MiB: the tool holds little more than one of them."""
    source = external_model(tmp_path, 16, 4096)
    output = tmp_path / "half.onnx"
    peak = peak_bytes(bin_dir / "onnx-memopt", source, "-o", output, "-q",
                      "--passes=half-precision")
    assert peak <= (64 + 200) * 2 ** 20
    size = (tmp_path / "half.onnx.data").stat().st_size
    assert size == 16 * 4096 * 4096 * 2


def test_missing_weights(bin_dir, tmp_path):
    source = external_model(tmp_path, 2, 8)
    source.with_name("chain.data").unlink()
    with pytest.raises(ProgramError, match="weight \"w0\" cannot be read"):
        Programs(bin_dir).optimize(source, tmp_path / "half.onnx",
                                   "--passes=half-precision")
