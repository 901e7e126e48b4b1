"""What this program is compared with, each as a command line.

    peers.py onnx IN OUT     load and save with the onnx package
    peers.py embed IN OUT    put a model's external weights into its file
"""

import dataclasses
import importlib.metadata
import os
import pathlib
import shutil
import sys


@dataclasses.dataclass
class Peer:
    name: str
    # The package that must be installed; None: a program of the system.
    package: str | None
    # From the model's files, the output folder; None if there is no such peer.
    command: object


def model_of(files):
    return str(files[0])


def onnxsim_program():
    beside = pathlib.Path(sys.executable).with_name("onnxsim")
    return str(beside) if beside.exists() else shutil.which("onnxsim")


def peers():
    def onnx_command(files, folder):
        return [sys.executable, __file__, "onnx", model_of(files),
                os.path.join(folder, files[0].name)]

    def onnxsim_command(files, folder):
        command = [onnxsim_program() or "onnxsim", model_of(files),
                   os.path.join(folder, files[0].name)]
        # One protobuf cannot hold more.
        if len(files) > 1 and files[1].stat().st_size > 1.5e9:
            command.append("--save-as-external-data")
        return command

    return [
        Peer("cp", None, lambda files, folder:
             ["cp", *map(str, files), folder]),
        Peer("onnx load + save", "onnx", onnx_command),
        Peer("onnxsim", "onnxsim", onnxsim_command),
        Peer("onnx-tool profile", "onnx-tool", lambda files, folder:
             [sys.executable, "-m", "onnx_tool", "-m", "profile", "-i",
              model_of(files), "-f", os.path.join(folder, "profile.csv")]),
    ]


def version_of(package):
    """None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def load_and_save(source, target):
    import onnx

    model = onnx.load(source)
    data = os.path.basename(target) + ".data"
    if os.path.exists(source + ".data"):
        onnx.save(model, target, save_as_external_data=True, location=data)
    else:
        onnx.save(model, target)


def embed(source, target):
    import onnx

    onnx.save(onnx.load(source), target)


def main():
    actions = {"onnx": load_and_save, "embed": embed}
    if len(sys.argv) != 4 or sys.argv[1] not in actions:
        sys.exit(__doc__)
    actions[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
