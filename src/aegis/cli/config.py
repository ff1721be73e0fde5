"""The request of `aegis handover`: options as typed and a YAML file with the same names, checked and merged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from aegis.errors import InputError, SettingError, did_you_mean
from aegis.problem import read_yaml

GATE_KEYS = ("delta", "first", "caps", "patience", "floor", "mode")  # settings of the gate that have an option of their own
TEXT, COUNT, NUMBER, LIST, TABLE, MARGIN = "a text", "a whole number", "a number", "a list", "a mapping", "a number or a mapping"
REQUEST_KEYS: dict[str, str] = {
    "world": TEXT,
    "preset": TEXT,
    "set": TABLE,
    "plant": TEXT,
    "legacy": TEXT,
    "host": TEXT,
    "gate": TEXT,
    "episodes": COUNT,
    "seed": COUNT,
    "delta": NUMBER,
    "first": COUNT,
    "caps": LIST,
    "patience": NUMBER,
    "floor": NUMBER,
    "mode": TEXT,
    "margin": MARGIN,
    "gate-set": TABLE,
    "out": TEXT,
    "report": TEXT,
    "ledger": TEXT,
}
LEAST_VALUES = {"episodes": 1, "seed": 0}


@dataclass(frozen=True, slots=True)
class HandoverRequest:
    """A run of the gate in words. settings: of the world. gate_settings: of the gate. margins: by level, '' for all others.

    places: file and line of settings that were read from a file, by 'set KEY', 'gate-set KEY' or 'margin KEY'.
    """

    world: str = "additive"
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    plant: str | None = None
    legacy: str = "uniform"
    host: str = "ncts"
    gate: str = "challenger"
    episodes: int = 1000
    seed: int = 1
    gate_settings: Mapping[str, Any] = field(default_factory=dict)
    margins: Mapping[str, float] = field(default_factory=dict)
    out: Path | None = None
    report: Path | None = None
    ledger: Path | None = None
    places: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def about(self) -> dict[str, Any]:
        """Return plain data that tell this run from another one."""
        names = ("world", "preset", "plant", "legacy", "host", "gate")
        found: dict[str, Any] = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.plant is not None:
            found.pop("world")
        return {**found, "settings": dict(self.settings), "margins": dict(self.margins)}


def merge_request(typed: Mapping[str, Any], config: Path | None) -> HandoverRequest:
    """Return what is asked: the defaults, over them the file, over that what was typed; None stands for not given.

    Tables are joined key by key. Raises SettingError for what contradicts itself, InputError naming file and line for what the
    file gets wrong.
    """
    told = _as_tables(_without_empty(typed), "typed")
    content = {} if config is None else read_config(config)
    read = {} if config is None else _as_tables(content, str(config))
    places = {} if config is None else _setting_places(config, content, told)
    for one, other in (("plant", "world"), ("plant", "preset"), ("plant", "set")):
        if one in told:
            read.pop(other, None)
        if other in told:
            read.pop(one, None)
    merged = {**read, **told}
    for name in ("set", "gate", "margin"):
        table = f"{name}-table"
        merged[table] = {**read.get(table, {}), **told.get(table, {})}
    if merged.get("plant") is not None:
        _check_plant(merged)
    if merged.get("gate") == "pac-bayes" and "host" in merged:
        raise SettingError(
            "the gate 'pac-bayes' draws what it hands over to from a belief of its own, and asks no host; found the host "
            f"'{merged['host']}': leave it out, or use the gate 'challenger'"
        )
    names = ("world", "preset", "plant", "legacy", "host", "gate", "episodes", "seed")
    found: dict[str, Any] = {name: merged[name] for name in names if name in merged}
    found |= {name: Path(merged[name]) for name in ("out", "report", "ledger") if name in merged}
    tables = {"settings": merged["set-table"], "gate_settings": merged["gate-table"], "margins": merged["margin-table"]}
    return HandoverRequest(**found, **tables, places=places)


def read_config(path: Path) -> dict[str, Any]:
    """Return the keys of a YAML file that are given; InputError names file and line of what is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InputError(f"cannot read {path}: {why}; --config names a YAML file with the options of the run") from error
    content = read_yaml(text, str(path))
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise InputError(f"{path}: a mapping of options to values is expected, found {content!r}")
    lines = _key_lines(text)
    for key, value in content.items():
        where = f"{path}, line {lines[str(key)]}" if str(key) in lines else str(path)
        if key not in REQUEST_KEYS:
            raise InputError(
                f"{where}: unknown key '{key}'{did_you_mean(str(key), REQUEST_KEYS)}; allowed: {', '.join(REQUEST_KEYS)}"
            )
        _check_value(str(key), value, where)
    return _without_empty(content)


