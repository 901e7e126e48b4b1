"""The result of `onnx-memopt verify` as a table for people, in 80 columns."""

from __future__ import annotations

import math
from typing import List, Optional

from onnx_memopt._verify import (Measurement, ModelResult, Output,
                                PredictedPeaks, VerifyResult)

WIDTH = 80
# Outputs listed one by one; the worst come first.
MAX_OUTPUTS = 10
_LABEL = 30
_COLUMN = 12


def printable(text: str) -> str:
    """On one line of a terminal: a name from a file can do no harm."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shorten(text: str, width: int) -> str:
    """In at most `width` columns: the middle is replaced by "..". """
    text = printable(text)
    if len(text) <= width:
        return text
    head = (width - 2) // 2
    return text[:head] + ".." + text[len(text) - (width - 2 - head):]


def _digits(value: float) -> int:
    """After the point, so that three digits are significant."""
    return 2 if value < 9.995 else 1 if value < 99.95 else 0


def format_bytes(size: Optional[int]) -> str:
    """Binary units, three significant digits; "-" where it is unknown."""
    if size is None:
        return "-"
    if size < 1024:
        return f"{size} B"
    value, unit = float(size), "B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 999.5:
            break
    return f"{value:.{_digits(value)}f} {unit}"


def format_seconds(seconds: Optional[float]) -> str:
    if seconds is None:
        return "-"
    value, unit = ((seconds, "s") if seconds >= 0.9995 else
                   (seconds * 1e3, "ms") if seconds >= 0.9995e-3 else
                   (seconds * 1e6, "us"))
    return f"{value:.{_digits(value)}f} {unit}"


def _change(before: Optional[float], after: Optional[float]) -> str:
    if before is None or after is None or before == 0:
        return "-"
    percent = round((after / before - 1) * 100)
    return f"{percent:+d} %" if percent else "0 %"


def _row(label: str, cells: List[str]) -> str:
    return (f"{label:<{_LABEL}}" +
            "".join(f"{cell:>{_COLUMN}}" for cell in cells)).rstrip()


def _measurements(model: Optional[ModelResult]) -> List[Optional[Measurement]]:
    return [None, None] if model is None else [model.bare, model.default]


def _memory(result: VerifyResult) -> List[str]:
    before, after = result.before, result.after
    prediction = after.prediction if after is not None else None
    heads = ["before", "after", "change"]
    lines = [_row("memory", heads + (["predicted"] if prediction else []))]

    def add(label: str, first: Optional[int], second: Optional[int],
            predicted: str) -> None:
        cells = [format_bytes(first), format_bytes(second),
                 _change(first, second)]
        lines.append(_row("  " + label,
                          cells + ([predicted] if prediction else [])))

    add("loaded session", before.default.session_bytes,
        after.default.session_bytes if after else None, "")
    for name, mine, theirs in zip(("bare", "default"), _measurements(before),
                                  _measurements(after)):
        assert mine is not None
        peaks: PredictedPeaks = (getattr(prediction, name) if prediction
                                 else PredictedPeaks())
        add(f"above it, {name}: run 1", mine.first_peak_bytes,
            theirs.first_peak_bytes if theirs else None,
            format_bytes(peaks.first_peak_bytes))
        if mine.steady_peak_bytes is not None:
            add(" " * len(f"above it, {name}: ") + "steady",
                mine.steady_peak_bytes,
                theirs.steady_peak_bytes if theirs else None,
                format_bytes(peaks.steady_peak_bytes))
    return lines


def _time(result: VerifyResult) -> List[str]:
    mine = result.before.default
    theirs = result.after.default if result.after is not None else None
    lines = [_row("time, default options", ["before", "after", "change"])]
    for label, key in (("loading", "load_seconds"), ("run, best",
                       "best_seconds"), ("run, median", "median_seconds")):
        first: float = getattr(mine, key)
        second: Optional[float] = getattr(theirs, key) if theirs else None
        lines.append(_row("  " + label,
                          [format_seconds(first), format_seconds(second),
                           _change(first, second)]))
    return lines


def _error(output: Output) -> str:
    if output.bit_equal:
        return "bit-equal"
    if math.isinf(output.max_relative_error):
        return "not comparable: NaN, infinity, all zeros or strings"
    return (f"largest error {output.max_relative_error:.2g} "
            "of the largest value")


def _outputs(result: VerifyResult) -> List[str]:
    lines = ["outputs"]
    lines += ["  " + shorten(text, WIDTH - 2) for text in result.differences]
    listed = sorted(result.outputs, key=lambda o: -o.max_relative_error)
    width = min(max((len(printable(o.name)) for o in listed), default=0), 24)
    for output in listed[:MAX_OUTPUTS]:
        lines.append(f"  {shorten(output.name, width):<{width}}  "
                     f"{_error(output)}")
    if len(listed) > MAX_OUTPUTS:
        lines.append(f"  and {len(listed) - MAX_OUTPUTS} more, none worse")
    return lines


def verdict(result: VerifyResult) -> str:
    """One line: whether the models are equal, and in which sense."""
    if result.differences:
        return "DIFFERENT: not the same inputs and outputs"
    if result.bit_equal:
        return "equal: every bit of the outputs"
    tolerance = f"the tolerance of {result.tolerance:g}"
    if result.equal:
        return f"equal: within {tolerance}"
    return f"DIFFERENT: beyond {tolerance}"


def to_text(result: VerifyResult) -> str:
    """The whole table."""
    after = (result.after.path if result.after is not None
             else "not run: it does not take the inputs of before")
    threads = f"{result.threads} thread{'' if result.threads == 1 else 's'}"
    runs = len(result.before.default.runs)
    lines = [
        f"ONNX Runtime {result.runtime_version}, level {result.level}, "
        f"{threads}, {runs} run{'' if runs == 1 else 's'}, seed {result.seed}",
        "before: " + shorten(result.before.path, WIDTH - 8),
        "after:  " + shorten(after, WIDTH - 8),
    ]
    for value in result.inputs:
        kind = value.type[len("tensor("):-1]
        shape = ", ".join(
            f"{size}?" if axis in value.assumed_axes else str(size)
            for axis, size in enumerate(value.shape))
        text = f"{kind}[{shape}]"
        lines.append("input:  " + shorten(
            value.name, max(8, WIDTH - 9 - len(text))) + " " + text)
    if any(value.assumed_axes for value in result.inputs):
        lines.append("  ? was not given, so it is 1" + (
            "; --dim NAME=N gives one, with NAME of:"
            if result.assumed_dims else ""))
        lines += ["    " + shorten(name, WIDTH - 4)
                  for name in result.assumed_dims]
    sections = [lines, _memory(result), _time(result),
                _outputs(result) + [verdict(result)]]
    if result.notes:
        sections.insert(1, ["note: " + printable(n) for n in result.notes])
    return "\n\n".join("\n".join(section) for section in sections) + "\n"
