"""The page of a handover: one HTML file with its styles and pictures inside, like that of a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aegis.certificate.measures import reward_measure
from aegis.files import write_text
from aegis.handover.summary import summary
from aegis.handover.turns import turns
from aegis.report.page import _environment

if TYPE_CHECKING:
    from aegis.handover.run import Handover

LEADS = "Certified gain of the leading challenge"
SAYS = "What the published bound says, which is not a certificate,"


def write_handover_report(
    handover: Handover,
    path: str | Path,
    about: Mapping[str, Any] | None = None,
    truth: Mapping[str, float] | None = None,
    certificate: bool = True,
) -> Path:
    """Write the page of a run and return where it is; OutputError if the place cannot be written.

    about: plain data about plant, legacy and host. truth: what `legacy`, `agent` and `oracle` really earn, where a simulated
    plant knows it. certificate: whether what the gate says is one; a page of one that is not says so first.
    """
    target = Path(path)
    write_text(target, render_handover(handover, about, truth, certificate))
    return target


def render_handover(
    handover: Handover,
    about: Mapping[str, Any] | None = None,
    truth: Mapping[str, float] | None = None,
    certificate: bool = True,
) -> str:
    """Return the page of a run; the same text for the same run."""
    environment = _environment()
    # Imported late: the pictures escape with a part of the templates' library, whose absence deserves its own message.
    from aegis.report.handover_charts import bound_figures, evidence_figures, flips_of, reward_figure
    from aegis.report.handover_path import looked, trajectory
    from aegis.report.handover_sections import controls, entries, ledger, told, top
    from aegis.report.handover_standing import standings
    from aegis.report.handover_words import held_back
    from aegis.report.numbers import count, risk

    measure, state, events = reward_measure(handover.problem), handover.state, handover.events
    looks = getattr(handover, "looks", None)
    found, settings = standings(state, measure, looks or ()), handover.settings.plain()
    path = trajectory(events, measure) if looks is None else looked(looks, state.levels, measure)
    flips = flips_of(events)
    rewards = np.array([measure.value(value) for value in handover.rewards], dtype=np.float64)
    content = summary(handover)
    return environment.get_template("handover.html").render(
        top=top(content, found, settings, certificate),
        controls=controls(found, measure, certificate, turns(events), state.settings.mode),
        held_back=held_back(content),
        reward=reward_figure(rewards, flips, truth, measure.unit or f"({measure.column})"),
        bounds=bound_figures(path, flips, measure, state.episode, LEADS if certificate else SAYS),
        evidence=evidence_figures(path, flips, state.episode),
        events=told(events, measure, certificate),
        ledger=ledger(events, settings["delta"]),
        entries=entries({**(about or {}), "seed": handover.seed, "episodes": state.episode}, settings),
        truth=truth,
        settings=settings,
        certificate=certificate,
        comparators="; ".join(f"{item['level']}: {item['comparator']}" for item in content["levels"]),
        risk=risk(settings["delta"]),
        count=count,
        unit=measure.unit,
    )
