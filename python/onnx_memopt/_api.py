"""analyze, optimize, train_step, estimate, verify and session_options."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Union

from onnx_memopt import _core
from onnx_memopt._core import Report, TrainOptions, TrainReport
from onnx_memopt._errors import OptionError
from onnx_memopt._models import Source, source_of

if TYPE_CHECKING:
    from onnx_memopt._verify import VerifyResult

PathLike = Union[str, "os.PathLike[str]"]
Dims = Mapping[str, Union[int, Sequence[int]]]
Shapes = Mapping[str, Sequence[int]]
Progress = Callable[[str], object]
Model = TypeVar("Model")


def analyze(model: Any, *, dims: Dims | None = None,
            input_shapes: Shapes | None = None,
            external_dir: PathLike | None = None,
            progress: Progress | None = None) -> Report:
    """Says what lives when and how much memory a run needs; changes nothing.

    model: a path, bytes, onnx.ModelProto, onnx_ir.Model or ONNXProgram.
    dims: sizes of named dimensions; several sizes for a name are a sweep.
    input_shapes: shapes of inputs in place of those that the model states; the
        name "" is the only input.
    external_dir: the folder of external data, where it is not the model's.
    progress: called with what is being done, such as "analysing".
    """
    source = source_of(model, external_dir)
    report, _ = _core.optimize(
        source.path, source.data, dims=_dims(dims),
        input_shapes=_shapes(input_shapes), rewrite=False, passes="",
        max_slowdown=None, budget_bytes=None, output="", external_data="auto",
        annotate=False, external_dir=source.folder, progress=progress)
    return report


def optimize(model: Model, *, output: PathLike | None = None,
             dims: Dims | None = None, input_shapes: Shapes | None = None,
             passes: str = "", max_slowdown: float | None = None,
             budget: int | str | None = None, external_data: str = "auto",
             annotate: bool = False, external_dir: PathLike | None = None,
             progress: Progress | None = None) -> tuple[Model, Report]:
    """Rewrites a model so that a run needs less memory.

    Gives the new model, of the kind that was given, and what was done. For a
    path that is the path of the new file; external data is not read, and stays
    where it is when the new file is in the same folder.

    output: where to write it, if the model is a path; if not given,
        STEM.memopt.onnx beside STEM.onnx.
    passes: a pipeline such as "drop-dead,reorder{beam=9}"; empty: the default.
    max_slowdown: by how much a run may take longer, by the time model: 0.1 is
        10 %, the default without a budget.
    budget: the fastest model is wanted that takes no more beside the loaded
        model in ONNX Runtime, as predicted: bytes, or text like "512MiB".
        `report.budget` says whether it is met.
    external_data: "auto", "reference", "copy" or "all", as in docs/cli.md.
    annotate: write lifetime and bytes of each node into its metadata.
    The others are as in `analyze`.
    """
    source = source_of(model, external_dir)
    if source.data is None:
        target = os.fspath(output) if output is not None else _beside(
            source.path)
    else:
        target = ""
        if output is not None:
            raise OptionError("output: a model in memory comes back in memory")
        if external_data not in ("auto", "reference"):
            raise OptionError("external_data: for a model in memory, data "
                              "stays where it is")
    report, data = _core.optimize(
        source.path, source.data, dims=_dims(dims),
        input_shapes=_shapes(input_shapes), rewrite=True, passes=passes,
        max_slowdown=max_slowdown, budget_bytes=_bytes(budget), output=target,
        external_data=external_data, annotate=annotate,
        external_dir=source.folder, progress=progress)
    if data is None:
        return _like(model, target), report
    result: Model = source.back(data)
    return result, report


def train_step(model: Model, *, output: PathLike | None = None,
               initial_state: PathLike | None = None,
               loss: Any = "cross-entropy", loss_output: str = "",
               ignore_index: int | None = None, optimizer: str = "sgd",
               momentum: float = 0.9, nesterov: bool = False,
               beta1: float = 0.9, beta2: float = 0.999,
               epsilon: float = 1e-8, weight_decay: float = 0.0,
               clip_norm: float | None = None,
               clip_value: float | None = None, gradients: bool = False,
               train: Sequence[str] = (), freeze: Sequence[str] = (),
               checkpoint: str | None = None,
               budget: int | str | None = None, order: str = "default",
               session: str = "default",
               accumulate: int = 1, precision: str = "float32",
               loss_scale: float = 65536.0, loss_scale_steps: int = 2000,
               batch: int | None = None,
               teacher: Any = None, temperature: float | None = None,
               alpha: float = 0.5, match: Mapping[str, str] | None = None,
               match_weight: float = 1.0, teacher_output: str = "",
               soft_output: str = "",
               dims: Mapping[str, int] | None = None,
               input_shapes: Shapes | None = None,
               external_dir: PathLike | None = None,
               progress: Progress | None = None
               ) -> tuple[Model, TrainReport]:
    """Makes a model of one training step: loss, gradients and updates.

    Gives the step, of the kind that was given, and what it holds and takes.
    The options are those of `onnx-memopt train`, which docs/cli.md describes.

    output: where to write the step, if the model is a path; if not given,
        STEM.step.onnx beside STEM.onnx.
    initial_state: where to write what the step begins with: parameters and
        states, as a model of initializers.
    loss: "cross-entropy", "mse" or "output"; or a model of the loss, of any
        kind that `analyze` takes, a path with the extension .onnx or .onnxtxt.
    optimizer: "sgd", "momentum", "adam", "adamw" or "none".
    train, freeze: patterns of names of weights, with * and ?.
    checkpoint: "none", "sqrt", "per-layer" or "optimal", which a budget implies.
    session: the session that the step is planned for: "default", or "bare" for
        one without arena and memory pattern, which takes far less memory and
        some time. `Trainer` opens it so.
    accumulate: micro-batches in a step; the model's batch is that of one.
    precision: "float32", "float16" or "bfloat16", with float32 weights.
    loss_scale, loss_scale_steps: of float16.
    batch: samples in a step, the size of the inputs' first dimension, which has
        to have a name.
    teacher: a trained model, of any kind that `analyze` takes, whose output the
        model learns: the loss is alpha * T**2 * KL + (1 - alpha) * loss.
    temperature: T; 2 if not given.
    match: for tensors of the model those of the teacher that they learn, too.
    match_weight: of these mean squared differences in the loss.
    teacher_output, soft_output: which outputs are compared, where several could
        be.
    dims: sizes of named dimensions, which the step has for good.
    """
    source = source_of(model, external_dir)
    options = _core.TrainOptions()
    options.set_optimizer(optimizer)
    options.set_order(order)
    options.set_session(session)
    options.budget_bytes = _bytes(budget)
    if options.budget_bytes is not None and checkpoint not in (None,
                                                               "optimal"):
        raise OptionError("budget: it needs checkpoint=\"optimal\"")
    options.set_checkpoint(checkpoint or (
        "none" if budget is None else "optimal"))
    options.loss_output, options.ignore_index = loss_output, ignore_index
    options.momentum, options.nesterov = momentum, nesterov
    options.beta1, options.beta2 = beta1, beta2
    options.epsilon, options.weight_decay = epsilon, weight_decay
    options.clip_norm, options.clip_value = clip_norm, clip_value
    options.train, options.freeze = list(train), list(freeze)
    options.gradients = gradients
    options.set_precision(precision)
    if accumulate < 1:
        raise OptionError(f"accumulate: {accumulate} is not a positive number")
    options.accumulate = accumulate
    if batch is not None and batch < 1:
        raise OptionError(f"batch: {batch} is not a positive number")
    options.batch = batch
    options.loss_scale = loss_scale
    options.loss_scale_steps = loss_scale_steps
    options.dims = _positive(dims)
    options.input_shapes = _shapes(input_shapes)
    options.external_dir = source.folder
    if initial_state is not None:
        options.initial_state = os.fspath(initial_state)
    if teacher is None and (temperature is not None or match):
        raise OptionError("temperature and match: they need a teacher")
    with _loss(options, loss), _path_of(teacher) as teacher_path:
        if teacher_path is not None:
            options.set_distillation(
                teacher=teacher_path, teacher_output=teacher_output,
                soft_output=soft_output, temperature=temperature, alpha=alpha,
                match=dict(match or {}), match_weight=match_weight)
        return _write_step(model, source, output, options, progress)


@contextmanager
def _loss(options: TrainOptions, loss: Any) -> Iterator[None]:
    """Sets it in the options; a file that it takes is there meanwhile."""
    if isinstance(loss, str) and not loss.endswith((".onnx", ".onnxtxt")):
        options.set_loss(loss)
        yield
        return
    with source_of(loss).as_file() as path:
        options.loss_file = path
        yield


@contextmanager
def _path_of(model: Any) -> Iterator[str | None]:
    """The file of a model; one in memory has one meanwhile."""
    if model is None:
        yield None
        return
    with source_of(model).as_file() as path:
        yield path


def _write_step(model: Model, source: Source, output: PathLike | None,
                options: TrainOptions, progress: Progress | None
                ) -> tuple[Model, TrainReport]:
    if source.data is None:
        options.output = (os.fspath(output) if output is not None
                          else _beside(source.path, "step"))
        report = _core.train_step(source.path, options, progress)
        return _like(model, options.output), report
    if output is not None:
        raise OptionError("output: a model in memory comes back in memory")
    import tempfile
    with tempfile.TemporaryDirectory(prefix="onnx-memopt-") as folder:
        options.output = os.path.join(folder, "step.onnx")
        with source.as_file() as path:
            options.external_dir = source.folder or "."
            report = _core.train_step(path, options, progress)
        if os.path.exists(options.output + ".data"):
            raise OptionError("the step has weights of its own outside the "
                              "model; give the path of the model's file")
        with open(options.output, "rb") as file:
            result: Model = source.back(file.read())
    return result, report


class EstimateReport(Mapping[str, Any]):
    """An estimate: the fields of the JSON, which docs/estimating.md lists.

    str() is the text that the program prints.
    """

    def __init__(self, fields: dict[str, Any], text: str) -> None:
        self._fields = fields
        self._text = text

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        total = _core.format_bytes(self._fields["total_bytes"])
        return f"<onnx_memopt.EstimateReport: {total}>"

    def _repr_html_(self) -> str:
        text = (self._text.replace("&", "&amp;").replace("<", "&lt;")
                .replace(">", "&gt;"))
        return f"<pre>{text}</pre>"


def estimate(model: Any, *, dims: Mapping[str, int] | None = None,
             batch: int | None = None, batch_dim: str = "",
             inference: bool = False, optimizer: str = "adam",
             precision: str = "fp32", loss: str = "auto",
             checkpoint: str | int = "none", attention: str = "graph",
             accumulate: int = 1, dp: int = 1, zero: int = 0,
             offload: Sequence[str] | str = (), tp: int = 1,
             sequence_parallel: bool = False, pp: int = 1,
             micro_batches: int = 1, schedule: str = "1f1b", gpu: str = "",
             memory: int | str | None = None, max_batch: bool = False,
             external_dir: PathLike | None = None) -> EstimateReport:
    """How much memory a model takes in training or serving; reads no weights.

    The options are those of `onnx-memopt estimate`, which docs/cli.md
    describes; docs/estimating.md says what the result means.
    """
    source = source_of(model, external_dir)
    options = _core.EstimateOptions()
    options.dims = _positive(dims)
    if batch is not None and batch < 1:
        raise OptionError(f"batch: {batch} is not a positive number")
    options.batch, options.batch_dim = batch, batch_dim
    options.training = not inference
    options.optimizer, options.precision = optimizer, precision
    options.loss, options.checkpoint = loss, str(checkpoint)
    options.attention, options.accumulate = attention, accumulate
    options.data_parallel, options.zero = dp, zero
    offloaded = [offload] if isinstance(offload, str) else list(offload)
    for what in offloaded:
        if what not in ("optimizer", "parameters"):
            raise OptionError("offload: expected optimizer or parameters, "
                              f"not {what!r}")
    options.offload_optimizer = "optimizer" in offloaded
    options.offload_parameters = "parameters" in offloaded
    options.tensor_parallel = tp
    options.sequence_parallel = sequence_parallel
    options.pipeline_parallel, options.micro_batches = pp, micro_batches
    options.schedule, options.gpu = schedule, gpu
    options.memory_bytes, options.max_batch = _bytes(memory), max_batch
    options.external_dir = source.folder
    with source.as_file() as path:
        text, printed = _core.estimate(path, options)
    return EstimateReport(json.loads(text), printed)


def verify(before: Any, after: Any, *, dims: Mapping[str, int] | None = None,
           tolerance: float = 1e-5, threads: int = 1, runs: int = 3,
           level: str = "all", seed: int = 0,
           timeout_seconds: float = 600.0) -> VerifyResult:
    """Runs both models in ONNX Runtime and compares outputs, memory, time.

    Needs onnxruntime and numpy. Both get the same random inputs.

    before, after: as in `analyze`; with external data, paths.
    dims: sizes of named dimensions of the inputs; others are 1.
    tolerance: largest error, relative to the largest magnitude of an output.
    threads: intra-op threads.
    runs: in each session; the last is the steady state.
    level: of ONNX Runtime's graph optimizations: all, extended, basic, none.
    timeout_seconds: for each of the four processes.

    Raises VerifyError where a model cannot be run, and UsageError where a
    request does not fit it. Models that differ are no error.
    """
    from onnx_memopt import _verify
    with source_of(before).as_file() as first:
        with source_of(after).as_file() as second:
            return _verify.verify(
                first, second, dims=dims, tolerance=tolerance, threads=threads,
                runs=runs, level=level, seed=seed,
                timeout_seconds=timeout_seconds)


def session_options(report: Report) -> Any:
    """The session options that suit the model of a report best.

    An onnxruntime.SessionOptions, or a dict of its attributes where
    onnxruntime is not installed. Optimizers that a session should not run are
    in `report.recommended_session.disabled_optimizers`.
    """
    best = report.recommended_session
    values: dict[str, Any] = {}
    if best is not None:
        values = {name: getattr(best, name) for name in (
            "enable_cpu_mem_arena", "enable_mem_pattern", "enable_mem_reuse",
            "execution_order")}
    try:
        import onnxruntime
    except ImportError:
        return values
    options = onnxruntime.SessionOptions()
    for name, value in values.items():
        if name == "execution_order":
            value = getattr(onnxruntime.ExecutionOrder, value)
        setattr(options, name, value)
    return options


def _dims(dims: Dims | None) -> dict[str, list[int]]:
    result = {}
    for name, sizes in (dims or {}).items():
        listed = [sizes] if isinstance(sizes, int) else sorted(set(sizes))
        result[name] = listed
        for size in listed:
            _check_size(name, size)
    return result


def _shapes(shapes: Shapes | None) -> dict[str, list[int]]:
    result = {name: list(shape) for name, shape in (shapes or {}).items()}
    for name, shape in result.items():
        for size in shape:
            _check_size(name, size)
    return result


def _positive(dims: Mapping[str, int] | None) -> dict[str, int]:
    for name, size in (dims or {}).items():
        _check_size(name, size)
    return dict(dims or {})


def _check_size(name: str, size: int) -> None:
    if size < 1:
        raise OptionError(f"\"{name}\": {size} is not a positive number")


def _bytes(size: int | str | None) -> int | None:
    return _core.parse_bytes(size) if isinstance(size, str) else size


def _beside(path: str, word: str = "memopt") -> str:
    """STEM.memopt.onnx beside STEM.onnx, as the program has it."""
    stem, extension = os.path.splitext(path)
    return f"{stem}.{word}{'.onnxtxt' if extension == '.onnxtxt' else '.onnx'}"


def _like(model: Model, path: str) -> Model:
    """A path of the kind that was given."""
    if isinstance(model, str):
        result: Any = path
    else:
        from pathlib import Path
        result = Path(path)
    typed: Model = result
    return typed
