"""Links, headings and code of Markdown pages, by the rules of code hosts: a page reads the same as a file and on the site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LINK = re.compile(
    r"(?P<words>\[(?:[^\[\]]|\[[^\[\]]*\])*\])\((?P<target>[^()\s]+(?:\([^()\s]*\)[^()\s]*)?)(?P<title>\s+\"[^\"]*\")?\)"
)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(\S*)")
ITEM = re.compile(r"^\s*([-*+]|\d+\.)\s")


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of code on a page.

    line: where it begins, counted from 1. language: the word behind the fence, empty if the block is indented.
    text: the code without its fence or indentation. before: the last paragraph since the block before it, on one line.
    """

    line: int
    language: str
    text: str
    before: str

    @property
    def first(self) -> str:
        """Return the first line, by which a block is named."""
        return self.text.splitlines()[0].strip() if self.text.strip() else ""


def blocks(text: str) -> list[Block]:
    """Return every fenced or indented block of code of a page, in order."""
    return [found for found in _parts(text) if isinstance(found, Block)]


def prose(text: str) -> list[tuple[int, str]]:
    """Return the numbered lines of a page that are not code."""
    return [found for found in _parts(text) if not isinstance(found, Block)]


def links(text: str) -> list[tuple[int, str]]:
    """Return the targets of all links and pictures of a page, each with its line; what is shown as code is none."""
    lines = prose(text)
    joined = "\n".join(words for _, words in lines)
    joined = re.sub(r"`(?:[^`\n]|\n(?!\n))*`", lambda code: re.sub(r"[^\n]", "`", code[0]), joined)
    return [(lines[joined.count("\n", 0, link.start())][0], link["target"]) for link in LINK.finditer(joined)]


def anchors(text: str) -> set[str]:
    """Return what a link to a heading of this page may name; of headings that are alike only the first."""
    return {slug(heading[1]) for _, line in prose(text) if (heading := HEADING.match(line))}


def slug(heading: str, separator: str = "-") -> str:
    """Return the anchor of a heading as code hosts make it: lower case, blanks as hyphens, other signs left out."""
    words = LINK.sub(lambda link: link["words"][1:-1], heading)
    return re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", separator)


def _parts(text: str) -> Iterator[Block | tuple[int, str]]:
    lines = text.splitlines()
    place, paragraph, ended, in_list = 0, "", False, False
    while place < len(lines):
        line = lines[place]
        if fence := FENCE.match(line):
            end = next((at for at in range(place + 1, len(lines)) if lines[at].strip().startswith(fence[2])), len(lines))
            inside = [inner.removeprefix(fence[1]) for inner in lines[place + 1 : end]]
            yield Block(place + 1, fence[3], "".join(f"{inner}\n" for inner in inside), paragraph)
            place, paragraph = end + 1, ""
        elif line.startswith("    ") and not in_list and (place == 0 or not lines[place - 1].strip()):
            end = next(
                (at for at in range(place, len(lines)) if lines[at].strip() and not lines[at].startswith("    ")), len(lines)
            )
            while not lines[end - 1].strip():
                end -= 1
            yield Block(place + 1, "", "".join(f"{inner[4:]}\n" for inner in lines[place:end]), paragraph)
            place, paragraph = end, ""
        else:
            if line.strip():
                in_list = bool(ITEM.match(line)) or (in_list and line.startswith(" "))
                paragraph = line.strip() if ended else f"{paragraph} {line.strip()}".strip()
            ended = not line.strip()
            yield place + 1, line
            place += 1
