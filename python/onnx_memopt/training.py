"""Runs a training step in ONNX Runtime, again and again.

    from onnx_memopt.training import Trainer

    trainer = Trainer("model.onnx", optimizer="adamw", learning_rate=1e-3)
    trainer.fit(batches, epochs=3)
    trainer.write_model("trained.onnx")

Needs onnx, onnxruntime and numpy.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from onnx_memopt._errors import OptionError

if TYPE_CHECKING:
    import numpy as np
    from onnx_memopt._core import TrainReport

PathLike = Union[str, "os.PathLike[str]"]
Batch = Union[Mapping[str, Any], Sequence[Any]]
Rate = Union[float, Callable[[int], float]]

# Inputs of a step that are no data, beside parameters and states.
_OWN = "learning_rate"
_NEXT = ".next"
# Key in the metadata of a step: options of the session that it was planned for.
_PLANNED = "onnx_memopt.session_options"
# What a message can be at most before protobuf refuses it.
_MAX_PROTO_BYTES = 2**31 - 2**24


class Trainer:
    """A training in ONNX Runtime: parameters, states, and the step.

    Two trainings with the same data are equal bit for bit, and so is one that
    was saved and resumed to one that was not: masks of Dropout follow from
    `seed` and the number of the step.
    """

    def __init__(self, model: Any, *, learning_rate: Rate = 0.01,
                 seed: int = 0, step: PathLike | None = None,
                 start: PathLike | None = None, session_options: Any = None,
                 providers: Sequence[Any] = ("CPUExecutionProvider",),
                 **options: Any) -> None:
        """Makes the step of a model, or takes one that was made.

        model: the forward model, as in `train_step`.
        learning_rate: a number, or a function of the number of steps done.
        seed: of the masks of Dropout.
        step, start: paths of a step and its initial state that `train_step` or
            `onnx-memopt train` wrote; if not given, they are made.
        session_options: an onnxruntime.SessionOptions; if not given, what the
            step was planned for.
        providers: as of onnxruntime.InferenceSession.
        options: those of `train_step`, such as optimizer="adamw".
        """
        if (step is None) != (start is None):
            raise OptionError("step and start: give both or none")
        if step is not None and options:
            raise OptionError(f"{sorted(options)[0]}: the step is made already")
        self.learning_rate = learning_rate
        #: What `train_step` said; None where the step was given.
        self.report: TrainReport | None = None
        #: The loss of each step that this trainer ran.
        self.losses: list[float] = []
        self._model = model
        with tempfile.TemporaryDirectory(prefix="onnx-memopt-") as folder:
            if step is None or start is None:
                step, start = self._make(pathlib.Path(folder), options)
            self._open(step, start, session_options, providers)
        if "seed" in self._state:
            self._state["seed"] = self._np.array(seed, self._np.int64)

    def _make(self, folder: pathlib.Path, options: Mapping[str, Any]
              ) -> tuple[pathlib.Path, pathlib.Path]:
        from onnx_memopt._api import train_step
        from onnx_memopt._models import source_of
        step, start = folder / "step.onnx", folder / "start.onnx"
        source = source_of(self._model, options.get("external_dir"))
        with source.as_file() as path:
            _, self.report = train_step(path, output=step, initial_state=start,
                                        **options)
        return step, start

    def _open(self, step: PathLike, start: PathLike, options: Any,
              providers: Sequence[Any]) -> None:
        import numpy
        import onnx
        import onnxruntime
        from onnx import numpy_helper
        self._np = numpy
        if options is None:
            options = _planned_options(step)
        self._session = onnxruntime.InferenceSession(
            os.fspath(step), options, providers=list(providers))
        state = onnx.load(os.fspath(start))
        inputs = {value.name: value for value in self._session.get_inputs()}
        self._state: dict[str, np.ndarray] = {
            tensor.name: numpy_helper.to_array(tensor)
            for tensor in state.graph.initializer if tensor.name in inputs}
        self._data = [value for name, value in inputs.items()
                      if name not in self._state and name != _OWN]
        self._outputs = [value.name for value in self._session.get_outputs()]
        self._has_rate = _OWN in inputs
        moved = {name.removesuffix(_NEXT) for name in self._outputs
                 if name.endswith(_NEXT)}
        for name in moved - set(self._state):
            raise OptionError(f"start: {os.fspath(start)} has no \"{name}\", "
                              "which the step needs")

    @property
    def steps(self) -> int:
        """Updates done so far."""
        return int(self._state["step"]) if "step" in self._state else len(
            self.losses)

    @property
    def state(self) -> Mapping[str, np.ndarray]:
        """Parameters and states by their names in the step."""
        return dict(self._state)

    def step(self, batch: Batch) -> float:
        """One update; gives the loss before it.

        batch: the data by name, or in the order of the step's inputs: those of
            the model, then "target".
        """
        np = self._np
        feeds = dict(self._state)
        feeds.update(self._feeds(batch))
        if self._has_rate:
            rate = self.learning_rate
            feeds[_OWN] = np.array(rate(self.steps) if callable(rate) else rate,
                                   np.float32)
        results = dict(zip(self._outputs, self._session.run(None, feeds)))
        for name, value in results.items():
            if name.endswith(_NEXT):
                self._state[name.removesuffix(_NEXT)] = value
        loss = float(results["loss"].reshape(-1)[0])
        self.losses.append(loss)
        return loss

    def _feeds(self, batch: Batch) -> dict[str, np.ndarray]:
        names = [value.name for value in self._data]
        if not isinstance(batch, Mapping):
            if len(batch) != len(names):
                raise OptionError(f"batch: expected {', '.join(names)}, not "
                                  f"{len(batch)} tensors")
            batch = dict(zip(names, batch))
        missing = [name for name in names if name not in batch]
        if missing:
            raise OptionError(f"batch: it has no \"{missing[0]}\"")
        unknown = sorted(set(batch) - set(names))
        if unknown:
            raise OptionError(f"batch: the step has no input \"{unknown[0]}\"; "
                              f"it has {', '.join(names)}")
        return {value.name: self._np.asarray(batch[value.name],
                                             self._dtype(value.type))
                for value in self._data}

    def _dtype(self, text: str) -> Any:
        """Of "tensor(float)"."""
        name = text.removeprefix("tensor(").removesuffix(")")
        return self._np.dtype({"float": "float32", "double": "float64"}.get(
            name, name))

    def fit(self, batches: Iterable[Batch] | Callable[[int], Iterable[Batch]],
            *, epochs: int = 1, progress: bool = True,
            each_epoch: Callable[[int], object] | None = None) -> list[float]:
        """Runs a step for each batch; gives the losses.

        batches: something to go over once an epoch, such as a list or a data
            loader, or a function that gives it for the number of an epoch.
        progress: show a bar by tqdm, or a line where that is not installed.
        each_epoch: called with the number of an epoch after it.
        """
        losses: list[float] = []
        for epoch in range(epochs):
            found = batches(epoch) if callable(batches) else batches
            total = len(found) if hasattr(found, "__len__") else None
            title = f"epoch {epoch + 1}/{epochs}" if epochs > 1 else "training"
            bar = _bar(title, total) if progress else None
            try:
                for batch in found:
                    losses.append(self.step(batch))
                    if bar is not None:
                        bar.set_postfix(loss=f"{losses[-1]:.4g}", refresh=False)
                        bar.update(1)
            finally:
                if bar is not None:
                    bar.close()
            if each_epoch is not None:
                each_epoch(epoch)
        return losses

    def save(self, path: PathLike) -> None:
        """Writes parameters and states; `load` goes on from there."""
        path = pathlib.Path(path)
        new = path.with_name(path.name + ".new")
        with open(new, "wb") as file:  # a path would get ".npz" appended
            self._np.savez(file, **self._state)
        os.replace(new, path)

    def load(self, path: PathLike) -> None:
        """Reads what `save` wrote, of the same step."""
        with self._np.load(path, allow_pickle=False) as file:
            state = {name: file[name] for name in file.files}
        if set(state) != set(self._state):
            odd = sorted(set(state) ^ set(self._state))[0]
            raise OptionError(f"{os.fspath(path)}: of another step; it differs "
                              f"in \"{odd}\"")
        for name, value in state.items():
            mine = self._state[name]
            if (value.shape, value.dtype) != (mine.shape, mine.dtype):
                raise OptionError(f"{os.fspath(path)}: \"{name}\" is "
                                  f"{value.dtype}{list(value.shape)}, not "
                                  f"{mine.dtype}{list(mine.shape)}")
        self._state = state

    def trained_model(self) -> Any:
        """The forward model as an onnx.ModelProto with the trained weights."""
        import onnx
        from onnx import numpy_helper
        from onnx_memopt._models import source_of
        source = source_of(self._model)
        if source.data is None:
            model = onnx.load(source.path)
        else:
            model = onnx.ModelProto.FromString(source.data)
        graphs = [model.graph]
        while graphs:  # branches and bodies that the step has written out, too
            graph = graphs.pop()
            for tensor in graph.initializer:
                value = self._state.get(tensor.name)
                if value is not None:
                    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
            graphs += [a.g for n in graph.node for a in n.attribute
                       if a.HasField("g")]
        return model

    def write_model(self, path: PathLike) -> None:
        """Writes the forward model with the trained weights.

        A model of 2 GiB or more gets them in PATH.data beside it.
        """
        import onnx
        model = self.trained_model()
        path = os.fspath(path)
        bytes_held = sum(len(t.raw_data) for t in model.graph.initializer)
        onnx.save(model, path,
                  save_as_external_data=bytes_held > _MAX_PROTO_BYTES,
                  location=os.path.basename(path) + ".data")


def _planned_options(step: PathLike) -> Any:
    """An onnxruntime.SessionOptions that keeps to the step's budget."""
    import onnx
    import onnxruntime
    options = onnxruntime.SessionOptions()
    model = onnx.load(os.fspath(step), load_external_data=False)
    for entry in model.metadata_props:
        if entry.key != _PLANNED:
            continue
        for name, value in json.loads(entry.value).items():
            if name == "execution_order":
                value = getattr(onnxruntime.ExecutionOrder, value)
            setattr(options, name, value)
    return options


class _Line:
    """A line on stderr, in place of tqdm's bar."""

    def __init__(self, title: str, total: int | None) -> None:
        self._title = title
        self._total = "" if total is None else f"/{total}"
        self._done = 0
        self._text = ""
        self._shown = 0.0

    def set_postfix(self, *, refresh: bool = True, **values: str) -> None:
        """Said behind the count."""
        self._text = " ".join(f"{name} {value}"
                              for name, value in values.items())
        if refresh:
            self._show()

    def update(self, count: int) -> None:
        """So many steps more are done."""
        self._done += count
        if sys.stderr.isatty() and time.monotonic() - self._shown > 0.1:
            self._show()

    def close(self) -> None:
        """The last state stays there."""
        self._show()
        sys.stderr.write("\n")

    def _show(self) -> None:
        self._shown = time.monotonic()
        start = "\r" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{start}{self._title}: {self._done}{self._total} "
                         f"steps, {self._text}")
        sys.stderr.flush()


def _bar(title: str, total: int | None) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Line(title, total)
    return tqdm(desc=title, total=total, unit="step")
