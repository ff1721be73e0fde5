"""A run of `aegis handover`: its plant, legacy, host and gate made from the request, and its result as plain data and as text."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from aegis.cli.config import DEFAULT_LEGACY, HandoverRequest
from aegis.cli.output import console, print_line, table
from aegis.errors import InputError, PolicyError, SettingError, check_choice, did_you_mean
from aegis.handover import NOT_A_CERTIFICATE, format_lower_bound, has_gate
from aegis.ope import reward_measure
from aegis.policies import Legacy
from aegis.problem import Batch, EpisodeFingerprints, Plant, Policy, Problem, content_digest, episode_hashes
from aegis.report import describe_cap, describe_event, describe_held_back
from aegis.worlds import World

EXTERNAL = "external"
WARM_HOST = "pessimistic"

FRESHNESS_EPISODES = 16  # episodes of the legacy that are compared with those a policy was learned from

LEAST_REPEATS, REPEAT_FACTOR = 3, 5.0  # so many that are the same, and so much more often than by chance, are no chance


@dataclass(frozen=True, slots=True)
class PlantWithMargins:
    """A plant with other margins: a level changes hands only if the gain exceeds its margin."""

    plant: Plant
    problem: Problem

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        """Run episodes as the plant does."""
        return self.plant.episodes(first, count, policy, seed)


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that can begin. world: the simulated one, whose truth is known; None for a plant of the user's own.

    certificate: whether the gate's bounds are certificates.
    """

    request: HandoverRequest
    gate: Any
    legacy: Policy
    world: World | None
    certificate: bool


def prepare_run(request: HandoverRequest) -> PreparedRun:
    """Return the run; SettingError or PolicyError for what does not exist or does not fit."""
    from aegis.api import load_plant_or_world
    from aegis.handover import make_gate
    from aegis.paper import register_gates

    register_gates()
    check_setting_names(request)
    plant = load_plant_or_world(request.plant, request.world, request.preset, request.settings, request.legacy)
    judged = _with_margins(plant, request.margins, request.places)
    legacy = _load_run_legacy(request.legacy or DEFAULT_LEGACY, plant, judged)
    host = load_host(request.host, judged.problem, _load_host_log(request, judged, legacy))
    world = plant if isinstance(plant, World) else None
    if world is not None and Path(request.host).is_dir():
        _check_fresh(request, judged, legacy)
    gate = make_gate(request.gate, judged, legacy, host, request.gate_settings, request.seed)
    return PreparedRun(request=request, gate=gate, legacy=legacy, world=world, certificate=gate.certificate)


def _load_host_log(request: HandoverRequest, plant: Plant, legacy: Policy) -> Batch | None:
    """Return the log that the host starts from; InputError if it holds the very episodes that the run would begin with."""
    from aegis.logs import Source

    if request.host_log is None:
        return None
    if request.host != WARM_HOST:
        raise SettingError(f"--host-log is what host '{WARM_HOST}' starts from; host '{request.host}' takes none")
    log = Source(request.host_log, plant.problem).read()
    first = episode_hashes(plant.episodes(0, FRESHNESS_EPISODES, legacy, request.seed))
    if int(np.isin(first, episode_hashes(log)).sum()) >= LEAST_REPEATS:
        raise InputError(
            f"--host-log {request.host_log} holds episodes that --seed {request.seed} runs again: a host must not know the "
            "future; give another --seed"
        )
    return log


def _check_fresh(request: HandoverRequest, plant: Plant, legacy: Policy) -> None:
    """Raise PolicyError if a policy was learned from the very episodes that a simulation of this seed would run again."""
    from aegis.policies import load_record

    record = load_record(request.host).get("fingerprints")
    learned = None if record is None else EpisodeFingerprints.of(record)
    if learned is None or learned.content != content_digest(plant.problem):
        return
    again = np.isin(episode_hashes(plant.episodes(0, FRESHNESS_EPISODES, legacy, request.seed)), learned.hashes)
    if again.sum() >= LEAST_REPEATS and again.mean() > REPEAT_FACTOR * learned.chance:
        raise PolicyError(
            f"--host {request.host} was learned from episodes that --seed {request.seed} runs again: evidence for a policy is on "
            "episodes that it has not seen; give another --seed"
        )


