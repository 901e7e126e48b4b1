"""Reports that ask how much memory a model needs, and for what."""

import json
import re

import numpy as np
import pytest
from onnx import helper, numpy_helper

from memopt_program import (analyze, memopt, node, parse, save, shared_model,
                            tensor)

MIB = 1 << 20


def conv(name: str, source: str, channels: tuple[int, int],
         weights: list, stride: int = 1):
    """A 3x3 convolution node; its weight is added to the list."""
    weights.append(numpy_helper.from_array(
        np.zeros((channels[1], channels[0], 3, 3), np.float32), f"w_{name}"))
    return helper.make_node("Conv", [source, f"w_{name}"], [name],
                            name=f"conv_{name}", pads=[1, 1, 1, 1],
                            strides=[stride, stride])


def make(nodes, inputs, outputs, weights, folder) -> str:
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info(n, 1, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, 1, s) for n, s in outputs.items()],
        weights)
    return save(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10),
        folder)


def small_cnn(folder) -> str:
    weights = []
    return make([conv("a", "x", (3, 8), weights),
                 helper.make_node("Relu", ["a"], ["b"]),
                 conv("y", "b", (8, 4), weights, stride=2)],
                {"x": [1, 3, 32, 32]}, {"y": [1, 4, 16, 16]}, weights, folder)


def test_R29_weights_activations_and_total(tmp_path):
    """A CNN's memory before it is deployed: each part, what is not counted,
    and the sum, in the text and in JSON."""
    name = small_cnn(tmp_path)
    report = analyze(name, cwd=tmp_path)
    weights = (3 * 8 + 8 * 4) * 9 * 4
    inputs = 3 * 32 * 32 * 4
    peak = (8 * 32 * 32 + 4 * 16 * 16) * 4  # b, written over a, and y
    assert report["weights"]["bytes"] == weights
    assert report["inputs_bytes"] == inputs
    assert report["before"]["live_peak_bytes"] == peak
    packed = report["before"]["packed_peak_bytes"]
    assert packed >= peak
    assert report["before"]["total_bytes"] == weights + inputs + packed

    text = memopt(name, "--analyze", cwd=tmp_path).stdout
    for label in ("weights", "inputs", "activations, live at the peak",
                  "total: weights, inputs, packed"):
        assert re.search(rf"^  {label} +[\d.]+ \w+$", text, re.M), label
    assert "Workspace" in text


def test_R32_the_tensors_that_live_at_the_peak(tmp_path):
    """An attention map in a UNet: the largest tensors at the peak come first,
    each with its producer and its shape."""
    name = save(parse("""
    g (float[1, 1024, 32] x) => (float[1, 1024, 32] y) {
      [to_keys] k = Transpose<perm = [0, 2, 1]>(x)
      [scores] s = MatMul(x, k)
      [weights] p = Softmax<axis = -1>(s)
      [mix] m = MatMul(p, x)
      [skip] y = Add(m, x)
    }"""), tmp_path)
    report = analyze(name, cwd=tmp_path)
    first = report["at_peak"][0]
    assert first["producer"] == "scores"
    assert first["shape"] == "[1, 1024, 1024]"
    assert first["bytes"] == 4 * MIB
    sizes = [t["bytes"] for t in report["at_peak"]]
    assert sizes == sorted(sizes, reverse=True)
    text = memopt(name, "--analyze", "--top", 1, cwd=tmp_path).stdout
    assert re.search(r"4\.00 MiB .*float\[1, 1024, 1024\].*scores", text)
    assert "1 more" in text


def test_R36_what_a_named_node_allocates(tmp_path):
    """The failed allocation of a broadcasting Mul: its name leads to the
    size, the shape, and what else lives then."""
    model = parse("""
    g (float[64, 1, 16] a, float[1, 64, 16] b) => (float[64, 1, 16] y)
    <int64[1] axes = {1}> {
      ea = Exp(a)
      eb = Exp(b)
      product = Mul(ea, eb)
      sums = ReduceSum<keepdims = 1>(product, axes)
      y = Add(sums, ea)
    }""")
    for n, label in zip(model.graph.node, ["Exp_1", "Exp_2", "Mul_8702",
                                           "Sum_1", "Add_1"]):
        n.name = label
    report = analyze(save(model, tmp_path), cwd=tmp_path)
    row = node(report, "Mul_8702")
    assert row["output_bytes"] == 64 * 64 * 16 * 4
    made = [t for t in report["tensors"] if t["producer"] == "Mul_8702"]
    assert [t["shape"] for t in made] == ["[64, 64, 16]"]
    alive = {t["name"] for t in report["tensors"]
             if t["kind"] == "activation"
             and t["begin"] <= row["index"] < t["end"]}
    assert alive == {"ea", "eb", "product"}
    assert row["live_bytes"] == (64 * 64 * 16 + 2 * 64 * 16) * 4


