"""Asks the runtime model, through onnx-memopt-opt."""

import json
import subprocess

MIB = 1024 ** 2

# The program's words for the options of a session.
OPTIONS = {
    "bare": ("bare", {"enable_cpu_mem_arena": False,
                      "enable_mem_pattern": False}),
    "default": ("default", {}),
    "no reuse": ("bare,reuse=off", {"enable_cpu_mem_arena": False,
                                    "enable_mem_pattern": False,
                                    "enable_mem_reuse": False}),
    "no arena": ("arena=off", {"enable_cpu_mem_arena": False}),
    "no pattern": ("pattern=off", {"enable_mem_pattern": False}),
    "priority": ("bare,order=priority",
                 {"enable_cpu_mem_arena": False, "enable_mem_pattern": False,
                  "execution_order": "PRIORITY_BASED"}),
}


def predict(bin_dir, path, *options, dims=()):
    """One result for each of `options`."""
    command = [str(bin_dir / "onnx-memopt-opt"), str(path)]
    for dim in dims:
        command += ["--dim", dim]
    for text in options:
        command += ["--predict", text]
    result = subprocess.run(command, capture_output=True, text=True,
                            check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def differs(predicted, measured, relative, absolute=0):
    """Empty, or a line that says by how much."""
    off = abs(predicted - measured)
    if off <= max(relative * measured, absolute):
        return ""
    return (f"predicted {predicted / MIB:.1f} MiB, measured "
            f"{measured / MIB:.1f}: {100 * off / measured:.1f} %")
