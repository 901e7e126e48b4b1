"""How much memory a model takes in training or serving.

    from onnx_memopt.estimate import estimate
    report = estimate("gpt2.onnx", batch=8, precision="fp16", gpu="A100-80GB")
    report["total_bytes"], report["fits_budget"]

It runs the program `onnx-memopt estimate` and gives back its JSON;
docs/estimating.md lists the fields.
"""

import json
import os
import pathlib
import shutil
import subprocess


class EstimateError(Exception):
    """What the program said."""


def _program() -> str:
    folders = [os.environ.get("ONNX_MEMOPT_BIN_DIR", "")]
    tree = pathlib.Path(__file__).resolve().parents[2]
    folders += os.environ.get("PATH", "").split(os.pathsep)
    folders.append(str(tree / "build" / "release" / "bin"))
    found = shutil.which("onnx-memopt", path=os.pathsep.join(folders))
    if found is None:
        raise FileNotFoundError("onnx-memopt: not on PATH, nor in "
                                "ONNX_MEMOPT_BIN_DIR; ./dev build makes it")
    return found


def estimate(model, *, dims=None, **options) -> dict:
    """The estimate for a model file.

    `dims` maps names of dimensions to sizes. `options` are those of the command
    line with underscores: batch=8, checkpoint="full", max_batch=True. Raises
    EstimateError with the program's message.
    """
    command = [_program(), "estimate", os.fspath(model), "--json", "-"]
    for name, size in (dims or {}).items():
        command += ["--dim", f"{name}={size}"]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            command.append(flag)
        elif value is not None and value is not False:
            command += [flag, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EstimateError(done.stderr.strip().removeprefix("error: "))
    return json.loads(done.stdout)
