"""The project's own lint rules: each must find what it is there for."""

import pathlib
import subprocess
import sys

import pytest

LINT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "lint"
sys.path.insert(0, str(LINT))
import check_tree  # noqa: E402


def lint(root: pathlib.Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    tree = check_tree.Tree(root, sorted(files))
    return [f"{name}:{line}: {what}"
            for name, line, what in check_tree.violations(tree)]


@pytest.mark.parametrize("comment", [
    "CHECK: a", "CHECK-NEXT: a", "CHECK-COUNT-3: a", "CHECK-DAG{LITERAL}: [[",
    "checked by hand", "RUN: FileCheck --check-prefix=CHECK %s",
])
def test_directives_are_accepted(tmp_path, comment):
    assert lint(tmp_path, {"test/a.onnxtxt": f"# {comment}\n"}) == []


@pytest.mark.parametrize("comment", [
    "CHECK a", "CHECK-NEXT a", "CHECK-NXT: a", "CHECK : a", "CHECK",
])
def test_a_check_that_checks_nothing_is_found(tmp_path, comment):
    found = lint(tmp_path, {"test/a.onnxtxt": f"x\n# {comment}\n"})
    assert len(found) == 1 and found[0].startswith("test/a.onnxtxt:2:")


def test_prefixes_come_from_the_run_line(tmp_path):
    text = "# RUN: FileCheck --check-prefixes=A,OTHER %s\n# OTHER-NEXT x\n"
    assert len(lint(tmp_path, {"test/a.onnxtxt": text})) == 1


def test_600_lines_are_enough(tmp_path):
    assert lint(tmp_path, {"a.cc": "x\n" * 600}) == []
    assert len(lint(tmp_path, {"a.cc": "x\n" * 601})) == 1
    assert lint(tmp_path, {"model.txt": "x\n" * 601}) == []


# In pieces, since this file is linted too.
@pytest.mark.parametrize("text", [
    "see /ho" + "me/someone/model.onnx", "PATH=/ro" + "ot/bin",
    "https://py" + "pi.org/simple", "files.python" + "hosted.org",
    "// TO" + "DO: later", "<<<<<<" + "< ours",
])
def test_text_that_does_not_belong_is_found(tmp_path, text):
    assert len(lint(tmp_path, {"a.md": f"{text}\n"})) == 1


@pytest.mark.parametrize("text", [
    "docs/work/a", "/usr/lib/llvm-19", "$ROOT/home/a", "TO" + "DO(#12): later",
])
def test_text_that_resembles_it_is_accepted(tmp_path, text):
    assert lint(tmp_path, {"a.md": f"{text}\n"}) == []


def test_a_binary_file_is_not_read_as_text(tmp_path):
    assert lint(tmp_path, {"a.onnx": "\0/ho" + "me/someone\n"}) == []


def test_a_pass_needs_test_and_section(tmp_path):
    files = {"passes/passes.def": '// passes\nPASS("drop-dead", DropDead)\n'}
    assert len(lint(tmp_path, files)) == 2
    files["test/passes/drop_dead.onnxtxt"] = ""
    files["docs/passes.md"] = "## not-drop-dead\ndrop-dead\n"
    assert len(lint(tmp_path, files)) == 1
    files["docs/passes.md"] = "## `drop-dead`\n"
    assert lint(tmp_path, files) == []


def test_a_registry_in_another_form_is_not_passed_over(tmp_path):
    files = {"passes/passes.def": "PASS(DropDead)\n"}
    assert len(lint(tmp_path, files)) == 1


def test_pins_are_listed(tmp_path):
    files = {"third_party/requirements.txt": "lit==23.1.5\n",
             "third_party/versions.txt": "lit  23.1.4  Apache-2.0\n"}
    assert len(lint(tmp_path, files)) == 1
    files["third_party/versions.txt"] = "lit  23.1.5  Apache-2.0\n"
    assert lint(tmp_path, files) == []


def test_pins_of_node_packages_are_listed(tmp_path):
    files = {"tools/a/package.json": '{"dependencies": {"uplot": "1.6.32"}, '
             '"devDependencies": {"esbuild": "^0.28.2"}}\n',
             "third_party/versions.txt": "uplot  1.6.32  MIT\n"
             "esbuild  0.28.2  MIT\n"}
    assert len(lint(tmp_path, files)) == 1
    files["tools/a/package.json"] = '{"dependencies": {"uplot": "1.6.32"}}\n'
    assert lint(tmp_path, files) == []


def test_the_program_fails_on_a_violation(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "a.onnxtxt").write_text("# CHECK" " nothing\n")
    result = subprocess.run(
        [sys.executable, str(LINT / "check_tree.py"), "--root", str(tmp_path)],
        capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "a.onnxtxt:1:" in result.stdout
    (tmp_path / "a.onnxtxt").write_text("# CHECK: something\n")
    result = subprocess.run(
        [sys.executable, str(LINT / "check_tree.py"), "--root", str(tmp_path)],
        capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0,
                                                  "1 passed, 0 failed (files)\n")
