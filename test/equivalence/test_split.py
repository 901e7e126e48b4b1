"""Regions that run part by part give the same outputs.

Forced: random regions of the operator cases and of the light networks, whether
they pay or not. Chosen: the default pipeline on the shared models.
"""

import concurrent.futures
import os
import random
import re

import numpy as np
import onnx
import pytest

import image_models
import runtime
import test_light_networks
import test_operator_cases
import test_shared_models
from programs import ProgramError, Programs

TITLE = "regions run in parts"
WINDOWS = "regions of images run in parts"
# Of the largest output. A matrix product of another size sums in another order.
TOLERANCE = 1e-5


FAIL_IN_SUBGRAPHS = {"Attention", "MeanVarianceNormalization"}
# The runtime infers a wrong extent for the Range in these, where a body reads
# its result.
MISREAD = re.compile("test_rms_normalization_.*_expanded")
# A Scan does not run over a dimension with a name that is 0 in the run.
EMPTY = re.compile("test_reduce_.*_empty_set.*")
# Of the other types, outputs must be equal bit by bit.
FLOATS = {"float": np.float32, "double": np.float64, "float16": np.float16}


def error_of(before: dict, after: dict) -> str:
    """What differs by more than the tolerance; empty: nothing."""
    for name, expected in before.items():
        actual = after[name]
        difference = runtime.difference(expected, actual)
        if not difference:
            continue
        if (not isinstance(expected, runtime.Tensor)
                or expected.dtype not in FLOATS
                or expected.shape != actual.shape):
            return f"{name}: {difference}"
        dtype = FLOATS[expected.dtype]
        a = np.frombuffer(expected.data, dtype).astype(np.float64)
        b = np.frombuffer(actual.data, dtype).astype(np.float64)
        largest = np.abs(a[np.isfinite(a)]).max(initial=0)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        worst = np.abs(a[~same] - b[~same]).max(initial=0)
        tolerance = max(TOLERANCE, 2 * np.finfo(dtype).eps)
        if not worst <= tolerance * largest:
            return f"{name}: off by {worst} of {largest}"
    return ""


def compare(model, rewritten, feeds, counts) -> list[str]:
    baked = {k: v for k, v in feeds.items()
             if isinstance(v, onnx.TensorProto)}
    fed = {k: v for k, v in feeds.items() if k not in baked}
    failures = []
    for title, level in (("none", runtime.NONE), ("all", runtime.ALL)):
        try:
            before = runtime.run(runtime.bake(model, baked), fed, level)
        except runtime.CannotRun:
            # Not every operator is in every release of the runtime.
            counts.add(f"cannot run (level {title})")
            continue
        after = runtime.run(runtime.bake(rewritten, baked), fed, level)
        counts.add(f"runs compared (level {title})")
        failures += filter(None, [error_of(before, after)])
    return failures


def force(name, model, data_sets, programs, folder, counts,
          *options) -> list[str]:
    source = folder / f"{name}.onnx"
    output = folder / f"{name}.out.onnx"
    source.write_bytes(model.SerializeToString())
    try:
        report = programs.optimize(source, output, "--passes=split{force=6}",
                                   *options)
    except ProgramError as problem:
        return [f"{name}: {problem}"]
    if not report["passes"][0]["changed"]:
        return []
    counts.add("models with a region")
    rewritten = onnx.load(output)
    # Inside a subgraph, onnx's inference of some functions fails.
    full = not any(n.op_type in FAIL_IN_SUBGRAPHS for n in model.graph.node)
    onnx.checker.check_model(rewritten, full_check=full)
    failures = []
    for feeds in data_sets:
        failures += compare(model, rewritten, feeds, counts)
    return [f"{name}: {line}" for line in failures]


