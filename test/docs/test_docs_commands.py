"""Every command of the documentation is run, and prints what is shown.

doc_runner.py says what a block is, and which are run. Those that are marked as
not run are listed at the end of a test run, each with the reason. Pages that use
the Python package are run by test/wheel, in an environment that has it.

    ONNX_MEMOPT_UPDATE_DOCS=1 python -m pytest test/docs

puts what the programs print into the blocks that have no `...`.
"""

import os
import pathlib
import re
import shutil
import sys

import pytest

import doc_parser
from doc_runner import (DOCS, ROOT, RUN_LANGUAGES, UPDATE, Failure, agrees,
                        commands, console_commands, name, prepare, read,
                        run_commands, run_script, uses_package)

BIN_DIR = pathlib.Path(os.environ.get("ONNX_MEMOPT_BIN_DIR",
                                      ROOT / "build" / "release" / "bin"))
# Languages of blocks that have no commands.
OTHER_LANGUAGES = ("text", "cpp")
# What begins a command, where a block says that it has none.
COMMAND = re.compile(r"\s*(\$ |\./dev |onnx-memopt(-opt|-plan|-verify)? \S"
                     r"|pip install |python3? )")
NOT_RUN = "commands of the documentation that no test runs"


def environment() -> dict[str, str]:
    if not (BIN_DIR / "onnx-memopt").is_file():
        pytest.skip(f"{BIN_DIR / 'onnx-memopt'}: no such program; ./dev build "
                    "makes it")
    folders = [str(BIN_DIR.resolve()), str(pathlib.Path(sys.executable).parent)]
    # Programs in Python print in the order in which they run.
    return {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1",
            "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}


def default_model() -> tuple[str, str]:
    """What `./dev run` runs on, and the options for it."""
    text = (ROOT / "dev").read_text(encoding="utf-8")
    return (re.search(r"^readonly DEFAULT_MODEL=(\S+)$", text, re.MULTILINE)[1],
            re.search(r"^readonly DEFAULT_SIZES=\((.*)\)$", text,
                      re.MULTILINE)[1])


def as_clone(folder: pathlib.Path) -> None:
    """A folder in which the README's `./dev run` works, and writes nothing into
    this tree: the program is built already."""
    model, sizes = default_model()
    (folder / model).parent.mkdir(parents=True)
    shutil.copy(ROOT / model, folder / model)
    (folder / "dev").write_text(
        "#!/bin/sh\ntest \"$1\" = run || exit 2\nshift\n"
        f"exec onnx-memopt {model} {sizes} \"$@\"\n", encoding="utf-8")
    (folder / "dev").chmod(0o755)


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_commands_run_and_print_what_is_shown(path, tmp_path, tallies):
    blocks = read(path).blocks
    for block in blocks:
        if block.not_run:
            tallies[NOT_RUN].add(f"{name(path)}: {block.not_run}")
    if any(uses_package(b) and not b.not_run for b in blocks) and not UPDATE:
        pytest.skip("test/wheel runs this page, from its top to its end")
    if path == ROOT / "README.md":
        as_clone(tmp_path)
    else:
        prepare(tmp_path)
    try:
        run_commands(path, commands(blocks, package=False), tmp_path,
                     environment())
    except Failure as failure:
        pytest.fail(str(failure))


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_no_command_hides_from_the_tests(path):
    """A block says what it is, and text that is no block has no commands."""
    document = read(path)
    hidden = []
    for block in document.blocks:
        if block.language in RUN_LANGUAGES:
            continue
        if block.language not in (*OTHER_LANGUAGES, ""):
            hidden.append(f"{block.line}: ```{block.language}")
        # `text` is what programs print, help with examples too.
        if block.language == "":
            hidden += [f"{block.line + i}: {line}"
                       for i, line in enumerate(block.lines)
                       if COMMAND.match(line)]
    hidden += [f"{number}: {line}" for number, line in document.prose
               if line.startswith("    ") and COMMAND.match(line)]
    assert not hidden, f"{name(path)}:\n" + "\n".join(hidden)


def spans() -> list[tuple[str, str]]:
    """Commands in the running text that can be typed as they are: with a file
    or an option, and without a word in capitals, which stands for any."""
    found = []
    for path in DOCS:
        for number, span in read(path).code_spans():
            if (re.match(r"onnx-memopt(-opt|-plan)? .*(--|\.\w)", span) and
                    not re.search(r"\b[A-Z]+\b|\.\.\.|<", span)):
                found.append((f"{name(path)}:{number}", span))
    return found


# What the files are called that the running text speaks of.
MLP = """
<ir_version: 8, opset_import: ["" : 17]>
mlp (float[batch, 4] x) => (float[batch, 3] y)
<float[4, 3] w = {1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1}> {
  h = MatMul (x, w)
  y = Relu (h)
}
"""


@pytest.fixture(name="with_models")
def made_models(tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(MLP).SerializeToString()
    for stem in ("model", "a", "b", "m"):
        (tmp_path / f"{stem}.onnx").write_bytes(model)
    shutil.copy(ROOT / "test/estimate/gpt2.onnx", tmp_path)
    code, output = run_script(
        "for m in a b; do onnx-memopt $m.onnx -q --analyze --json $m.json; done",
        tmp_path, environment())
    assert code == 0, output
    return tmp_path


@pytest.mark.parametrize("where, span", spans())
def test_commands_in_the_text_are_right(where, span, with_models):
    code, output = run_script(span, with_models, environment())
    # 3: a gate that such a model does not pass.
    assert code in (0, 3), f"{where}: {span}\n{output}"


def test_shown_output_that_differs_is_noticed():
    assert agrees(["a", "...", "c"], ["a", "b", "b", "c"])
    assert agrees(["a", "...", "c"], ["a", "c"])
    assert not agrees(["a", "...", "c"], ["a", "b"])
    assert not agrees(["a.c"], ["abc"])
    assert not agrees(["a"], ["a", "b"])


PAGE = """
```console
$ echo one
one
$ false
```

<!-- not run: it takes an hour -->
```sh
sleep 3600
```

```python
print("two")
```

```text
three
```
"""


def test_all_of_a_page_is_run_but_what_is_marked(tmp_path):
    blocks = doc_parser.parse(PAGE).blocks
    assert [b.not_run for b in blocks] == ["", "it takes an hour", "", ""]
    found = list(commands(blocks))
    assert [c.script.strip() for c in found] == [
        "echo one", "false", 'print("two")']
    assert [c.shown and c.shown.lines for c in found] == [
        ["one"], [], ["three"]]
    # Text further down is not what it prints.
    apart = doc_parser.parse(PAGE.replace("```text", "Now:\n\n```text")).blocks
    assert [c.shown is None for c in commands(apart)] == [False, False, True]
    page, ours = ROOT / "README.md", dict(os.environ)
    run_commands(page, iter(found[:2]), tmp_path, ours, update=False)
    with pytest.raises(Failure, match="it prints\ntwo"):
        run_commands(page, iter(found[2:]), tmp_path, ours, update=False)
    with pytest.raises(ValueError, match="expected a command"):
        list(console_commands(doc_parser.Block("console", 1, "", ["x"])))
