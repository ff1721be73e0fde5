"""The architecture: what each package may import, and how large folders and modules may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "aegis"
LEAVES = {"errors", "rng", "engine", "files", "lazy", "version"}
ARROWS: dict[str, set[str]] = {
    "problem": set(),
    "evidence": set(),
    "policies": {"problem"},
    "logs": {"problem"},
    "mechanisms": {"problem"},
    "ope": {"problem", "policies", "evidence", "mechanisms"},
    "planning": {"problem", "policies", "mechanisms"},
    "worlds": {"problem", "policies"},
    "adapters": {"problem", "policies", "logs"},
    "audit": {"problem", "logs", "policies", "evidence", "ope"},
    "agents": {"problem", "policies", "logs", "mechanisms", "planning", "audit"},
    "certificate": {"problem", "logs", "policies", "evidence", "ope", "audit"},
    "comparison": {"problem", "logs", "policies", "evidence", "mechanisms", "ope", "audit", "agents", "certificate"},
    "handover": {"problem", "logs", "policies", "evidence", "mechanisms", "ope", "planning", "audit", "agents", "certificate"},
    "validation": {"problem", "logs", "policies", "evidence", "mechanisms", "ope", "agents", "certificate", "worlds"},
    "report": {"problem", "policies", "evidence", "ope", "certificate", "handover", "comparison", "validation"},
    "service": {"problem", "policies", "logs", "ope", "agents", "certificate", "handover", "report"},
    "api": {"problem", "policies", "planning", "certificate", "handover", "worlds"},
    "paper": {
        *("problem", "policies", "evidence", "mechanisms", "ope", "planning", "agents", "certificate", "handover"),
        *("validation", "worlds"),
    },
}
OPEN = {"cli", "__init__", "__main__"}  # the command line and the public namespace may import every package
MOST_MODULES = 21  # of a folder
MOST_LINES = 500  # of a module
TESTS = Path(__file__).parent


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.Module) -> set[str]:
    """The modules of AEGIS that a module imports, at its top or within functions."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} if node.module != "aegis" else {f"aegis.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("aegis.")}


FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}


def test_every_import_follows_the_arrows() -> None:
    wrong = []
    for path, tree in TREES.items():
        package = package_of(path)
        if package in OPEN:
            continue
        allowed = LEAVES | ({package} | ARROWS[package] if package not in LEAVES else set())
        others = {name.split(".")[1] for name in imports(tree)} - allowed
        wrong += [f"{path.relative_to(SOURCE)} imports aegis.{other}" for other in others]
    assert not wrong, "\n".join(wrong)


def test_every_package_is_in_the_table() -> None:
    assert {package_of(path) for path in FILES} <= LEAVES | OPEN | set(ARROWS)


def test_the_arrows_have_no_cycle() -> None:
    list(TopologicalSorter(ARROWS).static_order())  # raises CycleError


def test_no_package_imports_an_inner_module_of_another() -> None:
    wrong = []
    for path, tree in TREES.items():
        package = package_of(path)
        deep = {name for name in imports(tree) if name.count(".") > 1 and name.split(".")[1] != package}
        wrong += [f"{path.relative_to(SOURCE)} imports {name}" for name in sorted(deep)]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other_when_they_are_loaded() -> None:
    modules = {module_of(path) for path in FILES}
    loaded: dict[str, set[str]] = {}
    for path, tree in TREES.items():
        at_top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        own = f"aegis.{package_of(path)}"
        if path.name != "__init__.py":
            loaded[module_of(path)] = {name for name in imports(at_top) & modules if name.startswith(f"{own}.")} - {
                module_of(path)
            }
    list(TopologicalSorter(loaded).static_order())


def test_folders_and_modules_stay_small() -> None:
    folders = Counter(path.parent for path in FILES if path.name != "__init__.py")
    assert not {str(folder): count for folder, count in folders.items() if count > MOST_MODULES}
    lines = {str(path): path.read_text().count("\n") for path in FILES}
    assert not {path: count for path, count in lines.items() if count > MOST_LINES}


def mirrors(path: Path) -> list[Path]:
    """The test files that a module may have: of its name, or of its name and its family's where the name occurs twice."""
    package, family = package_of(path), path.parent.name
    names = (path.stem, f"{package}_{path.stem}", f"{family}_{path.stem}", f"{path.stem}_command")
    return [folder / f"test_{name}.py" for name in names for folder in (TESTS / package, TESTS)]


def test_every_module_has_a_test_of_its_name() -> None:
    modules = [path for path in FILES if not path.name.startswith("__") and "migrations" not in path.parts]
    alone = [str(path.relative_to(SOURCE)) for path in modules if not any(test.exists() for test in mirrors(path))]
    assert len(alone) <= 0.02 * len(modules), alone


def test_library_code_has_no_assert() -> None:
    for path, tree in TREES.items():
        assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree)), path


def test_what_takes_long_to_import_is_not_imported_where_it_is_not_needed() -> None:
    """Every command, and every process it starts, would wait for it."""
    packages = ", ".join(f"aegis.{name}" for name in ("agents", "audit", "certificate", "handover", "logs", "worlds"))
    program = (
        f"import sys, {packages}; print(sorted({{'scipy.stats', 'scipy.optimize', 'matplotlib', 'dask'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