@pytest.mark.parametrize("letter", test_operator_cases.LETTERS)
def test_forced_operator_cases(letter, bin_dir, tmp_path, tallies):
    programs = Programs(bin_dir)

    def check(case):
        return force(case.name, case.model,
                     [test_operator_cases.feeds(case, inputs)
                      for inputs, _ in case.data_sets],
                     programs, tmp_path, tallies[TITLE])

    cases = [case for case in test_operator_cases.cases()[letter]
             if not MISREAD.fullmatch(case.name)
             and not EMPTY.fullmatch(case.name)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        failures = [line for lines in pool.map(check, cases)
                    for line in lines]
    assert not failures, "\n".join(failures)


def without_softmax(model):
    """Weights of these networks are all the same number, so that what a last
    Softmax reads is in the billions, and its result a matter of the last bit."""
    graph = model.graph
    last = graph.node[-1]
    if last.op_type == "Softmax" and list(last.output) == [
            output.name for output in graph.output]:
        graph.output[0].name = last.input[0]
        graph.node.remove(last)
    return model


@pytest.mark.parametrize("name", test_light_networks.NAMES)
def test_forced_light_network(name, bin_dir, tmp_path, tallies):
    model = without_softmax(
        onnx.load(test_light_networks.FOLDER / f"light_{name}.onnx"))
    weights = {t.name for t in model.graph.initializer}
    rng = np.random.default_rng(0)
    feeds = {
        info.name: runtime.feed_value(
            rng.standard_normal(
                [d.dim_value for d in info.type.tensor_type.shape.dim],
                dtype=np.float32), onnx.TensorProto.FLOAT)
        for info in model.graph.input if info.name not in weights}
    failures = force(name, model, [feeds], Programs(bin_dir), tmp_path,
                     tallies[TITLE])
    assert not failures, "\n".join(failures)


# Of random networks over images, and of each so many sets of regions.
IMAGE_MODELS = 400 if os.environ.get("ONNX_MEMOPT_SLOW") == "1" else 40


def image_feeds(model, height, width) -> dict:
    values = np.random.default_rng(height * 1000 + width).standard_normal(
        (1, model.graph.input[0].type.tensor_type.shape.dim[1].dim_value,
         height, width), dtype=np.float32)
    return {"image": runtime.feed_value(values, onnx.TensorProto.FLOAT)}


@pytest.mark.parametrize("part", range(4))
def test_forced_windows(part, bin_dir, tmp_path, tallies):
    """Rows and columns, with halos, and parts that divide nothing."""
    programs = Programs(bin_dir)
    failures = []
    for seed in range(part, IMAGE_MODELS, 4):
        model, sizes = image_models.make(random.Random(seed))
        # Those with several sizes have names for them.
        dims = test_shared_models.dim_options(
            dict(zip(("height", "width"), sizes[0]))
            if len(sizes) > 1 else {})
        failures += force(f"image{seed}", model,
                          [image_feeds(model, *size) for size in sizes],
                          programs, tmp_path, tallies[WINDOWS], *dims)
    assert not failures, "\n".join(failures)


# Height and width at which a network is rewritten, and others for it.
SIZES = [(256, 192), (255, 193), (48, 47), (7, 400), (1, 1)]


@pytest.mark.parametrize("named", [False, True])
def test_chosen_windows(named, bin_dir, tmp_path):
    """A network of convolutions that is split along its image, by itself."""
    extents = ["height", "width"] if named else list(SIZES[1])
    model = onnx.parser.parse_model(f"""
        <ir_version: 9, opset_import: ["" : 18]>
        upscale (float[1, 8, {extents[0]}, {extents[1]}] image,
                 float[64, 8, 3, 3] first, float[64, 16, 3, 3] second,
                 float[3, 16, 5, 5] third, float[16, 1, 1] slope)
          => (float[1, 3, a, b] y)
        {{
          wide = Conv <pads = [1, 1, 1, 1]> (image, first)
          large = DepthToSpace <blocksize = 2> (wide)
          active = PRelu (large, slope)
          wider = Conv <pads = [1, 1, 1, 1]> (active, second)
          larger = DepthToSpace <blocksize = 2> (wider)
          narrow = Conv <pads = [2, 2, 2, 2]> (larger, third)
          y = Tanh (narrow)
        }}""")
    rng = np.random.default_rng(0)
    for info in list(model.graph.input)[1:]:
        shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
        model.graph.initializer.append(onnx.numpy_helper.from_array(
            rng.standard_normal(shape, dtype=np.float32) * 0.1, info.name))
    del model.graph.input[1:]
    onnx.save(model, tmp_path / "m.onnx")
    dims = ["--dim", "height=256", "--dim", "width=192"] if named else []
    # Halos of so small an image are a large share.
    report = Programs(bin_dir).optimize(tmp_path / "m.onnx",
                                        tmp_path / "out.onnx",
                                        "--max-slowdown=50", *dims)
    peaks = [report[k]["live_peak_bytes"] for k in ("before", "after")]
    assert peaks[1] < 0.5 * peaks[0]
    rewritten = onnx.load(tmp_path / "out.onnx")
    onnx.checker.check_model(rewritten, full_check=True)
    for height, width in SIZES if named else SIZES[1:2]:
        feeds = image_feeds(model, height, width)
        for level in (runtime.NONE, runtime.ALL):
            before = runtime.run(model, feeds, level)
            assert not error_of(before, runtime.run(rewritten, feeds, level))


CHOSEN = {
    "bert_dyn": {"batch": 3, "seq": 40},
    "resnet50_dyn": {"batch": 4},
    "vit_b16": {},
    "mobilenetv3": {},
}


@pytest.mark.parametrize("name", CHOSEN)
def test_chosen_regions(name, bin_dir, materialize, tallies):
    source = materialize(name)
    output = source.with_name("out.onnx")
    dims = CHOSEN[name]
    report = Programs(bin_dir).optimize(
        source, output, *test_shared_models.dim_options(dims))
    peaks = [report[k]["runtime"]["default"]["steady_peak_bytes"]
             for k in ("before", "after")]
    assert peaks[1] <= peaks[0]
    onnx.checker.check_model(str(output), full_check=True)
    model = onnx.load(source, load_external_data=False)
    # Other sizes than those that were planned for, too.
    for more in (0, 1):
        sizes = {name: size + more for name, size in dims.items()}
        feeds = test_shared_models.make_feeds(model, sizes)
        for level in (runtime.NONE, runtime.ALL):
            before = runtime.run(str(source), feeds, level)
            after = runtime.run(str(output), feeds, level)
            assert not error_of(before, after)
            tallies[TITLE].add("runs of shared models compared")


def test_that_regions_were_compared(tallies):
    if tallies[TITLE]["models with a region"] == 0:
        pytest.skip("no operator case was selected")
    assert tallies[TITLE]["models with a region"] >= 300
    assert tallies[TITLE]["runs compared (level all)"] >= 300


def test_that_windows_were_compared(tallies):
    if tallies[WINDOWS]["models with a region"] == 0:
        pytest.skip("no random network was selected")
    assert tallies[WINDOWS]["models with a region"] >= 0.6 * IMAGE_MODELS
    assert tallies[WINDOWS]["runs compared (level all)"] >= IMAGE_MODELS


@pytest.mark.parametrize("option", [
    "--dim=batch=16", "--dim=rows=1024", "--input-shape=x:16,128,64",
    "--input-shape=x:1,1024,64"])
def test_sizes_that_are_planned_for_are_not_written(option, bin_dir,
                                                    tmp_path):
    """The rewritten model takes any batch and rows, as the model did."""
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["" : 18]>
        mlp (float[batch, rows, 64] x, float[64, 1024] up,
             float[1024, 64] down) => (float[batch, rows, 64] y)
        {
          wide = MatMul (x, up)
          active = Relu (wide)
          y = MatMul (active, down)
        }""")
    onnx.save(model, tmp_path / "m.onnx")
    Programs(bin_dir).optimize(tmp_path / "m.onnx", tmp_path / "out.onnx",
                               option)
    rewritten = onnx.load(tmp_path / "out.onnx")
    rng = np.random.default_rng(0)
    for batch, rows in ((1, 1024), (3, 7), (16, 128)):
        feeds = {name: runtime.feed_value(
            rng.standard_normal(shape, dtype=np.float32),
            onnx.TensorProto.FLOAT)
            for name, shape in (("x", (batch, rows, 64)), ("up", (64, 1024)),
                                ("down", (1024, 64)))}
        before = runtime.run(model, feeds, runtime.ALL)
        assert not error_of(before, runtime.run(rewritten, feeds, runtime.ALL))