def attention(folder) -> str:
    """Scores of 4 heads over a sequence of any length."""
    return save(parse("""
    g (float[batch, 4, seq, 16] q, float[batch, 4, seq, 16] k,
       float[batch, 4, seq, 16] v) => (float[batch, 4, seq, 16] y) {
      kt = Transpose<perm = [0, 1, 3, 2]>(k)
      s = MatMul(q, kt)
      p = Softmax<axis = -1>(s)
      y = MatMul(p, v)
    }"""), folder)


def test_R37_the_peak_is_quadratic_in_the_sequence(tmp_path):
    """One run over several lengths shows the growth, and the formula names
    the term."""
    name = attention(tmp_path)
    report = analyze(name, "--dim", "batch=1", "--dim", "seq=512,1024,4096",
                     cwd=tmp_path)
    peaks = {p["dims"]["seq"]: p["before"]["live_peak_bytes"]
             for p in report["sweep"]}
    assert set(peaks) == {512, 1024, 4096}
    for seq, peak in peaks.items():
        assert 16 * seq * seq <= peak <= 16 * seq * seq + 512 * seq
    assert any("seq^2" in f for f in report["before"]["live_peak_formulas"])


def test_R37_bert_at_4096_tokens():
    """The same of a real encoder, whose 12 heads have 12 maps."""
    path = shared_model("bert_dyn.onnx")
    report = analyze(path, "--dim", "batch=1", "--dim", "seq=512,4096",
                     cwd=path.parent)
    small, large = (p["before"]["live_peak_bytes"] for p in report["sweep"])
    assert large > 30 * small
    assert any("seq^2" in f for f in report["before"]["live_peak_formulas"])


def test_R38_unet_at_its_image_size(tmp_path):
    """A UNet of two levels at 1408 x 1040: the peak is what one counts by
    hand, and the skip tensors are the ones that live long."""
    h, w = 1040, 1408
    full, half, quarter = h * w * 4, h * w, h * w // 4  # bytes of a channel
    weights = [numpy_helper.from_array(
        np.array([1, 1, 2, 2], np.float32), "twice")]
    nodes = [
        conv("skip0", "x", (3, 8), weights),
        conv("skip1", "skip0", (8, 16), weights, stride=2),
        conv("deep", "skip1", (16, 32), weights, stride=2),
        helper.make_node("Resize", ["deep", "", "twice"], ["up1"]),
        helper.make_node("Concat", ["up1", "skip1"], ["cat1"], axis=1),
        conv("mid", "cat1", (48, 16), weights),
        helper.make_node("Resize", ["mid", "", "twice"], ["up0"]),
        helper.make_node("Concat", ["up0", "skip0"], ["cat0"], axis=1),
        conv("y", "cat0", (24, 2), weights)]
    name = make(nodes, {"x": [1, 3, h, w]}, {"y": [1, 2, h, w]}, weights,
                tmp_path)
    report = analyze(name, cwd=tmp_path)
    # Step by step: skip0, skip1, deep, up1, cat1, mid, up0, cat0, y.
    live = [8 * full,
            8 * full + 16 * half,
            8 * full + 16 * half + 32 * quarter,
            8 * full + 16 * half + 32 * quarter + 32 * half,
            8 * full + 16 * half + 32 * half + 48 * half,
            8 * full + 48 * half + 16 * half,
            8 * full + 16 * half + 16 * full,
            8 * full + 16 * full + 24 * full,
            24 * full + 2 * full]
    assert [n["live_bytes"] for n in report["nodes"]] == live
    assert report["before"]["live_peak_bytes"] == max(live)
    assert report["before"]["peak_op"] == "Concat"
    ranges = {t["name"]: t["end"] - t["begin"] for t in report["tensors"]
              if t["kind"] == "activation"}
    assert sorted(ranges, key=ranges.get)[-2:] == ["skip1", "skip0"]
    at_peak = {t["name"]: (t["begin"], t["end"]) for t in report["at_peak"]}
    assert at_peak["skip0"] == (0, 8)


def test_R39_several_image_sizes_in_one_run(tmp_path):
    """Smallest, usual and largest input beside each other; the main part is
    about the one that needs most."""
    weights = []
    name = make([conv("a", "x", (3, 8), weights),
                 conv("y", "a", (8, 3), weights)],
                {"x": [1, 3, "height", "width"]},
                {"y": [1, 3, "height", "width"]}, weights, tmp_path)
    report = analyze(name, "--dim", "height=64,480,1080", "--dim",
                     "width=64,640,1920", cwd=tmp_path)
    assert len(report["sweep"]) == 9
    for point in report["sweep"]:
        area = point["dims"]["height"] * point["dims"]["width"]
        assert point["before"]["live_peak_bytes"] == 11 * area * 4
    assert (report["before"]["live_peak_bytes"] == 11 * 1080 * 1920 * 4)
    text = memopt(name, "--analyze", "--dim", "height=64,1080", "--dim",
                  "width=64", cwd=tmp_path).stdout
    assert "height=64" in text and "height=1080" in text


