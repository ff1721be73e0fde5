"""`plan`: how much exploration and how many episodes it takes until a gain is certified, and what this forecast assumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from aegis.certificate import Candidate, LearnedPolicy
from aegis.errors import LogError, SettingError
from aegis.ope import Measure, reward_measure, unit_word
from aegis.problem import Batch, Policy, Problem, concat
from aegis.validation.planner.guess import PRIOR_UNITS, KnownLevel, exploration_rates, plan_from_guess
from aegis.validation.planner.pilot_level import first_decisions
from aegis.validation.planner.pilot_plan import Pilot
from aegis.validation.planner.plan_result import LevelPlan, Plan, better_by, earning_verb, levels_named
from aegis.validation.planner.plan_settings import ALLOWANCE, CAPS, RATES, SPREAD_SHARE, PlanGuess, PlanSettings


def assumption_sentences(
    problem: Problem, measure: Measure, guess: PlanGuess, levels: Sequence[LevelPlan], pilot: bool
) -> tuple[str, ...]:
    """Return the sentences that hold for the levels of a plan; none if nothing is forecast of any. pilot: a log was read."""
    if all(problem.level(level.level).actions.continuous for level in levels):
        return ()  # there is no planner for intervals
    sentences = [
        f"counted are the {unit_word(problem)} that are certified; those that the policy is learned from come on top ('aegis "
        "learn' takes half of a log by default, and a pilot log may serve)",
        "the exploring legacy logs the probabilities of all actions, nothing drifts, and the gain stays what it is here",
    ]
    guessed, shown = (
        tuple(level.level for level in levels if level.source == source and level.rows) for source in ("guess", "pilot")
    )
    if guessed:
        where, goal = levels_named(guessed), measure.goal
        best = "" if guess.gain is None else better_by(guess.gain, goal)
        random = f"{earning_verb(goal)} as much (nothing was said)" if guess.loss is None else better_by(-guess.loss, goal)
        placed = f"the {unit_word(problem)} of the pilot" if pilot else f"{PRIOR_UNITS} {unit_word(problem)}"
        sentences += [
            f"{where}, from a guess: the best action {best} than the legacy's own, a random one {random}, and what actions "
            f"{earning_verb(goal).removesuffix('s')} is evenly spaced, which the reward model gets right; bets are placed on "
            f"{placed}",
            f"{where}, {_from_log(guess, goal) if pilot else _from_guess(guess, measure)}",
        ]
    if shown:
        where = levels_named(shown)
        sentences += [
            f"{where}, from the pilot: a candidate learned on one half is played in the contexts of the other half, with what "
            "that half says about rewards; where it shows a smaller gain than its model, less half a standard error, that one "
            "counts",
            f"{where}: rows that explore more than the log did rest on what the model says about actions that were rarely tried",
        ]
    return tuple(sentences)


ALLOWED = f"taken {ALLOWANCE:g} times as large because contexts differ"


def _from_guess(guess: PlanGuess, measure: Measure) -> str:
    spread = f"{SPREAD_SHARE * measure.width:g} (a tenth of the range)" if guess.spread is None else f"{guess.spread:g}"
    typical = "the middle of the range" if guess.typical is None else f"{guess.typical:g}"
    decisions = "one decision" if guess.decisions is None else f"{guess.decisions} decisions"
    things = "costs" if measure.goal == "minimise" else "rewards"
    return (
        f"from a guess: {things} vary by {spread} around that, {ALLOWED}; the legacy {earning_verb(measure.goal)} {typical}, and "
        f"an episode has {decisions} of the level"
    )


def _from_log(guess: PlanGuess, goal: str) -> str:
    guesses = {
        f"spread of {'costs' if goal == 'minimise' else 'rewards'}, differences between contexts included": guess.spread,
        f"what the legacy {earning_verb(goal)}": guess.typical,
        "decisions in an episode": guess.decisions,
    }
    taken = [words for words, value in guesses.items() if value is None]
    allowance = "" if guess.spread is None else f"; the spread of the guess is {ALLOWED}"
    return f"taken from the log: {', '.join(taken) or 'what the legacy does, the rest is the guess'}{allowance}"


LEAST_UNITS = 20  # of a pilot: below, two halves of it tell next to nothing

MOST_ROWS = 40_000  # innermost decisions of a pilot that are looked at


PlanProgress = Callable[[int, int], None]


class BatchSource(Protocol):
    """Something that gives batches of whole episodes, such as `aegis.Source`."""

    def batches(self, columns: Sequence[str] = ..., rows: int = ..., side: str | None = ..., split: Any = ...) -> Iterator[Batch]:
        """Yield the batches, of one side of a split if there is one; columns: further ones that are read."""
        ...


def plan(
    problem: Problem,
    log: BatchSource | Batch | None = None,
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
    policy: Policy | LearnedPolicy | Candidate | None = None,
    split: Any = None,
    seed: int = 1,
    report: PlanProgress | None = None,
) -> Plan:
    """Forecast after how many certified episodes a gain is certified, for every exploration rate and cap, level by level.

    A plan is a forecast, not a certificate. Without a log it rests on a guess, in the reward's units per decision. With a pilot
    log everything comes from the log. The guess then counts only where the legacy leaves nothing to chance, or where the pilot
    shows no gain.

    Parameters
    ----------
    problem
        The problem that will be certified.
    log
        A pilot log.
    gain
        Guess: what the best action earns more than the one the legacy takes when it does not explore.
    loss
        Guess: what a random action earns less than that one. None: 0 is supposed, and costs are bounded by the range.
    spread
        Guess: standard deviation of a reward given context and action. None: a tenth of the declared range.
    typical
        Guess: what the legacy earns. None: the middle of the range.
    decisions
        Guess: decisions of the level in an episode. None: 1, which is careful.
    levels
        Names of levels, all if None.
    explore
        Probabilities of a uniform choice, mixed into the legacy.
    caps
        Caps W: the most by which a candidate raises a probability.
    delta
        The risk.
    tests
        How many claims share the risk. None: the gain and each guard.
    within
        The number of episodes that is wanted.
    policy
        The candidate. None: capped candidates learned from the pilot.
    split
        An `aegis.Split` whose prior side alone is read, so that the other side may be certified afterwards. None reads the whole
        log.
    seed
        Of the simulated studies.
    report
        Receives the number of rows done and about how many there are.

    Returns
    -------
    Plan
        One row for each level, exploration rate and cap.

    Raises
    ------
    SettingError, ProblemError, PolicyError, LogError
        If an argument does not fit.
    RefusedError
        If the reward has no range.
    """
    guess = PlanGuess(gain=gain, loss=loss, spread=spread, typical=typical, decisions=decisions)
    settings = PlanSettings(explore=tuple(explore), caps=tuple(caps), delta=delta, tests=tests, within=within, seed=seed)
    measure = reward_measure(problem)
    shared = tests if tests is not None else 1 + len(problem.guards)
    candidate = None if policy is None else Candidate.of(policy)
    chosen = _chosen(problem, levels, candidate)
    count_row = _row_counter(
        report, sum(len(settings.caps) * (len(exploration_rates(problem.level(name), settings)) + 1) for name in chosen)
    )
    batch = None
    if log is not None:
        batch = _pilot(problem, log, candidate, split)
        pilot = Pilot(
            problem=problem,
            measure=measure,
            batch=batch,
            candidate=candidate,
            guess=guess,
            settings=settings,
            delta=delta / shared,
            count_row=count_row,
        )
        plans = [pilot.level(problem.level(name)) for name in chosen]
    elif candidate is not None:
        raise SettingError("a policy is judged by a pilot log: give one, or leave the policy out and guess its gain")
    else:
        plans = [
            plan_from_guess(problem.level(name), guess, KnownLevel(), settings, delta / shared, measure, count_row=count_row)
            for name in chosen
        ]
    return Plan(
        levels=tuple(plans),
        unit=measure.unit,
        unit_word=unit_word(problem),
        delta=delta / shared,
        tests=shared,
        wanted=within,
        pilot_episodes=None if batch is None else len(batch),
        assumed=assumption_sentences(problem, measure, guess, plans, batch is not None),
        goal=problem.reward.goal,
    )


def _chosen(problem: Problem, levels: Sequence[str] | None, candidate: Candidate | None) -> tuple[str, ...]:
    named = problem.scope(levels)
    if not named:
        raise SettingError(f"name at least one level of {', '.join(problem.names)}, or none for all of them")
    acts = problem.names if candidate is None else candidate.levels(problem)
    chosen = tuple(name for name in problem.names if name in named and name in acts)
    if not chosen:
        raise SettingError(
            f"the policy acts at {', '.join(acts)}, not at {', '.join(sorted(named))}; plan for a level it acts at"
        )
    return chosen


def _pilot(problem: Problem, log: BatchSource | Batch, candidate: Candidate | None, split: Any) -> Batch:
    """Return the first episodes of a log, or of the prior side of a split of it, as one batch."""
    parts, rows, columns = [], 0, () if candidate is None else candidate.columns
    if isinstance(log, Batch):
        stream = iter([log] if split is None else [log.take_episodes(split.on_side("prior", problem, log))])
    else:
        stream = log.batches(columns) if split is None else log.batches(columns, side="prior", split=split)
    for batch in stream:
        parts.append(batch)
        rows += len(batch.levels[problem.innermost.name])
        if rows >= MOST_ROWS:
            break
    whole = concat(parts) if parts else None
    units = 0 if whole is None else len(np.unique(whole.episode if whole.cluster is None else whole.cluster))
    if whole is None or units < LEAST_UNITS:
        raise LogError(
            f"the pilot has {units} {unit_word(problem)}{'' if split is None else ' on the prior side'}, a plan needs "
            f"{LEAST_UNITS} or more: one half is learned from and the other judges it; log more of them, or plan from a guess"
        )
    return first_decisions(whole, problem.innermost.name, MOST_ROWS)


def _row_counter(report: PlanProgress | None, total: int) -> Callable[[], None]:
    done = 0

    def count_row() -> None:
        nonlocal done
        done += 1
        if report is not None:
            report(done, max(done, total))

    return count_row
