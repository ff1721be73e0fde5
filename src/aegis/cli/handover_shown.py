"""What came of a run of the gate: as plain data, and as text with its tables."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from aegis.certificate.measures import reward_measure
from aegis.cli.handover_made import Made
from aegis.cli.show import table
from aegis.handover.summary import at_least
from aegis.report.handover_words import NOT_A_CERTIFICATE, cap_words, event_words, held_back

FILES = {
    "events": "events.jsonl",
    "log": "log.parquet",
    "problem": "problem.yaml",
    "policies": "policies",
    "summary": "summary.json",
}


def result_of(made: Made, summary: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of a run with what was asked, true values where a world knows them, and where its files are."""
    wanted, values = made.asked, true_values(made)
    out = wanted.out
    files = {} if out is None else {name: str(out / file) for name, file in FILES.items() if (out / file).exists()}
    return {
        **wanted.about,
        "episodes": wanted.episodes,
        "seed": wanted.seed,
        "certificate": made.certificate,
        "gate_settings": made.gate.settings.plain(),
        **summary,
        "values": values,
        "files": files,
        "note": note_of(made, summary),
        "report": None,
    }


def note_of(made: Made, summary: dict[str, Any]) -> str | None:
    """Return that fewer episodes were asked for than the run has; None if not."""
    done, wanted = summary["episodes"], made.asked.episodes
    if done <= wanted:
        return None
    return f"The run in {made.asked.out} has {done} episodes already, more than the {wanted} asked for: none was run."


def true_values(made: Made) -> dict[str, float] | None:
    """Return what legacy, present policies and the best possible ones really earn; None where nobody knows."""
    from aegis.worlds import oracle_value, true_value

    if made.world is None:
        return None
    legacy = true_value(made.world, made.legacy)
    agent = true_value(made.world, made.gate.acting) if made.gate.deployed else legacy
    return {"legacy": legacy, "agent": agent, "oracle": oracle_value(made.world)}


def show(made: Made, result: dict[str, Any], screen: Console) -> None:
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
    screen.print(_values(result))
    compared = held_back(result)
    if compared:
        screen.print(compared, soft_wrap=True, markup=False)
    _flips(made, screen)
    ledger = result["ledger"]
    if made.certificate:
        screen.print(
            f"Risk spent: {ledger['spent']:.4g} of {ledger['delta']:g} by {ledger['freezes']} freezes; alarms: {result['alarms']}"
        )
    if made.asked.out is not None:
        screen.print(f"files:  {made.asked.out}  ({', '.join(FILES[name] for name in result['files'])})", soft_wrap=True)
    if result["report"]:
        screen.print(f"report: {result['report']}", soft_wrap=True)


def _values(result: dict[str, Any]) -> Any:
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
    rows = [[words[who], _number(truth.get(who)), _number(realised[who])] for who in words if who in truth or realised[who]]
    return table(f"Mean reward{unit}", ["who acts", "true value", "in this run"], rows)


def _flips(made: Made, screen: Console) -> None:
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
            cap_words(event.cap),
            at_least(measure.gain(event.gain_lower), "+") + ("" if made.certificate else f" ({NOT_A_CERTIFICATE})"),
        ]
        for event in flips
    ]
    screen.print(table("Flips", head, rows))
    for event in made.gate.events:
        found = event_words(event, measure, made.certificate)
        if found is not None and found[0] in ("alarm", "paused", "reverted"):
            screen.print(f"episode {event.episode}: {found[1]}", style="bold red", soft_wrap=True, markup=False)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
