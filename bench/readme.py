"""Puts tables of measured results into a page.

The place is between two comments, <!-- bench:NAME --> and <!-- /bench:NAME -->,
which pages do not show.
"""

import pathlib
import sys


def put(path: pathlib.Path, name: str, text: str) -> None:
    page = path.read_text(encoding="utf-8")
    begin, end = f"<!-- bench:{name} -->\n", f"<!-- /bench:{name} -->\n"
    head, found, rest = page.partition(begin)
    _, ends, tail = rest.partition(end)
    if not found or not ends:
        print(f"bench: {path.name} has no place for the table of {name}",
              file=sys.stderr)
        return
    path.write_text(f"{head}{begin}{text.rstrip()}\n{end}{tail}",
                    encoding="utf-8")
