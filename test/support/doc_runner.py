"""Runs the commands of a page of the documentation, in the order in which they
stand there, in a folder of its own.

- A block marked ```sh is a script. A ```text block right after it is what it
  prints, where a line `...` stands for any lines.
- A block marked ```console has commands behind `$ `, each followed by what it
  prints.
- A block marked ```python is a program. A ```text block may follow too.
- `<!-- not run: REASON -->` in the line before a block says that it is not run.

The folder is the one that the pages speak of: `onnx-memopt` in it is the
repository.
"""

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import doc_parser

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md",
        ROOT / "passes" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
UPDATE = os.environ.get("ONNX_MEMOPT_UPDATE_DOCS") == "1"
RUN_LANGUAGES = ("sh", "console", "python")
# Of a block that uses the package, which only an installed wheel has.
PACKAGE = re.compile(r"^\s*(import|from) onnx_memopt\b", re.MULTILINE)
TIMEOUT_S = 60


class Failure(Exception):
    """A command that failed, or that prints something else."""


@dataclass
class Shown:
    """What a command prints, by the page: lines of a block."""

    block: doc_parser.Block
    begin: int
    end: int

    @property
    def lines(self) -> list[str]:
        return self.block.lines[self.begin:self.end]


@dataclass
class Command:
    script: str
    line: int
    language: str
    shown: Shown | None = None


def name(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


def read(path: pathlib.Path) -> doc_parser.Document:
    return doc_parser.parse(path.read_text(encoding="utf-8"))


def uses_package(block: doc_parser.Block) -> bool:
    return block.language == "python" and bool(PACKAGE.search(block.text))


def console_commands(block: doc_parser.Block) -> Iterator[Command]:
    starts = [i for i, line in enumerate(block.lines) if line.startswith("$ ")]
    if not starts or starts[0] != 0:
        raise ValueError(f"line {block.line}: expected a command, \"$ ...\"")
    for start, end in zip(starts, [*starts[1:], len(block.lines)]):
        yield Command(block.lines[start][2:], block.line + start, "console",
                      Shown(block, start + 1, end))


def output_of(block: doc_parser.Block,
              after: doc_parser.Block | None) -> Shown | None:
    """What it prints, if the next block says so: with one line between them."""
    if after is None or after.language != "text":
        return None
    if after.line != block.line + len(block.lines) + 3:
        return None
    return Shown(after, 0, len(after.lines))


def commands(blocks: list[doc_parser.Block],
             package: bool = True) -> Iterator[Command]:
    """Those that are run; without the package, only what does not use it."""
    for block, after in zip(blocks, [*blocks[1:], None]):
        if block.not_run or block.language not in RUN_LANGUAGES:
            continue
        if block.language == "console":
            yield from console_commands(block)
        elif package or not uses_package(block):
            yield Command(block.text, block.line, block.language,
                          output_of(block, after))


def run_script(script: str, folder: pathlib.Path,
               environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder,
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False)
    return done.returncode, done.stdout.decode("utf-8")


def run_python(program: str, folder: pathlib.Path,
               environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False)
    return done.returncode, done.stdout.decode("utf-8")


def agrees(expected: list[str], found: list[str]) -> bool:
    """Line by line; `...` stands for any number of lines."""
    pattern = "".join("(?:.*\n)*?" if line.strip() == "..."
                      else re.escape(line.rstrip()) + "\n"
                      for line in expected)
    return re.fullmatch(
        pattern, "".join(line.rstrip() + "\n" for line in found)) is not None


def replace_lines(path: pathlib.Path, old: Shown, lines: list[str]) -> None:
    text = path.read_text(encoding="utf-8").splitlines()
    start = old.block.line - 1 + old.begin
    text[start:start + len(old.lines)] = [line.rstrip() for line in lines]
    path.write_text("\n".join(text) + "\n", encoding="utf-8")


def prepare(folder: pathlib.Path) -> None:
    """The folder that holds the clone of the repository."""
    (folder / "onnx-memopt").symlink_to(ROOT)


def run_page(path: pathlib.Path, folder: pathlib.Path,
             environment: dict[str, str]) -> None:
    """Runs all, and with ONNX_MEMOPT_UPDATE_DOCS=1 shows what they print."""
    run_commands(path, commands(read(path).blocks), folder, environment)


def run_commands(path: pathlib.Path, to_run: Iterator[Command],
                 folder: pathlib.Path, environment: dict[str, str],
                 update: bool = UPDATE) -> None:
    updates = []
    for command in to_run:
        where = f"{name(path)}:{command.line}"
        run = run_python if command.language == "python" else run_script
        code, output = run(command.script, folder, environment)
        # A console shows how a command fails, too.
        if code != 0 and command.language != "console":
            raise Failure(f"{where}: exit {code}\n{output}")
        shown = command.shown
        found = output.splitlines()
        if shown is None or agrees(shown.lines, found):
            continue
        if not update or "..." in shown.lines:
            raise Failure(f"{where}: exit {code}, it prints\n{output}")
        updates.append((shown, found))
    # From the last to the first, so that line numbers stay valid.
    for shown, found in reversed(updates):
        replace_lines(path, shown, found)
