"""Properties of ModelProtos that need no runtime."""

import hashlib
import random

import onnx
from onnx import numpy_helper

RANDOM_OPS = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike",
              "RandomUniform", "RandomUniformLike"}


def subgraphs(node: onnx.NodeProto):
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(nodes):
    """Those of `nodes` and of their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def draws(node: onnx.NodeProto) -> bool:
    """Whether the node's result may differ from run to run."""
    if any(a.name == "seed" for a in node.attribute):
        return False
    if node.op_type == "Dropout":
        return len(node.input) > 2  # The third one is training_mode.
    return node.op_type in RANDOM_OPS


def is_random(model: onnx.ModelProto) -> bool:
    """Whether two runs of the model may differ."""
    bodies = [model.graph.node, *(f.node for f in model.functions)]
    return any(draws(node) for body in bodies for node in all_nodes(body))


def captured(node: onnx.NodeProto) -> set[str]:
    """Names that the subgraphs of `node` take from around it."""
    names = set()
    for graph in subgraphs(node):
        inner = {v.name for v in graph.input}
        inner |= {t.name for t in graph.initializer}
        inner |= {t.values.name for t in graph.sparse_initializer}
        for n in graph.node:
            inner |= set(n.output)
        used = {v.name for v in graph.output}
        for n in graph.node:
            used |= set(n.input) | captured(n)
        names |= used - inner
    return names - {""}


def is_sorted(nodes) -> bool:
    """Whether no node stands before one whose result it uses."""
    later = {name for node in nodes for name in node.output if name}
    for node in nodes:
        if (set(node.input) | captured(node)) & later:
            return False
        if not all(is_sorted(g.node) for g in subgraphs(node)):
            return False
        later -= set(node.output)
    return True


def model_is_sorted(model: onnx.ModelProto) -> bool:
    return is_sorted(model.graph.node)


def shuffled(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """`model` with its node lists, of subgraphs too, in any order."""
    rng = random.Random(seed)
    out = onnx.ModelProto()
    out.CopyFrom(model)
    _shuffle(out.graph, rng)
    return out


def _shuffle(graph: onnx.GraphProto, rng: random.Random) -> None:
    nodes = list(graph.node)
    rng.shuffle(nodes)
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    for node in graph.node:
        for inner in subgraphs(node):
            _shuffle(inner, rng)


def without_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose node lists are in an order that the nodes alone decide."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    _canonical_order(out.graph)
    return out


def _canonical_order(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        for inner in subgraphs(node):
            _canonical_order(inner)
    nodes = sorted(n.SerializeToString(deterministic=True)
                   for n in graph.node)
    del graph.node[:]
    graph.node.extend(map(onnx.NodeProto.FromString, nodes))


class ValueNumbers:
    """Says whether two models compute the same, without running them.

    Every value gets a digest of how it comes about: the op, its attributes and
    the digests of its inputs, down to graph inputs (by name) and weights (by
    content). Equal digests of the outputs mean equal results, whatever the
    order of the nodes and however often a weight is stored. It knows nothing of
    the tool that it checks.
    """

    def __init__(self, folder: str | None = None):
        self._folder = folder
        self._weights: dict[tuple, bytes] = {}

    def outputs(self, model: onnx.ModelProto) -> list[tuple[str, bytes]]:
        functions = b"".join(f.SerializeToString(deterministic=True)
                             for f in model.functions)
        header = hashlib.sha256(functions + b"".join(
            o.SerializeToString(deterministic=True)
            for o in model.opset_import)).digest()
        return [(name, digest) for name, digest in
                self._graph(model.graph, {"": header})]

    def _graph(self, graph, outer: dict[str, bytes]):
        scope = dict(outer)
        for value in graph.input:
            scope[value.name] = _digest(b"input", value.name.encode())
        for tensor in graph.initializer:
            digest = self._weight(tensor)
            if tensor.name in {v.name for v in graph.input}:
                digest = _digest(scope[tensor.name], digest)
            scope[tensor.name] = digest
        for tensor in graph.sparse_initializer:
            scope[tensor.values.name] = _digest(
                b"sparse", self._weight(tensor.values),
                self._weight(tensor.indices), repr(tensor.dims).encode())
        for node in graph.node:
            digest = self._node(node, scope)
            for i, name in enumerate(node.output):
                if name:
                    scope[name] = _digest(digest, str(i).encode())
        return [(v.name, scope[v.name]) for v in graph.output]

    def _node(self, node, scope: dict[str, bytes]) -> bytes:
        parts = [node.domain.encode(), node.op_type.encode(),
                 node.overload.encode(), scope[""]]
        parts += [scope[name] if name else b"none" for name in node.input]
        # Split takes its number of parts from here.
        parts.append(str(len(node.output)).encode())
        for attribute in sorted(node.attribute, key=lambda a: a.name):
            if not attribute.HasField("g") and not attribute.graphs:
                parts.append(attribute.SerializeToString(deterministic=True))
            for graph in ([attribute.g] if attribute.HasField("g") else
                          attribute.graphs):
                parts.append(attribute.name.encode())
                # Names of a subgraph's results mean nothing outside it.
                parts += [d for _, d in self._graph(graph, scope)]
        return _digest(*parts)

    def _weight(self, tensor: onnx.TensorProto) -> bytes:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            shape = repr((tensor.data_type, list(tensor.dims)))
            content = (list(tensor.string_data) if tensor.string_data else
                       [numpy_helper.to_array(tensor).tobytes()])
            return _digest(shape.encode(), *content)
        entry = {e.key: e.value for e in tensor.external_data}
        shape = repr((tensor.data_type, list(tensor.dims)))
        key = (entry["location"], entry.get("offset", "0"), entry["length"],
               shape)
        if key not in self._weights:
            with open(f"{self._folder}/{entry['location']}", "rb") as data:
                data.seek(int(entry.get("offset", "0")))
                content = data.read(int(entry["length"]))
            self._weights[key] = _digest(shape.encode(), content)
        return self._weights[key]


def _digest(*parts: bytes) -> bytes:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()
