"""A run of `aegis handover`: its plant, legacy, host and gate made from the request, and its result as plain data and as text."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from aegis.cli.config import HandoverRequest
from aegis.cli.output import table
from aegis.errors import InputError, PolicyError, SettingError, check_choice, did_you_mean
from aegis.handover import format_lower_bound
from aegis.ope import reward_measure
from aegis.policies import Legacy
from aegis.problem import Batch, EpisodeFingerprints, Plant, Policy, Problem, content_digest, episode_hashes
from aegis.report import NOT_A_CERTIFICATE, describe_cap, describe_event, describe_held_back
from aegis.worlds import World

EXTERNAL = "external"

FRESHNESS_EPISODES = 16  # episodes of the legacy that are compared with those a policy was learned from

LEAST_REPEATS, REPEAT_FACTOR = 3, 5.0  # so many that are the same, and so much more often than by chance, are no chance


@dataclass(frozen=True, slots=True)
class PlantWithMargins:
    """A plant whose levels change hands for a larger gain than it says itself."""

    plant: Plant
    problem: Problem

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        """Run episodes as the plant does."""
        return self.plant.episodes(first, count, policy, seed)


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that can begin. world: the simulated one, whose truth is known; None for a plant of the user's own.

    certificate: whether what this gate says is one.
    """

    asked: HandoverRequest
    gate: Any
    legacy: Policy
    world: World | None
    certificate: bool


def prepare_run(asked: HandoverRequest) -> PreparedRun:
    """Return the run; SettingError or PolicyError for what does not exist or does not fit."""
    from aegis.api import load_plant
    from aegis.handover import make_gate
    from aegis.paper import register_gates
    from aegis.worlds import make_world

    register_gates()
    for name in ("preset", "shift"):
        if name in asked.settings:
            raise SettingError(f"--set changes parameters of the world; write --{name} {asked.settings[name]} instead")
    check_setting_names(asked)
    plant: Plant = (
        load_plant(asked.plant) if asked.plant is not None else make_world(asked.world, preset=asked.preset, **asked.settings)
    )
    judged = _with_margins(plant, asked.margins, asked.places)
    legacy = _load_run_legacy(asked.legacy, plant, judged)
    host = load_host(asked.host, judged.problem)
    if isinstance(plant, World) and Path(asked.host).is_dir():
        _check_fresh(asked, judged, legacy)
    gate = make_gate(asked.gate, judged, legacy, host, asked.gate_settings, asked.seed)
    return PreparedRun(asked, gate, legacy, plant if isinstance(plant, World) else None, gate.certificate)


def _check_fresh(asked: HandoverRequest, plant: Plant, legacy: Policy) -> None:
    """Raise PolicyError if a policy was learned from the very episodes that a simulation of this seed would run again."""
    from aegis.policies import load_record

    found = load_record(asked.host).get("fingerprints")
    seen = None if found is None else EpisodeFingerprints.of(found)
    if seen is None or seen.content != content_digest(plant.problem):
        return
    again = np.isin(episode_hashes(plant.episodes(0, FRESHNESS_EPISODES, legacy, asked.seed)), seen.hashes)
    if again.sum() >= LEAST_REPEATS and again.mean() > REPEAT_FACTOR * seen.chance:
        raise PolicyError(
            f"--host {asked.host} was learned from episodes that --seed {asked.seed} runs again: evidence for a policy is on "
            "episodes that it has not seen; give another --seed"
        )


def check_setting_names(asked: HandoverRequest) -> None:
    """Raise InputError naming file and line for a setting in a file that neither world nor gate has."""
    from aegis.handover import GATES
    from aegis.paper import register_gates
    from aegis.worlds import ALL_WORLDS

    register_gates()
    gate = GATES.get(asked.gate)
    kinds: dict[str, Any] = {"set": ALL_WORLDS.get(asked.world), "gate-set": None if gate is None else gate.settings}
    for option, kind in kinds.items():
        known = [] if kind is None else list(inspect.signature(kind).parameters)
        for place, where in asked.places.items():
            within, _, key = place.partition(" ")
            if known and within == option and key not in (*known, "preset", "shift"):
                raise InputError(
                    f"{where}: unknown key '{key}' in '{option}'{did_you_mean(key, known)}; allowed: {', '.join(known)}"
                )


def _load_run_legacy(reference: str, plant: Plant, judged: Plant) -> Policy:
    """Return the legacy, made for the problem with its margins."""
    from aegis.api import load_legacy

    if not isinstance(plant, World):
        return load_legacy(reference, judged)
    found = load_legacy(reference, plant)
    return replace(found, problem=judged.problem) if isinstance(found, Legacy) else found


def load_host(name: str, problem: Problem) -> Any:
    """Return a host by its name, or the user's own policy or learner as one."""
    from aegis.handover import HOSTS

    own = [word for word in HOSTS if word != EXTERNAL]
    if ":" in name or (name not in own and Path(name).is_dir()):  # ./ncts is a folder, ncts is the host
        return HOSTS[EXTERNAL](_load_external_host(name, problem))
    if name == EXTERNAL:
        raise SettingError("host 'external' is a policy or a learner of your own: write --host module:object, or a policy folder")
    if name not in own:
        raise SettingError(
            f"unknown host '{name}'{did_you_mean(name, own)}; allowed: {', '.join(own)}, or your own module:object or "
            "policy folder"
        )
    return HOSTS[name]()


def _load_external_host(reference: str, problem: Problem) -> Any:
    """Return the object with `propose` that a reference names, else the policy."""
    from aegis.api import load_candidate, load_object

    if not Path(reference).is_dir():
        found = load_object(reference, "a host of your own", "greenhouse:learner", SettingError)
        found = found() if isinstance(found, type) else found
        if callable(getattr(found, "propose", None)):
            return found
    return load_candidate(reference, problem).policy


