"""The models that are measured, made on demand under build/bench/models.

A model is its list of files, the .onnx first. Nothing here imports onnx: see
measure.py.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
SHARED = pathlib.Path(
    os.environ.get("ONNX_MEMOPT_SHARED") or ROOT.parent / "shared")


class Absent(Exception):
    """A model cannot be had here; says why."""


@dataclasses.dataclass
class Model:
    name: str
    # From the folder of models to the model's files; may raise Absent.
    make: object
    # What the program should take: {"analyze": (seconds, bytes)}, either None.
    aims: dict = dataclasses.field(default_factory=dict)
    # Bytes of disk that it and a copy of it take, for the check before.
    disk_bytes: int = 0
    large: bool = False


def tool(*command):
    result = subprocess.run([sys.executable, *map(str, command)],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines()
        raise Absent(lines[-1] if lines else f"exit {result.returncode}")


def shared_model(name):
    path = SHARED / "models" / f"{name}.onnx"
    if not path.exists():
        raise Absent(f"{path.name} is not in the shared models")
    return path


def skeleton(name, folder):
    """A copy of a shared model as it is, without its weights.

    A rewritten model can stand beside it: where data is missing, nothing can
    be written elsewhere.
    """
    source = shared_model(name)
    target = folder / "skeletons" / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    return target


def with_weights(name, folder):
    source = shared_model(name)
    target = folder / name / source.name
    data = target.with_name(target.name + ".data")
    if not target.exists():
        # The model itself is written last.
        tool(SHARED / "tools" / "materialize_weights.py", source,
             target.parent)
    return [target, data]


def embedded(name, folder):
    target = folder / f"{name}_embedded" / f"{name}.onnx"
    if not target.exists():
        source = with_weights(name, folder)[0]
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_suffix(".part")
        tool(HERE / "peers.py", "embed", source, part)
        part.rename(target)
    return [target]


def generated(name, folder, *arguments):
    target = folder / name / f"{name}.onnx"
    data = target.with_name(target.name + ".data")
    if not data.exists() or \
            data.stat().st_mtime < (HERE / "generate.py").stat().st_mtime:
        target.parent.mkdir(parents=True, exist_ok=True)
        tool(HERE / "generate.py", target, *arguments)
    return [target, data]


MIB = 1024 ** 2
GIB = 1024 ** 3


def transformer(nodes, large=False, **aims):
    name = f"transformer_{nodes}"
    return Model(name, lambda folder:
                 generated(name, folder, "--nodes", nodes),
                 aims, large=large)


def quick_models():
    return [transformer(160)]


def models():
    return [
        Model("resnet50", lambda folder: with_weights("resnet50", folder),
              {"analyze": (0.3, 60 * MIB)}, 350 * MIB),
        Model("resnet50, embedded", lambda folder:
              embedded("resnet50", folder),
              {"analyze": (0.3, 60 * MIB)}, 350 * MIB),
        Model("bert", lambda folder: with_weights("bert", folder),
              {"analyze": (0.2, 100 * MIB), "rewrite": (1.2, None)}, GIB),
        Model("unet_sd, no weights", lambda folder:
              [skeleton("unet_sd", folder)],
              {"analyze": (0.5, None)}),
        Model("unet_sd", lambda folder: with_weights("unet_sd", folder),
              {"analyze": (0.5, None)}, 16 * GIB, large=True),
        transformer(10_000),
        transformer(100_000, large=True, analyze=(5, GIB), rewrite=(5, GIB)),
        Model("28 GB", lambda folder:
              generated("28gb", folder, "--layers", 35, "--hidden", 4096),
              {"analyze": (10, 300 * MIB), "rewrite": (10, 300 * MIB)},
              large=True),
    ]
