"""From a bench to its units: arms with all settings resolved, each identified by the digest of its settings and of the code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aegis.errors import SettingError, check_choice, whole_number
from aegis.files import json_digest
from aegis.paper.bench_file import BENCH_PRESETS, Bench, UnitSettings, merge_settings
from aegis.paper.code_digest import code_version


@dataclass(frozen=True)
class BenchUnit:
    """An arm at one value of what is swept; value: None if nothing is. settings: everything that decides its numbers."""

    bench: str
    measure: str
    arm: str
    value: Any
    settings: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Return the digest of settings and code."""
        return json_digest([self.measure, dict(self.settings), code_version()])[:24]

    @property
    def parts(self) -> dict[str, Any]:
        """Return what the unit is made of, for the file of its runs."""
        return {"measure": self.measure, "arm": self.arm, "value": self.value, "settings": dict(self.settings)}

    @property
    def label(self) -> str:
        """Return the arm, with the value of what is swept."""
        return self.arm if self.value is None else f"{self.arm}, {key_of(self.value)}"


@dataclass(frozen=True)
class BenchPlan:
    """The units of a bench under a preset, and how many seeds each is run with. changes: by dotted key, what differs from it."""

    bench: Bench
    preset: str
    seeds: int
    units: tuple[BenchUnit, ...]
    changes: Mapping[str, Any] = field(default_factory=dict)


def plan_bench(bench: Bench, preset: str, changes: Mapping[str, Any] | None = None) -> BenchPlan:
    """Return what is to be run. changes: by dotted key, such as `world.sigma_q`, `episodes` or `seeds`, for every arm.

    Everything that the bench names is built once: InputError says, before anything is run, which setting cannot work, and which
    metric, claim or figure can never come out of it.
    """
    from aegis.paper.bench_checks import check_bench, check_settings  # which know results, and these know plans

    check_choice(preset, BENCH_PRESETS, "preset")
    own = bench.presets.get(preset)
    base = merge_settings(bench.base.model_dump(exclude_none=True), {} if own is None else _settings(own))
    seeds = bench.seeds if own is None or own.seeds is None else own.seeds
    changed_settings = dict(changes or {})
    if "seeds" in changed_settings:
        seeds = whole_number("'seeds'", changed_settings.pop("seeds"))
    for key, changed in changed_settings.items():
        _check_change(bench, key, changed)
    values = [None] if bench.sweep is None else bench.sweep.values if own is None or own.sweep is None else own.sweep
    units = []
    for name, arm in bench.arms.items():
        for value in values:
            settings = merge_settings(base, _settings(arm))
            if bench.sweep is not None:
                settings = merge_settings(settings, nest_setting(bench.sweep.key, value))
            for key, changed in changed_settings.items():
                settings = merge_settings(settings, nest_setting(key, changed))
            units.append(BenchUnit(bench=bench.name, measure=bench.measure, arm=name, value=value, settings=settings))
    check_bench(bench, check_settings(units))
    _check_arms(bench, changed_settings)
    return BenchPlan(bench=bench, preset=preset, seeds=seeds, units=tuple(units), changes=dict(changes or {}))


def _check_change(bench: Bench, key: str, changed: Any) -> None:
    nest_setting(key, changed)
    if changed is None:
        raise SettingError(f"bench {bench.name}: '{key}' is changed to nothing; give a value, or leave it out")
    if bench.sweep is not None and (key == bench.sweep.key or bench.sweep.key.startswith(f"{key}.")):
        raise SettingError(
            f"bench {bench.name} sweeps '{bench.sweep.key}': every arm takes {', '.join(map(str, bench.sweep.values))}; "
            "leave it out, or write a bench of your own without the sweep"
        )


def _check_arms(bench: Bench, changes: Mapping[str, Any]) -> None:
    """Refuse a change of what an arm sets itself: the arm would not be what its name says any more."""
    changed = [key for name, value in changes.items() for key in flat_settings(nest_setting(name, value))]
    for name, arm in bench.arms.items():
        for own in flat_settings(_settings(arm)):
            for key in changed:
                if f"{own}.".startswith(f"{key}.") or f"{key}.".startswith(f"{own}."):
                    raise SettingError(
                        f"bench {bench.name}: the arm '{name}' sets '{own}' itself, and '{key}' would change what it is; "
                        "leave it out, or write a bench of your own"
                    )


def flat_settings(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested settings by dotted key, without those that are empty."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= flat_settings(value, f"{above}{key}.")
        elif value not in ({}, None):
            flat[f"{above}{key}"] = value
    return flat


def nest_setting(key: str, value: Any) -> dict[str, Any]:
    """Return `{"a": {"b": value}}` for `a.b`; SettingError if there is no such setting."""
    first, *rest = key.split(".")
    check_choice(first, UnitSettings.model_fields, "setting of a bench")
    if bool(rest) is not isinstance(_default(first), dict):
        raise SettingError(
            f"'{key}' is no setting of a bench; write {first}.NAME" if not rest else f"'{first}' has no parts: '{key}'"
        )
    nested = value
    for part in reversed([first, *rest]):
        nested = {part: nested}
    return dict(nested)


def _default(name: str) -> Any:
    return UnitSettings().model_dump()[name]


def _settings(section: UnitSettings) -> dict[str, Any]:
    return {
        key: value
        for key, value in section.model_dump(exclude_none=True).items()
        if key in UnitSettings.model_fields and value != {}
    }


def key_of(value: Any) -> str:
    """Return a value as it is written as a key in a file."""
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
