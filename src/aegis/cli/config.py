"""The request of `aegis handover`: options as typed and a YAML file with the same names, checked and merged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, StringConstraints, ValidationError

from aegis.cli.options import GATE_KEYS
from aegis.errors import InputError, SettingError, did_you_mean
from aegis.problem import read_yaml

DEFAULT_LEGACY = "uniform"
FIELD_NAMES = {"set": "settings", "gate-set": "gate_settings", "margin": "margins"}  # tables, and what HandoverRequest calls them

TEXT, COUNT, NUMBER, TABLE = "a text", "a whole number", "a number", "a mapping"
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")] | None
Table = dict[str, Any] | None


class ConfigFile(BaseModel):
    """The content of a configuration file. Descriptions say what is expected, for errors."""

    model_config = ConfigDict(extra="forbid", strict=True)

    world: Text = Field(None, description=TEXT)
    preset: Text = Field(None, description=TEXT)
    set: Table = Field(None, description=TABLE)
    plant: Text = Field(None, description=TEXT)
    legacy: Text = Field(None, description=TEXT)
    host: Text = Field(None, description=TEXT)
    gate: Text = Field(None, description=TEXT)
    episodes: int | None = Field(None, ge=1, description=f"{COUNT} from 1")
    seed: int | None = Field(None, ge=0, description=f"{COUNT} from 0")
    delta: FiniteFloat | None = Field(None, description=NUMBER)
    first: int | None = Field(None, description=COUNT)
    caps: list[Any] | None = Field(None, description="a list")
    patience: FiniteFloat | None = Field(None, description=NUMBER)
    floor: FiniteFloat | None = Field(None, description=NUMBER)
    mode: Text = Field(None, description=TEXT)
    margin: FiniteFloat | dict[str, FiniteFloat] | None = Field(None, description=f"{NUMBER} or {TABLE}")
    gate_set: Table = Field(None, alias="gate-set", description=TABLE)
    out: Text = Field(None, description=TEXT)
    report: Text = Field(None, description=TEXT)
    ledger: Text = Field(None, description=TEXT)


CONFIG_FIELDS = {info.alias or name: info for name, info in ConfigFile.model_fields.items()}


@dataclass(frozen=True, slots=True)
class HandoverRequest:
    """A run of the gate. settings: of the world. gate_settings: of the gate. margins: by level, '' for all others.

    places: file and line of settings that were read from a file, by 'set KEY', 'gate-set KEY' or 'margin KEY'.
    """

    world: str = "additive"
    preset: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    plant: str | None = None
    legacy: str | None = None
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
        world = {"world": self.world} if self.plant is None else {}
        optional = {"preset": self.preset, "plant": self.plant}
        return {
            **world,
            **{name: value for name, value in optional.items() if value is not None},
            "legacy": self.legacy or DEFAULT_LEGACY,
            "host": self.host,
            "gate": self.gate,
            "settings": dict(self.settings),
            "margins": dict(self.margins),
        }


def merge_request(typed: Mapping[str, Any], config: Path | None) -> HandoverRequest:
    """Return the request: the defaults, over them the file, over that the options as typed; None stands for not given.

    Tables are joined key by key. Raises SettingError for contradictions, InputError naming file and line for errors in the file.
    """
    over = _fold_tables(typed, "typed")
    content, lines = ({}, {}) if config is None else read_config(config)
    under = _fold_tables(content, str(config))
    for one, other in (("plant", "world"), ("plant", "preset"), ("plant", "set")):
        if over.get(one):
            under.pop(other, None)
        if over.get(other):
            under.pop(one, None)
    merged = {**under, **over, **{table: {**under.get(table, {}), **over[table]} for table in FIELD_NAMES}}
    if merged.get("gate") == "pac-bayes" and "host" in merged:
        raise SettingError(
            "the gate 'pac-bayes' draws what it hands over to from a belief of its own, and asks no host; found the host "
            f"'{merged['host']}': leave it out, or use the gate 'challenger'"
        )
    places = {
        f"{table} {key}": f"{config}, line {lines[f'{table} {key}']}"
        for table in FIELD_NAMES
        for key in (content[table] if isinstance(content.get(table), Mapping) else ())
        if key not in over[table] and f"{table} {key}" in lines
    }
    merged |= {name: Path(merged[name]) for name in ("out", "report", "ledger") if name in merged}
    return HandoverRequest(**{FIELD_NAMES.get(key, key): value for key, value in merged.items()}, places=places)


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the content of a YAML file, and the line of every key; InputError names file and line of an error."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InputError(f"cannot read {path}: {why}; --config names a YAML file with the options of the run") from error
    content = read_yaml(text, str(path))
    if content is None:
        return {}, {}
    if not isinstance(content, dict):
        raise InputError(f"{path}: a mapping of options to values is expected, found {content!r}")
    lines = _key_lines(yaml.compose(text, Loader=yaml.SafeLoader))
    try:
        ConfigFile.model_validate(content)
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        where = f"{path}, line {lines[key]}" if key in lines else str(path)
        if key not in CONFIG_FIELDS:
            raise InputError(
                f"{where}: unknown key '{key}'{did_you_mean(key, CONFIG_FIELDS)}; allowed: {', '.join(CONFIG_FIELDS)}"
            ) from None
        raise InputError(f"{where}: '{key}' is {CONFIG_FIELDS[key].description}, found {content[key]!r}") from None
    return content, lines


def parse_margins(texts: tuple[str, ...]) -> dict[str, float]:
    """Return margins written as `NUMBER` (for every level) or `LEVEL=NUMBER`, by level; '' is every other one."""
    margins: dict[str, float] = {}
    for text in texts:
        level, equals, number = text.rpartition("=")
        level = level.strip()
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or (equals and not level):
            raise SettingError(f"--margin takes NUMBER or LEVEL=NUMBER, in units of the reward; found '{text}'")
        if level in margins:
            raise SettingError(f"--margin: given twice for {f'level {level!r}' if level else 'all levels'}")
        margins[level] = value
    return margins


def _fold_tables(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the options that have a value: all settings of the gate in one table, margins by level."""
    options = {key: value for key, value in values.items() if value is not None and value != ()}
    if "plant" in options and ("world" in options or "preset" in options):
        raise SettingError(f"a run has a world or a plant of your own; found both ({source})")
    gate = dict(options.pop("gate-set", {}))
    for key in GATE_KEYS:
        if key in options:
            if key in gate:
                raise SettingError(f"'{key}' of the gate is given twice ({source}): by itself and under 'gate-set'")
            gate[key] = options.pop(key)
    margin = options.pop("margin", {})
    margins = dict(margin) if isinstance(margin, Mapping) else {"": float(margin)}
    return {**options, "set": dict(options.get("set", {})), "gate-set": gate, "margin": margins}


def _key_lines(node: Any, before: str = "") -> dict[str, int]:
    """Return on which line each key of a YAML mapping stands, from 1; also 'KEY INNER' for keys of tables in it."""
    lines: dict[str, int] = {}
    for key, value in node.value if isinstance(node, yaml.MappingNode) else []:
        lines[before + str(key.value)] = key.start_mark.line + 1
        if not before:
            lines |= _key_lines(value, f"{key.value} ")
    return lines
