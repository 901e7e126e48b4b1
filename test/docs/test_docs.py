"""What the documentation says is true of the programs and of the tree; its
commands are in test_docs_commands.py.

    ONNX_MEMOPT_UPDATE_DOCS=1 python -m pytest test/docs

writes docs/cli.md anew.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from doc_runner import DOCS, ROOT, UPDATE, name, read, run_script

BIN_DIR = pathlib.Path(os.environ.get("ONNX_MEMOPT_BIN_DIR",
                                      ROOT / "build" / "release" / "bin"))
HEADERS = sorted((ROOT / "include").rglob("*.h"))
# Folders whose files are named in the text. bench/ has files that a script
# makes.
TREE_PATH = re.compile(
    r"(include|lib|passes|tools|test|cmake|third_party|docs|python|examples|data)/"
    r"[\w./-]*\w")


def program(which: str) -> str:
    path = BIN_DIR / which
    if not path.is_file():
        pytest.skip(f"{path}: no such program; ./dev build makes it")
    return str(path)


def environment() -> dict[str, str]:
    program("onnx-memopt")
    folders = [str(BIN_DIR.resolve()), str(pathlib.Path(sys.executable).parent)]
    return {**os.environ, "LC_ALL": "C.UTF-8",
            "PATH": os.pathsep.join([*folders, os.environ["PATH"]])}


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_links_resolve(path):
    broken = []
    for number, target in read(path).links():
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        linked = (path.parent / file).resolve() if file else path
        if not linked.exists():
            broken.append(f"{name(path)}:{number}: {target}: no such file")
        elif anchor and anchor not in read(linked).anchors:
            broken.append(f"{name(path)}:{number}: {target}: no such section")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("path", DOCS, ids=name)
def test_files_that_are_named_exist(path):
    missing = []
    for number, span in read(path).code_spans():
        # NAME and LIBRARY stand for any.
        if not TREE_PATH.fullmatch(span) or re.search("[A-Z]{4}", span):
            continue
        if not (ROOT / span).exists():
            missing.append(f"{name(path)}:{number}: {span}: no such file")
    assert not missing, "\n".join(missing)


def registered_passes() -> list[str]:
    text = (ROOT / "passes" / "passes.def").read_text(encoding="utf-8")
    names = re.findall(r'^PASS\("([^"]+)"', text, re.MULTILINE)
    assert names, "passes/passes.def registers no pass"
    return names


@pytest.mark.parametrize("which", registered_passes())
def test_pass_has_a_section_with_its_options(which):
    text = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")
    match = re.search(rf"^## {re.escape(which)}$(.*?)(?=^## |\Z)", text,
                      re.MULTILINE | re.DOTALL)
    assert match, f'docs/passes.md has no section "## {which}"'
    for topic in ("Options", "Refuses", "Must not run after it"):
        assert f"**{topic}**" in match[1], f"{which}: nothing on **{topic}**"
    listing = subprocess.run([program("onnx-memopt"), "--list-passes"],
                             capture_output=True, text=True, check=True).stdout
    own = re.search(rf"^{re.escape(which)}: .*\n((?:  .*\n)*)", listing,
                    re.MULTILINE)
    assert own, f"{which} is not in --list-passes"
    for option, default in re.findall(r"^  ([\w-]+)=(\S+)", own[1],
                                      re.MULTILINE):
        assert f"`{option}` ({default})" in match[1], f"{which}: {option}"


def test_default_pipeline_is_as_documented():
    listing = subprocess.run([program("onnx-memopt"), "--list-passes"],
                             capture_output=True, text=True, check=True).stdout
    default = re.search(r"^default: (\S+)$", listing, re.MULTILINE)[1]
    text = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8")
    assert f"`{default}`" in text


@pytest.mark.parametrize("path", HEADERS, ids=name)
def test_header_opens_with_what_it_is_and_an_example(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = []
    for line in lines:
        if not line.startswith("//"):
            break
        comment.append(line)
    assert len(comment) >= 3, "no comment at the top"
    assert re.match(r"// \S", comment[0])
    code = [line for line in comment if re.match(r"//   +\S.*[;(=]", line)]
    assert code, "no example: expected code, indented, in the first comment"
    assert lines[len(comment)].startswith("#ifndef")


def cli_page() -> str:
    sections = []
    for title, intro, arguments in [
        ("onnx-memopt", "", ["onnx-memopt", "--help"]),
        ("Passes", "`onnx-memopt --list-passes`; what they do is in "
         "[passes.md](passes.md).\n\n", ["onnx-memopt", "--list-passes"]),
        ("onnx-memopt estimate", "[estimating.md](estimating.md) has examples, "
         "and says what is counted.\n\n",
         ["onnx-memopt", "estimate", "--help"]),
        ("onnx-memopt verify", "[verify.md](verify.md) has an example, and "
         "says what is measured.\n\n", ["onnx-memopt", "verify", "--help"]),
        ("onnx-memopt tensors", "[verify.md](verify.md#where-two-models-part) "
         "has an example.\n\n", ["onnx-memopt", "tensors", "--help"]),
        ("onnx-memopt moments", "[passes.md](passes.md#factorize) has an "
         "example.\n\n", ["onnx-memopt", "moments", "--help"]),
        ("onnx-memopt diff", "[report.md](report.md#comparing-two-reports) has "
         "an example.\n\n", ["onnx-memopt", "diff", "--help"]),
        ("onnx-memopt train", "[training.md](training.md) explains it.\n\n",
         ["onnx-memopt", "train", "--help"]),
        ("onnx-memopt suggest-student", "[distillation.md]"
         "(distillation.md#a-smaller-network) has an example.\n\n",
         ["onnx-memopt", "suggest-student", "--help"]),
        ("onnx-memopt-plan", "[planning.md](planning.md) explains it, with "
         "the form of the files.\n\n", ["onnx-memopt-plan", "--help"]),
        ("onnx-memopt-opt", "For developers, and for the textual tests.\n\n",
         ["onnx-memopt-opt", "--help"]),
    ]:
        done = subprocess.run([program(arguments[0]), *arguments[1:]],
                              env=environment(), capture_output=True,
                              text=True, check=True)
        output = "\n".join(line.rstrip() for line in done.stdout.splitlines())
        sections.append(
            f"## {title}\n\n{intro}```text\n{output.strip()}\n```\n")
    return ("# Command line\n\nWhat the programs themselves print. Made by "
            "`ONNX_MEMOPT_UPDATE_DOCS=1 python -m pytest\ntest/docs`, run at "
            "the top of the repository.\n\n" + "\n".join(sections))


def test_cli_page_is_up_to_date():
    path = ROOT / "docs" / "cli.md"
    page = cli_page()
    if UPDATE:
        path.write_text(page, encoding="utf-8")
    assert path.is_file() and path.read_text(encoding="utf-8") == page, (
        "docs/cli.md is stale: run ONNX_MEMOPT_UPDATE_DOCS=1 python -m pytest "
        "test/docs")


def test_faq_has_every_situation_that_is_tested():
    """By the numbers in the names of the tests; the page has them in comments
    behind its headings."""
    tested = set()
    for path in (ROOT / "test").rglob("test_rows_*.py"):
        tested |= set(re.findall(r"^def test_([RF]\d\d)_",
                                 path.read_text(encoding="utf-8"),
                                 re.MULTILINE))
    assert tested
    page = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    answered = {number for comment in re.findall(r"^<!-- (.*) -->$", page,
                                                 re.MULTILINE)
                for number in comment.split()}
    assert tested <= answered, sorted(tested - answered)


def test_help_speaks_to_users():
    done = subprocess.run([program("onnx-memopt"), "--help"],
                          capture_output=True, text=True, check=True)
    # How CLI11 shows a mapping that nobody has named.
    assert "->" not in done.stdout
    # The gate compares peaks and weights, not files.
    growth = re.search(r"--fail-on-growth +(.*)", done.stdout)[1]
    assert "peak" in growth


def test_memory_model_example_is_as_computed_by_hand(tmp_path):
    """The table of docs/memory_model.md against the model beside it."""
    path = ROOT / "docs" / "memory_model.md"
    document = read(path)
    models = [block for block in document.blocks
              if "cat > example.onnxtxt" in block.text]
    assert len(models) == 1
    rows = [re.split(r"\s*\|\s*", line.strip("| "))
            for _, line in document.prose if re.match(r"\| \d+ \|", line)]
    by_hand = {int(row[0]): int(row[-1]) for row in rows}
    assert len(by_hand) == 5
    program("onnx-memopt-opt")
    code, output = run_script(
        models[0].text + "onnx-memopt-opt example.onnxtxt --print=profile",
        tmp_path, environment())
    assert code == 0, output
    # The last profile: the block may print one itself.
    profile = output.rpartition("peak ")[2]
    found = {int(step): int(size) for step, size in
             re.findall(r"^  (\d+): (\d+)$", profile, re.MULTILINE)}
    assert found == by_hand


def test_example_pass_compiles(tmp_path):
    """The pass in passes/README.md against the headers of the libraries."""
    include = BIN_DIR.resolve().parent / "include"
    compiler = shutil.which("g++")
    llvm = pathlib.Path("/usr/lib/llvm-19/include")
    if not include.is_dir() or compiler is None or not llvm.is_dir():
        pytest.skip("needs g++, LLVM's headers and a build folder")
    sources = [block for block in read(ROOT / "passes" / "README.md").blocks
               if block.language == "cpp"]
    assert sources
    source = tmp_path / "example.cc"
    source.write_text(sources[0].text, encoding="utf-8")
    folders = [f"-I{include / library}" for library in
               ("support", "ir", "plan", "analysis", "pass")]
    done = subprocess.run(
        [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra",
         "-Wconversion", "-Wno-sign-conversion", "-Wshadow", "-Werror",
         *folders, "-isystem", str(llvm), str(source)],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
