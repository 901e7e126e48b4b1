"""Runs the programs under test on a model file."""

import dataclasses
import json
import pathlib
import subprocess
import sys

# The passes that leave every output bit for bit as it is, and every node.
EXACT = "drop-dead,share-initializers,reorder"

# Far more than a small model takes: only a hang reaches it.
TIMEOUT_SECONDS = 300


class ProgramError(Exception):
    """A program ended with an exit code other than 0; the text says why."""


@dataclasses.dataclass(frozen=True)
class Programs:
    """The programs in `bin_dir`; each method raises ProgramError."""

    bin_dir: pathlib.Path

    def analyze(self, model: pathlib.Path, *options: str) -> dict:
        """The report on `model`, which is not rewritten."""
        return json.loads(self._run(
            "onnx-memopt", str(model), "--analyze", "--json", "-", "-q",
            *options))

    def rewrite(self, model: pathlib.Path, output: pathlib.Path,
                *options: str) -> dict:
        """Runs the exact passes; returns the report."""
        return json.loads(self._run(
            "onnx-memopt", str(model), "-o", str(output), "--json", "-", "-q",
            f"--passes={EXACT}", *options))

    def optimize(self, model: pathlib.Path, output: pathlib.Path,
                 *options: str) -> dict:
        """Runs the default pipeline, or the one in `options`."""
        return json.loads(self._run(
            "onnx-memopt", str(model), "-o", str(output), "--json", "-", "-q",
            *options))

    def copy(self, model: pathlib.Path, output: pathlib.Path) -> None:
        """Reads and writes `model` with a pipeline without passes."""
        self._run("onnx-memopt-opt", str(model), "-o", str(output))

    def print_flow(self, model: pathlib.Path) -> str:
        """In which ways the nodes can be run in parts, a line each."""
        return self._run("onnx-memopt-opt", str(model),
                         "--print=flow").decode()

    def _run(self, program: str, *arguments: str) -> bytes:
        command = [str(self.bin_dir / program), *arguments]
        done = subprocess.run(command, capture_output=True, check=False,
                              timeout=TIMEOUT_SECONDS)
        if done.returncode != 0:
            message = done.stderr.decode(errors="replace").strip()
            raise ProgramError(
                f"{program} {' '.join(arguments[1:])}: exit code "
                f"{done.returncode}: {message}")
        return done.stdout


def peak_bytes(*command) -> int:
    """Runs it, and gives the most memory that was resident at a time."""
    script = ("import resource, subprocess, sys\n"
              "subprocess.run(sys.argv[1:], check=True)\n"
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, command)],
        check=True, capture_output=True, text=True, timeout=300)
    return int(done.stdout.split()[-1]) * 1024
