"""The request of `aegis handover`: options as typed and a YAML file with the same names, checked and merged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, StringConstraints, ValidationError

from aegis.cli.options import GATE_KEYS
from aegis.errors import InputError, SettingError, did_you_mean
from aegis.problem import read_yaml

DEFAULT_LEGACY = "uniform"
TABLES = ("set", "gate-set", "margin")
RUN_ONLY = ("world", "preset", "set", "plant", "episodes", "out", "report", "ledger")  # options that a log has no use for

TEXT, COUNT, NUMBER, TABLE = "a text", "a whole number", "a number", "a mapping"
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]
Place = Annotated[Path, BeforeValidator(lambda sent: Path(sent) if isinstance(sent, str) and sent.strip() else sent)]
Margins = Annotated[dict[str, FiniteFloat], BeforeValidator(lambda sent: {"": sent} if isinstance(sent, int | float) else sent)]


class HandoverRequest(BaseModel):
    """A run of the gate. settings: of the world. gate_settings: of the gate. margins: by level, '' for all others. log: to judge
    instead of a run, with its problem file.

    places: file and line of settings that were read from a file, by 'set KEY', 'gate-set KEY' or 'margin KEY'. Descriptions say
    what is expected, for errors.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)

    world: Text = Field("additive", description=TEXT)
    preset: Text | None = Field(None, description=TEXT)
    settings: dict[str, Any] = Field({}, alias="set", description=TABLE)
    plant: Text | None = Field(None, description=TEXT)
    legacy: Text | None = Field(None, description=TEXT)
    host: Text = Field("ncts", description=TEXT)
    host_log: Place | None = Field(None, alias="host-log", description=TEXT)
    gate: Text = Field("challenger", description=TEXT)
    log: list[Text] | None = Field(None, description="a list of files")
    problem: Place | None = Field(None, description=TEXT)
    episodes: int = Field(1000, ge=1, description=f"{COUNT} from 1")
    seed: int = Field(1, ge=0, description=f"{COUNT} from 0")
    margins: Margins = Field({}, alias="margin", description=f"{NUMBER} or {TABLE}")
    gate_settings: dict[str, Any] = Field({}, alias="gate-set", description=TABLE)
    out: Place | None = Field(None, description=TEXT)
    report: Place | None = Field(None, description=TEXT)
    ledger: Place | None = Field(None, description=TEXT)
    places: dict[str, str] = Field({}, exclude=True)

    @property
    def about(self) -> dict[str, Any]:
        """Return plain data that tell this run from another one."""
        optional = {
            "world": self.world if self.plant is None else None,
            "preset": self.preset,
            "plant": self.plant,
            "host log": None if self.host_log is None else str(self.host_log),
        }
        return {
            **{name: value for name, value in optional.items() if value is not None},
            "legacy": self.legacy or DEFAULT_LEGACY,
            "host": self.host,
            "gate": self.gate,
            "settings": self.settings,
            "margins": self.margins,
        }


class ConfigFile(HandoverRequest):
    """A request as a file states it, with the settings of the gate that have an option of their own."""

    delta: FiniteFloat | None = Field(None, description=NUMBER)
    first: int | None = Field(None, description=COUNT)
    caps: list[Any] | None = Field(None, description="a list")
    patience: FiniteFloat | None = Field(None, description=NUMBER)
    floor: FiniteFloat | None = Field(None, description=NUMBER)
    mode: Text | None = Field(None, description=TEXT)


CONFIG_FIELDS = {info.alias or name: info for name, info in ConfigFile.model_fields.items() if name != "places"}


def merge_request(typed: Mapping[str, Any], config: Path | None) -> HandoverRequest:
    """Return the request: the defaults, over them the file, over that the options as typed; None stands for not given.

    Tables are joined key by key. Raises SettingError for contradictions, InputError naming file and line for errors in the file.
    """
    over = _fold_tables(typed, "typed")
    content, lines = ({}, {}) if config is None else read_config(config)
    under = _fold_tables(content, str(config))
    for other in ("world", "preset", "set"):
        if over.get("plant"):
            under.pop(other, None)
        if over.get(other):
            under.pop("plant", None)
    merged = {**under, **over, **{table: {**under.get(table, {}), **over[table]} for table in TABLES}}
    if merged.get("gate") == "pac-bayes" and "host" in merged:
        raise SettingError(
            "the gate 'pac-bayes' draws what it hands over to from a belief of its own, and asks no host; found the host "
            f"'{merged['host']}': leave it out, or use the gate 'challenger'"
        )
    if merged.get("gate") == "published" and "host-log" in merged:
        raise SettingError(
            "the gate 'published' starts from a data-free p0 and reads no earlier log: leave out --host-log, or use the gate "
            "'challenger'"
        )
    _check_log_request(merged)
    places = {
        f"{table} {key}": f"{config}, line {lines[f'{table} {key}']}"
        for table in TABLES
        for key in content.get(table, {})
        if key not in over[table] and f"{table} {key}" in lines
    }
    return HandoverRequest(**merged, places=places)


def _check_log_request(options: Mapping[str, Any]) -> None:
    """Raise SettingError if a recorded log is to be judged by a gate that cannot, or together with options of a run."""
    if ("log" in options) != ("problem" in options):
        raise SettingError("a recorded log is judged with its problem file: give --log and --problem, or neither")
    if "log" not in options:
        return
    if options.get("gate") != "published":
        raise SettingError("--log is for --gate published, which is not a certificate; 'aegis certify' certifies from a log")
    for name in RUN_ONLY:
        if options.get(name):
            raise SettingError(f"a recorded log is judged as it is: leave out --{name}, or leave out --log")


def read_config(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the content of a YAML file, and the line of every key; InputError names file and line of an error."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise InputError(f"cannot read {path}: {why}; --config names a YAML file with the options of the run") from error
    content = read_yaml(text, str(path)) or {}
    if not isinstance(content, dict):
        raise InputError(f"{path}: a mapping of options to values is expected, found {content!r}")
    lines = _key_lines(yaml.compose(text, Loader=yaml.SafeLoader))
    try:
        stated = ConfigFile.model_validate({str(key): value for key, value in content.items() if value is not None})
    except ValidationError as error:
        key = str(error.errors()[0]["loc"][0])
        where = f"{path}, line {lines[key]}" if key in lines else str(path)
        if key not in CONFIG_FIELDS:
            raise InputError(
                f"{where}: unknown key '{key}'{did_you_mean(key, CONFIG_FIELDS)}; allowed: {', '.join(CONFIG_FIELDS)}"
            ) from None
        raise InputError(f"{where}: '{key}' is {CONFIG_FIELDS[key].description}, found {content[key]!r}") from None
    return stated.model_dump(exclude_unset=True, by_alias=True), lines


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
    return {**options, "set": options.get("set", {}), "gate-set": gate, "margin": options.get("margin", {})}


def _key_lines(node: Any, before: str = "") -> dict[str, int]:
    """Return on which line each key of a YAML mapping stands, from 1; also 'KEY INNER' for keys of tables in it."""
    lines: dict[str, int] = {}
    for key, value in node.value if isinstance(node, yaml.MappingNode) else []:
        lines[before + str(key.value)] = key.start_mark.line + 1
        if not before:
            lines |= _key_lines(value, f"{key.value} ")
    return lines
