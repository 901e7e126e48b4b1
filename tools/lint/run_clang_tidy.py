#!/usr/bin/env python3
"""Runs clang-tidy on the sources that changed since they last passed.

    python tools/lint/run_clang_tidy.py [--fix] [FILE...]

With --fix it also repairs what it can. Without files it looks at every source
in lib/, passes/ and tools/ that the release build compiles.

A source that passes leaves an empty file in build/lint/, named by a hash of all
that the verdict depends on: its text, the text of each header of this project
that it reaches, its compile command, .clang-tidy, this script, the versions of
the libraries, and clang-tidy's own version. So a second run looks only at what a
change can have touched.
"""

import argparse
import concurrent.futures
import hashlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
CACHE = ROOT / "build" / "lint"
COMMANDS = ROOT / "build" / "lint-commands"
CLANG_TIDY = "clang-tidy"
# The compiler's own warnings are the build's business; clang has others than
# GCC, some of them about GCC's library.
EXTRA_ARGUMENTS = ("--extra-arg=-Wno-error",)
FOLDERS = ("lib", "passes", "tools")
INCLUDE_ROOTS = ("include", "lib", "passes", "tools", ".")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# GCC's precompiled headers, which clang cannot read; without them each file is
# also seen to include what it uses.
PRECOMPILED = re.compile(r"-Winvalid-pch|-include \S*/cmake_pch\.hxx")
# Headers of a library are compiled through links in the build folder.
HEADER_FILTER = (f"^{re.escape(str(ROOT))}/"
                 "(lib|passes|tools|build/release/include)/")


def reached(source: pathlib.Path) -> list[pathlib.Path]:
    """The source and the project's headers that it includes, in any depth."""
    found, waiting = {source}, [source]
    while waiting:
        current = waiting.pop()
        for name in INCLUDE.findall(current.read_text(errors="replace")):
            folders = [current.parent, *(ROOT / top for top in INCLUDE_ROOTS)]
            for folder in folders:
                header = (folder / name).resolve()
                if header.is_file() and header.is_relative_to(ROOT):
                    if header not in found:
                        found.add(header)
                        waiting.append(header)
                    break
    return sorted(found)


def key(source: pathlib.Path, command: str, common: bytes) -> str:
    digest = hashlib.sha256(common + command.encode())
    for path in reached(source):
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def common_inputs() -> bytes:
    version = subprocess.run([CLANG_TIDY, "--version"], check=True,
                             capture_output=True).stdout
    files = (ROOT / ".clang-tidy", ROOT / "third_party" / "versions.txt",
             pathlib.Path(__file__))
    return version + b"".join(file.read_bytes() for file in files)


def tidy(source: pathlib.Path, stamp: pathlib.Path, fix: bool) -> str | None:
    """None if clang-tidy is content, otherwise what it printed."""
    result = subprocess.run(
        [CLANG_TIDY, "--quiet", "-p", str(COMMANDS),
         f"--header-filter={HEADER_FILTER}", *EXTRA_ARGUMENTS, *(["--fix"] if fix else []),
         str(source)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False)
    if result.returncode == 0:
        stamp.touch()
        return None
    return "\n".join(line for line in result.stdout.splitlines()
                     if not re.match(r"\d+ warnings? ", line))


def drop_stale(keep: set[str]) -> None:
    for stamp in CACHE.iterdir():
        if stamp.name not in keep:
            stamp.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--fix", action="store_true")
    args = parser.parse_args()
    wanted = {path.resolve() for path in args.files}
    commands = {}
    with open(BUILD / "compile_commands.json", encoding="utf-8") as file:
        entries = json.load(file)
    for entry in entries:
        entry["command"] = PRECOMPILED.sub("", entry["command"])
        source = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        ours = any(source.is_relative_to(ROOT / top) for top in FOLDERS)
        if source in wanted or (not wanted and ours):
            commands[source] = entry["command"]
    COMMANDS.mkdir(parents=True, exist_ok=True)
    with open(COMMANDS / "compile_commands.json", "w",
              encoding="utf-8") as file:
        json.dump(entries, file, indent=1)
    for path in sorted(wanted - commands.keys()):
        print(f"{path}: not compiled by the release build")
    CACHE.mkdir(parents=True, exist_ok=True)
    common = common_inputs()
    stamps = {source: CACHE / key(source, command, common)
              for source, command in sorted(commands.items())}
    if not wanted:
        drop_stale({stamp.name for stamp in stamps.values()})
    stale = {source: stamp for source, stamp in stamps.items()
             if not stamp.exists()}
    failed = 0
    # Two at once could repair the same header.
    workers = 1 if args.fix else os.cpu_count()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for complaint in pool.map(tidy, stale.keys(), stale.values(),
                                  itertools.repeat(args.fix)):
            if complaint is not None:
                failed += 1
                print(complaint, flush=True)
    print(f"{len(stamps) - failed} passed, {failed} failed (sources; "
          f"{len(stamps) - len(stale)} were unchanged)")
    return 1 if failed or wanted - commands.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
