"""`onnx-memopt tensors`: where two models with the same names part.

Runs both with the same random inputs, with every tensor of the main graphs as
an output, and compares those that have one name, in the order in which the
second model computes them. It is meant for a model and the same in 16 bits: the
first tensors that overflow say which operators to keep in float32.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, NoReturn, Optional

from onnx_memopt._verify_cli import (EXIT_DIFFERENT, EXIT_MODEL_ERROR,
                                     EXIT_OK, EXIT_USAGE)
from onnx_memopt._verify_text import printable

HELP = """\
Runs two models in ONNX Runtime with the same random inputs, compares all tensors
of one name, and lists the first that overflow and those with the largest errors.

Usage: onnx-memopt tensors [OPTIONS] BEFORE AFTER

  BEFORE, AFTER            .onnx files; AFTER is BEFORE in 16 bits, for example

  --dim NAME=N             size of a named dimension of the inputs; 1 if not
                           given
  --feeds FILE             inputs by name, as numpy.savez writes them, in place
                           of random ones
  --top N                  tensors to list (10)
  --seed N                 of the random inputs (0)

  -h, --help               this text

Exit codes: 0 nothing overflows, 1 a model or a file, 2 usage, 3 something does.
"""

# Tensors that are kept at once.
_BATCH = 64


class Tensor(NamedTuple):
    """A tensor of both models, and how far they are apart."""

    name: str
    op_type: str
    largest: float  # magnitude, in the model before
    overflows: int  # elements that are finite before only
    error: float  # relative to the largest magnitude


class Failure(Exception):
    pass


class Usage(Exception):
    pass


def compare(before: str, after: str, *, dims: Optional[Dict[str, int]] = None,
            feeds: Optional[Dict[str, Any]] = None,
            seed: int = 0) -> List[Tensor]:
    """All tensors of both main graphs, in the order of the second model."""
    models = [read_model(path) for path in (before, after)]
    known = {name for node in models[0].graph.node for name in node.output}
    shared = [(name, node.op_type) for node in models[1].graph.node
              for name in node.output if name and name in known]
    result: List[Tensor] = []
    for start in range(0, len(shared), _BATCH):
        batch = shared[start:start + _BATCH]
        runs = [_run(path, model, [name for name, _ in batch], dims or {},
                     feeds, seed)
                for path, model in zip((before, after), models)]
        for (name, op_type), x, y in zip(batch, *runs):
            found = _compare(name, op_type, x, y)
            if found is not None:
                result.append(found)
    return result


def read_model(path: str) -> Any:
    """Without its external data."""
    import onnx
    try:
        return onnx.load(path, load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # protobuf's own
        raise Failure(f"not an ONNX model: {error}") from error


def read_feeds(path: str) -> Dict[str, Any]:
    import numpy as np
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _run(path: str, model: Any, names: List[str], dims: Dict[str, int],
         feeds: Optional[Dict[str, Any]], seed: int) -> List[Any]:
    session = open_with_outputs(path, model, names)
    return run_session(session, names, inputs_of(session, dims, feeds, seed))


def open_with_outputs(path: str, model: Any, names: List[str]) -> Any:
    """A session of the model, as it is in the file, with these tensors of the
    main graph as outputs."""
    import onnx
    import onnxruntime
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    del exposed.graph.output[:]
    for name in names:
        exposed.graph.output.add().name = name
    # Beside the model: its external data is there.
    with tempfile.NamedTemporaryFile(
            suffix=".onnx", dir=os.path.dirname(os.path.abspath(path)),
            delete=False) as file:
        file.write(exposed.SerializeToString())
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
        return onnxruntime.InferenceSession(
            file.name, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the binding has no common base class
        raise Failure(f"ONNX Runtime does not run it: {error}") from error
    finally:
        os.unlink(file.name)


def run_session(session: Any, names: List[str],
                feeds: Dict[str, Any]) -> List[Any]:
    try:
        return list(session.run(names, feeds))
    except Exception as error:  # as above
        raise Failure(f"ONNX Runtime does not run it: {error}") from error


def inputs_of(session: Any, dims: Dict[str, int],
              feeds: Optional[Dict[str, Any]], seed: int) -> Dict[str, Any]:
    import numpy as np

    from onnx_memopt._measure import DTYPES
    rng = np.random.default_rng(seed)
    result = {}
    for value in session.get_inputs():
        dtype = np.dtype(DTYPES.get(value.type, "object"))
        if feeds is not None:
            if value.name not in feeds:
                raise Usage(f'--feeds has no input "{value.name}"; it has '
                            + ", ".join(sorted(feeds)))
            result[value.name] = feeds[value.name].astype(dtype)
            continue
        shape = [d if isinstance(d, int) else dims.get(d, 1)
                 for d in value.shape]
        if dtype.kind == "f":
            # The same numbers for both models, whatever their types.
            result[value.name] = rng.standard_normal(
                shape, dtype=np.float32).astype(dtype)
        elif dtype.kind in "iub":
            result[value.name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            raise Failure(f'input "{value.name}" is a {value.type}: give it '
                          "with --feeds")
    return result


def _compare(name: str, op_type: str, before: Any,
             after: Any) -> Optional[Tensor]:
    import numpy as np
    if (not isinstance(before, np.ndarray) or before.dtype.kind != "f"
            or not isinstance(after, np.ndarray)
            or after.dtype.kind != "f" or before.shape != after.shape):
        return None
    x, y = before.astype(np.float64), after.astype(np.float64)
    finite = np.isfinite(x)
    both = finite & np.isfinite(y)
    largest = float(np.abs(x[finite]).max()) if finite.any() else 0.0
    worst = float(np.abs(x[both] - y[both]).max()) if both.any() else 0.0
    return Tensor(name, op_type, largest, int((finite & ~both).sum()),
                  worst / largest if largest > 0 else worst)


def to_text(tensors: List[Tensor], top: int) -> Iterator[str]:
    """The lines of the report."""
    overflows = [t for t in tensors if t.overflows]
    if overflows:
        yield ("1 tensor overflows:" if len(overflows) == 1 else
               f"{len(overflows)} tensors overflow; the first of them:")
        for t in overflows[:top]:
            yield (f"  {printable(t.name)} <- {t.op_type}: {t.overflows} "
                   f"elements; the largest was {t.largest:.4g}")
    else:
        yield f"no tensor overflows, of {len(tensors)} compared"
    yield "largest errors, relative to the largest number of the tensor:"
    for t in sorted(tensors, key=lambda t: -t.error)[:top]:
        yield f"  {t.error:.2e}  {printable(t.name)} <- {t.op_type}"


class Parser(argparse.ArgumentParser):
    def __init__(self, prog: str, text: str) -> None:
        super().__init__(prog=prog, allow_abbrev=False)
        self._text = text

    def format_help(self) -> str:
        return self._text

    def error(self, message: str) -> NoReturn:
        raise Usage(message)


def _arguments(words: Optional[List[str]]) -> argparse.Namespace:
    parser = Parser("onnx-memopt tensors", HELP)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--feeds")
    parser.add_argument("--top", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(words)
    dims = {}
    for text in arguments.dim:
        name, _, size = text.partition("=")
        if not (name and size.isascii() and size.isdigit()):
            raise Usage(f'--dim: expected NAME=N, not "{text}"')
        dims[name] = int(size)
    arguments.dim = dims
    return arguments


def main(words: Optional[List[str]] = None) -> int:
    """The program; the exit code."""
    try:
        arguments = _arguments(words)
        feeds = None
        if arguments.feeds is not None:
            feeds = read_feeds(arguments.feeds)
        tensors = compare(arguments.before, arguments.after,
                          dims=arguments.dim, feeds=feeds,
                          seed=arguments.seed)
    except Usage as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except (OSError, ValueError, ImportError, Failure) as error:
        line = " ".join(str(error).split())
        print(f"error: {printable(line)}", file=sys.stderr)
        return EXIT_MODEL_ERROR
    for line in to_text(tensors, max(arguments.top, 1)):
        print(line)
    if any(t.overflows for t in tensors):
        return EXIT_DIFFERENT
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
