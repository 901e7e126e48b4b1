"""Runs one node part by part, in the ways that the tool lists.

    ways = parse_flow(text)["n0"]          # of --print=flow
    runner = NodeRunner(node, opsets, inputs)
    failure = runner.check(ways[0], parts=2)

What the fields mean is stated in include/onnx_memopt/ir/dimension_flow.h.
"""

import dataclasses
import re

import numpy as np
import onnx

import runtime

# These compute each element from one element of each operand without rounding
# twice, or only move elements: the parts must be equal bit by bit. Kernels of
# other elementwise ops round the last elements of a vector in another way.
EXACT = set(
    "Abs Add And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast "
    "CastLike Ceil Clip Concat DepthToSpace DequantizeLinear Div Dropout Equal "
    "Expand Flatten Floor Gather GatherElements GatherND Greater "
    "GreaterOrEqual HardSigmoid Identity IsInf IsNaN LeakyRelu Less "
    "LessOrEqual Max Min Mul Neg Not OneHot Or Pad PRelu QuantizeLinear "
    "Reciprocal Relu Reshape ReverseSequence Round ScatterElements ScatterND "
    "Sign Slice SpaceToDepth Split Sqrt Squeeze Sub ThresholdedRelu Tile TopK "
    "Transpose Trilu Unsqueeze Where Xor ArgMax ArgMin MaxPool GlobalMaxPool "
    "ReduceMax ReduceMin Hardmax".split())
RELATIVE_ERROR = 1e-6
# Some kernels add up thousands of elements one after the other.
SUM_RELATIVE_ERROR = 1e-5


@dataclasses.dataclass(frozen=True)
class Flow:
    """How one operand takes part; None for a whole one."""

    axis: int
    num: int
    den: int
    before: int = 0
    after: int = 0


@dataclasses.dataclass(frozen=True)
class Way:
    """A line of --print=flow whose dims are numbers."""

    results: tuple[int | None, ...]
    extent: int
    operands: tuple[Flow | None, ...]
    grain: int = 1
    combine: str = "none"
    edits: tuple[tuple[int, int], ...] = ()
    attributes: tuple[tuple[str, int | None, int, int], ...] = ()
    pads: tuple[int, ...] = ()
    windowed: bool = False


class Symbolic(Exception):
    """A field is not a number: the way cannot be run as it is."""


def _number(text: str) -> int:
    if not re.fullmatch(r"-?\d+", text):
        raise Symbolic(text)
    return int(text)


def _flow(text: str) -> Flow | None:
    if text == "whole":
        return None
    axis, ratio, *halo = text.split(":")
    num, den = ratio.split("/")
    return Flow(_number(axis), _number(num), _number(den), *map(_number, halo))


def parse_way(text: str) -> Way:
    """Raises Symbolic where a dim has a name."""
    fields = {"edits": [], "attributes": []}
    for field in text.split():
        key, _, value = field.partition("=")
        if key == "results":
            fields[key] = tuple(None if axis == "-" else int(axis)
                                for axis in value.split(","))
        elif key in ("extent", "grain"):
            fields[key] = _number(value)
        elif key == "operands":
            fields[key] = tuple(map(_flow, value.split(",")))
        elif key == "combine":
            fields[key] = value
        elif key == "edit":
            operand, element = re.fullmatch(r"(\d+)\[(\d+)\]", value).groups()
            fields["edits"].append((int(operand), int(element)))
        elif key == "attribute":
            name, element, num, den = re.fullmatch(
                r"(\w+)(?:\[(\d+)\])?:(\d+)/(\d+)", value).groups()
            fields["attributes"].append(
                (name, None if element is None else int(element), int(num),
                 int(den)))
        elif key == "pads":
            fields[key] = tuple(map(int, value.split(",")))
        elif key == "windowed":
            fields[key] = True
        else:
            raise ValueError(f"unknown field {field}")
    fields["edits"] = tuple(fields["edits"])
    fields["attributes"] = tuple(fields["attributes"])
    return Way(**fields)


