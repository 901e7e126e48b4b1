"""Small models, each for one thing that a rewriter can get wrong."""

import dataclasses
from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper

HEADER = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>\n'


@dataclasses.dataclass(frozen=True)
class Model:
    text: str
    feeds: dict[str, np.ndarray]
    # Whether ONNX Runtime accepts it.
    runs: bool = True
    # Changes what the text cannot say.
    finish: Callable[[onnx.ModelProto], None] | None = None

    def build(self) -> onnx.ModelProto:
        model = onnx.parser.parse_model(HEADER + self.text)
        for i, node in enumerate(model.graph.node):
            if not node.name:
                node.name = f"n{i}"
        if self.finish:
            self.finish(model)
        return model


def ramp(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
            * np.float32(0.37) - 1)


YES = np.array(True)
X = {"x": ramp(4, 8)}


def add_sparse(model: onnx.ModelProto) -> None:
    """Weight "w" [8, 3], of which three elements are not 0."""
    values = helper.make_tensor("w", TensorProto.FLOAT, [3], [1.5, -2, 7])
    indices = helper.make_tensor("", TensorProto.INT64, [3], [0, 5, 23])
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, indices, [8, 3]))


def add_extras(model: onnx.ModelProto) -> None:
    """All that a model carries and no node reads."""
    helper.set_model_props(model, {"author": "someone", "empty": ""})
    model.graph.doc_string = "what it is\nin two lines"
    model.graph.node[0].doc_string = "the first"
    entry = model.graph.node[0].metadata_props.add()
    entry.key, entry.value = "namespace", "block.0"
    note = model.graph.quantization_annotation.add()
    note.tensor_name = "t"
    entry = note.quant_parameter_tensor_names.add()
    entry.key, entry.value = "SCALE_TENSOR", "scale"
    # A field that no version of ONNX has so far: number 1000, a varint.
    unknown = bytes([0xC0, 0x3E, 0x07])
    model.graph.MergeFromString(unknown)
    model.MergeFromString(unknown)


