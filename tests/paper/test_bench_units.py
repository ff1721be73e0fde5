"""Units of a bench: merged settings, changes, and the digest."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from bench_cases import bench

import aegis
from aegis.errors import SettingError
from aegis.paper import bench_units, plan_bench
from aegis.paper.bench_file import merge_settings
from aegis.paper.bench_units import NUMERIC_SOURCES

PACKAGE = Path(aegis.__file__).parent
NO_NUMBERS = ("errors", "files", "lazy", "version", "engine", "paper.bench_file")  # decide no number of a run


def test_settings_are_merged_from_the_base_over_the_preset_to_the_arm_and_what_was_asked() -> None:
    found = plan_bench(bench(), "full", {"world.f_a": 1.0})
    assert [unit.settings["episodes"] for unit in found.units] == [8, 8]
    assert found.units[0].settings["world"] == {"name": "additive", "inner_steps": 3, "f_a": 1.0}
    assert found.units[0].settings["agent"] == "nested_nig"
    assert merge_settings({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}, "d": None}) == {"a": {"b": 1, "c": 3}}


@pytest.mark.parametrize("changes", [{"sedes": 3}, {"seeds": 0}, {"world": 3}, {"episodes.x": 3}, {"episodes": 1.5}])
def test_changes_that_cannot_be(changes: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        plan_bench(bench(), "quick", changes)


def test_the_code_that_decides_numbers_is_in_the_digest() -> None:
    package = Path(bench_units.__file__).parents[1]
    found = {path.name for source in bench_units.NUMERIC_SOURCES for path in package.glob(source)}
    assert {path.name for path in (package / "paper").glob("*measures.py")} | {"published_gate.py"} <= found
    assert "gate_measures.py" in found and "bench_claims.py" not in found


def test_the_digest_depends_on_settings_alone() -> None:
    first, second = (plan_bench(bench(), "full", {"seeds": seeds}).units[0] for seeds in (2, 5))
    assert first.key == second.key
    assert first.key != plan_bench(bench(), "full", {"episodes": 9}).units[0].key


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