def parse_caps(text: str) -> list[float]:
    """Return caps written as `1.5,2,3`; inf is no cap at all."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise SettingError(f"--caps takes numbers with commas between them, such as 1.5,2,3 or 2,inf; found '{text}'") from error


def parse_margins(given: tuple[str, ...]) -> dict[str, float]:
    """Return margins written as `NUMBER` (for every level) or `LEVEL=NUMBER`, by level; '' is every other one."""
    found: dict[str, float] = {}
    for text in given:
        level, equals, number = text.rpartition("=")
        level = level.strip()
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or (equals and not level):
            raise SettingError(f"--margin takes NUMBER or LEVEL=NUMBER, in units of the reward; found '{text}'")
        if level in found:
            raise SettingError(f"--margin: given twice for {f'level {level!r}' if level else 'all levels'}")
        found[level] = value
    return found


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in values.items() if value is not None and value != () and value != {}}


def _as_tables(given: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the keys with everything about the gate in one table, and margins as a table by level."""
    found = {key: value for key, value in given.items() if key not in (*GATE_KEYS, "set", "gate-set", "margin")}
    gate = dict(given.get("gate-set", {}))
    for key in GATE_KEYS:
        if key in given:
            if key in gate:
                raise SettingError(f"'{key}' of the gate is given twice ({source}): by itself and under 'gate-set'")
            gate[key] = given[key]
    if "plant" in found and ("world" in found or "preset" in found):
        raise SettingError(f"a run has a world or a plant of your own; found both ({source})")
    margin = given.get("margin", {})
    tables = {"set-table": dict(given.get("set", {})), "gate-table": gate}
    return {**found, **tables, "margin-table": dict(margin) if isinstance(margin, Mapping) else {"": float(margin)}}


def _check_plant(merged: Mapping[str, Any]) -> None:
    if merged["set-table"]:
        raise SettingError("--set changes parameters of a world; a plant of your own has none")
    if merged.get("legacy") is None:
        raise SettingError("a plant of your own needs a legacy of your own: --legacy module:object")


def _check_value(key: str, value: Any, where: str) -> None:
    if value is None or _has_kind(REQUEST_KEYS[key], value):
        if key in LEAST_VALUES and value is not None and value < LEAST_VALUES[key]:
            raise InputError(f"{where}: '{key}' is a whole number from {LEAST_VALUES[key]}, found {value}")
        return
    raise InputError(f"{where}: '{key}' is {REQUEST_KEYS[key]}, found {value!r}")


def _has_kind(kind: str, value: Any) -> bool:
    if kind == TEXT:
        return isinstance(value, str) and bool(value.strip())
    if kind == LIST:
        return isinstance(value, list)
    if kind == TABLE:
        return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    if kind == MARGIN and isinstance(value, Mapping):
        return all(isinstance(level, str) and _has_kind(NUMBER, number) for level, number in value.items())
    if isinstance(value, bool):
        return False
    return isinstance(value, int) if kind == COUNT else isinstance(value, int | float) and math.isfinite(value)


def _key_lines(text: str) -> dict[str, int]:
    """Return on which line each key of a YAML mapping stands, counted from 1; also 'KEY INNER' for keys of tables in it."""
    return _node_lines(yaml.compose(text, Loader=yaml.SafeLoader), "")


def _node_lines(node: Any, before: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, value in node.value if isinstance(node, yaml.MappingNode) else []:
        found[before + str(key.value)] = key.start_mark.line + 1
        if not before:
            found |= _node_lines(value, f"{key.value} ")
    return found


def _setting_places(path: Path, content: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, str]:
    """Return file and line of the keys of tables in a file, but for those that what was typed comes before."""
    lines = _key_lines(path.read_text(encoding="utf-8"))
    typed = {"set": told["set-table"], "gate-set": told["gate-table"], "margin": told["margin-table"]}
    return {
        f"{table} {key}": f"{path}, line {lines[f'{table} {key}']}"
        for table, over in typed.items()
        for key in (content[table] if isinstance(content.get(table), Mapping) else ())
        if key not in over and f"{table} {key}" in lines
    }
