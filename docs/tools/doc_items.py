"""The page docs/paper-items.md from docs/paper-items.yaml: every item of the paper with its code, tests and benches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

DATA = Path(__file__).parents[1] / "paper-items.yaml"
COMPLETE, DIFFERENT, OPEN = "complete", "different on purpose", "open in the paper"
OPEN_PROBLEM = "open problem"  # the kind of items whose state is OPEN: the paper does not claim to have solved them
PENDING = "pending"
TITLE = "Every item of the paper, and where it is here"
HEAD = """# {title}

For readers who want to know where a definition, an equation, a line of an algorithm or an experiment of
[the paper](references.md#aegis-paper) lives in this package, and which test holds it there. At the end you know what is as in the
paper, what is different on purpose, and why.

{counts}

Places are the labels of the paper's source. *Complete* means that the code does what the paper describes; whether the paper's
claims come out is another question, which [the experiments](paper.md) answer. *Open in the paper* means that the paper leaves it
open; [the open problems](open-problems.md) have a page that says what exists and what is left. `aegis bench run NAME` runs a
[bench](bench.md). A test checks that every name on this page exists.
"""
COLUMNS = ("item", "in the paper", "what it says", "status", "code", "tests", "bench")


@dataclass(frozen=True, slots=True)
class PaperItem:
    """An item of the paper. code: `module:name.name`. tests: `file::function`. bench: names of benches."""

    part: str
    id: str
    kind: str
    where: str
    says: str
    status: str = COMPLETE  # an open problem is OPEN unless the file says otherwise
    reason: str = ""
    code: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    bench: tuple[str, ...] = ()
    pending: bool = False


def load_items(path: Path = DATA) -> list[PaperItem]:
    """Return all items in the order of the file; a key that does not exist is a TypeError."""
    items = []
    for part in yaml.safe_load(path.read_text(encoding="utf-8")):
        for row in part["items"]:
            lists = {key: tuple(row.get(key, ())) for key in ("code", "tests", "bench")}
            state = {"status": OPEN} if row["kind"] == OPEN_PROBLEM else {}
            items.append(PaperItem(part=part["part"], **{**state, **row, **lists}))
    return items


def items_page() -> str:
    """Return the page in Markdown."""
    items = load_items()
    parts = [HEAD.format(title=TITLE, counts=_counts(items))]
    for part in dict.fromkeys(item.part for item in items):
        lines = [f"## {part}", "", f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
        lines += [f"| {' | '.join(_cells(item))} |" for item in items if item.part == part]
        parts.append("\n".join([*lines, ""]))
    return "\n".join(parts)


def _counts(items: list[PaperItem]) -> str:
    states = Counter(_state(item) for item in items)
    kinds = Counter(item.kind for item in items)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0])))
    return f"{len(items)} items: {', '.join(f'{count} {state}' for state, count in states.most_common())}. By kind: {listed}."


def _state(item: PaperItem) -> str:
    return PENDING if item.pending else item.status


def _cells(item: PaperItem) -> list[str]:
    status = _state(item) + (f": {item.reason}" if item.reason else "")
    code = [f"`{path.replace(':', '.')}`" for path in item.code]
    tests = [f"[`{name}`](../{file})" for file, _, name in (test.partition("::") for test in item.tests)]
    bench = [f"[{name}](paper.md)" for name in item.bench]
    return [f"{item.kind}: {item.id}", item.where, item.says, status, "<br>".join(code), "<br>".join(tests), ", ".join(bench)]
