"""Random models of one node, for dimension flow: windows, groups, reshapes.

    model, feeds = make("Conv", random.Random(1))
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

import runtime


@dataclasses.dataclass(frozen=True)
class Family:
    """`build` gives op type, operands, attributes; and opset, domain, number
    of results."""

    build: Callable
    count: int = 40


def make(family: str, rng) -> tuple[onnx.ModelProto, dict]:
    op, operands, attributes, *rest = FAMILIES[family].build(rng)
    opset = rest[0] if rest else 21
    domain = rest[1] if len(rest) > 1 else ""
    results = [f"y{i}" for i in range(rest[2] if len(rest) > 2 else 1)]
    names = ["" if x is None else f"x{i}" for i, x in enumerate(operands)]
    inputs = [helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in zip(names, operands) if name]
    node = helper.make_node(op, names, results, domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "g", inputs, [onnx.ValueInfoProto(name=y) for y in results])
    opsets = [helper.make_opsetid("", opset),
              helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    feeds = {name: runtime.feed_value(x, onnx.TensorProto.UNDEFINED)
             for name, x in zip(names, operands) if name}
    return model, feeds


def _floats(rng, *shape) -> np.ndarray:
    generator = np.random.default_rng(rng.randrange(1 << 30))
    return generator.standard_normal(shape).astype(np.float32)


def _windows(rng, n: int, kernel: list[int], transposed=False) -> dict:
    """Attributes of a convolution or a pool over n axes."""
    dilations = [rng.choice([1, 1, 2]) for _ in range(n)]
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
    attributes = {"strides": [rng.choice([1, 1, 2, 3]) for _ in range(n)],
                  "dilations": dilations}
    pad = rng.choice(["none", "explicit", "explicit", "auto"])
    if pad == "explicit":
        attributes["pads"] = [rng.randrange(r) for r in reach * 2]
    elif pad == "auto" and not transposed:
        attributes["auto_pad"] = rng.choice(
            ["SAME_UPPER", "SAME_LOWER", "VALID"])
        if attributes["auto_pad"] != "VALID":
            attributes["dilations"] = [1] * n
    return attributes


def _conv(rng):
    n = rng.choice([1, 2, 2])
    group = rng.choice([1, 1, 2, 4])
    inputs, outputs = group * rng.choice([1, 2]), group * rng.choice([1, 3])
    kernel = [rng.choice([1, 2, 3, 4, 5]) for _ in range(n)]
    size = [rng.randrange(9, 17) for _ in range(n)]
    operands = [_floats(rng, 2, inputs, *size),
                _floats(rng, outputs, inputs // group, *kernel)]
    if rng.random() < 0.5:
        operands.append(_floats(rng, outputs))
    return "Conv", operands, _windows(rng, n, kernel) | {"group": group}


def _conv_transpose(rng):
    n = rng.choice([1, 2])
    group = rng.choice([1, 1, 2])
    inputs, each = group * rng.choice([1, 2]), rng.choice([1, 3])
    kernel = [rng.choice([1, 2, 3, 4, 5]) for _ in range(n)]
    size = [rng.randrange(6, 11) for _ in range(n)]
    attributes = _windows(rng, n, kernel, transposed=True) | {"group": group}
    attributes["output_padding"] = [
        rng.randrange(max(s, d)) for s, d in
        zip(attributes["strides"], attributes["dilations"])]
    operands = [_floats(rng, 2, inputs, *size),
                _floats(rng, inputs, each, *kernel)]
    if rng.random() < 0.5:
        operands.append(_floats(rng, group * each))
    return "ConvTranspose", operands, attributes


def _pool(rng):
    op = rng.choice(["MaxPool", "AveragePool", "LpPool"])
    n = rng.choice([1, 2])
    kernel = [rng.choice([1, 2, 3, 4]) for _ in range(n)]
    attributes = _windows(rng, n, kernel) | {"kernel_shape": kernel}
    attributes["ceil_mode"] = rng.randrange(2)
    if op == "AveragePool":
        attributes["count_include_pad"] = rng.randrange(2)
    size = [rng.randrange(9, 17) for _ in range(n)]
    return op, [_floats(rng, 2, 3, *size)], attributes


def _resize(rng):
    scale = [rng.choice([1, 2, 3, 4]) for _ in range(2)]
    x = _floats(rng, 2, 3, rng.randrange(4, 8), rng.randrange(4, 8))
    mode = rng.choice(["nearest", "linear"])
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": rng.choice(
            ["half_pixel", "asymmetric", "pytorch_half_pixel",
             "half_pixel_symmetric"])}
    if mode == "nearest":
        attributes["nearest_mode"] = rng.choice(
            ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    scales, sizes = np.array([1, 1, *scale], np.float32), None
    if rng.random() < 0.5:
        sizes = np.array(x.shape) * np.array([1, 1, *scale])
        scales = None
    operands = [x, None, scales] if sizes is None else [x, None, None, sizes]
    return "Resize", operands, attributes


def _partition(rng, factors: list[int]) -> list[int]:
    """Extents whose product is that of `factors`, in their order."""
    extents = []
    for factor in factors:
        if extents and rng.random() < 0.5:
            extents[-1] *= factor
        else:
            extents.append(factor)
        if rng.random() < 0.2:
            extents.append(1)
    return extents


def _reshape(rng):
    factors = [rng.choice([2, 3, 4]) for _ in range(rng.randrange(2, 6))]
    shape, target = _partition(rng, factors), _partition(rng, factors)
    x = _floats(rng, *shape)
    for i in range(min(len(shape), len(target))):
        if shape[i] == target[i] and rng.random() < 0.5:
            target[i] = 0
    if rng.random() < 0.5:
        target[rng.randrange(len(target))] = -1
    return "Reshape", [x, np.array(target, np.int64)], {}


def _broadcast(rng, shape: list[int]) -> list[int]:
    """A shape that is broadcast to `shape`."""
    kept = shape[rng.randrange(len(shape)):]
    return [rng.choice([1, extent, extent]) for extent in kept]


def _elementwise(rng):
    shape = [rng.randrange(1, 6) for _ in range(rng.randrange(1, 5))]
    op = rng.choice(["Add", "Mul", "Sub", "Max", "PRelu"])
    return op, [_floats(rng, *shape),
                _floats(rng, *_broadcast(rng, shape))], {}


def _matmul(rng):
    m, k, n = (rng.randrange(2, 7) for _ in range(3))
    batch = [rng.randrange(1, 4) for _ in range(rng.randrange(3))]
    own = _broadcast(rng, batch) if batch else []
    a, b = [m, k], [k, n]
    if rng.random() < 0.5:
        a = [*batch, *a]
        b = [*own, *b]
    else:
        a = [*own, *a]
        b = [*batch, *b]
    return "MatMul", [_floats(rng, *a), _floats(rng, *b)], {}


def _gemm(rng):
    m, k, n = (rng.randrange(2, 7) for _ in range(3))
    trans_a, trans_b = rng.randrange(2), rng.randrange(2)
    operands = [_floats(rng, *((k, m) if trans_a else (m, k))),
                _floats(rng, *((n, k) if trans_b else (k, n)))]
    if rng.random() < 0.7:
        operands.append(_floats(rng, *rng.choice(
            [(), (1,), (n,), (1, n), (m, 1), (m, n)])))
    return "Gemm", operands, {"transA": trans_a, "transB": trans_b,
                              "alpha": 0.5, "beta": rng.choice([2.0, 0.0])}


def _depth_to_space(rng):
    block = rng.choice([2, 3])
    size = rng.randrange(2, 5)
    if rng.random() < 0.5:
        return ("DepthToSpace", [_floats(rng, 2, 3 * block**2, size, 4)],
                {"blocksize": block, "mode": rng.choice(["DCR", "CRD"])})
    return ("SpaceToDepth", [_floats(rng, 2, 3, size * block, 4 * block)],
            {"blocksize": block})


def _normalization(rng):
    op = rng.choice(["InstanceNormalization", "GroupNormalization",
                     "BatchNormalization", "LayerNormalization", "LRN"])
    x = _floats(rng, 2, 6, 4, 3)
    if op == "LRN":
        return op, [x], {"size": 3}
    if op == "LayerNormalization":
        axis = rng.choice([-1, -2, 2, 1])
        shape = x.shape[axis % 4:]
        return op, [x, _floats(rng, *shape), _floats(rng, *shape)], {
            "axis": axis}
    per_channel = [_floats(rng, 6) for _ in range(2)]
    if op == "BatchNormalization":
        return op, [x, *per_channel, _floats(rng, 6),
                    abs(_floats(rng, 6))], {}
    if op == "GroupNormalization":
        return op, [x, *per_channel], {"num_groups": rng.choice([2, 3, 6])}
    return op, [x, *per_channel], {}


def _recurrent(rng):
    op, gates = rng.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    directions = rng.choice([1, 2])
    batch, size, inputs = 5, 3, 2
    operands = [_floats(rng, 4, batch, inputs),
                _floats(rng, directions, gates * size, inputs),
                _floats(rng, directions, gates * size, size)]
    if rng.random() < 0.5:
        operands += [_floats(rng, directions, 2 * gates * size),
                     np.array([4, 2, 3, 1, 4], np.int32),
                     _floats(rng, directions, batch, size)]
    return op, operands, {
        "hidden_size": size,
        "direction": "bidirectional" if directions == 2 else "forward"}


def _slice(rng):
    x = _floats(rng, 5, 6, 7)
    starts, ends = zip(*(rng.choice([(0, 4), (0, 1 << 40), (1, 5), (0, -1),
                                     (-100, 100)]) for _ in range(2)))
    axes = rng.sample([0, 1, 2], 2)
    return "Slice", [x, *(np.array(list(v), np.int64)
                          for v in (starts, ends, axes))], {}


def _expand(rng):
    shape = [rng.randrange(2, 5) for _ in range(rng.randrange(1, 4))]
    own = _broadcast(rng, shape)
    target = list(shape)
    for i, extent in enumerate(reversed(own), 1):
        if extent == shape[-i] and rng.random() < 0.5:
            target[-i] = 1
    return "Expand", [_floats(rng, *own), np.array(target, np.int64)], {}


def _reduce(rng):
    op = rng.choice(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin",
                     "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                     "ReduceLogSumExp"])
    axes = rng.sample([0, -1, 2], rng.randrange(0, 3))
    operands = [_floats(rng, 3, 4, 5, 2)]
    if axes:
        operands.append(np.array(axes, np.int64))
    return op, operands, {"keepdims": rng.randrange(2),
                          "noop_with_empty_axes": rng.randrange(2)}


def _quantize(rng):
    x = _floats(rng, 4, 6, 8)
    kind = rng.choice(["tensor", "axis", "block"])
    axis = rng.randrange(3)
    shape = {"tensor": (), "axis": (x.shape[axis],),
             "block": tuple(-(-n // 2) if i == axis else n
                            for i, n in enumerate(x.shape))}[kind]
    attributes = {"axis": axis} | ({"block_size": 2} if kind == "block" else {})
    scale = abs(_floats(rng, *shape)) + np.float32(0.1)
    if rng.random() < 0.5:
        zero = np.full(shape, 100, np.uint8)
        return "QuantizeLinear", [x, np.asarray(scale), zero], attributes
    values = (_floats(rng, *x.shape) * 30).astype(np.int8)
    return "DequantizeLinear", [values, np.asarray(scale)], attributes


def _quantized_matmul(rng):
    m, k, n = 4, 5, 6
    a = (_floats(rng, m, k) * 20).astype(np.int8)
    b = (_floats(rng, k, n) * 20).astype(np.int8)
    zero_b = rng.choice([np.int8(3), np.arange(n).astype(np.int8)])
    if rng.random() < 0.5:
        return "MatMulInteger", [a, b, np.asarray(np.int8(2)),
                                 np.asarray(zero_b)], {}
    scale_b = np.full(zero_b.shape, 0.5, np.float32)
    return "QLinearMatMul", [
        a, np.asarray(np.float32(0.5)), np.asarray(np.int8(2)), b, scale_b,
        np.asarray(zero_b), np.asarray(np.float32(4)),
        np.asarray(np.int8(1))], {}


def _quantized_conv(rng):
    op, operands, attributes = _conv(rng)
    x, w = ((v * 20).astype(np.uint8) for v in operands[:2])
    if rng.random() < 0.5:
        return "ConvInteger", [x, w, np.asarray(np.uint8(7)),
                               np.asarray(np.uint8(9))], attributes
    one = np.asarray(np.float32(0.5))
    per_channel = np.full(w.shape[0], 0.25, np.float32)
    return "QLinearConv", [
        x, one, np.asarray(np.uint8(7)), w.astype(np.int8), per_channel,
        np.zeros(w.shape[0], np.int8), np.asarray(np.float32(32)),
        np.asarray(np.uint8(3))], attributes


def _fused(rng):
    """Ops of com.microsoft."""
    op = rng.choice(["FusedMatMul", "BiasGelu", "SkipLayerNormalization",
                     "MultiHeadAttention", "RotaryEmbedding", "QuickGelu",
                     "SkipSimplifiedLayerNormalization", "FastGelu"])
    x = _floats(rng, 3, 5, 8)
    attributes = {}
    operands = [x]
    if op == "FusedMatMul":
        attributes = {"transA": rng.randrange(2), "transB": rng.randrange(2),
                      "alpha": 0.5}
        a = (3, 5, 4) if attributes["transA"] else (3, 4, 5)
        b = (6, 5) if attributes["transB"] else (5, 6)
        operands = [_floats(rng, *a), _floats(rng, *b)]
    elif op in ("BiasGelu", "FastGelu"):
        operands.append(_floats(rng, 8))
    elif op == "SkipLayerNormalization":
        skip = rng.choice([(3, 5, 8), (1, 5, 8), (5, 8)])
        operands += [_floats(rng, *skip), _floats(rng, 8), _floats(rng, 8)]
    elif op == "SkipSimplifiedLayerNormalization":
        operands += [_floats(rng, 3, 5, 8), _floats(rng, 8)]
    elif op == "MultiHeadAttention":
        attributes = {"num_heads": 2}
        operands += [_floats(rng, 3, 6, 8), _floats(rng, 3, 6, 8),
                     _floats(rng, 24)]
    elif op == "RotaryEmbedding":
        positions = np.array([rng.sample(range(9), 5) for _ in range(3)])
        operands += [positions, _floats(rng, 9, 2), _floats(rng, 9, 2)]
        attributes = {"num_heads": 2}
    return op, operands, attributes, 21, "com.microsoft"


def _group_query_attention(rng):
    past = rng.choice([0, 4])
    rows = rng.choice([1, 3]) if past == 0 else 1
    size, heads, kv_heads, batch = 8, 4, 2, 3
    operands = [_floats(rng, batch, rows, heads * size),
                *(_floats(rng, batch, rows, kv_heads * size)
                  for _ in range(2))]
    operands += [_floats(rng, batch, kv_heads, past, size)
                 for _ in range(2)] if past else [None, None]
    known = [past + rows - 1 - (rng.randrange(past + 1) if past else 0)
             for _ in range(batch)]
    known[0] = past + rows - 1
    operands += [np.array(known, np.int32),
                 np.asarray(np.int32(past + rows))]
    return ("GroupQueryAttention", operands,
            {"num_heads": heads, "kv_num_heads": kv_heads}, 21,
            "com.microsoft", 3)


def _attention(rng):
    q_heads, kv_heads = rng.choice([(4, 4), (4, 2)])
    rows, columns, size = 5, 6, 4
    if rng.random() < 0.5:
        shapes = [(3, q_heads, rows, size)] + [(3, kv_heads, columns, size)] * 2
        attributes = {}
    else:
        shapes = [(3, rows, q_heads * size)] + [
            (3, columns, kv_heads * size)] * 2
        attributes = {"q_num_heads": q_heads, "kv_num_heads": kv_heads}
    operands = [_floats(rng, *shape) for shape in shapes]
    if rng.random() < 0.6:
        operands.append(_floats(rng, *rng.choice(
            [(rows, columns), (1, 1, rows, columns), (3, 1, rows, columns),
             (3, q_heads, rows, columns)])))
    attributes["is_causal"] = rng.choice([0, 0, 1])
    return "Attention", operands, attributes, 23


def _einsum(rng):
    equation, *shapes = rng.choice([
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
        ("ij,kj->ki", (3, 4), (5, 4)),
        ("abc->ca", (2, 3, 4)),
        ("i,j->ij", (3,), (4,))])
    return "Einsum", [_floats(rng, *s) for s in shapes], {"equation": equation}


def _index(rng):
    op = rng.choice(["Gather", "GatherElements", "GatherND", "ScatterElements",
                     "ScatterND", "OneHot", "TopK", "CumSum", "Tile", "Pad"])
    x = _floats(rng, 4, 5, 6)
    axis = rng.randrange(-3, 3)
    pick = np.random.default_rng(rng.randrange(1 << 30)).integers
    if op == "Gather":
        return op, [x, pick(0, 4, (2, 3))], {"axis": axis}
    if op == "GatherElements":
        shape = list(x.shape)
        shape[axis] = 3
        return op, [x, pick(0, 4, shape)], {"axis": axis}
    if op == "ScatterElements":
        shape = list(x.shape)
        shape[axis] = 2
        indices = np.argsort(_floats(rng, *x.shape), axis=axis)
        indices = np.take(indices, range(2), axis)
        return op, [x, indices, _floats(rng, *shape)], {"axis": axis}
    if op == "GatherND":
        batch = rng.randrange(2)
        shape = (4, 3, 1) if batch else (2, 3, 2)
        return op, [x, pick(0, 4, shape)], {"batch_dims": batch}
    if op == "ScatterND":
        return op, [x, np.array([[0, 1], [3, 2]]), _floats(rng, 2, 6)], {}
    if op == "OneHot":
        return op, [pick(0, 5, (3, 4)), np.asarray(np.int64(5)),
                    np.array([0, 1], np.float32)], {"axis": axis}
    if op == "TopK":
        return op, [x, np.array([2])], {"axis": axis}
    if op == "CumSum":
        return op, [x, np.asarray(np.int64(axis))], {}
    if op == "Tile":
        return op, [x[:, :1], np.array([1, 3, 2])], {}
    pads = np.array([rng.choice([0, 0, 2]) for _ in range(6)])
    return op, [x, pads], {"mode": rng.choice(["constant", "edge", "reflect"])}


FAMILIES = {
    "Attention": Family(_attention),
    "Conv": Family(_conv, 150),
    "ConvTranspose": Family(_conv_transpose, 100),
    "DepthToSpace": Family(_depth_to_space, 20),
    "Einsum": Family(_einsum, 10),
    "Elementwise": Family(_elementwise),
    "Expand": Family(_expand),
    "Fused": Family(_fused, 60),
    "Gemm": Family(_gemm),
    "GroupQueryAttention": Family(_group_query_attention, 10),
    "Index": Family(_index, 80),
    "MatMul": Family(_matmul),
    "Normalization": Family(_normalization),
    "Pool": Family(_pool, 150),
    "QuantizedConv": Family(_quantized_conv),
    "QuantizedMatMul": Family(_quantized_matmul, 20),
    "Quantize": Family(_quantize, 60),
    "Recurrent": Family(_recurrent, 30),
    "Reduce": Family(_reduce, 60),
    "Reshape": Family(_reshape, 150),
    "Resize": Family(_resize, 100),
    "Slice": Family(_slice),
}
