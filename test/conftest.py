"""What the Python tests share: where the programs and the models are.

ONNX_MEMOPT_BIN_DIR  the folder of the programs [build/release/bin]
ONNX_MEMOPT_SHARED   the folder with models/ and tools/ [../shared]

A missing program is a failure: a test run that tests nothing must not pass.
The shared models are not part of the repository, so without them their tests
are skipped.
"""

import collections
import os
import pathlib
import subprocess
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Tally:
    """Counts by name; several threads may add."""

    def __init__(self):
        self._lock = threading.Lock()
        self._counts = collections.Counter()

    def add(self, what: str, count: int = 1) -> None:
        with self._lock:
            self._counts[what] += count

    def __getitem__(self, what: str) -> int:
        return self._counts[what]

    def items(self) -> list[tuple[str, int]]:
        return sorted(self._counts.items())


_TALLIES = pytest.StashKey[dict[str, Tally]]()


@pytest.fixture(scope="session")
def bin_dir() -> pathlib.Path:
    """The folder of the programs under test."""
    default = ROOT / "build" / "release" / "bin"
    folder = pathlib.Path(os.environ.get("ONNX_MEMOPT_BIN_DIR", default))
    for program in ("onnx-memopt", "onnx-memopt-opt"):
        if not os.access(folder / program, os.X_OK):
            pytest.fail(f"{program} is not in {folder}: build it, or set "
                        "ONNX_MEMOPT_BIN_DIR")
    return folder.resolve()


@pytest.fixture(scope="session")
def shared_dir() -> pathlib.Path:
    """The folder with the shared models; skips the test if there is none."""
    default = ROOT.parent / "shared"
    folder = pathlib.Path(os.environ.get("ONNX_MEMOPT_SHARED", default))
    if not (folder / "models").is_dir():
        pytest.skip(f"no shared models in {folder}: set ONNX_MEMOPT_SHARED")
    return folder.resolve()


@pytest.fixture
def materialize(request, tmp_path):
    """A function that gives a shared model weights of random values, and its
    path; skips the test if there is none of that name. Deleted after the
    test, since some are gigabytes."""
    def make(name: str) -> pathlib.Path:
        # Asked for here, since a test may turn out to need none of them.
        shared = request.getfixturevalue("shared_dir")
        source = shared / "models" / f"{name}.onnx"
        if not source.is_file():
            pytest.skip(f"no {source.name} among the shared models")
        subprocess.run(
            [sys.executable, shared / "tools/materialize_weights.py", source,
             tmp_path], check=True, stdout=subprocess.DEVNULL)
        return tmp_path / source.name

    yield make
    for path in tmp_path.iterdir():
        if path.is_file():
            path.unlink()


@pytest.fixture(scope="session")
def tallies(request) -> dict[str, Tally]:
    """By title; printed at the end of the run."""
    return request.config.stash[_TALLIES]


def pytest_configure(config):
    config.stash[_TALLIES] = collections.defaultdict(Tally)


# With several processes (pytest-xdist), each sends its tallies when it ends.
def pytest_sessionfinish(session):
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["tallies"] = {title: dict(tally.items()) for title, tally
                             in session.config.stash[_TALLIES].items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    # A process that crashed sent nothing.
    sent = getattr(node, "workeroutput", {}).get("tallies", {})
    for title, counts in sent.items():
        for what, count in counts.items():
            node.config.stash[_TALLIES][title].add(what, count)


def pytest_terminal_summary(terminalreporter, config):
    for title, tally in sorted(config.stash[_TALLIES].items()):
        terminalreporter.write_sep("-", title)
        for what, count in tally.items():
            terminalreporter.write_line(f"{count:7}  {what}")