MODELS = {
    "if_captures": Model("""
        m (float[4, 8] x, bool c) => (float[4, 8] y)
        <float[8] b = {1,2,3,4,5,6,7,8}> {
          t = Relu(x)
          u = Exp(x)
          y = If(c) <
            then_branch = a () => (float[4, 8] r) {
              s = Add(t, b)  r = Tanh(s) },
            else_branch = b () => (float[4, 8] r) {
              s = Mul(u, b)  r = Neg(s) }>
        }""", {**X, "c": YES}),
    "if_nested": Model("""
        m (float[4, 8] x, bool c, bool d) => (float[4, 8] y) {
          t = Relu(x)
          y = If(c) <
            then_branch = a () => (float[4, 8] r) {
              k = Sin(t)
              r = If(d) <
                then_branch = aa () => (float[4, 8] q) { q = Add(t, k) },
                else_branch = ab () => (float[4, 8] q) { q = Sub(x, k) }> },
            else_branch = b () => (float[4, 8] r) { r = Identity(t) }>
        }""", {**X, "c": YES, "d": np.array(False)}),
    "loop": Model("""
        m (float[4, 8] x, int64 n) => (float[4, 8] y, float[k, 4, 8] all)
        <float[8] w = {1,2,3,4,5,6,7,8}, bool yes = {1}> {
          h = Sqrt(w)
          unused = Exp(x)
          y, all = Loop(n, yes, x) <
            body = b (int64 i, bool go, float[4, 8] s)
                => (bool go2, float[4, 8] s2, float[4, 8] o)
            <float[1] half = {0.5}> {
              go2 = Identity(go)
              a = Mul(s, half)
              s2 = Add(a, h)
              o = Sin(s2)
            }>
        }""", {**X, "n": np.array(3, np.int64)}),
    "scan": Model("""
        m (float[8] x0, float[5, 8] x) => (float[8] last, float[5, 8] sums)
        <float[8] w = {1,0,1,0,1,0,1,0}> {
          z = Cos(w)
          last, sums = Scan(x0, x) <num_scan_inputs = 1,
            body = b (float[8] s, float[8] e) => (float[8] s2, float[8] o) {
              d = Mul(e, z)
              s2 = Add(s, d)
              o = Relu(s2)
            }>
        }""", {"x0": ramp(8), "x": ramp(5, 8)}),
    "if_in_loop_in_scan": Model("""
        m (float[8] x0, float[3, 8] x, bool c) => (float[8] last)
        <int64 two = {2}, bool yes = {1}, float[8] w = {1,2,3,4,5,6,7,8}> {
          far = Tanh(w)
          last = Scan(x0, x) <num_scan_inputs = 1,
            body = b (float[8] s, float[8] e) => (float[8] s2) {
              near = Neg(e)
              s2 = Loop(two, yes, s) <
                body = l (int64 i, bool go, float[8] v)
                    => (bool go2, float[8] v2) {
                  go2 = Identity(go)
                  v2 = If(c) <
                    then_branch = t () => (float[8] r) {
                      p = Add(v, far)  r = Mul(p, near) },
                    else_branch = e () => (float[8] r) { r = Sub(v, e) }>
                }>
            }>
        }""", {"x0": ramp(8), "x": ramp(3, 8), "c": YES}),
    "functions": Model("""
        m (float[4, 8] x) => (float[4, 8] y) {
          a = local.outer <alpha = 0.25>(x)
          b = local.outer(a)
          t = local.inner <slope = 0.75>(b)
          y = Add(t, a)
        }
        <domain: "local", opset_import: ["" : 17, "local" : 1]>
        outer <alpha: float = 0.5>(v) => (r) {
          t = local.inner <slope: float = @alpha>(v)
          u = Exp(v)
          t2 = Sin(u)
          r = Add(t, t2)
        }
        <domain: "local", opset_import: ["" : 17]>
        inner <slope: float = 0.125>(v) => (r) {
          t = LeakyRelu <alpha: float = @slope>(v)
          r = Neg(t)
        }""", X),
    "function_with_if": Model("""
        m (float[4, 8] x, bool c) => (float[4, 8] y, float[4, 8] z) {
          y = local.pick <k = 3.0>(x, c)
          n = Not(c)
          z = local.pick(y, n)
        }
        <domain: "local", opset_import: ["" : 17]>
        pick <k: float = 2.0>(v, c) => (r) {
          t = Elu <alpha: float = @k>(v)
          r = If(c) <
            then_branch = a () => (float[4, 8] q) {
              q = ThresholdedRelu <alpha: float = @k>(t) },
            else_branch = b () => (float[4, 8] q) { q = Sub(v, t) }>
        }""", {**X, "c": YES}),
    "sparse_weight": Model("""
        m (float[4, 8] x) => (float[4, 3] y) {
          t = Relu(x)
          y = MatMul(t, w)
        }""", X, finish=add_sparse),
    "sequences": Model("""
        m (float[4, 8] x)
            => (float[8, 8] y, float[4, 8] e, seq(float[4, 8]) s, int64 n)
        <int64 one = {1}> {
          t = Relu(x)
          s0 = SequenceConstruct(x, t)
          s = SequenceInsert(s0, t, one)
          e = SequenceAt(s, one)
          n = SequenceLength(s)
          parts = SplitToSequence <axis = 0>(x)
          back = ConcatFromSequence <axis = 0>(parts)
          y = ConcatFromSequence <axis = 0>(s0)
        }""", X),
    "sequence_in_loop": Model("""
        m (float[4, 8] x, int64 n) => (float[r, 8] y) <bool yes = {1}> {
          empty = SequenceEmpty <dtype = 1>()
          s = Loop(n, yes, empty) <
            body = b (int64 i, bool go, seq(float[4, 8]) in)
                => (bool go2, seq(float[4, 8]) out) {
              go2 = Identity(go)
              f = Cast <to = 1>(i)
              m = Mul(x, f)
              out = SequenceInsert(in, m)
            }>
          y = ConcatFromSequence <axis = 0>(s)
        }""", {**X, "n": np.array(3, np.int64)}),
    "optionals": Model("""
        m (float[4, 8] x) => (float[4, 8] y, bool has) {
          t = Relu(x)
          o = Optional(t)
          has = OptionalHasElement(o)
          g = OptionalGetElement(o)
          y = Add(g, x)
        }""", X),
    "equal_weights": Model("""
        m (float[4, 8] x, bool c)
            => (float[4, 8] y, float[8] w_out, float[4, 8] z)
        <float[8] w1 = {1,2,3,4,5,6,7,8}, float[8] w2 = {1,2,3,4,5,6,7,8},
         float[8] w_out = {1,2,3,4,5,6,7,8}, int32[8] i = {1,2,3,4,5,6,7,8}> {
          a = Add(x, w1)
          b = Mul(a, w2)
          f = Cast <to = 1>(i)
          y = Add(b, f)
          z = If(c) <
            then_branch = t () => (float[4, 8] r)
              <float[8] w3 = {1,2,3,4,5,6,7,8}> { r = Add(a, w3) },
            else_branch = e () => (float[4, 8] r)
              <float[8] w4 = {1,2,3,4,5,6,7,8}> {
              k = Sub(b, w4)  r = Sub(k, w2) }>
        }""", {**X, "c": YES}),
    # A weight that is also an input is a default that a caller may replace: it
    # is equal to nothing else.
    "default_inputs": Model("""
        m (float[4, 8] x, float[8] d = {1,2,3,4,5,6,7,8}) => (float[4, 8] y)
        <float[8] w = {1,2,3,4,5,6,7,8}> {
          a = Add(x, d)
          y = Mul(a, w)
        }""", {**X, "d": ramp(8)}),
    "dead": Model("""
        m (float[4, 8] x, float[4, 8] unused, bool c)
            => (float[2, 8] y, float[4, 8] q)
        <float[4, 8] lost = {1}, float kept = {0.5}> {
          d1 = Add(unused, x)
          d2 = If(c) <
            then_branch = t () => (float[4, 8] r) { r = Exp(d1) },
            else_branch = e () => (float[4, 8] r) { r = Exp(x) }>
          p, other = Split <axis = 0>(x)
          y = Relu(p)
          q, mask = Dropout(x, kept)
        }""", {**X, "unused": ramp(4, 8), "c": YES},
        finish=lambda m: m.graph.initializer[0].CopyFrom(
            helper.make_tensor("lost", TensorProto.FLOAT, [4, 8],
                               [1.0] * 32))),
    "empty_names": Model("""
        m (float[6, 1, 2] x) => (float[1, 1, 3] last, float[4, 8] clipped)
        <float[1, 12, 2] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8},
         float[1, 12, 3] r = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,
                              1,2,3,4,5,6,7,8,1,2,3,4},
         float[1, 1, 3] h = {0.1, 0.2, 0.3}, float top = {0.5},
         int64[2] shape = {4, 8}> {
          _, last = LSTM <hidden_size = 3>(x, w, r, "", "", h)
          k = ConstantOfShape(shape)
          clipped = Clip(k, "", top)
        }""", {"x": ramp(6, 1, 2)}),
    # An input that was left out stays so when others are replaced.
    "empty_names_and_equal_weights": Model("""
        m (float[4, 8] x) => (float[4, 8] y, float[4, 32] z)
        <float top = {0.5}, float top2 = {0.5}, float[2] by = {1, 2},
         float[2] by2 = {1, 2}> {
          a = Clip(x, "", top)
          b = Clip(a, top2)
          y = Clip(b, "", top2)
          r = Resize(x, "", by)
          z = Resize <mode = "linear">(r, "", by2)
        }""", X),
    "passed_through": Model("""
        m (float[4, 8] x) => (float[4, 8] y, float[4, 8] same, float[2] w)
        <float[2] w = {1, 2}> {
          y = Relu(x)
          same = Identity(y)
        }""", X),
    "extras": Model("""
        m (float[4, 8] x) => (float[4, 8] y) <float scale = {0.5}> {
          t = Mul(x, scale)
          y = Relu(t)
        }""", X, finish=add_extras),
    "contrib": Model("""
        m (float[4, 8] x) => (float[4, 4] y) {
          g = com.microsoft.Gelu(x)
          y = com.microsoft.FusedMatMul <transB = 1>(g, x)
        }""", X,
        finish=lambda m: m.opset_import.append(
            helper.make_opsetid("com.microsoft", 1))),
    # Three wide branches into one sum: the order of the file is the worst.
    "reordered": Model("""
        m (float[4, 8] x) => (float y) <int64[2] big = {64, 512}> {
          s = ReduceSum <keepdims = 0>(x)
          a = Expand(s, big)
          b = Expand(s, big)
          c = Expand(s, big)
          a1 = Sin(a)
          b1 = Cos(b)
          c1 = Exp(c)
          ra = ReduceSum <keepdims = 0>(a1)
          rb = ReduceSum <keepdims = 0>(b1)
          rc = ReduceSum <keepdims = 0>(c1)
          ab = Add(ra, rb)
          y = Add(ab, rc)
        }""", X),
    # Both branches have weights of the same names, and not the same ones.
    "siblings": Model("""
        m (float[4, 8] x, bool c) => (float[4, 8] y, float[4, 8] z)
        <float[8] w = {1,2,3,4,5,6,7,8}> {
          z = Mul(x, w)
          y = If(c) <
            then_branch = a () => (float[4, 8] r)
              <float[8] k = {1,2,3,4,5,6,7,8},
               float[8] k2 = {1,2,3,4,5,6,7,8}> {
              s = Add(x, k)  r = Add(s, k2) },
            else_branch = b () => (float[4, 8] r)
              <float[8] k = {9,2,3,4,5,6,7,8},
               float[8] k2 = {9,2,3,4,5,6,7,8}> {
              s = Mul(x, k)  r = Add(s, k2) }>
        }""", {**X, "c": YES}),
    # Where "w1" means something else, "w2" cannot be replaced by it.
    "shadowed": Model("""
        m (float[4, 8] x, bool c) => (float[4, 8] y, float[4, 8] z)
        <float[8] w1 = {1,2,3,4,5,6,7,8}, float[8] w2 = {1,2,3,4,5,6,7,8}> {
          z = Mul(x, w1)
          y = If(c) <
            then_branch = a () => (float[4, 8] r)
              <float[8] w1 = {0,0,0,0,5,6,7,8}> {
              s = Add(x, w1)  r = Add(s, w2) },
            else_branch = b () => (float[4, 8] r) {
              w1 = Neg(x)  s = Mul(w1, w2)  r = Neg(s) }>
        }""", {**X, "c": YES}, runs=False),
    # Equal bytes of another type or shape are not the same weight, nor is -0.
    "zeros": Model("""
        m (float[4, 8] x) => (float[2, 4, 8] y, int32[2] k)
        <float[2, 1, 1] a = {0, 0}, int32[2] i = {0, 0},
         float[1, 2, 1] s = {0, 0},
         float[2, 1, 1] neg = {-0.0, -0.0}, float[2, 1, 1] a2 = {0, 0}> {
          t = Add(x, a)
          u = Add(t, a2)
          v = ReduceSum <keepdims = 1>(s)
          n = Mul(u, neg)
          d = Div(n, v)
          y = Add(d, u)
          k = Add(i, i)
        }""", X),
    "function_results_unused": Model("""
        m (float[4, 8] x) => (float[4, 8] y, float[4, 8] z) {
          y, q = local.two(x)
          p, z = local.two(x)
          lost, lost2 = local.two(z)
        }
        <domain: "local", opset_import: ["" : 17]>
        two (v) => (r, s) {
          r = Exp(v)
          unused = Sin(r)
          s = Neg(v)
        }""", X),
    "function_input_left_out": Model("""
        m (float[4, 8] x) => (float[4, 8] y, float[4, 8] z)
        <float low = {0.1}> {
          y = local.clip(x, low)
          z = local.clip(y)
        }
        <domain: "local", opset_import: ["" : 17]>
        clip (v, low) => (r) {
          one = Constant <value = float {1.0}>()
          r = Clip(v, low, one)
        }""", X),
    "function_with_scan": Model("""
        m (float[3, 8] x, float[8] x0) => (float[8] y) {
          y = local.acc <k = 3.0>(x0, x)
        }
        <domain: "local", opset_import: ["" : 17]>
        acc <k: float = 1.0>(x0, x) => (last) {
          b = Constant <value_float: float = @k>()
          last = Scan(x0, x) <num_scan_inputs = 1,
            body = bb (float[8] s, float[8] e) => (float[8] s2) {
              d = Mul(e, b)
              l = LeakyRelu <alpha: float = @k>(d)
              s2 = Add(s, l)
            }>
        }""", {"x0": ramp(8), "x": ramp(3, 8)}),
}
