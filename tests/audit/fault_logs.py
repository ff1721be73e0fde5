"""Small logs, each with one fault, by the code of its finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
from audit_cases import audited, copied_reward, logged, previous_action, stopped, taken_only, with_propensities, with_taken
from interference_logs import ATTACKS, problem_of, reacting, table_of

from aegis.audit import Audit, Finding
from aegis.logs import Source
from aegis.policies import Mixture
from aegis.problem import Batch, Guard, Problem, Propensity, concat
from aegis.rng import stream
from aegis.worlds import make_world

Log = tuple[Problem, Batch]


def base(episodes: int = 60) -> Log:
    return logged("additive", "uniform", episodes, 1)


def reward_of(batch: Batch) -> np.ndarray:
    assert batch.reward is not None
    return batch.reward


def level_as(problem: Problem, name: str, propensity: Propensity | None) -> Problem:
    levels = tuple(replace(level, propensity=propensity) if level.name == name else level for level in problem.levels)
    return replace(problem, levels=levels)


def of_reward(problem: Problem, **changes: object) -> Problem:
    return replace(problem, reward=replace(problem.reward, **changes))  # type: ignore[arg-type]


def no_propensity() -> Log:
    problem, batch = base()
    return level_as(problem, "inner", None), with_taken(batch, "inner", np.full(len(batch.levels["inner"]), np.nan))


def estimated() -> Log:
    problem, batch = taken_only(*base())
    return level_as(problem, "inner", Propensity(column="p_A", estimated=True)), batch


def miscalibrated() -> Log:
    problem, batch = taken_only(*base(300))
    return problem, with_taken(batch, "inner", batch.levels["inner"].mu_taken / 1.5)


def doubtful() -> Log:
    problem, batch = logged("additive", "uniform", 100, 3)
    full = batch.levels["inner"].mu_full
    assert full is not None
    return problem, with_propensities(batch, "inner", full * np.where(np.arange(11) == 4, 1.4, 1.0))


def at_end() -> Log:
    problem, batch = base()
    episode = batch.episode_of("inner")
    return problem, replace(batch, reward=np.where(np.append(episode[1:] != episode[:-1], True), reward_of(batch), 0.0))


def below_one() -> Log:
    problem, batch = taken_only(*base(150))
    return problem, with_taken(batch, "inner", batch.levels["inner"].mu_taken * 1.5)


def not_sequential() -> Log:
    plant = make_world("additive")
    mixture = Mixture([plant.legacy("natural"), plant.legacy("uniform")])
    return plant.problem, plant.episodes(0, 200, mixture, 3, "path")


def below_least() -> Log:
    problem, batch = taken_only(*base(), least=0.05)
    taken = batch.levels["inner"].mu_taken.copy()
    taken[7] = 0.04
    return problem, with_taken(batch, "inner", taken)


def deterministic() -> Log:
    problem, batch = base()
    table = batch.levels["inner"]
    full = np.zeros((len(table), 11))
    full[np.arange(len(table)), table.action] = 1.0
    return problem, with_propensities(batch, "inner", full)


def partly() -> Log:
    problem, batch = taken_only(*base())
    taken = batch.levels["inner"].mu_taken.copy()
    taken[::7] = 1.0
    return problem, with_taken(batch, "inner", taken)


def rounded() -> Log:
    problem, batch = taken_only(*base())
    return problem, with_taken(batch, "inner", np.full(len(batch.levels["inner"]), 0.09))


def confounded() -> Log:
    problem, batch = base()
    return replace(problem, latents={**problem.latents, "mood": ("A", "R")}), batch


def carried() -> Log:
    problem, batch = base(300)
    return problem, replace(batch, reward=reward_of(batch) + previous_action(problem, batch, "inner"))


def stops() -> Log:
    problem, batch = base(200)
    return problem, stopped(batch, "inner", reward_of(batch) > 3)


def cluster_stops() -> Log:
    problem, batch = logged("clinic", "uniform", 300, 2)
    success = batch.episode_means(reward_of(batch)) > 0.6
    return replace(problem, cluster="machine"), replace(batch, cluster=np.cumsum(np.concatenate([[0], success[:-1]])))


def cluster_large() -> Log:
    problem, batch = base(120)
    return replace(problem, cluster="machine", cluster_most=2), replace(batch, cluster=np.arange(120) // 3)


def outside() -> Log:
    problem, batch = base()
    reward = reward_of(batch).copy()
    reward[[45, 900]] = 11.0, -12.0
    return problem, replace(batch, reward=reward)


def guarded() -> Log:
    problem, batch = base()
    guards = {"scrap": np.linspace(0.0, 1.1, reward_of(batch).size)}
    return replace(problem, guards=(Guard("scrap", (0.0, 1.0), 0.1),)), replace(batch, guards=guards)


def missing() -> Log:
    problem, batch = base()
    return problem, replace(batch, observed=np.arange(reward_of(batch).size) % 20 > 0)


def awaited() -> Log:
    problem, batch = base()
    closed = np.arange(reward_of(batch).size) >= 30
    return problem, replace(batch, closed=closed, observed=closed)


def drifting() -> Log:
    problem, batch = base(200)
    late = batch.episode_of("inner") >= 100
    return problem, replace(batch, reward=reward_of(batch) + 1.0 * late)


def versioned() -> Log:
    problem, batch = base()
    return problem, batch.with_level("meta", replace(batch.levels["meta"], version="b"))


def without_ids(problem: Problem) -> Problem:
    return replace(problem, levels=(*problem.levels[:-1], replace(problem.levels[-1], decision=None)))


def doubled() -> Log:
    problem, batch = base()
    table = batch.levels["inner"]
    rows = np.repeat(np.arange(len(table)), 1 + (np.arange(len(table)) % 50 == 3))
    outcome = None if batch.outcome is None else batch.outcome[rows]
    tables = {**batch.levels, "inner": table.take(rows, table.parent[rows])}
    return without_ids(problem), replace(batch, levels=tables, reward=reward_of(batch)[rows], observed=None, outcome=outcome)


def held() -> Log:
    plant = make_world("additive")
    batch = plant.episodes(0, 300, plant.legacy("uniform"), 1)
    table = batch.levels["inner"]
    action = table.action.copy()
    first = np.searchsorted(batch.episode_of("inner"), np.arange(300))
    action[first] = action[first[np.arange(300) // 6 * 6]]  # the first dose of a day is that of the day's first episode
    assert table.mu_full is not None
    full = table.mu_full
    return plant.problem, batch.with_level("inner", table.decided(action, full[np.arange(action.size), action], full))


def interfering() -> Log:
    problem, batch = base(200)
    settings = problem.level("meta").actions.count
    high = np.roll(batch.levels["meta"].action >= settings // 2, 1)  # of the episode before
    return problem, replace(batch, reward=reward_of(batch) + 2.5 * high[batch.episode_of("inner")])


def sorted_by_reward() -> Log:
    problem, batch = base()
    return problem, batch.take_episodes(np.argsort(batch.episode_means(reward_of(batch))))


def copied_episodes() -> Log:
    problem, batch = base()
    return problem, concat([batch, replace(batch, episode=batch.episode + 1000)])


def redone_episodes() -> Log:
    problem, batch = copied_episodes()
    again = np.arange(reward_of(batch).size) >= reward_of(batch).size // 2
    return problem, replace(batch, reward=np.where(again, reward_of(batch) * 0.9, reward_of(batch)))


def rounded_numbers() -> Log:
    world = make_world("dosing")
    batch = world.episodes(0, 60, world.legacy("natural"), 3)
    dose = batch.levels["dose"]
    return world.problem, batch.with_level("dose", replace(dose, value=np.round(np.asarray(dose.value), 1)))


def undeclared_atom() -> Log:
    clips = make_world("dosing", ends="clip", natural_sd=4.0)
    return make_world("dosing").problem, clips.episodes(0, 60, clips.legacy("natural"), 3)


def two_loggers() -> Log:
    plant = make_world("additive")
    one, other = (plant.episodes(0, 200, plant.legacy(name), 6) for name in ("natural", "uniform"))
    turns = np.arange(200) % 2 == 0
    return plant.problem, concat([one.take_episodes(turns), other.take_episodes(~turns)])


def left_out() -> Log:
    """Return a log of even odds in which the second action was taken 460 times of 1000."""
    action = stream(0, "left out").permutation(np.repeat([0, 1], [540, 460]))
    problem = problem_of()
    return problem, next(iter(Source(table_of(action[:, None], np.full((1000, 1), 0.5)), problem).batches()))


def attacked(name: str, seed: int = 0) -> Log:
    table, problem = ATTACKS[name][0](stream(seed, "interference", name))
    return problem, next(iter(Source(table, problem).batches()))


def reacts(head: str) -> Log:
    """Return a log with the probability of the action taken alone, of a controller that reacts to its last action."""
    table, problem = reacting(stream(1, "interference", "reacting"))
    chance = np.where(table["a"].to_numpy() == 1, table["p1"].to_numpy(), table["p0"].to_numpy())
    table = table.append_column("p", pa.array(chance))
    problem = replace(problem, levels=(replace(problem.levels[0], propensity=Propensity(column="p")),))
    if "person" in head:
        table, problem = table.set_column(0, "k", pa.array(np.arange(len(table)))), replace(problem, cluster="person")
    return problem, next(iter(Source(table, problem).batches()))


FAULTS: dict[str, Callable[[], Log]] = {
    "no-propensity": no_propensity,
    "estimated-propensities": estimated,
    "miscalibrated-propensities": miscalibrated,
    "doubtful-propensities": doubtful,
    "rounded-actions": rounded_numbers,
    "undeclared-atom": undeclared_atom,
    "weights-below-one": below_one,
    "propensities-not-sequential": not_sequential,
    "actions-held": held,
    "propensity-below-least": below_least,
    "deterministic-level": deterministic,
    "partly-deterministic": partly,
    "rounded-propensities": rounded,
    "backdoor": confounded,
    "carry-over": carried,
    "behaviour-reacts": not_sequential,
    "rewards-not-compared": lambda: reacts("episode"),
    "episodes-not-compared": lambda: reacts("cluster: person"),
    "episodes-interfere": interfering,
    "siblings-interfere": lambda: attacked("later hurts earlier"),
    "neighbours-interfere": lambda: attacked("shared capacity"),
    "cluster-interferes": lambda: attacked("visits"),
    "action-shares": left_out,
    "range-from-data": lambda: attacked("range from data"),
    "propensities-move": lambda: attacked("learning legacy"),
    "order-unknown": sorted_by_reward,
    "size-follows-action": stops,
    "size-follows-reward": stops,
    "cluster-size-follows-reward": cluster_stops,
    "cluster-larger-than-declared": cluster_large,
    "no-reward-range": lambda: (of_reward(base()[0], range=None), base()[1]),
    "reward-outside-range": outside,
    "reward-clipped": lambda: (of_reward(outside()[0], clip=True), outside()[1]),
    "range-too-wide": lambda: (of_reward(base()[0], range=(-100.0, 100.0)), base()[1]),
    "guard-outside-range": guarded,
    "missing-rewards": missing,
    "open-units": awaited,
    "reward-repeated": lambda: (base()[0], copied_reward(base()[1])),
    "reward-at-end": at_end,
    "few-units": lambda: base(12),
    "drift": drifting,
    "several-versions": versioned,
    "several-loggers": two_loggers,
    "duplicated-rows": doubled,
    "duplicated-episodes": copied_episodes,
    "episodes-redone": redone_episodes,
}


BY_POLICY = {"outside-support", "poor-overlap", "doubtful-weights"}


BY_CERTIFICATE = {
    "cannot-certify",
    "earlier-looks",
    "chosen-after-results",
    "risk-spent",
    "damaged-ledger",
    "nothing-certified",
    "no-fingerprints",
    "other-method",
    "identical",
    "incumbent-unreached",
    "follows-moving-log",
    "incumbent-impossible",
}  # found while certifying


def found(audit: Audit, code: str) -> Finding:
    return next(item for item in audit.findings if item.code == code)


@cache
def run(code: str) -> Audit:
    problem, batch = FAULTS[code]()
    if code == "several-versions":
        return audited(problem, batch.with_level("meta", replace(batch.levels["meta"], version="a")), batch)
    return audited(problem, batch)


REFUSED = {
    code for code in FAULTS if code.split("-")[0] in ("no", "estimated", "miscalibrated", "deterministic", "cluster", "size")
}


REFUSED |= {"propensity-below-least", "backdoor", "carry-over", "reward-outside-range", "guard-outside-range", "reward-repeated"}


REFUSED |= {"rounded-actions", "undeclared-atom", "actions-held", "reward-at-end", "episodes-interfere", "duplicated-episodes"}


REFUSED |= {"siblings-interfere", "neighbours-interfere", "episodes-redone"}