def check_setting_names(request: HandoverRequest) -> None:
    """Raise InputError naming file and line for a setting in a file that neither world nor gate has."""
    from aegis.handover import GATES
    from aegis.worlds import ALL_WORLDS

    gate = GATES.get(request.gate)
    kinds: dict[str, Any] = {"set": ALL_WORLDS.get(request.world), "gate-set": None if gate is None else gate.settings}
    for option, kind in kinds.items():
        known = [] if kind is None else list(inspect.signature(kind).parameters)
        for place, where in request.places.items():
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
    legacy = load_legacy(reference, plant)
    return replace(legacy, problem=judged.problem) if isinstance(legacy, Legacy) else legacy


def load_host(name: str, problem: Problem, log: Batch | None = None) -> Any:
    """Return a host by its name, or the user's own policy or learner as one. log: what a warm start starts from."""
    from aegis.agents import AGENTS
    from aegis.handover import HOSTS, agent_host

    own = [word for word in HOSTS if word != EXTERNAL]
    if ":" in name or (name not in own and Path(name).is_dir()):  # ./ncts is a folder, ncts is the host
        return HOSTS[EXTERNAL](_load_external_host(name, problem))
    if name == EXTERNAL:
        raise SettingError("host 'external' is a policy or a learner of your own: write --host module:object, or a policy folder")
    if name not in own:
        if name in AGENTS:
            agent_host(AGENTS[name])  # says why it is none
        raise SettingError(
            f"unknown host '{name}'{did_you_mean(name, own)}; allowed: {', '.join(own)}, or your own module:object or "
            "policy folder"
        )
    return HOSTS[name]() if log is None else HOSTS[name](log)


def _load_external_host(reference: str, problem: Problem) -> Any:
    """Return the object with `propose` that a reference names, else the policy."""
    from aegis.api import load_candidate, load_object

    if not Path(reference).is_dir():
        learner = load_object(reference, "a host of your own", "greenhouse:learner", SettingError)
        learner = learner() if isinstance(learner, type) else learner
        if callable(getattr(learner, "propose", None)):
            return learner
    return load_candidate(reference, problem).policy


def _with_margins(plant: Plant, margins: Mapping[str, float], places: Mapping[str, str]) -> Plant:
    return PlantWithMargins(plant, problem_with_margins(plant.problem, margins, places)) if margins else plant


def problem_with_margins(problem: Problem, margins: Mapping[str, float], places: Mapping[str, str]) -> Problem:
    """Return a problem with the margins of a request. places: where each was read, for errors."""
    for level in margins:
        if level:
            where = places.get(f"margin {level}")
            check_choice(level, problem.names, "level of --margin" + ("" if where is None else f" ({where})"))
    levels = tuple(replace(level, margin=margins.get(level.name, margins.get("", level.margin))) for level in problem.levels)
    return replace(problem, levels=levels)


RUN_FILES = {
    "events": "events.jsonl",
    "log": "log.parquet",
    "problem": "problem.yaml",
    "policies": "policies",
    "summary": "summary.json",
}


