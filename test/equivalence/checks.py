"""What must hold for every model: the properties that each test here checks.

    checker = Checker(programs, folder, counts, shape_counts)
    failures = checker.check("name", model, [feeds])

Each failure is one line. The tallies `counts` and `shape_counts` say how much
was compared, so that a run that compared nothing is noticed.
"""

import pathlib

import onnx

import comparison
import runtime
import shapes
from programs import ProgramError, Programs


class Checker:
    """Checks models one after another; files go to `folder`."""

    def __init__(self, programs: Programs, folder: pathlib.Path,
                 counts, shape_counts):
        self._programs = programs
        self._folder = folder
        self._counts = counts
        self._shape_counts = shape_counts

    def check(self, name: str, model: onnx.ModelProto, data_sets: list[dict],
              expose: bool = True) -> list[str]:
        """All checks; `expose`: compare values inside the graph as well.

        Values of `data_sets` are those of runtime.feed_value, or TensorProtos
        for inputs that can only be initializers.
        """
        source = self._folder / f"{name}.onnx"
        source.write_bytes(model.SerializeToString())
        output = self._folder / f"{name}.out.onnx"
        self._counts.add("models")
        try:
            report = self._programs.analyze(source)
            failures = self._round_trip(model, source, output)
            self._programs.rewrite(source, output)
            rewritten = onnx.load(output)
            failures += self._compare_models(model, rewritten)
            failures += self._run(model, rewritten, data_sets)
            failures += self._shapes(model, report, data_sets, expose)
            failures += self._shuffled(name, model, data_sets)
        except ProgramError as error:
            failures = [str(error)]
        for path in (source, output):
            path.unlink(missing_ok=True)
        return [f"{name}: {line}" for line in failures]

    def _round_trip(self, model, source, output) -> list[str]:
        self._programs.copy(source, output)
        data = output.read_bytes()
        copy = onnx.ModelProto.FromString(data)
        if comparison.model_is_sorted(model):
            if copy != model:
                return ["round trip: not an equal model"]
            # Protobuf compares messages without fields it does not know.
            if data != source.read_bytes():
                return ["round trip: not the same bytes"]
            self._counts.add("round trips to the same bytes")
            return []
        failures = []
        if not comparison.model_is_sorted(copy):
            failures.append("round trip: the nodes are not sorted")
        if comparison.without_order(copy) != comparison.without_order(model):
            failures.append("round trip: more than the order changed")
        self._counts.add("round trips that sorted the nodes")
        return failures

    def _compare_models(self, model, rewritten) -> list[str]:
        failures = changes(model, rewritten, comparison.ValueNumbers())
        if not invalid(model):
            self._counts.add("valid before, so checked after")
            problem = invalid(rewritten)
            if problem:
                failures.append(f"no longer valid: {problem}")
        if model.graph != rewritten.graph:
            self._counts.add("models that the passes changed")
        return failures

    def _run(self, model, rewritten, data_sets) -> list[str]:
        shapes_only = set()
        if comparison.is_random(model):
            self._counts.add("random without a seed: by shape")
            shapes_only = {output.name for output in model.graph.output}
        failures = []
        for level, threads, title in ((runtime.NONE, 1, "not optimized"),
                                      (runtime.ALL, 0, "default options")):
            for data in data_sets:
                try:
                    before = run_case(model, data, level, threads)
                except runtime.CannotRun:
                    self._counts.add(f"runtime cannot ({title})")
                    continue
                try:
                    after = run_case(rewritten, data, level, threads)
                except runtime.CannotRun as error:
                    failures.append(f"{title}: no longer runs: {error}")
                    continue
                self._counts.add(f"runs compared ({title})")
                failures += [f"{title}: {line}" for line in
                             runtime.differences(before, after, shapes_only)]
        return failures

    def _shapes(self, model, report, data_sets, expose) -> list[str]:
        for data in data_sets:
            try:
                real = run_case(shapes.expose_all(model) if expose else model,
                                data, runtime.NONE, 1)
            except runtime.CannotRun:
                try:
                    real = run_case(model, data, runtime.NONE, 1)
                except runtime.CannotRun:
                    return []
                self._shape_counts.add("models whose outputs alone compare")
            failures = shapes.mismatches(report, real, self._shape_counts)
            if failures:
                return failures
        return []

    def _shuffled(self, name, model, data_sets) -> list[str]:
        """A model in any order of its nodes comes out sorted, and equal."""
        if len(list(comparison.all_nodes(model.graph.node))) < 2:
            return []
        mixed = comparison.shuffled(model, seed=len(model.graph.node))
        if comparison.model_is_sorted(mixed):
            return []
        source = self._folder / f"{name}.mixed.onnx"
        output = self._folder / f"{name}.mixed.out.onnx"
        source.write_bytes(mixed.SerializeToString())
        failures = self._round_trip(mixed, source, output)
        self._programs.rewrite(source, output)
        rewritten = onnx.load(output)
        failures += self._compare_models(model, rewritten)
        for path in (source, output):
            path.unlink()
        return [f"shuffled: {line}" for line in failures]


def run_case(model, data, level, threads) -> dict:
    """Runs `model`, with what cannot be fed as initializers."""
    packed = {name: value for name, value in data.items()
              if isinstance(value, onnx.TensorProto)}
    feeds = {name: value for name, value in data.items()
             if name not in packed}
    return runtime.run(runtime.bake(model, packed), feeds, level, threads)


def changes(model, rewritten, numbers: comparison.ValueNumbers) -> list[str]:
    """What a pass changed and must not; needs no runtime."""
    failures = []
    for field in ("input", "output"):
        if getattr(model.graph, field) != getattr(rewritten.graph, field):
            failures.append(f"graph {field}s changed")
    for field in ("opset_import", "functions", "metadata_props",
                  "producer_name", "ir_version", "training_info"):
        if getattr(model, field) != getattr(rewritten, field):
            failures.append(f"{field} changed")
    names = {n.name for n in model.graph.node}
    if not {n.name for n in rewritten.graph.node} <= names:
        failures.append("nodes have other names")
    if numbers.outputs(model) != numbers.outputs(rewritten):
        failures.append("the outputs are computed in another way")
    if not comparison.model_is_sorted(rewritten):
        failures.append("the nodes are not sorted")
    return failures


def invalid(model) -> str:
    """Why onnx.checker refuses a model or a file; empty if it does not."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # The checker and inference raise many types.
        return str(error) or type(error).__name__
    return ""
