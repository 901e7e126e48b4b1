"""The command line of `onnx-memopt verify`."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
import tempfile
from typing import Dict, List, NoReturn, Optional

from onnx_memopt import __version__
from onnx_memopt._verify_text import printable, to_text
from onnx_memopt._verify import LEVELS, UsageError, VerifyError, verify

EXIT_OK = 0
EXIT_MODEL_ERROR = 1  # a model, or reading and writing files
EXIT_USAGE = 2
EXIT_DIFFERENT = 3

# By hand: argparse lays it out anew in each version of Python.
HELP = """\
Runs two models in ONNX Runtime with the same random inputs, each in processes
of its own, and shows outputs, memory and time next to each other.

Usage: onnx-memopt verify [OPTIONS] BEFORE AFTER

  BEFORE, AFTER            .onnx or .onnxtxt files

  --dim NAME=N             size of a named dimension of the inputs; 1 if not
                           given
  --tolerance X            largest error that counts as equal, relative to the
                           largest value of an output (1e-5)
  --level LEVEL            graph optimizations of the runtime: all, extended,
                           basic or none (all)
  --threads N              threads of the runtime (1)
  --runs N                 runs of each session; the last one is the steady
                           state (3)
  --seed N                 of the random inputs (0)
  --timeout S              seconds for each of the four processes (600)
  --json FILE              the result as JSON; - for stdout, where nothing else
                           goes then

  -h, --help               this text
  --version                the version

Exit codes: 0 equal, 1 a model or a file, 2 usage, 3 the outputs differ.
"""


class _Parser(argparse.ArgumentParser):
    def format_help(self) -> str:
        return HELP

    def error(self, message: str) -> NoReturn:
        raise _WrongUsage(message)


class _WrongUsage(Exception):
    pass


def _positive(text: str) -> int:
    value = _natural(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f'"{text}" is not a positive number')
    return value


def _natural(text: str) -> int:
    # With 18 digits it fits into 64 bits.
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise argparse.ArgumentTypeError(
            f'"{text[:40]}" is not a number from 0 to 10^18 - 1')
    return int(text)


def _real(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f'"{text}" is not a number from 0 on')
    return value


def _seconds(text: str) -> float:
    value = _real(text)
    # What a wait can take; longer than any run.
    if not 0 < value <= 1e9:
        raise argparse.ArgumentTypeError(
            f'"{text}" is not a number of seconds')
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="onnx-memopt verify", allow_abbrev=False)
    parser.add_argument("before", metavar="BEFORE")
    parser.add_argument("after", metavar="AFTER")
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--tolerance", type=_real, default=1e-5)
    parser.add_argument("--level", choices=LEVELS, default="all")
    parser.add_argument("--threads", type=_positive, default=1)
    parser.add_argument("--runs", type=_positive, default=3)
    parser.add_argument("--seed", type=_natural, default=0)
    parser.add_argument("--timeout", type=_seconds, default=600.0)
    parser.add_argument("--json")
    parser.add_argument("--version", action="version",
                        version=f"onnx-memopt {__version__}")
    return parser


def _dims(texts: List[str]) -> Dict[str, int]:
    dims: Dict[str, int] = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        if not name:
            raise _WrongUsage(f'--dim: expected NAME=N, not "{text}"')
        try:
            value = _positive(size)
        except argparse.ArgumentTypeError as error:
            raise _WrongUsage(f"--dim: {error}") from None
        if dims.setdefault(name, value) != value:
            raise _WrongUsage(f'--dim: two sizes for "{name}"')
    return dims


def _write(path: str, text: str) -> None:
    """Whole or not at all."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".onnx-memopt-")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        # A temporary file is private; this one is as open would make it.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _fail(message: str, code: int) -> int:
    print(f"error: {printable(message)}", file=sys.stderr)
    return code


def _run(argv: Optional[List[str]]) -> int:
    arguments = _parser().parse_args(argv)
    if arguments.json not in (None, "-"):
        folder = os.path.dirname(os.path.abspath(arguments.json))
        if not os.path.isdir(folder):  # Said before the minutes of a run.
            raise VerifyError(arguments.json, "no such folder")
    result = verify(arguments.before, arguments.after,
                    dims=_dims(arguments.dim), tolerance=arguments.tolerance,
                    threads=arguments.threads, runs=arguments.runs,
                    level=arguments.level, seed=arguments.seed,
                    timeout_seconds=arguments.timeout)
    if arguments.json is not None:
        text = json.dumps(result.to_dict(), indent=2, allow_nan=False) + "\n"
        if arguments.json == "-":
            sys.stdout.write(text)
        else:
            try:
                _write(arguments.json, text)
            except OSError as error:
                raise VerifyError(arguments.json,
                                  error.strerror or str(error)) from None
    if arguments.json != "-":
        sys.stdout.write(to_text(result))
    sys.stdout.flush()
    return EXIT_OK if result.equal else EXIT_DIFFERENT


def main(argv: Optional[List[str]] = None) -> int:
    """Runs the command line; gives the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A name of a tensor may have letters that the terminal lacks.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(argv)
    except _WrongUsage as error:
        return _fail(f"{error}; see onnx-memopt verify --help", EXIT_USAGE)
    except UsageError as error:
        return _fail(str(error), EXIT_USAGE)
    except VerifyError as error:
        return _fail(str(error), EXIT_MODEL_ERROR)
    except OSError as error:
        if error.filename is None:
            # Of stdout. Python would try again to write what is left, and
            # complain in its own way.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail(f"{error.filename or 'stdout'}: "
                     f"{error.strerror or error}", EXIT_MODEL_ERROR)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
