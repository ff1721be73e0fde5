"""How much exploration, how many episodes? A plan before there is a certificate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from aegis.certificate import Candidate
from aegis.certificate.candidate import Learned
from aegis.certificate.measures import reward_measure
from aegis.certificate.units import unit_word
from aegis.errors import LogError, SettingError
from aegis.problem import Batch, Policy, Problem, concat
from aegis.validation.planner.assumed import assumed
from aegis.validation.planner.from_guess import Known, guessed_level, rates_of
from aegis.validation.planner.from_pilot import Pilot
from aegis.validation.planner.pilot import first_decisions
from aegis.validation.planner.results import LevelPlan, Plan
from aegis.validation.planner.settings import CAPS, RATES, Guess, Settings

LEAST_UNITS = 20  # of a pilot: below, two halves of it tell next to nothing
MOST_ROWS = 40_000  # innermost decisions of a pilot that are looked at

Report = Callable[[int, int], None]


class Log(Protocol):
    """Something that gives batches of whole episodes, such as `aegis.Source`."""

    def batches(self, columns: Sequence[str] = ..., rows: int = ..., side: str | None = ..., split: Any = ...) -> Iterator[Batch]:
        """Yield the batches, of one side of a split if there is one; columns: further ones that are read."""
        ...


def plan(
    problem: Problem,
    log: Log | Batch | None = None,
    *,
    gain: float | None = None,
    loss: float | None = None,
    spread: float | None = None,
    typical: float | None = None,
    decisions: int | None = None,
    levels: Sequence[str] | None = None,
    explore: Sequence[float] = RATES,
    caps: Sequence[float] = CAPS,
    delta: float = 0.05,
    tests: int | None = None,
    within: int | None = None,
    policy: Policy | Learned | Candidate | None = None,
    split: Any = None,
    seed: int = 1,
    report: Report | None = None,
) -> Plan:
    """Return after how many certified episodes a gain is certified, for every exploration rate and cap, level by level.

    Without a log from a guess, in the reward's units per decision: gain of the best action over the one the legacy takes when it
    does not explore; loss: what a random action earns less than that one (None: not known; 0 is supposed, and costs are bounded
    by the range); spread: standard deviation of a reward given context and action (a tenth of the declared range if None);
    typical: what the legacy earns (the middle of the range if None); decisions: of the level in an episode (1 if None, which is
    careful). With a pilot log all of that comes from the log, and the guess is used only where the legacy leaves nothing to
    chance or the pilot shows no gain. policy: the candidate; None stands for capped ones learned from the pilot. split: an
    `aegis.Split` whose prior side is all that is read, so that the other side may be certified afterwards; None reads the whole
    log, which then has been seen.

    levels: their names, all if None. explore: probabilities of a uniform choice, mixed into the legacy. caps: W, the most by
    which a candidate raises a probability. delta: the risk; tests: how many claims share it (None: the gain and each guard).
    within: the number of episodes that is wanted. report: told the rows done and about how many there are. A plan is a forecast,
    not a certificate.
    Raises SettingError, ProblemError, PolicyError or LogError for what does not fit, RefusedError without a range of the reward.
    """
    guess, settings = (
        Guess(gain, loss, spread, typical, decisions),
        Settings(tuple(explore), tuple(caps), delta, tests, within, seed),
    )
    measure = reward_measure(problem)
    shared = tests if tests is not None else 1 + len(problem.guards)
    given = None if policy is None else Candidate.of(policy)
    chosen = _chosen(problem, levels, given)
    told = _told(report, sum(len(settings.caps) * (len(rates_of(problem.level(name), settings)) + 1) for name in chosen))
    found: list[LevelPlan] = []
    batch: Batch | None = None
    if log is None:
        if given is not None:
            raise SettingError("a policy is judged by a pilot log: give one, or leave the policy out and guess its gain")
        found = [
            guessed_level(problem.level(name), guess, Known(), settings, delta / shared, measure, told=told) for name in chosen
        ]
    else:
        batch = _pilot(problem, log, given, split)
        pilot = Pilot.of(problem, measure, batch, given, seed)
        found = [pilot.level(problem.level(name), guess, settings, delta / shared, told) for name in chosen]
    return Plan(
        tuple(found),
        measure.unit,
        unit_word(problem),
        delta / shared,
        shared,
        within,
        None if batch is None else len(batch),
        assumed(problem, measure, guess, found, batch is not None),
        problem.reward.goal,
    )


def _chosen(problem: Problem, levels: Sequence[str] | None, given: Candidate | None) -> tuple[str, ...]:
    named = problem.scope(levels)
    if not named:
        raise SettingError(f"name at least one level of {', '.join(problem.names)}, or none for all of them")
    acts = problem.names if given is None else given.levels(problem)
    chosen = tuple(name for name in problem.names if name in named and name in acts)
    if not chosen:
        raise SettingError(
            f"the policy acts at {', '.join(acts)}, not at {', '.join(sorted(named))}; plan for a level it acts at"
        )
    return chosen


def _pilot(problem: Problem, log: Log | Batch, given: Candidate | None, split: Any) -> Batch:
    """Return the first episodes of a log, or of the prior side of a split of it, as one batch."""
    parts: list[Batch] = []
    rows = 0
    columns = () if given is None else given.columns
    if isinstance(log, Batch):
        stream = iter([log] if split is None else [log.take_episodes(split.on_side("prior", problem, log))])
    else:
        stream = log.batches(columns) if split is None else log.batches(columns, side="prior", split=split)
    for batch in stream:
        parts.append(batch)
        rows += len(batch.levels[problem.innermost.name])
        if rows >= MOST_ROWS:
            break
    whole = parts[0] if len(parts) == 1 else concat(parts) if parts else None
    units = 0 if whole is None else len(np.unique(whole.episode if whole.cluster is None else whole.cluster))
    if whole is None or units < LEAST_UNITS:
        raise LogError(
            f"the pilot has {units} {unit_word(problem)}{'' if split is None else ' on the prior side'}, a plan needs "
            f"{LEAST_UNITS} or more: one half is learned from and the other judges it; log more of them, or plan from a guess"
        )
    return first_decisions(whole, problem.innermost.name, MOST_ROWS)


def _told(report: Report | None, total: int) -> Callable[[], None]:
    done = 0

    def told() -> None:
        nonlocal done
        done += 1
        if report is not None:
            report(done, max(done, total))

    return told
