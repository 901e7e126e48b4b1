"""The parts of a Markdown file that the tests look at."""

import re
from dataclasses import dataclass, field

FENCE = re.compile(r"^```(\w*)\s*$")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*$")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
# Stands in the line before a fence; pages do not show it.
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")


@dataclass
class Block:
    """A fenced block, and the number of its first line, from 1."""

    language: str
    line: int
    # Why no test runs it; empty: one does.
    not_run: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)


@dataclass
class Document:
    blocks: list[Block] = field(default_factory=list)
    prose: list[tuple[int, str]] = field(default_factory=list)
    headings: list[str] = field(default_factory=list)

    @property
    def anchors(self) -> set[str]:
        """What GitHub calls the sections: lower case, hyphens for spaces."""
        return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
                for title in self.headings}

    def links(self) -> list[tuple[int, str]]:
        return [(number, target) for number, line in self.prose
                for target in LINK.findall(CODE_SPAN.sub("``", line))]

    def code_spans(self) -> list[tuple[int, str]]:
        return [(number, span) for number, line in self.prose
                for span in CODE_SPAN.findall(line)]


def parse(text: str) -> Document:
    document = Document()
    block = None
    previous = ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if block is not None:
            if fence and not fence[1]:
                document.blocks.append(block)
                block = None
            else:
                block.lines.append(line)
        elif fence:
            reason = NOT_RUN.match(previous)
            block = Block(fence[1], number + 1, reason[1] if reason else "")
        else:
            document.prose.append((number, line))
            if heading := HEADING.match(line):
                document.headings.append(heading[1])
        previous = line
    if block is not None:
        raise ValueError(f"the block at line {block.line} does not end")
    return document
