#!/usr/bin/env python3
"""Checks the project's own rules, those that no compiler or formatter knows.

    python tools/lint/check_tree.py [--root FOLDER]

Looks at every file that git tracks or would track, prints one line per
violation (`file:line: what is wrong`), and fails if there is one. Each rule is
a function that yields violations; RULES lists them.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_LINES = 600
CODE_SUFFIXES = {".h", ".cc", ".def", ".py", ".sh", ".cmake", ".ts", ".mjs",
                 ".css"}
CODE_NAMES = {"dev", "run", "CMakeLists.txt"}

# FileCheck's directives; a number or a modifier may follow some of them.
DIRECTIVE = re.compile(
    r"(-(NEXT|SAME|NOT|DAG|LABEL|EMPTY|COUNT-\d+))?(\{[A-Z, ]+\})?:")

# Folders that exist on one machine only. Not as a part of a longer path.
MACHINE_PATH = re.compile(r"(?<![\w.${}~/-])/(home|root|work|Users|mnt)/\w")
# Hosts of package registries, and of their file stores. The names are in
# pieces, so that this file does not break its own rule.
REGISTRY_HOST = re.compile(
    r"\b(pypi|pythonhosted|debian|ubuntu|npmjs|crates|rubygems|conan|"
    r"anaconda|golang)\.(org|io|com|net)\b")
UNOWNED_TASK = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b(?!\(#\d+\))")
CONFLICT = re.compile(r"^(<{7}|>{7}) ")


@dataclass
class Tree:
    """The files of a source tree, by their path from its root."""

    root: pathlib.Path
    files: list[str]
    texts: dict[str, list[str]] = field(default_factory=dict)

    def lines(self, name: str) -> list[str]:
        """The lines of a text file; none if it is binary."""
        if name not in self.texts:
            data = (self.root / name).read_bytes()
            text = "" if b"\0" in data else data.decode("utf-8", "replace")
            self.texts[name] = text.split("\n")
            if self.texts[name][-1] == "":
                self.texts[name].pop()
        return self.texts[name]

    def text(self, name: str) -> str:
        return "\n".join(self.lines(name))


Violations = Iterator[tuple[str, int, str]]


def check_prefixes(tree: Tree, name: str) -> set[str]:
    prefixes = set()
    for line in tree.lines(name):
        if "RUN:" in line:
            for names in re.findall(r"--check-prefix(?:es)?[= ](\S+)", line):
                prefixes.update(names.split(","))
    return prefixes | {"CHECK"}


def filecheck_words(tree: Tree) -> Violations:
    """A CHECK without its colon, or misspelt, silently checks nothing."""
    for name in tree.files:
        if not name.endswith(".onnxtxt"):
            continue
        words = "|".join(map(re.escape, check_prefixes(tree, name)))
        word = re.compile(rf"(?<![\w-])({words})(?=[^\w]|$)")
        for number, line in enumerate(tree.lines(name), 1):
            comment = line.partition("#")[2]
            if "RUN:" in comment:
                continue
            for match in word.finditer(comment):
                if not DIRECTIVE.match(comment, match.end()):
                    yield (name, number, f'"{match[1]}" that is no directive: '
                           "expected e.g. CHECK: or CHECK-NEXT:")


def file_length(tree: Tree) -> Violations:
    for name in tree.files:
        path = pathlib.PurePath(name)
        if path.suffix not in CODE_SUFFIXES and path.name not in CODE_NAMES:
            continue
        count = len(tree.lines(name))
        if count > MAX_LINES:
            yield name, count, f"{count} lines; expected at most {MAX_LINES}"


def forbidden_text(tree: Tree) -> Violations:
    rules = [
        (MACHINE_PATH, "a path of one machine"),
        (REGISTRY_HOST, "the host of a package registry"),
        (UNOWNED_TASK, "a task without the number of its issue"),
        (CONFLICT, "a merge conflict"),
    ]
    for name in tree.files:
        for number, line in enumerate(tree.lines(name), 1):
            for pattern, what in rules:
                if match := pattern.search(line):
                    yield name, number, f'{what}: "{match[0]}"'


def passes(tree: Tree) -> list[tuple[int, str]]:
    """Line and name of each pass in passes/passes.def."""
    registry = "passes/passes.def"
    if registry not in tree.files:
        return []
    entries = []
    for number, line in enumerate(tree.lines(registry), 1):
        if match := re.match(r'\s*[A-Z][A-Z0-9_]*\(\s*"([a-z0-9-]+)"', line):
            entries.append((number, match[1]))
    return entries


def pass_has_all(tree: Tree) -> Violations:
    """Each registered pass has a test and a section in docs/passes.md."""
    files = set(tree.files)
    headings = ""
    if "docs/passes.md" in files:
        headings = "\n".join(line for line in tree.lines("docs/passes.md")
                             if line.startswith("#"))
    entries = passes(tree)
    if "passes/passes.def" in files and not entries:
        yield ("passes/passes.def", 1,
               'no pass found: expected lines like PASS("some-name", ...)')
    for number, name in entries:
        stem = name.replace("-", "_")
        if not files & {f"test/passes/{stem}.onnxtxt",
                        f"test/passes/{name}.onnxtxt"}:
            yield ("passes/passes.def", number,
                   f"pass {name} has no test/passes/{stem}.onnxtxt")
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", headings):
            yield ("passes/passes.def", number,
                   f"pass {name} has no section in docs/passes.md")


def pins_are_listed(tree: Tree) -> Violations:
    """versions.txt names every pinned package with that version."""
    listing = "third_party/versions.txt"
    listed = set()
    if listing in tree.files:
        listed = {tuple(line.split()[:2]) for line in tree.lines(listing)}
    for name in tree.files:
        if not re.fullmatch(r"third_party/requirements\S*\.txt", name):
            continue
        for number, line in enumerate(tree.lines(name), 1):
            if match := re.match(r"([\w.-]+)==(\S+)", line):
                if (match[1], match[2]) not in listed:
                    yield (name, number,
                           f"{match[0]} is not in {listing} in that version")
    for name in tree.files:
        if pathlib.PurePath(name).name != "package.json":
            continue
        package = json.loads(tree.text(name))
        for kind in ("dependencies", "devDependencies"):
            for pin in package.get(kind, {}).items():
                if pin not in listed:
                    yield (name, 1, f"{pin[0]} {pin[1]} is not in {listing} "
                           "in that version")


RULES = [filecheck_words, file_length, forbidden_text, pass_has_all,
         pins_are_listed]


def violations(tree: Tree) -> list[tuple[str, int, str]]:
    return sorted({found for rule in RULES for found in rule(tree)})


def load(root: pathlib.Path) -> Tree:
    listing = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"], check=True, capture_output=True, text=True)
    names = sorted(set(listing.stdout.split("\0")) - {""})
    return Tree(root, [name for name in names if (root / name).is_file()])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).parents[2])
    tree = load(parser.parse_args().root)
    found = violations(tree)
    for name, number, what in found:
        print(f"{name}:{number}: {what}")
    failed = len({name for name, _, _ in found})
    print(f"{len(tree.files) - failed} passed, {failed} failed (files)")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
