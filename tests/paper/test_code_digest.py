"""The digest of the code behind the numbers of a bench: what it covers, and what it does not depend on."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import aegis
from aegis.paper.code_digest import NUMERIC_SOURCES, source_digest

PACKAGE = Path(aegis.__file__).parent
NO_NUMBERS = ("errors", "files", "lazy", "version", "engine", "paper.bench_file")  # decide no number of a run

SOURCE = '''
def share(count: int, total: int) -> float:
    """Return the share of a count."""
    if total == 0:
        raise ValueError(f"a share of nothing has no value: {count}")
    return count / total
'''


def test_the_code_that_decides_numbers_is_in_the_digest() -> None:
    found = {path.name for source in NUMERIC_SOURCES for path in PACKAGE.glob(source)}
    assert {path.name for path in (PACKAGE / "paper").glob("*measures.py")} | {"published_gate.py"} <= found
    assert "gate_measures.py" in found and "bench_claims.py" not in found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Return the share of a count.", "Divide a count by a total."),
        ("a share of nothing has no value", "nothing can be divided by a total of zero"),
        ("return count / total", "return count / total  # as a float"),
        ("(count: int, total: int)", "(\n    count: int,\n    total: int,\n)"),
    ],
)
def test_words_and_layout_leave_the_digest_as_it_is(old: str, new: str) -> None:
    assert source_digest(SOURCE.replace(old, new).encode()) == source_digest(SOURCE.encode()) != source_digest(b"")


@pytest.mark.parametrize(
    ("old", "new"), [("count / total", "total / count"), ("total == 0", "total == 1"), ("total == 0", "total != 0")]
)
def test_what_is_computed_changes_the_digest(old: str, new: str) -> None:
    assert source_digest(SOURCE.replace(old, new).encode()) != source_digest(SOURCE.encode())


@pytest.mark.parametrize(
    ("old", "new"), [("natural:epsilon=0.3", "natural:epsilon=0.2"), ("f'{a}:x'", "f'{b}:x'"), ("'up'", "'down'")]
)
def test_a_setting_is_no_message(old: str, new: str) -> None:
    code = "legacy, name, goal = 'natural:epsilon=0.3', f'{a}:x', 'up'"
    assert source_digest(code.encode()) != source_digest(code.replace(old, new).encode())


OFFLINE = (PACKAGE / "paper" / "offline_measures.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        (OFFLINE, 'epsilon={options.epsilon}"', 'epsilon={1.0 - options.epsilon}"'),
        (OFFLINE, 'f"constant:value={', 'f"constant:slope={'),
        ("key = f'{prefix}_{column}_{tag}'", "{prefix}_{column}_{tag}", "{tag}_{column}_{prefix}"),
        ("rng = stream(number, 'seed of a host')", "seed of a host", "seed of another host"),
        ("shares = {'share of the prior part': 1}", "share of the prior part", "share of the certified part"),
        ("raise ValueError(f'no row of {count(rows)} rows is usable')", "count(rows)", "count(columns)"),
    ],
)
def test_a_text_that_may_decide_numbers_changes_the_digest(code: str, old: str, new: str) -> None:
    assert code.count(old) == 1
    assert source_digest(code.encode()) != source_digest(code.replace(old, new).encode())


@pytest.mark.parametrize(
    "code",
    [
        "raise errors.InputError('there is no such column')",
        "error = InputError(f'there is no such {column}')",
        "low: float = Field(0.0, description='there is no such column')",
        "found.append(make_finding('no-column', f'there is no such {column}'))",
    ],
)
def test_a_message_leaves_the_digest_as_it_is(code: str) -> None:
    other = code.replace("there is no such", "the log does not hold that")
    assert other != code and source_digest(code.encode()) == source_digest(other.encode())


def test_the_digest_is_the_same_in_every_python() -> None:
    assert source_digest(SOURCE.encode()).hex()[:16] == "4fbb8b3c0a4c7200"


def test_the_digest_covers_all_code_that_a_measure_runs() -> None:
    covered = {
        path for source in NUMERIC_SOURCES for path in PACKAGE.glob(source if source.endswith(".py") else f"{source}/**/*.py")
    }
    left, seen = ["paper.measure_table"], set[str]()
    while left:
        name = left.pop()
        if name in seen or name.startswith(NO_NUMBERS):
            continue
        seen.add(name)
        path = PACKAGE / f"{name.replace('.', '/')}.py"
        path = path if path.exists() else path.with_suffix("") / "__init__.py"
        assert path in covered or name == "paper.measure_table", f"{name} decides numbers and is not in NUMERIC_SOURCES"
        imports = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom)]
        left += [node.module.removeprefix("aegis.") for node in imports if node.module and node.module.startswith("aegis.")]