def parse_flow(text: str) -> dict[str, list[str]]:
    """The ways of each node, by its name; none for an opaque one."""
    nodes = {}
    for line in text.splitlines():
        match = re.fullmatch(r"(.*): (?:opaque|way \d+ (.*))", line)
        ways = nodes.setdefault(match.group(1), [])
        if match.group(2):
            ways.append(match.group(2))
    return nodes


def borders(way: Way, parts: int) -> list[tuple[int, int]]:
    """[lo, hi) of each part; uneven where it must be and may be."""
    units = -(-way.extent // way.grain)
    parts = min(parts, units)
    if way.attributes:
        # The parts share a body, so they must be equal.
        while units % parts != 0:
            parts += 1
    cuts = [min(i * units // parts * way.grain, way.extent)
            for i in range(parts + 1)]
    return list(zip(cuts, cuts[1:]))


def to_array(value) -> np.ndarray | None:
    """What runtime.run gave, as an array; None if several elements share a
    byte."""
    if isinstance(value, runtime.Tensor):
        element = onnx.TensorProto.DataType.Value(value.dtype.upper())
        if element in runtime.PACKED_TYPES:
            return None
        dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
        return np.frombuffer(value.data, dtype).reshape(value.shape)
    return np.asarray(value)


class NodeRunner:
    """A node with its inputs, run whole and in parts by ONNX Runtime."""

    def __init__(self, node: onnx.NodeProto, opsets, inputs: dict):
        """`inputs`: arrays by name; raises CannotRun if the node does not run
        on them."""
        # An array that is two operands may be split in two ways.
        self._node = onnx.NodeProto()
        self._node.CopyFrom(node)
        self._inputs = {}
        for i, name in enumerate(node.input):
            if name:
                self._node.input[i] = f"operand{i}"
                self._inputs[f"operand{i}"] = inputs[name]
        self._opsets = opsets
        self._sessions = {}
        self._whole = self._run(self._node, self._inputs)
        if any(result is None for result in self._whole):
            raise runtime.CannotRun("several elements share a byte")

    def check(self, way: Way, parts: int) -> str:
        """Runs the parts and joins them; says what is wrong, or nothing."""
        partial = []
        for lo, hi in borders(way, parts):
            try:
                partial.append(self._run_part(way, lo, hi))
            except runtime.CannotRun as error:
                return f"part [{lo}, {hi}): {error}"
        for i, name in enumerate(filter(None, self._node.output)):
            position = list(self._node.output).index(name)
            axis = way.results[position]
            results = [part[i] for part in partial]
            if way.combine != "none":
                joined = self._combine(way, parts, results)
            elif axis is None:
                return f"result {name} is neither split nor combined"
            else:
                for (lo, hi), part in zip(borders(way, parts), results):
                    if part.shape[axis] != hi - lo:
                        return (f"part [{lo}, {hi}) of {name} has shape "
                                f"{part.shape}")
                joined = np.concatenate(results, axis)
            line = self._difference(
                self._whole[i], joined,
                results if way.combine != "none" else ())
            if line:
                return f"{name}: {line}"
        return ""

    def _run_part(self, way: Way, lo: int, hi: int) -> list[np.ndarray]:
        inputs = dict(self._inputs)
        skipped, extent = 0, hi - lo
        for name, flow in zip(self._node.input, way.operands):
            if flow is None:
                continue
            array = self._inputs[name]
            before = flow.before
            if way.windowed:
                before = -(-before // flow.num) * flow.num
            size = array.shape[flow.axis]
            begin = np.clip(lo * flow.num // flow.den - before, 0, size)
            end = np.clip(-(-hi * flow.num // flow.den) + flow.after, 0, size)
            inputs[name] = np.take(array, range(begin, end), flow.axis)
            if way.windowed:
                skipped = lo - begin * flow.den // flow.num
                extent = (end - begin) * flow.den // flow.num
        for operand, element in way.edits:
            name = self._node.input[operand]
            edited = inputs[name].copy()
            edited[element] = extent
            inputs[name] = edited
        results = self._run(self._edited(way, hi - lo), inputs)
        if not way.windowed:
            return results
        axis = way.results[0]
        return [np.take(result, range(skipped, skipped + hi - lo), axis)
                for result in results]

    def _edited(self, way: Way, extent: int) -> onnx.NodeProto:
        if not way.attributes and not way.pads:
            return self._node
        node = onnx.NodeProto()
        node.CopyFrom(self._node)
        for name, element, num, den in way.attributes:
            assert extent * num % den == 0, "parts in multiples of the grain"
            attribute, = (a for a in node.attribute if a.name == name)
            if element is None:
                attribute.i = extent * num // den
            else:
                attribute.ints[element] = extent * num // den
        if way.pads:
            kept = [a for a in node.attribute
                    if a.name not in ("auto_pad", "pads")]
            del node.attribute[:]
            node.attribute.extend(kept)
            node.attribute.append(
                onnx.helper.make_attribute("pads", list(way.pads)))
        return node

    def _combine(self, way: Way, parts: int, results) -> np.ndarray:
        stacked = np.stack(results)
        if way.combine == "mean":
            weights = [hi - lo for lo, hi in borders(way, parts)]
            return np.average(stacked.astype(np.float64), axis=0,
                              weights=weights).astype(stacked.dtype)
        operation = {"sum": np.add, "prod": np.multiply, "max": np.maximum,
                     "min": np.minimum}[way.combine]
        return operation.reduce(stacked, axis=0, dtype=stacked.dtype)

    def _difference(self, whole, joined, terms=()) -> str:
        """`terms`: what was summed up, to which rounding is relative."""
        if (whole.dtype, whole.shape) != (joined.dtype, joined.shape):
            return (f"{whole.dtype}{whole.shape} became "
                    f"{joined.dtype}{joined.shape}")
        if whole.size == 0 or whole.dtype == object:
            return "" if np.array_equal(whole, joined) else "not equal"
        exact = not terms and self._node.op_type in EXACT
        if exact or whole.dtype.kind in "biuUS":
            same = whole.tobytes() == joined.tobytes()
            return "" if same else "not the same bits"
        precise = np.complex128 if whole.dtype.kind == "c" else np.float64
        a, b, *terms = (x.astype(precise) for x in (whole, joined, *terms))
        finite = np.isfinite(a)
        if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
            return "other infinities"
        largest = np.max(np.abs(np.concatenate(
            [a[finite], *(np.ravel(p)[np.isfinite(np.ravel(p))] for p in terms)
             ])), initial=0)
        error = np.max(np.abs(a[finite] - b[finite]), initial=0)
        step = float(np.finfo(whole.dtype).eps) if whole.dtype.kind == "f" \
            else float(onnx_eps(whole.dtype))
        allowed = SUM_RELATIVE_ERROR if terms else RELATIVE_ERROR
        if error <= max(allowed, 4 * step) * largest:
            return ""
        return f"differs by {error:g} of {largest:g}"

    def _run(self, node: onnx.NodeProto, inputs: dict) -> list[np.ndarray]:
        key = node.SerializeToString()
        if key not in self._sessions:
            self._sessions[key] = runtime.session(self._model(node),
                                                  runtime.NONE)
        feeds = {
            name: runtime.feed_value(np.ascontiguousarray(array).reshape(
                array.shape), element_of(array))
            for name, array in inputs.items()}
        outputs = runtime.run_session(self._sessions[key], feeds)
        return [to_array(outputs[name]) for name in node.output if name]

    def _model(self, node: onnx.NodeProto) -> onnx.ModelProto:
        inputs = [onnx.helper.make_tensor_value_info(
            name, element_of(array), None)
            for name, array in self._inputs.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output
                   if name]
        graph = onnx.helper.make_graph([node], "part", inputs, outputs)
        return onnx.helper.make_model(graph, opset_imports=self._opsets,
                                      ir_version=10)


def element_of(array: np.ndarray) -> int:
    if array.dtype.kind in "OUS":
        return onnx.TensorProto.STRING
    return onnx.helper.np_dtype_to_tensor_dtype(array.dtype)


def onnx_eps(dtype) -> float:
    """The distance from 1 to the next number of a type that NumPy lacks."""
    import ml_dtypes
    return ml_dtypes.finfo(dtype).eps