def check_sums(report: dict) -> None:
    """Live bytes of each step are the sum over the storages that live then,
    each counted once; the peak is the largest of them."""
    storages: dict[int, list] = {}
    for row in report["tensors"]:
        if row["kind"] != "activation" or row.get("graph", 0) != 0:
            continue
        seen = storages.setdefault(
            row["storage"], [row["bytes"], row["begin"], row["end"]])
        seen[0] = max(seen[0], row["bytes"])
        seen[1] = min(seen[1], row["begin"])
        seen[2] = max(seen[2], row["end"])
    live = [0] * len(report["nodes"])
    for size, begin, end in storages.values():
        for step in range(begin, min(end, len(live))):
            live[step] += size
    assert live == [n["live_bytes"] for n in report["nodes"]]
    peak = report["after"] or report["before"]
    assert peak["live_peak_bytes"] == max(live)
    assert peak["peak_step"] == live.index(max(live))
    assert sum(t["bytes"] for t in report["at_peak"]) == max(live)


def test_R42_nothing_is_counted_twice(tmp_path):
    """Input and one convolution: its result is all that is allocated."""
    weights = []
    name = make([conv("y", "x", (3, 8), weights)], {"x": [1, 3, 16, 16]},
                {"y": [1, 8, 16, 16]}, weights, tmp_path)
    report = analyze(name, cwd=tmp_path)
    assert report["before"]["live_peak_bytes"] == 8 * 16 * 16 * 4
    check_sums(report)
    check_sums(analyze(small_cnn(tmp_path), cwd=tmp_path))


@pytest.mark.parametrize("model, dims", [
    ("resnet50", []), ("mobilenetv3", []), ("bert", []), ("unet_sd", []),
    ("gpt2_dyn", ["batch=2", "seq=64"]), ("srgan_dyn", []),
])
def test_R42_sums_of_real_networks(model, dims):
    """The same, tensor by tensor and step by step, on real networks."""
    path = shared_model(f"{model}.onnx")
    arguments = [a for d in dims for a in ("--dim", d)]
    check_sums(analyze(path, *arguments, cwd=path.parent))


def test_F05_symbolic_peak_of_bert():
    """The peak of an encoder is the largest of several polynomials, and at
    512 tokens within a tenth of what ONNX Runtime takes without reuse."""
    path = shared_model("bert_dyn.onnx")
    report = analyze(path, "--dim", "batch=1", "--dim", "seq=512",
                     cwd=path.parent)
    peak = report["before"]["live_peak_bytes"]
    assert abs(peak / (26.5 * MIB) - 1) < 0.1

    formulas = analyze(path, cwd=path.parent)["before"]["live_peak_formulas"]
    assert len(formulas) > 1
    assert any("seq^2" in f for f in formulas)

    def value(formula: str, **sizes: int) -> int:
        return eval(formula.replace("^", "**"), {}, sizes)  # ours, no input
    largest = max(value(f, batch=1, seq=512) for f in formulas)
    assert largest == peak
    for seq in (1, 16, 128):
        report = analyze(path, "--dim", "batch=3", "--dim", f"seq={seq}",
                         cwd=path.parent)
        largest = max(value(f, batch=3, seq=seq) for f in formulas)
        assert abs(largest - report["before"]["live_peak_bytes"]) < 64


def test_F10_formulas_do_not_widen_the_text(tmp_path):
    """Long symbolic sizes are shortened in the text and whole in JSON."""
    weights = []
    nodes, last, width = [], "x", 3
    for i in range(6):
        nodes += [helper.make_node("Pad", [last, "pads"], [f"p{i}"]),
                  helper.make_node("Concat", [f"p{i}", f"p{i}"], [f"c{i}"],
                                   axis=1)]
        last, width = f"c{i}", 2 * width
    weights.append(numpy_helper.from_array(
        np.array([0, 0, 1, 2, 0, 0, 3, 4], np.int64), "pads"))
    long = "a_dimension_with_quite_a_long_name"
    name = make(nodes, {"x": ["batch_of_images", 3, long + "_h", long + "_w"]},
                {last: ["n", "c", "h", "w"]}, weights, tmp_path)
    text = memopt(name, "--analyze", "-v", cwd=tmp_path).stdout
    assert max(map(len, text.split("\n"))) <= 80
    report = analyze(name, cwd=tmp_path)
    whole = report["before"]["live_peak_formulas"]
    assert whole and all(".." not in f for f in whole)
    assert any(len(f) > 80 for f in whole)
    assert tensor(report, last)["bytes_formula"].count(long) >= 2
    assert json.dumps(whole)
