"""The pages about the Python names, docs/reference/api.md and docs/reference/api/PACKAGE.md, from the public namespace."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import aegis
from aegis.paper import register_gates

SOURCE = Path(aegis.__file__).parent
HIDDEN = {"__main__", "version"}
LEAVES = ("errors", "rng")  # modules without a list of names, of use to whoever writes a plant or catches an error
HOME = {name: package for package, names in aegis._PACKAGES.items() for name in names.split()}
WIDE = 110
START = """# Python

Written by `make docs` from the docstrings. Names in the first table are imported from `aegis` itself; each package has more,
imported from `aegis.PACKAGE`, on a page of its own. What is not listed here is not public and may change.
"""


def api_pages() -> dict[str, str]:
    """Return the pages by their place under docs/: the overview, and one for each package with public names."""
    register_gates()  # so that the table of gates is whole
    packages = {package: names for package in package_names() if (names := public(package))}
    lines = [START, "| name | what it is |", "|---|---|"]
    for name in sorted(set(aegis.__all__) - {"__version__"}, key=lambda name: (name.lower(), name)):
        package = HOME[name]
        words = _cell(_first(description_of(name, getattr(aegis, name), package)))
        lines.append(f"| [`aegis.{name}`](api/{package}.md#{name.lower()}) | {words} |")
    lines += ["", "## Packages", "", "| package | what it holds | names |", "|---|---|---|"]
    pages = {}
    for package, names in packages.items():
        module = importlib.import_module(f"aegis.{package}")
        lines.append(f"| [`aegis.{package}`](api/{package}.md) | {_cell(_first(_doc(module)))} | {len(names)} |")
        pages[f"reference/api/{package}.md"] = package_page(package, module, names)
    return {"reference/api.md": "\n".join(lines) + "\n", **pages}


def package_names() -> list[str]:
    """Return the packages of the package, in alphabetical order."""
    return sorted(item.name for item in pkgutil.iter_modules(aegis.__path__) if item.name not in HIDDEN)


def public(package: str) -> dict[str, Any]:
    """Return the public names of a package with what they stand for: those it lists, and those that `aegis` takes from it."""
    module = importlib.import_module(f"aegis.{package}")
    names = set(getattr(module, "__all__", ()))
    if package in LEAVES:
        names |= {name for name, item in vars(module).items() if _written_in(item, module) and not name.startswith("_")}
    found = {name: getattr(module, name) for name in names}
    found |= {name: getattr(aegis, name) for name, home in HOME.items() if home == package}
    return dict(sorted(found.items(), key=lambda pair: (pair[0].lower(), pair[0])))


def package_page(package: str, module: ModuleType, names: Mapping[str, Any]) -> str:
    """Return the page of one package."""
    lines = [f"# aegis.{package}", "", _doc(module)]
    for name, item in names.items():
        lines += ["", f"## {name}", "", *entry(name, item, package)]
    return "\n".join(lines) + "\n"


def entry(name: str, item: Any, package: str) -> list[str]:
    """Return the lines about one name: how it is called, what its docstring says, and the methods of a class."""
    lines = []
    if name in HOME and getattr(aegis, name) is item:
        here = hasattr(importlib.import_module(f"aegis.{package}"), name)
        lines = [f"{'Also' if here else 'Only'} as `aegis.{name}`.", ""]
    if _called(item) and (shown := signature(name, item)):
        lines += ["```py", shown, "```", ""]
    lines.append(description_of(name, item, package))
    if inspect.isclass(item):
        lines += methods(item)
    return lines


def description_of(name: str, item: Any, package: str) -> str:
    """Return what is known about a name: its docstring, else the comment at its definition, else what it holds."""
    if inspect.isclass(item) or isinstance(item, FunctionType):
        return _doc(item)
    comment_text = comment(name, package)
    if isinstance(item, Mapping):
        keys = ", ".join(f"`{key}`" for key in item)
        return f"{comment_text or 'A table by name.'} Entries: {keys}."
    value = _shown(item)
    return f"{comment_text} Value: `{value}`" if comment_text and value != "..." else comment_text


def comment(name: str, package: str) -> str:
    """Return the comment beside or above the line of a package that gives a constant its value, or an empty text."""
    comment_text = _comments(package).get(name, "")
    return f"{comment_text[0].upper()}{comment_text[1:].removesuffix('.')}." if comment_text else ""


@functools.cache
def _comments(package: str) -> dict[str, str]:
    """Return the comments at the constants of a package, by name."""
    found: dict[str, str] = {}
    for path in sorted(SOURCE.glob(f"{package}.py")) + sorted((SOURCE / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            for target in [inner for item in targets for inner in (item.elts if isinstance(item, ast.Tuple) else [item])]:
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    comment_text = _comment_at(text.splitlines(), node.lineno - 1, (node.end_lineno or node.lineno) - 1)
                    found[target.id] = found.get(target.id) or comment_text
    return found


def methods(item: type) -> list[str]:
    """Return a list of what a class offers, each with its first sentence."""
    found = []
    for name, member in vars(item).items():
        if name.startswith("_"):
            continue
        inner = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if isinstance(inner, FunctionType):
            found.append(f"- `{_one_line(name, inner)}`: {_first(_doc(inner))}")
        elif isinstance(inner, property) and inner.fget is not None:
            found.append(f"- `{name}`: {_first(_doc(inner.fget))}")
    return ["", *found] if found else []


def signature(name: str, item: Callable[..., Any]) -> str:
    """Return how something is called, on one line or with one parameter on each."""
    short = _one_line(name, item)
    if len(short) <= WIDE:
        return short
    parameters, result = _parts(item)
    return "\n".join([f"{name}(", *(f"    {parameter}," for parameter in parameters), f"){result}"])


def _one_line(name: str, item: Callable[..., Any]) -> str:
    parameters, result = _parts(item)
    return f"{name}({', '.join(parameters)}){result}"


def _parts(item: Callable[..., Any]) -> tuple[list[str], str]:
    try:
        found = inspect.signature(item)
    except (TypeError, ValueError):
        return [], ""
    shown: list[str] = []
    given = [parameter for parameter in found.parameters.values() if parameter.name not in ("self", "cls")]
    for at, parameter in enumerate(given):
        if parameter.kind is parameter.KEYWORD_ONLY and not any(p.kind in (p.VAR_POSITIONAL, p.KEYWORD_ONLY) for p in given[:at]):
            shown.append("*")
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        written = vars(item).get("__annotations__", {}).get(parameter.name, parameter.annotation)  # pydantic resolves its own
        kind = "" if parameter.annotation is parameter.empty else f": {_type(written)}"
        default = "" if parameter.default is parameter.empty else f" = {_shown(parameter.default)}"
        shown.append(f"{stars}{parameter.name}{kind}{default if kind else default.replace(' ', '')}")
    result = "" if inspect.isclass(item) or found.return_annotation is found.empty else f" -> {_type(found.return_annotation)}"
    return shown, result


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation).replace("aegis.", "")


def _shown(value: Any) -> str:
    if inspect.isclass(value) or isinstance(value, FunctionType):
        return value.__name__
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) <= 60 and not text.startswith("<") else "..."


def _called(item: Any) -> bool:
    """Say whether it is ours how something is called; what Python adds to protocols and errors differs between its versions."""
    if not inspect.isclass(item):
        return isinstance(item, FunctionType)
    ours = [base for base in item.__mro__ if base.__module__.startswith("aegis")]
    return not getattr(item, "_is_protocol", False) and any("__init__" in vars(base) for base in ours)


def _doc(item: Any) -> str:
    return inspect.cleandoc(item.__doc__ or "")


def _first(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _written_in(item: Any, module: ModuleType) -> bool:
    return getattr(item, "__module__", None) == module.__name__ and (inspect.isclass(item) or isinstance(item, FunctionType))


def _comment_at(lines: list[str], place: int, end: int) -> str:
    for line in (lines[place], lines[end]):
        _, hash_, beside = line.partition("  # ")
        if hash_ and not beside.startswith(("noqa", "type:", "fmt:")):
            return beside.strip()
    above: list[str] = []
    while place and lines[place - 1].startswith("# "):
        place -= 1
        above.insert(0, lines[place][2:].strip())
    return " ".join(above)
