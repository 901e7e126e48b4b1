#!/usr/bin/env python3
"""Writes the golden reports again; look at the difference as at code.

    python test/golden/update_golden.py
"""

import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "support"))
from memopt_program import PROGRAM, ROOT  # noqa: E402

# Model, and the arguments of the run.
CASES = {
    "encoder": (FOLDER / "encoder.onnxtxt", ["--dim", "batch=2", "--dim",
                                             "seq=16,128"]),
    "branches": (FOLDER / "branches.onnxtxt", []),
    "loop": (FOLDER / "loop.onnxtxt", []),
    "mobilenetv3": (ROOT / "test/models/mobilenetv3.onnx", ["--top", "4"]),
}


def report(name: str) -> tuple[str, str]:
    """The text and the JSON report of a rewrite, without times."""
    model, arguments = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / model.name).write_bytes(model.read_bytes())
        done = subprocess.run([PROGRAM, model.name, "-o", "out.onnx",
                               *arguments], cwd=folder, check=True,
                              capture_output=True, text=True, timeout=60)
        json = (pathlib.Path(folder) / "out.json").read_text()
    json = re.sub(r'"seconds": [0-9.e+-]+', '"seconds": 0', json)
    json = re.sub(r'"version": "[^"]*"', '"version": "0.0.0"', json)
    return done.stdout, json


def main() -> None:
    for name in CASES:
        text, json = report(name)
        (FOLDER / f"{name}.txt").write_text(text)
        (FOLDER / f"{name}.json").write_text(json)


if __name__ == "__main__":
    main()