def run_result(run: PreparedRun, summary: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a run with its request, true values where a world knows them, and where its files are."""
    request, out = run.request, run.request.out
    files = {} if out is None else {name: str(out / file) for name, file in RUN_FILES.items() if (out / file).exists()}
    note, done = None, summary["episodes"]
    if done > request.episodes:
        note = f"The run in {out} has {done} episodes already, more than the {request.episodes} asked for: none was run."
    return {
        **request.about,
        "episodes": request.episodes,
        "seed": request.seed,
        "certificate": run.certificate,
        "gate_settings": run.gate.settings.plain(),
        **summary,
        "values": _true_values(run),
        "files": files,
        "note": note,
        "report": None,
    }


def _true_values(run: PreparedRun) -> dict[str, float] | None:
    """Return what legacy, present policies and the best possible ones really earn; None where it is not known."""
    from aegis.worlds import oracle_value, true_value

    if run.world is None:
        return None
    legacy = true_value(run.world, run.legacy)
    agent = true_value(run.world, run.gate.acting) if run.gate.deployed else legacy
    return {"legacy": legacy, "agent": agent, "oracle": oracle_value(run.world)}


def print_run(run: PreparedRun, result: dict[str, Any]) -> None:
    """Print verdict, values, flips, ledger and files."""
    handed = [level for level in result["levels"] if level["control"] == "agent"]
    style = "bold red" if result["paused"] or not run.certificate else "bold green" if handed else "bold yellow"
    if result["note"]:
        print_line(result["note"])
    print_line(result["sentence"], style)
    if not run.certificate and has_gate(run.gate.events):
        warning = f"The gate '{run.request.gate}' is {NOT_A_CERTIFICATE}: it may hand over to a worse agent."
        console().print(warning, style="bold red")
    if result["paused"]:
        print_line(f"Paused: {result['paused']}")
    if result["assumes"]:
        print_line(result["assumes"])
    for item in result["waiting"]:
        print_line(f"Waits: '{item['level']}', {item['challenge']}: {item['why']}")
    console().print(_reward_table(result))
    compared = describe_held_back(result)
    if compared:
        print_line(compared)
    _print_flips(run)
    ledger = result["ledger"]
    if run.certificate:
        spent = f"Risk spent: {ledger['spent']:.4g} of {ledger['delta']:g} by {ledger['freezes']} freezes"
        console().print(f"{spent}; alarms: {result['alarms']}")
    if run.request.out is not None:
        print_line(f"files:  {run.request.out}  ({', '.join(RUN_FILES[name] for name in result['files'])})")
    if result["report"]:
        print_line(f"report: {result['report']}")


def _reward_table(result: dict[str, Any]) -> Any:
    truth, rewards = result["values"] or {}, result["rewards"]
    handed = rewards["before_first_flip"] is not None or not result.get("gated", True)
    realised = {"legacy": rewards["before_first_flip"] if handed else rewards["all"], "agent": rewards["now"]}
    control = [level["control"] for level in result["levels"]]
    acting = "who acts now" if "agent" in control else "who acts now (the legacy)"
    explored = result["gate_settings"].get("explore", 0.0) > 0.0
    beside = explored and "legacy" in control
    lines = [
        *_reward_lines("legacy", truth.get("legacy"), realised["legacy"], explored),
        *_reward_lines(acting, truth.get("agent"), realised["agent"], beside),
        *_reward_lines("best possible", truth.get("oracle"), None),
    ]
    unit = f", {result['unit']}" if result["unit"] else ""
    rows = [[who, *("-" if value is None else f"{value:.4f}" for value in values)] for who, *values in lines]
    return table(f"Mean reward{unit}", ["who acts", "true value", "in this run"], rows)


RewardLine = tuple[str, float | None, float | None]


def _reward_lines(who: str, true: float | None, realised: float | None, explored: bool = False) -> list[RewardLine]:
    """Return the lines of a controller that are known: two if what it earned contains exploration, which its true value lacks."""
    if not explored:
        lines: list[RewardLine] = [(who, true, realised)]
    else:
        lines = [(who, true, None), (f"{who}, with exploration", None, realised)]
    return [line for line in lines if line[1:] != (None, None)]


def _print_flips(run: PreparedRun) -> None:
    measure = reward_measure(run.gate.problem)
    flips = [event for event in run.gate.events if event.kind == "flip"] if has_gate(run.gate.events) else []
    if not flips:
        return
    head = ["level", "what", "since episode", "evidence", "cap", "gain at least" if run.certificate else "estimated difference"]
    mark = "" if run.certificate else f" ({NOT_A_CERTIFICATE})"
    rows = [
        [
            event.level,
            event.action,
            str(event.since),
            f"{event.units} episodes",
            describe_cap(event.cap),
            format_lower_bound(measure.gain(event.gain_lower), "+") + mark,
        ]
        for event in flips
    ]
    console().print(table("Flips", head, rows))
    for event in run.gate.events:
        words = describe_event(event, measure, run.certificate)
        if words is not None and words[0] in ("alarm", "paused", "reverted"):
            print_line(f"episode {event.episode}: {words[1]}", "bold red")