def _with_margins(plant: Plant, margins: Mapping[str, float], places: Mapping[str, str]) -> Plant:
    if not margins:
        return plant
    problem = plant.problem
    for level in margins:
        if level:
            where = places.get(f"margin {level}")
            check_choice(level, problem.names, "level of --margin" + ("" if where is None else f" ({where})"))
    levels = tuple(replace(level, margin=margins.get(level.name, margins.get("", level.margin))) for level in problem.levels)
    return PlantWithMargins(plant, replace(problem, levels=levels))


RUN_FILES = {
    "events": "events.jsonl",
    "log": "log.parquet",
    "problem": "problem.yaml",
    "policies": "policies",
    "summary": "summary.json",
}


def run_result(made: PreparedRun, summary: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a run with what was asked, true values where a world knows them, and where its files are."""
    wanted, values = made.asked, run_true_values(made)
    out = wanted.out
    files = {} if out is None else {name: str(out / file) for name, file in RUN_FILES.items() if (out / file).exists()}
    return {
        **wanted.about,
        "episodes": wanted.episodes,
        "seed": wanted.seed,
        "certificate": made.certificate,
        "gate_settings": made.gate.settings.plain(),
        **summary,
        "values": values,
        "files": files,
        "note": surplus_note(made, summary),
        "report": None,
    }


def surplus_note(made: PreparedRun, summary: dict[str, Any]) -> str | None:
    """Return that fewer episodes were asked for than the run has; None if not."""
    done, wanted = summary["episodes"], made.asked.episodes
    if done <= wanted:
        return None
    return f"The run in {made.asked.out} has {done} episodes already, more than the {wanted} asked for: none was run."


def run_true_values(made: PreparedRun) -> dict[str, float] | None:
    """Return what legacy, present policies and the best possible ones really earn; None where nobody knows."""
    from aegis.worlds import oracle_value, true_value

    if made.world is None:
        return None
    legacy = true_value(made.world, made.legacy)
    agent = true_value(made.world, made.gate.acting) if made.gate.deployed else legacy
    return {"legacy": legacy, "agent": agent, "oracle": oracle_value(made.world)}


def print_run(made: PreparedRun, result: dict[str, Any], screen: Console) -> None:
    """Print verdict, values, flips, ledger and files."""
    handed = [level for level in result["levels"] if level["control"] == "agent"]
    style = "bold red" if result["paused"] or not made.certificate else "bold green" if handed else "bold yellow"
    if result["note"]:
        screen.print(result["note"], soft_wrap=True, markup=False)
    screen.print(result["sentence"], style=style, soft_wrap=True, markup=False)
    if not made.certificate:
        screen.print(f"The gate '{made.asked.gate}' is {NOT_A_CERTIFICATE}: it may hand over to a worse agent.", style="bold red")
    if result["paused"]:
        screen.print(f"Paused: {result['paused']}", soft_wrap=True, markup=False)
    if result["assumes"]:
        screen.print(result["assumes"], soft_wrap=True, markup=False)
    for item in result["waiting"]:
        screen.print(f"Waits: '{item['level']}', {item['challenge']}: {item['why']}", soft_wrap=True, markup=False)
    screen.print(_reward_table(result))
    compared = describe_held_back(result)
    if compared:
        screen.print(compared, soft_wrap=True, markup=False)
    _print_flips(made, screen)
    ledger = result["ledger"]
    if made.certificate:
        screen.print(
            f"Risk spent: {ledger['spent']:.4g} of {ledger['delta']:g} by {ledger['freezes']} freezes; alarms: {result['alarms']}"
        )
    if made.asked.out is not None:
        screen.print(f"files:  {made.asked.out}  ({', '.join(RUN_FILES[name] for name in result['files'])})", soft_wrap=True)
    if result["report"]:
        screen.print(f"report: {result['report']}", soft_wrap=True)


def _reward_table(result: dict[str, Any]) -> Any:
    truth, seen = result["values"] or {}, result["rewards"]
    handed = seen["before_first_flip"] is not None
    realised = {
        "legacy": seen["before_first_flip"] if handed else seen["all"],
        "agent": seen["now"],
        "oracle": None,
    }
    acting = any(level["control"] == "agent" for level in result["levels"])
    words = {"legacy": "legacy", "agent": "who acts now" if acting else "who acts now (the legacy)", "oracle": "best possible"}
    unit = f", {result['unit']}" if result["unit"] else ""
    rows = [
        [words[who], _format_reward(truth.get(who)), _format_reward(realised[who])]
        for who in words
        if who in truth or realised[who]
    ]
    return table(f"Mean reward{unit}", ["who acts", "true value", "in this run"], rows)


def _print_flips(made: PreparedRun, screen: Console) -> None:
    measure = reward_measure(made.gate.problem)
    flips = [event for event in made.gate.events if event.kind == "flip"]
    if not flips:
        return
    head = ["level", "what", "since episode", "evidence", "cap", "gain at least" if made.certificate else "difference"]
    rows = [
        [
            event.level,
            event.action,
            str(event.since),
            f"{event.units} episodes",
            describe_cap(event.cap),
            format_lower_bound(measure.gain(event.gain_lower), "+") + ("" if made.certificate else f" ({NOT_A_CERTIFICATE})"),
        ]
        for event in flips
    ]
    screen.print(table("Flips", head, rows))
    for event in made.gate.events:
        found = describe_event(event, measure, made.certificate)
        if found is not None and found[0] in ("alarm", "paused", "reverted"):
            screen.print(f"episode {event.episode}: {found[1]}", style="bold red", soft_wrap=True, markup=False)


def _format_reward(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
